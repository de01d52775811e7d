"""Task models: a copy of an encoder with a head, and the loss of each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...encoders.family import Family
from ...lazy import LateModule, torch
from ...tasks.task import Kind
from ..heads.head import Head
from ..heads.reading import at_words, given_states, rolled_left, vector
from ..inputs import HIDDEN
from .stock import SEQUENCE, has_pooler, pool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForm:
    """
    How a model reads a task.

    Parameters
    ----------
    kind : str
        Of the task.
    labels : tuple of str
    family : Family
    head : Head, "stock" or "own"
    pad : int
        The token of padded positions in the model's input.
    order : tuple of int, optional
        Output of each label, where a checkpoint has them in another order.
    notes : tuple of str
        How it was built.
    seed : int
        Seed of the new weights.
    mask : int, optional
        The mask token, in models that fill masked words.
    """

    kind: Kind
    labels: tuple[str, ...]
    family: Family
    head: Head | str
    pad: int
    order: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    seed: int = 0
    mask: int | None = None


class TaskModel(LateModule):
    """
    A model for a task: an encoder with a head.

    Parameters
    ----------
    net : torch.nn.Module
        The library's class for the task, or the bare base model.
    reader : torch.nn.Module, optional
        The head, where `net` has none of its own.
    form : TaskForm
    """

    def __init__(self, net: torch.nn.Module, reader: torch.nn.Module | None, form: TaskForm) -> None:
        super().__init__()
        self.net, self.reader, self.form = net, reader, form
        self.kind, self.labels, self.family = form.kind, form.labels, form.family
        self.head, self.pad, self.mask = form.head, form.pad, form.mask
        self.notes, self.seed = form.notes, form.seed
        order = form.order
        self.order = None if order in (None, tuple(range(len(order or ())))) else order

    @property
    def base(self) -> Any:
        """Base model of the encoder."""
        return self.net.base_model

    @property
    def config(self) -> Any:
        """The library's configuration."""
        return self.net.config

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.net.parameters()).device

    @property
    def stock(self) -> bool:
        """Whether a class of the library holds the whole model."""
        return self.reader is None

    def forward(self, batch: dict[str, torch.Tensor]) -> Any:
        """
        Compute the outputs for a batch made by `collate`.

        Parameters
        ----------
        batch : dict of str to Tensor

        Returns
        -------
        Tensor
            Classification, regression: (examples, labels), (examples, 1). Multiple choice: (examples,
            choices). Span: (examples, tokens, 2), starts and ends. Tagging: (examples, words, labels).
            Parsing: a pair, arcs (examples, words, words + 1) and relations (examples, words, words + 1,
            labels), index 0 the root. Language modeling: (examples, tokens, vocabulary).
        """
        inputs = self._inputs(batch)
        if self.reader is None:
            return self._answers(self.net(**inputs, **self.family.arguments), batch)
        return self.read(self.net(**inputs, **self.family.arguments).last_hidden_state, batch)

    def loss(self, outputs: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        Compute the loss: the mean over the examples (words, tokens) of a batch.

        Parameters
        ----------
        outputs : Tensor
            Of `forward`.
        batch : dict of str to Tensor

        Returns
        -------
        Tensor of shape ()
            Cross-entropy; the squared error for regression. Padding, words without a token and hidden labels
            are ignored.
        """
        return LOSSES[self.kind](outputs, batch, self.family.causal)

    def read(self, states: torch.Tensor, batch: dict[str, torch.Tensor]) -> Any:
        """
        Apply the head alone, to the states of any layer.

        Parameters
        ----------
        states : Tensor of shape (examples, tokens, features)
            In the layout of the batch; in multiple choice the rows are the choices one after the other.
            Models with a norm after the last block expect normalized states.
        batch : dict of str to Tensor

        Returns
        -------
        Tensor
            As returned by `forward`, and equal to it for the states of the last layer.
        """
        if self.reader is not None:
            if self.kind in SEQUENCE:
                return self._scored(self._read(states, batch), batch)
            return self.reader(states if self.kind == "span" else at_words(states, batch["words"]))
        if self._left:
            states = rolled_left(states, _flat(batch["attention_mask"]))
        pooled = pool(self.base, states) if has_pooler(self.base) else None
        with given_states(self.net, states, pooled):
            return self._answers(self.net(**self._inputs(batch), **self.family.arguments), batch)

    def base_inputs(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """
        Make the inputs of the encoder, such that its states have the layout that `read` takes.

        Parameters
        ----------
        batch : dict of str to Tensor
            Its `square`, of shape (examples, 1, tokens, tokens), replaces the attention mask if present.

        Returns
        -------
        dict of str to Tensor of shape (examples, tokens)
            In multiple choice the rows are the choices one after the other. Padding is at the end.
        """
        names = [n for n in ("input_ids", "attention_mask", "token_type_ids") if n in batch]
        inputs = {name: _flat(batch[name]) for name in names}
        mask = inputs["attention_mask"].bool()
        inputs["input_ids"] = torch.where(mask, inputs["input_ids"], self.pad)
        if "square" in batch:
            inputs["attention_mask"] = batch["square"]
        return inputs

    @property
    def _left(self) -> bool:
        """Whether padding must be on the left, where the library's head reads the last position."""
        return self.reader is None and self.family.padding_side == "left" and self.kind in SEQUENCE

    @property
    def by_choice(self) -> bool:
        """Whether the inputs of the model have an axis of choices."""
        return (
            self.reader is None and self.kind == "multiple_choice" and "Multiple" in type(self.net).__name__
        )

    def _inputs(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        inputs = self.base_inputs(batch)
        if self._left:
            mask = inputs["attention_mask"]
            inputs = {name: rolled_left(value, mask) for name, value in inputs.items()}
        if self.by_choice:
            inputs = {name: value.view(batch["input_ids"].shape) for name, value in inputs.items()}
        return inputs

    def _read(self, states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        assert isinstance(self.head, Head)
        assert self.reader is not None
        if self.head.reads == "pooler" and has_pooler(self.base):
            return self.reader(pool(self.base, states))
        mask, special = _flat(batch["attention_mask"]), _flat(batch["special"])
        return self.reader(vector(states, mask, special, self.head.reads, self.family.reads))

    def _answers(self, outputs: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Bring the outputs of the library's class into the shape of the task's kind."""
        if self.kind == "span":
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        logits = outputs.logits
        if self.order is not None:
            logits = logits[..., list(self.order)]
        if self.kind == "tagging":
            return at_words(logits, batch["words"])
        return self._scored(logits, batch) if self.kind in SEQUENCE else logits

    def _scored(self, logits: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if self.kind != "multiple_choice":
            return logits
        logits = logits.view(batch["input_ids"].shape[:2])
        if "choices" in batch:
            logits = logits.masked_fill(~batch["choices"], float("-inf"))
        return logits


def square_mask(mask: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """
    Expand an attention mask to one row per token.

    The library would expand a single row only after a check for padding, which must wait for the device.

    Parameters
    ----------
    mask : Tensor of shape (rows, tokens)
        Nonzero at real tokens.
    causal : bool
        Whether a token attends only to itself and those before it.

    Returns
    -------
    Tensor of bool of shape (rows, 1, tokens, tokens)
        The `square` of a batch.
    """
    square = mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
    return square & torch.ones_like(square[0, 0]).tril() if causal else square


def _flat(value: torch.Tensor) -> torch.Tensor:
    """Flatten the axis of choices into rows."""
    return value.flatten(0, 1) if value.ndim == 3 else value


Loss = Callable[[Any, "dict[str, torch.Tensor]", bool], "torch.Tensor"]


def _entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in float32; 0 where all targets are ignored, instead of 0 / 0."""
    rows = logits.float().flatten(0, -2)
    total = torch.nn.functional.cross_entropy(rows, targets.flatten(), ignore_index=HIDDEN, reduction="sum")
    return total / (targets != HIDDEN).sum().clamp(min=1)


def _classes(outputs: Any, batch: dict[str, torch.Tensor], _: bool) -> torch.Tensor:
    return _entropy(outputs, batch["labels"])


def _squares(outputs: Any, batch: dict[str, torch.Tensor], _: bool) -> torch.Tensor:
    return (outputs[:, 0].float() - batch["labels"].float()).square().mean()


def _spans(outputs: Any, batch: dict[str, torch.Tensor], _: bool) -> torch.Tensor:
    padded = batch["attention_mask"] == 0
    masked = outputs.float().masked_fill(padded[..., None], float("-inf"))
    return (_entropy(masked[..., 0], batch["starts"]) + _entropy(masked[..., 1], batch["ends"])) / 2


def _trees(outputs: Any, batch: dict[str, torch.Tensor], _: bool) -> torch.Tensor:
    """Cross-entropy of the head of each word, and of the relation to the correct head."""
    arcs, relations = outputs
    # A word's possible heads are the root and the words that have a token.
    present = torch.nn.functional.pad(batch["words"] >= 0, (1, 0), value=True)
    arcs = arcs.float().masked_fill(~present[:, None], float("-inf"))
    heads = batch["heads"]
    index = heads.clamp(min=0)[..., None, None].expand(-1, -1, 1, relations.shape[-1])
    gold_relations = relations.gather(2, index).squeeze(2)
    return _entropy(arcs, heads) + _entropy(gold_relations, batch["relations"])


def _tokens(outputs: Any, batch: dict[str, torch.Tensor], causal: bool) -> torch.Tensor:
    labels = batch["labels"]
    return _entropy(outputs[:, :-1], labels[:, 1:]) if causal else _entropy(outputs, labels)


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "classification": _classes,
        "multiple_choice": _classes,
        "regression": _squares,
        "tagging": _classes,
        "span": _spans,
        "parsing": _trees,
        "language_modeling": _tokens,
    }
)


def counted(batch: dict[str, torch.Tensor], *, causal: bool) -> torch.Tensor:
    """
    Count the targets that the loss of a batch averages over: examples, words or tokens.

    Parameters
    ----------
    batch : dict of str to Tensor
    causal : bool
        Whether each token is predicted from those before it, so that the first one is not.

    Returns
    -------
    Tensor of shape ()
    """
    targets = next(batch[name] for name in ("heads", "starts", "labels") if name in batch)
    if targets.is_floating_point():
        return targets.new_tensor(float(len(targets)))
    shifted = causal and targets.ndim == 2 and "words" not in batch
    return (targets[:, 1:] if shifted else targets).ne(HIDDEN).sum().float()
