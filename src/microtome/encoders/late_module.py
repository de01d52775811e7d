"""Base class of torch modules that import torch only when they are instantiated."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module
else:
    Module = object


class LateModule(Module):
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
    from torch import nn

    if issubclass(late, nn.Module):
        return late
    names = {"__module__": late.__module__, "__qualname__": late.__qualname__, "__doc__": late.__doc__}
    return type(late.__name__, (late, nn.Module), names)
