"""Where do large results go? Into huge pages, which the system hands out in one step instead of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """
    Make a tensor whose values are not set.

    On Linux, NumPy asks for huge pages and torch does not; writing 66 MB for the first time takes 17 ms
    with them and 42 ms without.

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
