"""What does a head read of each example? One vector, one a choice, or one a word: kept for every layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .cuts import Cut, depth_of, every_truncation, outputs_of_cuts
from .heads import Head
from .reading import at_words, vector
from .stock import SEQUENCE, has_pooler

if TYPE_CHECKING:
    import torch

    from .inputs import Features
    from .taskmodel import TaskModel

Progress = Callable[[str, int, int], None]
# Rows that heads answer at once.
TOGETHER = 4_096


def heads_refusal(kind: str) -> str | None:
    """
    Why heads of a kind of task cannot be trained on vectors; None where they can.

    Examples
    --------
    >>> heads_refusal("tagging")
    """
    if kind in (*SEQUENCE, "tagging"):
        return None
    whole = {
        "span": "compares all tokens of a passage",
        "parsing": "compares all words of a sentence",
        "language_modeling": "has the whole vocabulary",
    }[kind]
    return (
        "heads of all layers must be for tasks with a vector for each answer (classification, regression, "
        f"multiple choice, tagging), but a head for {kind} {whole}."
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """
    What the head reads of each example, in every layer.

    Parameters
    ----------
    kind : str
        Of the task.
    vectors : Tensor of shape (layers, rows, features), float32
        Normed where the model norms its last states; on the model's device.
    counts : ndarray of int of shape (examples,)
        Rows of each example, which follow each other: 1; its choices; its words that have a token.
    targets : Tensor, optional
        What is right: one an example, or one a row in tagging. None where an example has none.
    lengths : ndarray of int of shape (examples,)
        Tokens of each example.
    words : tuple of ndarray
        Tagging: whether each word of an example has a token.
    token : int
        One that is no padding, to stand for whatever was read.
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
        """Examples to answer at once."""
        return max(1, TOGETHER // max(1, int(self.counts.max())))

    def _places(self, chosen: np.ndarray) -> np.ndarray:
        """Where the rows of examples are, shape (examples, most rows); a missing choice is the first one."""
        starts = np.cumsum(self.counts) - self.counts
        steps = np.arange(max(1, int(self.counts[chosen].max())))
        return starts[chosen, None] + np.where(steps < self.counts[chosen, None], steps, 0)

    def _flat(self, chosen: np.ndarray) -> np.ndarray:
        if self.kind != "tagging":
            return self._places(chosen).ravel()
        starts = np.cumsum(self.counts) - self.counts
        return np.concatenate([starts[each] + np.arange(int(self.counts[each])) for each in chosen])

    def at(self, chosen: np.ndarray) -> torch.Tensor:
        """The vectors of some examples, shape (layers, rows of them all, features)."""
        import torch

        return self.vectors[:, torch.from_numpy(self._flat(chosen)).to(self.vectors.device)]

    def batch(self, chosen: np.ndarray) -> dict[str, torch.Tensor]:
        """
        A batch in which each row is a text of one token.

        Parameters
        ----------
        chosen : ndarray of int
            Examples.

        Returns
        -------
        dict of str to Tensor
            What `TaskModel.read` and `TaskModel.loss` look at.
        """
        import torch

        device = self.vectors.device
        shape = (
            (*self._places(chosen).shape, 1)
            if self.kind == "multiple_choice"
            else (len(self._flat(chosen)), 1)
        )
        ones = torch.ones(shape, dtype=torch.long, device=device)
        found = {"input_ids": ones * self.token, "attention_mask": ones, "special": ones.bool().logical_not()}
        if self.kind == "multiple_choice":
            there = np.arange(shape[1]) < self.counts[chosen, None]
            if not there.all():
                found["choices"] = torch.from_numpy(there).to(device)
        if self.kind == "tagging":
            found["words"] = torch.zeros_like(ones)
        if self.targets is not None:
            index = self._flat(chosen) if self.kind == "tagging" else chosen
            right = self.targets[torch.from_numpy(index).to(device)]
            found["labels"] = right[:, None] if self.kind == "tagging" else right
        return found

    def apart(self, outputs: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
        """Take the outputs of a batch apart, example by example, as `decode` takes them."""
        if self.kind == "multiple_choice":
            return [outputs[row, : self.counts[each]] for row, each in enumerate(chosen)]
        if self.kind != "tagging":
            return list(outputs)
        found, done = [], 0
        for each in chosen:
            there = self.words[each]
            said = np.zeros((len(there), outputs.shape[-1]), dtype=outputs.dtype)
            said[there] = outputs[done : done + self.counts[each], 0]
            done += int(self.counts[each])
            found.append(said)
        return found


def head_rows(
    model: TaskModel,
    features: Sequence[Features],
    *,
    cuts: Sequence[Cut] | None = None,
    progress: Progress | None = None,
    autocast: Any = None,
) -> Rows:
    """
    Read, in one pass, what the head would read at every layer.

    Parameters
    ----------
    model : TaskModel
    features : sequence of Features
    cuts : sequence of tuple of int, optional
        Whose last states are read; every truncation, from one block on, when absent.
    progress, autocast
        As in `microtome.training.evaluating.predict`.

    Returns
    -------
    Rows
    """
    import torch

    chosen = list(every_truncation(depth_of(model)).values()) if cuts is None else list(cuts)
    counts = np.array([_count(model.kind, each) for each in features], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    shape = (len(chosen), int(counts.sum()), int(model.config.hidden_size))
    vectors = torch.empty(shape, dtype=torch.float32, device=model.device)

    def use(number: int, found: torch.Tensor, _: Any, places: Sequence[int]) -> None:
        for row, place in enumerate(places):
            count = counts[place]
            kept = found[row]
            if model.kind == "tagging":
                kept = kept[torch.from_numpy(np.flatnonzero(_there(features[place]))).to(kept.device)]
            vectors[number, starts[place] : starts[place] + count] = kept[:count].float()

    def pick(states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        found = read_vectors(model, states, batch)
        return found.view(*batch["input_ids"].shape[:-1], -1, found.shape[-1]).flatten(1, -2)

    outputs_of_cuts(
        model,
        features,
        chosen,
        use,
        read=pick,
        progress=progress,
        autocast=autocast,
        name="states of all layers",
    )
    tagging = model.kind == "tagging"
    return Rows(
        kind=model.kind,
        vectors=vectors,
        counts=counts,
        targets=_targets(model, features),
        lengths=np.array([len(each) for each in features]),
        words=tuple(_there(each) for each in features) if tagging else (),
        # Causal heads look for the last token that is no padding.
        token=0 if model.pad != 0 else 1,
    )


def read_vectors(model: TaskModel, states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """
    Take from the states what the head reads.

    Parameters
    ----------
    model : TaskModel
    states : Tensor of shape (rows, tokens, features)
    batch : dict of str to Tensor

    Returns
    -------
    Tensor of shape (rows, features), or (rows, words, features) in tagging
    """
    import torch

    if model.kind == "tagging":
        return at_words(states, batch["words"])
    flat = {name: value.flatten(0, 1) if value.ndim == 3 else value for name, value in batch.items()}
    mask, special = flat["attention_mask"], flat["special"]
    if isinstance(model.head, Head) and model.reader is not None:
        if model.head.reads == "pooler" and has_pooler(model.base):
            return states[:, 0]
        return vector(states, mask, special, model.head.reads, model.family.reads)
    if model.family.name == "xlnet":
        return vector(states, mask, special, "last", "last")
    if model.family.causal:
        # The library looks at tokens, not at the mask: a text that ends with the padding token is cut short.
        real = mask.bool() & (flat["input_ids"] != model.pad)
        return vector(states, real.long(), special, "last", "last")
    if model.family.name == "modernbert" and getattr(model.config, "classifier_pooling", "cls") == "mean":
        shares = mask.to(states.dtype)[..., None]
        return (states * shares).sum(1) / torch.clamp(shares.sum(1), min=1)
    return states[:, 0]


def _there(features: Features) -> np.ndarray:
    return np.asarray(features.words) >= 0


def _count(kind: str, features: Features) -> int:
    if kind == "multiple_choice":
        return len(features.tokens)
    return int(_there(features).sum()) if kind == "tagging" else 1


def _targets(model: TaskModel, features: Sequence[Features]) -> torch.Tensor | None:
    import torch

    if not all("labels" in each.targets for each in features):
        return None
    found = [each.targets["labels"] for each in features]
    if model.kind == "tagging":
        found = [right[_there(each)] for right, each in zip(found, features, strict=True)]
        return torch.from_numpy(np.concatenate(found)).to(model.device)
    return torch.from_numpy(np.stack(found)).to(model.device)
