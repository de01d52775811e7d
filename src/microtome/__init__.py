"""Takes Transformer text encoders apart, layer by layer."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from .version import VERSION

__version__ = VERSION


def _declared() -> dict[str, str]:
    """Return the path of each public name from the stub beside this module, the one list of them."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
    paths = {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    for node in stub.body:
        if isinstance(node, ast.Assign):  # a public name that differs from the one in its module
            paths[ast.unparse(node.targets[0])] = paths.pop(ast.unparse(node.value))
    return paths


# Nothing heavy is imported until one of the names is used.
_PUBLIC = _declared()

# `from microtome import *` must not hide the builtin `open`.
__all__ = [*(name for name in _PUBLIC if name != "open"), "analysis", "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module(".analysis", __name__)
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].rpartition(".")
        return getattr(import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "analysis", "__version__"])
