"""Torch as a module that is imported at its first use: importing the package alone must be quick."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """
    A stand-in for a module, which imports it when one of its attributes is read.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> LazyModule("math").sqrt(9.0)
    3.0
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
