"""Encoders that are given open or by name."""

from __future__ import annotations

import os
from typing import Any

from ..encoders.encoder import Encoder
from ..encoders.loading import load
from ..errors import must


def as_encoder(given: Any) -> Encoder:
    """Return an encoder as it is, and load one that is given by its name or folder."""
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    # Any class will do that has the attributes used by extraction.
    if not all(hasattr(given, name) for name in ("name", "family", "layers", "words", "run")):
        raise must("a model", "what microtome.load gives, a hub id or a folder", type(given).__name__)
    return given
