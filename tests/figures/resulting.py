"""Results made by hand, to be drawn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from microtome.findings.results import Curve, Result, SpanMap, X


def make_curve(name: str, values: Any, *, x: tuple[X, ...] | None = None, **more: Any) -> Curve:
    """A curve; one with "difference" in its name is of differences of what the rest of its name is."""
    found = np.asarray(values, dtype=float)
    arm = re.sub("difference,? ", "", name)
    given: dict[str, Any] = {
        "role": "score" if arm == name else "difference",
        "label": arm,
        "arm": arm,
        "axis": "layers kept",
        "x": tuple(range(1, len(found) + 1)) if x is None else x,
        "low": found - 0.02,
        "high": found + 0.03,
        "band_low": found - 0.04,
        "band_high": found + 0.05,
        "level": 0.95,
        "unit": "example",
        "n": 277,
        "seeds": (3,) * len(found),
        "reasons": (None,) * len(found),
    }
    return Curve(name=name, values=found, **{**given, **more})


def make_spans(depth: int = 4, *, name: str = "all seeds", half: float = 0.01, **more: Any) -> SpanMap:
    first, last = np.indices((depth, depth))
    values = np.where(last >= first, 0.03 * (last - first) - 0.005, np.nan)
    given: dict[str, Any] = {
        "low": values - half,
        "high": values + half,
        "band_low": values - 2 * half,
        "band_high": values + 2 * half,
        "full": 0.7834,
        "level": 0.9,
        "unit": "example",
        "n": 1234,
        "values": values,
    }
    return SpanMap(name=name, depth=depth, **{**given, **more})


def make_result(**more: Any) -> Result:
    given: dict[str, Any] = {
        "experiment": "truncation",
        "model": "bert",
        "task": "rte",
        "split": "validation",
        "score": "accuracy",
    }
    return Result(**{**given, **more})


def hatched_cells(axes: Axes) -> list[tuple[float, float]]:
    """Lower left corners of the hatched cells."""
    hatched = [cells for cells in axes.collections if cells.get_hatch()]
    return [tuple(path.vertices.min(0).tolist()) for cells in hatched for path in cells.get_paths()]  # pyright: ignore
