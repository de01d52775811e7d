"""Takes Transformer text encoders apart, layer by layer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison.attention import attention_similarity_matrix as attention_similarity_matrix
    from .comparison.similarity import similarity as similarity
    from .comparison.similarity import similarity_matrix as similarity_matrix
    from .comparison.structure import convergence as convergence
    from .comparison.structure import find_blocks as find_blocks
    from .comparison.structure import find_localization as find_localization
    from .errors import MicrotomeError as MicrotomeError
    from .measures.table import MEASURES as MEASURES

__version__ = "0.1.0"

# Public names and the modules that hold them; nothing heavy is imported until one is used.
_PUBLIC = {
    "similarity": "comparison.similarity",
    "similarity_matrix": "comparison.similarity",
    "attention_similarity_matrix": "comparison.attention",
    "convergence": "comparison.structure",
    "find_blocks": "comparison.structure",
    "find_localization": "comparison.structure",
    "MEASURES": "measures.table",
    "MicrotomeError": "errors",
}

__all__ = [*_PUBLIC, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
