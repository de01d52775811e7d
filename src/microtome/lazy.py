"""Heavy libraries imported at their first use, and the base of torch modules that are defined before that."""

from __future__ import annotations

from functools import cache
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

    def __getattribute__(self, name: str) -> Any:
        own = super().__getattribute__
        # The short way for a module that is imported: loops over small tensors read names often.
        module = None if name.startswith("__") else own("__dict__").get("_imported")
        return own(name) if module is None else getattr(module, name)

    def __getattr__(self, name: str) -> Any:
        # Unlike `sys.modules`, which has modules that are half imported, this waits for other threads.
        module = self.__dict__["_imported"] = import_module(self.__name__)
        return getattr(module, name)


if TYPE_CHECKING:
    import tokenizers as tokenizers
    import torch as torch
    import transformers as transformers
    from torch.nn import Module as _Module
else:
    tokenizers, torch, transformers = map(LazyModule, ("tokenizers", "torch", "transformers"))
    _Module = object


class LateModule(_Module):
    """
    Base of torch modules whose own base, `torch.nn.Module`, is added at the first instantiation.

    Instances can be copied and pickled like any torch module.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an empty module."""
        return object.__new__(_torch_class(cls))

    def __reduce__(self) -> tuple[Any, ...]:
        # The class derived from torch has no importable name for pickle to look up.
        return LateModule.__new__, (type(self).__mro__[1],), self.__dict__


@cache
def _torch_class(late: type) -> type:
    if issubclass(late, torch.nn.Module):
        return late
    names = {"__module__": late.__module__, "__qualname__": late.__qualname__, "__doc__": late.__doc__}
    return type(late.__name__, (late, torch.nn.Module), names)
