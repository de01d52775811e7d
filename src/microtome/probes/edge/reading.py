"""Forward pass of edge probes: projection, attentive pooling of spans, and one hidden layer.

All probes are computed together. Their weights lie in one table with one row per probe, so that a product, an
update or a norm is one operation for all of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import must
from ...lazy import torch
from ...randomness import generator
from .batches import Batch, Slot

Shapes = Mapping[str, tuple[int, ...]]
NORM = 1e-5  # added to the variance of the hidden layer, as PyTorch does
# Share of the free memory of an accelerator that the rows of all layers may fill.
ROOM = 0.5


def edge_shapes(
    *, layers: int, features: int, slots: int, labels: int, width: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    """
    Shapes of the weights of one probe by name, in the order of the table.

    Returns
    -------
    dict of str to tuple of int
        `project1` projects the rows of the first span, `attend1` computes their attention scores (without
        a bias, which the softmax would cancel), `hidden` and `norm` are the hidden layer, `out` the output
        layer; `mix` and `gamma` weight the layers.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for slot in range(1, slots + 1):
        shapes |= {f"project{slot}": (features, width), f"project{slot}_bias": (width,)}
        shapes[f"attend{slot}"] = (width, 1)
    shapes |= {"hidden": (slots * width, hidden), "hidden_bias": (hidden,)}
    shapes |= {"norm": (hidden,), "norm_bias": (hidden,)}
    shapes |= {"out": (hidden, labels), "out_bias": (labels,)}
    return shapes | {"mix": (layers,), "gamma": (1,)}


def first_weights(shapes: Shapes, seed: int) -> np.ndarray:
    """
    Draw the initial weights of a probe, with the distribution of PyTorch linear layers.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
    seed : int

    Returns
    -------
    ndarray of float32 of shape (weights,)
        Layers begin with equal weights in the mix.
    """
    parts = []
    for name, shape in shapes.items():
        if name in ("norm", "gamma"):
            parts.append(np.ones(shape))
        elif name in ("norm_bias", "mix"):
            parts.append(np.zeros(shape))
        else:
            reach = 1 / math.sqrt(shapes[name.removesuffix("_bias")][0])
            parts.append(generator(seed, "edge probe", name).uniform(-reach, reach, shape))
    return np.concatenate([part.ravel() for part in parts]).astype(np.float32)


def named(table: torch.Tensor, shapes: Shapes) -> dict[str, torch.Tensor]:
    """Split a table of weights, shape (..., weights), into named weights of shape (..., *shape)."""
    parts = table.split([math.prod(shape) for shape in shapes.values()], dim=-1)
    return {
        name: part.unflatten(-1, shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class LayerRows:
    """
    Rows of all layers, copied to an accelerator where they fit.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    device : str or device
    """

    def __init__(self, X: Any, device: Any = "cpu") -> None:
        self.device = torch.device(device)
        table = X
        if table.ndim != 3 or 0 in table.shape:
            raise must("X", "of the shape (layers, rows, features)", tuple(table.shape))
        if not isinstance(table, torch.Tensor):
            with warnings.catch_warnings():
                # Rows are never written, so they may be a read-only memory map.
                warnings.filterwarnings("ignore", "The given NumPy array is not writable")
                table = torch.from_numpy(np.asarray(table))
        if not table.is_floating_point():
            raise must("X", "of floating-point numbers", str(table.dtype))
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            if table.device != self.device and table.numel() * table.element_size() < ROOM * free:
                table = table.to(self.device)
        self.table = table.detach()
        self.layers, self.count, self.features = (int(size) for size in table.shape)

    def take(self, places: torch.Tensor, layers: Sequence[int]) -> torch.Tensor:
        """
        Select rows of the given layers.

        Parameters
        ----------
        places : Tensor of int of shape (sets, rows)
        layers : sequence of int

        Returns
        -------
        Tensor of float32 of shape (sets, layers, rows, features)
        """
        flat = places.flatten().to(self.table.device)
        if len(layers) == self.layers:
            rows = self.table.index_select(1, flat)
        else:
            rows = torch.stack([self.table[layer].index_select(0, flat) for layer in layers])
        rows = rows.to(self.device, torch.float32)
        return rows.unflatten(1, tuple(places.shape)).transpose(0, 1)


def read_spans(
    weights: Mapping[str, torch.Tensor],
    rows: torch.Tensor,
    batch: Batch,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    Compute the outputs of all probes for all labels.

    Parameters
    ----------
    weights : mapping of str to Tensor of shape (sets, probes, ...)
    rows : Tensor of shape (sets, probes, rows, features)
        Rows of the batch, as each probe reads them.
    batch : Batch
    kept : Tensor of shape (sets, 1, targets, hidden), optional
        Dropout mask of the hidden layer, scaled.

    Returns
    -------
    Tensor of shape (sets, probes, targets, labels)
        Log-odds of each label.

    References
    ----------
    Tenney et al. (2019), What do you learn from context? Probing for sentence structure in contextualized
    word representations, ICLR
    """
    from torch.nn.functional import layer_norm

    hidden = weights["hidden"].split(weights["project1"].shape[-1], dim=-2)
    activations = weights["hidden_bias"].unsqueeze(-2)
    for number, (slot, hidden_weights) in enumerate(zip(batch.slots, hidden, strict=True), start=1):
        slot_rows = rows if slot.rows is None else pick(rows, slot.rows)
        projection, bias = weights[f"project{number}"], weights[f"project{number}_bias"].unsqueeze(-2)
        if slot.spans is not None:
            pooled = _pooled(slot_rows @ projection + bias, weights[f"attend{number}"], slot)
            activations = activations + pooled @ hidden_weights
            continue
        # A span of one row needs no pooling: the two products are associated in the cheaper order.
        if _cheaper(slot_rows.shape[2], projection.shape[-2], projection.shape[-1], hidden_weights.shape[-1]):
            through = slot_rows @ (projection @ hidden_weights) + bias @ hidden_weights
        else:
            through = (slot_rows @ projection + bias) @ hidden_weights
        activations = activations + (through if slot.places is None else pick(through, slot.places))
    activations = layer_norm(activations.tanh(), activations.shape[-1:], eps=NORM)
    activations = activations * weights["norm"].unsqueeze(-2) + weights["norm_bias"].unsqueeze(-2)
    if kept is not None:
        activations = activations * kept
    return activations @ weights["out"] + weights["out_bias"].unsqueeze(-2)


def pick(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Select rows, shape (sets, probes, rows, features), at the indices of each set, shape (sets, places)."""
    sets, probes, count = rows.shape[:3]
    if sets == 1:
        return rows.index_select(2, places[0])
    # One lookup for all sets is faster than many small ones.
    begin = torch.arange(sets * probes, device=rows.device).view(sets, probes, 1) * count
    picked = rows.flatten(0, 2).index_select(0, (begin + places[:, None]).flatten())
    return picked.view(sets, probes, places.shape[1], rows.shape[3])


def _cheaper(rows: int, features: int, width: int, hidden: int) -> bool:
    """Whether multiplying the two weight matrices first costs less, in the forward and backward pass."""
    first = 3 * features * width * hidden + 2 * rows * features * hidden
    return first < 2 * rows * features * width + 3 * rows * width * hidden


def _pooled(projected: torch.Tensor, attend: torch.Tensor, slot: Slot) -> torch.Tensor:
    """
    Average the rows of each span, weighted by self-attention.

    Parameters
    ----------
    projected : Tensor of shape (sets, probes, slot rows, width)
    attend : Tensor of shape (sets, probes, width, 1)
    slot : Slot

    Returns
    -------
    Tensor of shape (sets, probes, targets, width)
    """
    from torch.nn.functional import embedding_bag

    assert slot.places is not None
    assert slot.spans is not None
    assert slot.starts is not None
    sets, probes, count, width = projected.shape
    members, targets = slot.spans.shape[1], slot.starts.shape[1] - 1
    probe_index = torch.arange(sets * probes, device=projected.device).view(sets, probes, 1)
    at = (probe_index * count + slot.places[:, None]).flatten()
    of = (probe_index * (targets + 1) + slot.spans[:, None]).flatten()
    attention = (projected @ attend).flatten().index_select(0, at)
    with torch.no_grad():
        highest = attention.new_full((sets * probes * (targets + 1),), -torch.inf)
        highest.scatter_reduce_(0, of, attention, "amax")
    exponentials = (attention - highest.index_select(0, of)).exp()
    total = torch.zeros_like(highest).index_add(0, of, exponentials)
    starts = (probe_index * members + slot.starts[:, None]).flatten()
    pooled = embedding_bag(
        at,
        projected.flatten(0, 2),
        starts,
        mode="sum",
        per_sample_weights=exponentials / total.index_select(0, of),
    )
    return pooled.view(sets, probes, targets + 1, width)[:, :, :targets]


def losses(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Mean binary cross-entropy of each probe over its targets and all labels, shape (sets, probes)."""
    from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

    gold = batch.right[:, None].expand_as(outputs)
    return (cross_entropy(outputs, gold, reduction="none").sum(-1) * batch.share[:, None]).sum(-1)


def tallied(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Count true positives, false positives and false negatives, shape (sets, probes, targets, 3)."""
    predicted, gold = outputs > 0, batch.right[:, None] > 0
    tallies = [(predicted & gold).sum(-1), (predicted & ~gold).sum(-1), (~predicted & gold).sum(-1)]
    return torch.stack(tallies, dim=-1) * (batch.share > 0)[:, None, :, None]
