"""Allocation of large tensors in huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """
    Allocate an uninitialized tensor.

    On Linux, NumPy requests huge pages and torch does not; writing 66 MB for the first time takes 17 ms with
    them and 42 ms without.

    Parameters
    ----------
    shape : tuple of int
    dtype : torch.dtype
        Float32 or float64.
    device : torch.device

    Returns
    -------
    Tensor of shape `shape`
    """
    import torch

    if device.type != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype=np.float64 if dtype == torch.float64 else np.float32))
