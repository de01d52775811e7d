"""Stacks of layers over the same rows, and the reading of ranges of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..lazy import torch
from ..store.formats import LayerFile, open_layers
from ..store.shards import ShardedLayer, read_manifest

STORED = (LayerFile, ShardedLayer)
FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """
    Layers of one model over the same rows.

    Parameters
    ----------
    names : tuple of str
        One name per layer.
    layers : tuple
        NumPy arrays, torch tensors or layers in files, each of shape (rows, features).
    index : ndarray of shape (n,), optional
        The selected rows, in this order; all of them when absent.
    columns : tuple of (ndarray or None)
        The selected features of each layer.
    scales : tuple of (ndarray or None)
        The factor of each selected feature.
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
        """Number of selected rows."""
        return int(self.layers[0].shape[0]) if self.index is None else len(self.index)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of selected features of each layer."""
        return tuple(
            int(layer.shape[1]) if columns is None else len(columns)
            for layer, columns in zip(self.layers, self.columns, strict=True)
        )

    def take(self, index: np.ndarray) -> Stack:
        """Return the same layers over a subset of rows, given by positions among the selected rows."""
        positions = np.asarray(index, dtype=np.int64)
        return replace(self, index=positions if self.index is None else self.index[positions])

    def select(self, layers: Sequence[int]) -> Stack:
        """Return a stack of the given layers."""
        return replace(
            self,
            names=tuple(self.names[i] for i in layers),
            layers=tuple(self.layers[i] for i in layers),
            columns=tuple(self.columns[i] for i in layers),
            scales=tuple(self.scales[i] for i in layers),
        )


def make_stack(source: Any, side: str = "left", names: Sequence[str] | None = None) -> Stack:
    """
    Build a stack of layers from a user's input.

    Parameters
    ----------
    source : array, sequence of arrays, path, or Stack
        One array of shape (rows, features) or (layers, rows, features); a list of arrays of shape
        (rows, features); a `.npy` or `.safetensors` file, or a folder of them; or the folder of a recorded
        stack, whose layers are named as in `bert/3`.
    side : str
        The name of the stack in errors.
    names : sequence of str, optional
        Names of the layers.

    Returns
    -------
    Stack
    """
    if isinstance(source, Stack):
        return source
    layers, layer_names = _gather(source, side)
    if not layers:
        raise InputError(f"{side} must hold at least one layer, but got none.")
    for name, layer in zip(layer_names, layers, strict=True):
        _check(layer, f"{side} layer {name}")
    rows = {int(layer.shape[0]) for layer in layers}
    if len(rows) > 1:
        counts = ", ".join(f"{n}: {layer.shape[0]}" for n, layer in zip(layer_names, layers, strict=True))
        raise InputError(f"every layer of {side} must have the same rows, but got {counts}.")
    if names is not None and len(names) != len(layers):
        raise InputError(f"names must be {len(layers)} for {side}, one per layer, but got {len(names)}.")
    layer_names = [str(name) for name in (names if names is not None else layer_names)]
    duplicates = sorted({name for name in layer_names if layer_names.count(name) > 1})
    if duplicates:
        raise InputError(f"names of the layers of {side} must differ, but {duplicates[0]!r} stands twice.")
    return Stack(
        names=tuple(layer_names),
        layers=tuple(layers),
        columns=(None,) * len(layers),
        scales=(None,) * len(layers),
    )


def _gather(source: Any, side: str) -> tuple[list[Any], list[str]]:
    if isinstance(source, (str, os.PathLike)):
        files = open_layers(source)
        prefix = _model_of(files[0]) if files else ""
        return list(files), [f"{prefix}{file.name}" for file in files]
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
                item_layers, item_names = _gather(item, side)
                layers += item_layers
                names += item_names
                continue
            array = item if _is_array(item) else np.asarray(item)
            layers.append(array)
            names.append(str(position))
        return layers, names
    raise must(side, "an array, a list of arrays, or a path", type(source).__name__)


def _model_of(layer: LayerFile | ShardedLayer) -> str:
    """Return the prefix of the names of recorded layers, the model's name as in `bert/3`."""
    if not isinstance(layer, ShardedLayer):
        return ""
    model = read_manifest(layer.path.parent).extra.get("model")
    return f"{model['name']}/" if isinstance(model, Mapping) and model.get("name") else ""


def _is_array(value: Any) -> bool:
    if np.ma.is_masked(value):
        raise InputError(
            "arrays must hold a number in every place, but got a masked array with masked values; leave "
            "those rows out, or fill them with .filled(...)."
        )
    return isinstance(value, np.ndarray) or type(value).__module__.split(".")[0] == "torch"


def dtype_name(layer: Any) -> str:
    """Return the name of a layer's dtype, the same for NumPy and torch."""
    return getattr(layer.dtype, "name", str(layer.dtype).removeprefix("torch."))


def rounding(layer: Any) -> float:
    """Relative rounding of a layer's values; a float64 layer is shifted before it is rounded further."""
    return float(np.finfo(np.float64 if dtype_name(layer) == "float64" else np.float32).eps)


def constant_bound(mean: Any, n: int, eps: Any) -> Any:
    """Largest centered sum of squares of a constant neuron, from the rounding of its mean."""
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
        The range among the selected rows.
    dtype, device
        The dtype and device of the result.

    Returns
    -------
    Tensor of shape (stop - start, features)
        Shares memory with the input where no conversion was needed: never write into it.
    """
    source, columns, scale = stack.layers[layer], stack.columns[layer], stack.scales[layer]
    index = None if stack.index is None else stack.index[start:stop]
    if isinstance(source, torch.Tensor):
        rows = source.detach()
        rows = rows[start:stop] if index is None else rows[torch.as_tensor(index, device=source.device)]
        out = rows.to(device=device, dtype=dtype)
    else:
        if isinstance(source, STORED):
            array = source.rows(start, stop) if index is None else source.take(index)
        else:
            array = source[start:stop] if index is None else source[index]
        if not (array.flags.writeable and array.dtype.isnative) or any(s < 0 for s in array.strides):
            # torch warns about, or rejects, read-only memory, other byte orders and negative strides.
            array = np.array(array, dtype=array.dtype.newbyteorder("="))
        out = torch.from_numpy(array).to(device=device, dtype=dtype)
    if columns is not None:
        out = out[:, torch.as_tensor(columns, device=out.device)]
    if scale is not None:
        out = out * torch.as_tensor(scale, device=out.device, dtype=dtype)
    return out
