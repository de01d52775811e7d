"""Which layers are compared, and how is a range of their rows read?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must
from ..store.formats import LayerFile, open_layers
from ..store.manifest import read_manifest
from ..store.shards import ShardedLayer

if TYPE_CHECKING:
    import torch

STORED = (LayerFile, ShardedLayer)
FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """
    Layers of one model over the same rows.

    Parameters
    ----------
    names : tuple of str
        One a layer.
    layers : tuple
        NumPy arrays, torch tensors or layers in files, each of shape (rows, features).
    index : ndarray of shape (n,), optional
        The rows that take part, in this order; all of them when absent.
    columns : tuple of (ndarray or None)
        The features of each layer that take part.
    scales : tuple of (ndarray or None)
        What each of those features is multiplied by.
    """

    names: tuple[str, ...]
    layers: tuple[Any, ...]
    index: np.ndarray | None = None
    columns: tuple[np.ndarray | None, ...]
    scales: tuple[np.ndarray | None, ...]

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def rows(self) -> int:
        """How many rows take part."""
        return int(self.layers[0].shape[0]) if self.index is None else len(self.index)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many features of each layer take part."""
        return tuple(
            int(layer.shape[1]) if columns is None else len(columns)
            for layer, columns in zip(self.layers, self.columns, strict=True)
        )

    def take(self, index: np.ndarray) -> Stack:
        """The same layers over chosen rows (positions among the rows that take part now)."""
        chosen = np.asarray(index, dtype=np.int64)
        return replace(self, index=chosen if self.index is None else self.index[chosen])

    def select(self, layers: Sequence[int]) -> Stack:
        """Some of the layers."""
        return replace(
            self,
            names=tuple(self.names[i] for i in layers),
            layers=tuple(self.layers[i] for i in layers),
            columns=tuple(self.columns[i] for i in layers),
            scales=tuple(self.scales[i] for i in layers),
        )


def make_stack(source: Any, side: str = "left", names: Sequence[str] | None = None) -> Stack:
    """
    Gather layers from what a user hands over.

    Parameters
    ----------
    source : array, sequence of arrays, path, or Stack
        One array of shape (rows, features) or (layers, rows, features); a list of arrays of shape
        (rows, features); a `.npy` or `.safetensors` file, or a folder of them; or the folder of a recorded
        stack, whose layers are named as in `bert/3`.
    side : str
        How errors call it.
    names : sequence of str, optional
        Names of the layers.

    Returns
    -------
    Stack
    """
    if isinstance(source, Stack):
        return source
    layers, given = _gather(source, side)
    if not layers:
        raise InputError(f"{side} must hold at least one layer, but got none.")
    for name, layer in zip(given, layers, strict=True):
        _check(layer, f"{side} layer {name}")
    rows = {int(layer.shape[0]) for layer in layers}
    if len(rows) > 1:
        counts = ", ".join(f"{n}: {layer.shape[0]}" for n, layer in zip(given, layers, strict=True))
        raise InputError(f"every layer of {side} must have the same rows, but got {counts}.")
    if names is not None and len(names) != len(layers):
        raise InputError(f"names must be {len(layers)} for {side}, one a layer, but got {len(names)}.")
    given = [str(name) for name in (names if names is not None else given)]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise InputError(f"names of the layers of {side} must differ, but {twice[0]!r} stands twice.")
    return Stack(
        names=tuple(given),
        layers=tuple(layers),
        columns=(None,) * len(layers),
        scales=(None,) * len(layers),
    )


def _gather(source: Any, side: str) -> tuple[list[Any], list[str]]:
    if isinstance(source, (str, os.PathLike)):
        files = open_layers(source)
        before = _model_of(files[0]) if files else ""
        return list(files), [f"{before}{file.name}" for file in files]
    if isinstance(source, STORED):
        return [source], [source.name]
    if _is_array(source):
        if source.ndim == 2:
            return [source], ["0"]
        if source.ndim == 3:
            return [source[i] for i in range(source.shape[0])], [str(i) for i in range(source.shape[0])]
        raise must(side, "an array [rows, features] or [layers, rows, features]", f"{source.ndim} dimensions")
    if isinstance(source, Sequence):
        layers: list[Any] = []
        names: list[str] = []
        for position, item in enumerate(source):
            if isinstance(item, (str, os.PathLike, *STORED)):
                found, given = _gather(item, side)
                layers += found
                names += given
                continue
            array = item if _is_array(item) else np.asarray(item)
            layers.append(array)
            names.append(str(position))
        return layers, names
    raise must(side, "an array, a list of arrays, or a path", type(source).__name__)


def _model_of(layer: LayerFile | ShardedLayer) -> str:
    """What stands before the names of layers that were recorded of a model, as in `bert/3`."""
    if not isinstance(layer, ShardedLayer):
        return ""
    told = read_manifest(layer.path.parent).extra.get("model")
    return f"{told['name']}/" if isinstance(told, Mapping) and told.get("name") else ""


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or type(value).__module__.split(".")[0] == "torch"


def dtype_name(layer: Any) -> str:
    """The layer's number format, as NumPy and torch both write it."""
    return getattr(layer.dtype, "name", str(layer.dtype).removeprefix("torch."))


def rounding(layer: Any) -> float:
    """Relative rounding of a layer's numbers; a float64 layer is shifted before it is rounded further."""
    return float(np.finfo(np.float64 if dtype_name(layer) == "float64" else np.float32).eps)


def constant_bound(mean: Any, n: int, eps: Any) -> Any:
    """Largest centered sum of squares that a constant neuron can have, from the rounding of its mean."""
    return n * (8 * eps * mean.abs()) ** 2


def _check(layer: Any, name: str) -> None:
    if len(layer.shape) != 2:
        raise InputError(f"{name} must have the shape [rows, features], but got {list(layer.shape)}.")
    if layer.shape[0] == 0 or layer.shape[1] == 0:
        raise InputError(f"{name} must have rows and features, but got the shape {list(layer.shape)}.")
    if dtype_name(layer) not in FLOATS:
        raise must(f"{name}", f"of the type {', '.join(sorted(FLOATS))}", dtype_name(layer))


def read_rows(
    stack: Stack, layer: int, start: int, stop: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """
    Read rows `start` to `stop` of one layer.

    Parameters
    ----------
    stack : Stack
    layer : int
        Position in the stack.
    start, stop : int
        Among the rows that take part.
    dtype, device
        Where and how the tensor is wanted.

    Returns
    -------
    Tensor of shape (stop - start, features)
        Shares memory with the input where nothing had to be changed: never write into it.
    """
    import torch

    source, columns, scale = stack.layers[layer], stack.columns[layer], stack.scales[layer]
    index = None if stack.index is None else stack.index[start:stop]
    if isinstance(source, torch.Tensor):
        chosen = source.detach()
        chosen = chosen[start:stop] if index is None else chosen[torch.as_tensor(index, device=source.device)]
        out = chosen.to(device=device, dtype=dtype)
    else:
        if isinstance(source, STORED):
            array = source.rows(start, stop) if index is None else source.take(index)
        else:
            array = source[start:stop] if index is None else source[index]
        if not (array.flags.writeable and array.dtype.isnative) or any(s < 0 for s in array.strides):
            # torch warns of, or refuses, memory that must not be written to.
            array = np.array(array, dtype=array.dtype.newbyteorder("="))
        out = torch.from_numpy(array).to(device=device, dtype=dtype)
    if columns is not None:
        out = out[:, torch.as_tensor(columns, device=out.device)]
    if scale is not None:
        out = out * torch.as_tensor(scale, device=out.device, dtype=dtype)
    return out
