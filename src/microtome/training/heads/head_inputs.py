"""Inputs of a task head in every layer: one vector per example, per choice or per word."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...lazy import torch
from ..cuts import Cut, depth_of, every_truncation, outputs_of_cuts
from ..inputs import Features
from ..models.stock import SEQUENCE, has_pooler
from ..models.taskmodel import TaskModel
from ..precision import Autocast
from .head import Head
from .reading import at_words, vector

# Maximum number of rows to which heads are applied at once.
TOGETHER = 4_096


def heads_refusal(kind: str) -> str | None:
    """
    Explain why heads for a kind of task cannot be trained on vectors; None where they can.

    Examples
    --------
    >>> heads_refusal("tagging")
    """
    if kind in (*SEQUENCE, "tagging"):
        return None
    reason = {
        "span": "compares all tokens of a passage",
        "parsing": "compares all words of a sentence",
        "language_modeling": "has the whole vocabulary",
    }[kind]
    return (
        "heads of all layers must be for tasks with a vector for each answer (classification, regression, "
        f"multiple choice, tagging), but a head for {kind} {reason}."
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadRows:
    """
    Inputs of the head for each example, in every layer.

    Parameters
    ----------
    kind : str
        Of the task.
    vectors : Tensor of shape (layers, rows, features), float32
        Normalized where the model normalizes its last states; on the model's device.
    counts : ndarray of int of shape (examples,)
        Number of consecutive rows of each example: 1; its choices; its words that have a token.
    targets : Tensor, optional
        One per example, or one per row in tagging; None where an example has none.
    lengths : ndarray of int of shape (examples,)
        Number of tokens of each example.
    words : tuple of ndarray
        Tagging: whether each word of an example has a token.
    token : int
        A token id other than padding, used as a placeholder for the text.
    """

    kind: str
    vectors: torch.Tensor
    counts: np.ndarray
    targets: torch.Tensor | None
    lengths: np.ndarray
    words: tuple[np.ndarray, ...] = field(default=(), repr=False)
    token: int = 0

    @property
    def together(self) -> int:
        """Number of examples to which heads are applied at once."""
        return max(1, TOGETHER // max(1, int(self.counts.max())))

    def _places(self, examples: np.ndarray) -> np.ndarray:
        """Row indices of examples, shape (examples, most rows); a missing choice repeats the first one."""
        starts = np.cumsum(self.counts) - self.counts
        steps = np.arange(max(1, int(self.counts[examples].max())))
        return starts[examples, None] + np.where(steps < self.counts[examples, None], steps, 0)

    def _flat(self, examples: np.ndarray) -> np.ndarray:
        if self.kind != "tagging":
            return self._places(examples).ravel()
        starts = np.cumsum(self.counts) - self.counts
        return np.concatenate(
            [starts[example] + np.arange(int(self.counts[example])) for example in examples]
        )

    def at(self, chosen: np.ndarray) -> torch.Tensor:
        """Vectors of the given examples, shape (layers, rows of all of them, features)."""
        return self.vectors[:, torch.from_numpy(self._flat(chosen)).to(self.vectors.device)]

    def batch(self, chosen: np.ndarray) -> dict[str, torch.Tensor]:
        """
        Make a batch in which each row is a text of one token.

        Parameters
        ----------
        chosen : ndarray of int
            Indices of the examples.

        Returns
        -------
        dict of str to Tensor
            All that `TaskModel.read` and `TaskModel.loss` use.
        """
        device = self.vectors.device
        shape = (
            (*self._places(chosen).shape, 1)
            if self.kind == "multiple_choice"
            else (len(self._flat(chosen)), 1)
        )
        ones = torch.ones(shape, dtype=torch.long, device=device)
        tensors = {
            "input_ids": ones * self.token,
            "attention_mask": ones,
            "special": ones.bool().logical_not(),
        }
        if self.kind == "multiple_choice":
            present = np.arange(shape[1]) < self.counts[chosen, None]
            if not present.all():
                tensors["choices"] = torch.from_numpy(present).to(device)
        if self.kind == "tagging":
            tensors["words"] = torch.zeros_like(ones)
        if self.targets is not None:
            index = self._flat(chosen) if self.kind == "tagging" else chosen
            targets = self.targets[torch.from_numpy(index).to(device)]
            tensors["labels"] = targets[:, None] if self.kind == "tagging" else targets
        return tensors

    def apart(self, outputs: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
        """Split the outputs of a batch by example, in the form that `decode` takes."""
        if self.kind == "multiple_choice":
            return [outputs[row, : self.counts[example]] for row, example in enumerate(chosen)]
        if self.kind != "tagging":
            return list(outputs)
        example_outputs, done = [], 0
        for example in chosen:
            present = self.words[example]
            scores = np.zeros((len(present), outputs.shape[-1]), dtype=outputs.dtype)
            scores[present] = outputs[done : done + self.counts[example], 0]
            done += int(self.counts[example])
            example_outputs.append(scores)
        return example_outputs


def head_rows(
    model: TaskModel,
    features: Sequence[Features],
    *,
    cuts: Sequence[Cut] | None = None,
    context: Context = SILENT,
    autocast: Autocast = contextlib.nullcontext,
) -> HeadRows:
    """
    Read the inputs of the head at every layer, in one pass.

    Parameters
    ----------
    model : TaskModel
    features : sequence of Features
    cuts : sequence of tuple of int, optional
        Cuts whose last states are read; every truncation, from one block on, when absent.
    context, autocast
        As in `microtome.training.evaluating.predict`.

    Returns
    -------
    HeadRows
    """
    layer_cuts = list(every_truncation(depth_of(model)).values()) if cuts is None else list(cuts)
    counts = np.array([_count(model.kind, feature) for feature in features], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    shape = (len(layer_cuts), int(counts.sum()), int(model.config.hidden_size))
    vectors = torch.empty(shape, dtype=torch.float32, device=model.device)

    def use(number: int, batch_vectors: torch.Tensor, _: Any, indices: Sequence[int]) -> None:
        for row, index in enumerate(indices):
            count = counts[index]
            example_vectors = batch_vectors[row]
            if model.kind == "tagging":
                example_vectors = example_vectors[
                    torch.from_numpy(np.flatnonzero(_there(features[index]))).to(example_vectors.device)
                ]
            vectors[number, starts[index] : starts[index] + count] = example_vectors[:count].float()

    def pick(states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        head_inputs = read_vectors(model, states, batch)
        return head_inputs.view(*batch["input_ids"].shape[:-1], -1, head_inputs.shape[-1]).flatten(1, -2)

    outputs_of_cuts(
        model,
        features,
        layer_cuts,
        use,
        read=pick,
        context=context,
        autocast=autocast,
        name="states of all layers",
    )
    tagging = model.kind == "tagging"
    return HeadRows(
        kind=model.kind,
        vectors=vectors,
        counts=counts,
        targets=_targets(model, features),
        lengths=np.array([len(feature) for feature in features]),
        words=tuple(_there(feature) for feature in features) if tagging else (),
        # Causal heads look for the last token that is not padding.
        token=0 if model.pad != 0 else 1,
    )


def read_vectors(model: TaskModel, states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """
    Select the inputs of the head from the states.

    Parameters
    ----------
    model : TaskModel
    states : Tensor of shape (rows, tokens, features)
    batch : dict of str to Tensor

    Returns
    -------
    Tensor of shape (rows, features), or (rows, words, features) in tagging
    """
    if model.kind == "tagging":
        return at_words(states, batch["words"])
    flat = {name: value.flatten(0, 1) if value.ndim == 3 else value for name, value in batch.items()}
    mask, special = flat["attention_mask"], flat["special"]
    if isinstance(model.head, Head) and model.reader is not None:
        if model.head.reads == "pooler" and has_pooler(model.base):
            return states[:, 0]
        return vector(states, mask, special, model.head.reads, model.family.reads)
    if getattr(model.config, "classifier_pooling", "cls") == "mean":
        shares = mask.to(states.dtype)[..., None]
        return (states * shares).sum(1) / torch.clamp(shares.sum(1), min=1)
    if model.family.causal:
        # The library checks token ids, not the mask: a text that ends with the padding token is cut short.
        mask = (mask.bool() & (flat["input_ids"] != model.pad)).long()
    return vector(states, mask, special, "cls", model.family.reads)


def _there(features: Features) -> np.ndarray:
    return np.asarray(features.words) >= 0


def _count(kind: str, features: Features) -> int:
    if kind == "multiple_choice":
        return len(features.tokens)
    return int(_there(features).sum()) if kind == "tagging" else 1


def _targets(model: TaskModel, features: Sequence[Features]) -> torch.Tensor | None:
    if not all("labels" in feature.targets for feature in features):
        return None
    targets = [feature.targets["labels"] for feature in features]
    if model.kind == "tagging":
        targets = [labels[_there(feature)] for labels, feature in zip(targets, features, strict=True)]
        return torch.from_numpy(np.concatenate(targets)).to(model.device)
    return torch.from_numpy(np.stack(targets)).to(model.device)
