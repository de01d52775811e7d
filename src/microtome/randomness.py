"""Reproducible randomness: random numbers from a seed and a name, and sums in a fixed order."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .checks import whole_number
from .lazy import torch


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """
    Make a generator that depends on the seed and on what it is used for.

    Two uses under one seed are independent of each other, and adding a third changes neither.

    Parameters
    ----------
    seed : int
        The user's seed.
    *names : str or int
        What the numbers are for.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> bool(generator(1, "halves").random() == generator(1, "halves").random())
    True
    >>> bool(generator(1, "halves").random() == generator(1, "permutation").random())
    False
    """
    seed = whole_number("seed", seed, 0)
    digest = hashlib.blake2b("\x1f".join(str(name) for name in names).encode(), digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])


@contextmanager
def repeatable(device: str, *, strict: bool = True) -> Iterator[None]:
    """
    Leave out kernels of a GPU that add in the order of arrival, for as long as it lasts.

    Parameters
    ----------
    device : str
        Such as "cpu", "cuda" or "cuda:1".
    strict : bool
        Whether a step that has no other kernel is an error, and not merely warned of.
    """
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    filled = settings.fill_uninitialized_memory
    if device.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=not strict)
        # Nothing reads memory that was not written; filling it would take a kernel for each result.
        settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
        settings.fill_uninitialized_memory = filled
