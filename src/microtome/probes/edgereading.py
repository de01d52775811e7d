"""What does an edge probe compute? Projected rows, pooled over each span, through one hidden layer to labels.

All probes are computed together. Their weights lie in one table with a line for each, so that a product, an
update or a norm is one operation for all of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from ..randomness import generator
from .edgebatch import Batch, Slot

if TYPE_CHECKING:
    import torch

Shapes = Mapping[str, tuple[int, ...]]
NORM = 1e-5  # added to the variance of the hidden layer, as PyTorch does
# Of the free memory of an accelerator, what the rows of all layers may fill.
ROOM = 0.5


def edge_shapes(
    *, layers: int, features: int, slots: int, labels: int, width: int, hidden: int
) -> dict[str, tuple[int, ...]]:
    """
    The weights of one probe by name, in the order in which they lie.

    Returns
    -------
    dict of str to tuple of int
        `project1` maps rows of features to the first span's space, `attend1` scores them there (a constant
        would change no span), `hidden` and `norm` are the hidden layer, `out` the labels; `mix` and `gamma`
        weigh the layers.
    """
    found: dict[str, tuple[int, ...]] = {}
    for slot in range(1, slots + 1):
        found |= {f"project{slot}": (features, width), f"project{slot}_bias": (width,)}
        found[f"attend{slot}"] = (width, 1)
    found |= {"hidden": (slots * width, hidden), "hidden_bias": (hidden,)}
    found |= {"norm": (hidden,), "norm_bias": (hidden,)}
    found |= {"out": (hidden, labels), "out_bias": (labels,)}
    return found | {"mix": (layers,), "gamma": (1,)}


def first_weights(shapes: Shapes, seed: int) -> np.ndarray:
    """
    Draw the weights that a probe begins with, as PyTorch begins linear layers.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
    seed : int

    Returns
    -------
    ndarray of float32 of shape (weights,)
        Layers are mixed alike.
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
    """Cut a table of weights, shape (..., weights), into those of each name, shape (..., *shape)."""
    parts = table.split([math.prod(shape) for shape in shapes.values()], dim=-1)
    return {
        name: part.unflatten(-1, shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


class LayerRows:
    """
    Rows of all layers that batches are taken from: owns their copy on an accelerator, where there is room.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features), or a sequence of layers
    device : str or device
    """

    def __init__(self, X: Any, device: Any = "cpu") -> None:
        import torch

        self.device = torch.device(device)
        given = X if hasattr(X, "ndim") else np.stack([np.asarray(layer) for layer in X])
        if given.ndim != 3 or 0 in given.shape:
            raise must("X", "of the shape (layers, rows, features)", tuple(given.shape))
        if not isinstance(given, torch.Tensor):
            with warnings.catch_warnings():
                # Rows are read and never written, so they may lie in a file that is open for reading.
                warnings.filterwarnings("ignore", "The given NumPy array is not writable")
                given = torch.from_numpy(np.asarray(given))
        if not given.is_floating_point():
            raise must("X", "of floating-point numbers", str(given.dtype))
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            if given.device != self.device and given.numel() * given.element_size() < ROOM * free:
                given = given.to(self.device)
        self.table = given.detach()
        self.layers, self.count, self.features = (int(size) for size in given.shape)

    def take(self, places: torch.Tensor, layers: Sequence[int]) -> torch.Tensor:
        """
        Take rows of some layers.

        Parameters
        ----------
        places : Tensor of int of shape (sets, rows)
        layers : sequence of int

        Returns
        -------
        Tensor of float32 of shape (sets, layers, rows, features)
        """
        import torch

        flat = places.flatten().to(self.table.device)
        if len(layers) == self.layers:
            found = self.table.index_select(1, flat)
        else:
            found = torch.stack([self.table[layer].index_select(0, flat) for layer in layers])
        found = found.to(self.device, torch.float32)
        return found.unflatten(1, tuple(places.shape)).transpose(0, 1)


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
        Of the batch, as each probe reads them.
    batch : Batch
    kept : Tensor of shape (sets, 1, targets, hidden), optional
        Dropout of the hidden layer: 0, or what it is scaled by.

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
    found = weights["hidden_bias"].unsqueeze(-2)
    for number, (slot, onward) in enumerate(zip(batch.slots, hidden, strict=True), start=1):
        own = rows if slot.rows is None else pick(rows, slot.rows)
        inward, bias = weights[f"project{number}"], weights[f"project{number}_bias"].unsqueeze(-2)
        if slot.spans is not None:
            pooled = _pooled(own @ inward + bias, weights[f"attend{number}"], slot)
            found = found + pooled @ onward
            continue
        # A span of one row is that row: two products follow each other, and the cheaper way is taken.
        if _cheaper(own.shape[2], inward.shape[-2], inward.shape[-1], onward.shape[-1]):
            through = own @ (inward @ onward) + bias @ onward
        else:
            through = (own @ inward + bias) @ onward
        found = found + (through if slot.places is None else pick(through, slot.places))
    found = layer_norm(found.tanh(), found.shape[-1:], eps=NORM)
    found = found * weights["norm"].unsqueeze(-2) + weights["norm_bias"].unsqueeze(-2)
    if kept is not None:
        found = found * kept
    return found @ weights["out"] + weights["out_bias"].unsqueeze(-2)


def pick(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Take rows, shape (sets, probes, rows, features), at the places of each set, shape (sets, places)."""
    import torch

    sets, probes, count = rows.shape[:3]
    if sets == 1:
        return rows.index_select(2, places[0])
    # One lookup for all: that of each set on its own is many small operations.
    begin = torch.arange(sets * probes, device=rows.device).view(sets, probes, 1) * count
    found = rows.flatten(0, 2).index_select(0, (begin + places[:, None]).flatten())
    return found.view(sets, probes, places.shape[1], rows.shape[3])


def _cheaper(rows: int, features: int, width: int, hidden: int) -> bool:
    """Whether two matrices are better multiplied with each other first, forward and back."""
    first = 3 * features * width * hidden + 2 * rows * features * hidden
    return first < 2 * rows * features * width + 3 * rows * width * hidden


def _pooled(projected: torch.Tensor, attend: torch.Tensor, slot: Slot) -> torch.Tensor:
    """
    Average the rows of each span, each weighed by how much attention it gets there.

    Parameters
    ----------
    projected : Tensor of shape (sets, probes, slot rows, width)
    attend : Tensor of shape (sets, probes, width, 1)
    slot : Slot

    Returns
    -------
    Tensor of shape (sets, probes, targets, width)
    """
    import torch
    from torch.nn.functional import embedding_bag

    assert slot.places is not None
    assert slot.spans is not None
    assert slot.starts is not None
    sets, probes, count, width = projected.shape
    members, targets = slot.spans.shape[1], slot.starts.shape[1] - 1
    each = torch.arange(sets * probes, device=projected.device).view(sets, probes, 1)
    at = (each * count + slot.places[:, None]).flatten()
    of = (each * (targets + 1) + slot.spans[:, None]).flatten()
    asked = (projected @ attend).flatten().index_select(0, at)
    with torch.no_grad():
        highest = asked.new_full((sets * probes * (targets + 1),), -torch.inf)
        highest.scatter_reduce_(0, of, asked, "amax")
    grown = (asked - highest.index_select(0, of)).exp()
    total = torch.zeros_like(highest).index_add(0, of, grown)
    starts = (each * members + slot.starts[:, None]).flatten()
    found = embedding_bag(
        at,
        projected.flatten(0, 2),
        starts,
        mode="sum",
        per_sample_weights=grown / total.index_select(0, of),
    )
    return found.view(sets, probes, targets + 1, width)[:, :, :targets]


def losses(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Mean binary cross-entropy of each probe over its targets and all labels, shape (sets, probes)."""
    from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

    right = batch.right[:, None].expand_as(outputs)
    return (cross_entropy(outputs, right, reduction="none").sum(-1) * batch.share[:, None]).sum(-1)


def tallied(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Count the labels of each target that are found, wrong and missed, shape (sets, probes, targets, 3)."""
    import torch

    said, right = outputs > 0, batch.right[:, None] > 0
    found = [(said & right).sum(-1), (said & ~right).sum(-1), (~said & right).sum(-1)]
    return torch.stack(found, dim=-1) * (batch.share > 0)[:, None, :, None]
