"""How does a class become a torch module although torch is not imported with it?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Module
else:
    Module = object


class LateModule(Module):
    """
    A base for torch modules whose own base, `torch.nn.Module`, joins when the first of them is made.

    They can be copied and pickled as any torch module.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an empty module."""
        return object.__new__(_torch_class(cls))

    def __reduce__(self) -> tuple[Any, ...]:
        # The class with torch in it has no name of its own that pickle could look up.
        return LateModule.__new__, (type(self).__mro__[1],), self.__dict__


@cache
def _torch_class(late: type) -> type:
    from torch import nn

    if issubclass(late, nn.Module):
        return late
    names = {"__module__": late.__module__, "__qualname__": late.__qualname__, "__doc__": late.__doc__}
    return type(late.__name__, (late, nn.Module), names)
