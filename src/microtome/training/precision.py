"""Precision of a fine-tuned model's matrix products: the same in evaluation as in training."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..lazy import torch
from ..store.entry import RECORD

# Files that `finetune` and `prune` write beside a model, and the keys of the precision in them.
_PLACES = (
    ("run.json", ("precision",)),
    (RECORD, ("specification", "precision")),
    ("microtome.json", ("provenance", "precision")),
)
DEFAULT = "float32"


def read_precision(folder: Path | None) -> str:
    """
    Read the precision in which a model was trained, where its folder records it.

    Parameters
    ----------
    folder : Path, optional

    Returns
    -------
    {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; "float32" where none is recorded.
    """
    for name, keys in _PLACES:
        if folder is None or not (folder / name).is_file():
            continue
        value: Any = json.loads((folder / name).read_text(encoding="utf-8"))
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value:
            return str(value)
    return DEFAULT


def products_in(precision: str, device: str) -> Callable[[], Any] | None:
    """
    Choose the precision in which a model predicts.

    Parameters
    ----------
    precision : {"float32", "tf32", "bfloat16", "float16"}
    device : str
        The type of the device, such as "cpu". TF32 exists only on "cuda"; elsewhere it is float32.

    Returns
    -------
    callable or None
        Returns the context in which the model runs; None where nothing has to be changed.
    """
    if precision == "tf32":
        return _rounded if device == "cuda" else None
    if precision == DEFAULT:
        return None
    return lambda: torch.autocast(device, dtype=getattr(torch, precision))


@contextlib.contextmanager
def _rounded() -> Iterator[None]:
    """Let matrix products on a GPU use TF32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
