"""Loss functions, one per kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...lazy import torch

Loss = Callable[[Any, "dict[str, torch.Tensor]", bool], "torch.Tensor"]

# Targets with this value are ignored.
HIDDEN = -100


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
