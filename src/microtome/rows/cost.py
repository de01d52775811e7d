"""What the rows of several models take, before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder
    from .planning import Rows


def row_cost(
    encoders: Sequence[Encoder], rows: Rows, *, storage: str = "float32", kept: bool = True
) -> tuple[str, dict[str, Any]]:
    """
    Count models, layers and rows and, where rows are kept in the store, their bytes on disk.

    Parameters
    ----------
    encoders : sequence of Encoder
    rows : Rows
    storage : str
        How rows are stored on disk.
    kept : bool
        Whether they are stored.

    Returns
    -------
    sentence : str
    summary : dict
        The same as plain data.
    """
    layers = sum(len(encoder.layers) for encoder in encoders)
    width = 4 if storage == "float32" else 2
    size = width * len(rows) * sum(sum(encoder.widths) for encoder in encoders) if kept else 0
    models = f"{len(encoders)} model{'' if len(encoders) == 1 else 's'}"
    sentence = f"{models}, {layers} layers, {rows.sentence()}"
    if kept:
        sentence += f": about {max(size / 1e6, 1):,.0f} MB of {storage} rows in the store"
    return sentence, {
        "models": [encoder.name for encoder in encoders],
        "layers": layers,
        "rows": len(rows),
        "bytes": size,
        "lost": dict(rows.lost),
        "truncated": dict(rows.truncated),
    }
