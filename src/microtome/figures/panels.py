"""Figures of experiment results: a panel for each kind of curve and axis, and for each span map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..findings.results import Result
from . import curves, spans
from .captions import add_panel, add_title, new_figure, title_of
from .curves import by_panel, draw_curves, draw_differences
from .files import FORMATS, save_all
from .savings import draw_savings, savings_of
from .spans import common_reach, draw_spans, map_side
from .trajectories import TRAJECTORY, save_trajectory

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Inches around a line plot; one without a title needs little space above it.
_AROUND_LINES = (curves.LEFT, curves.RIGHT, curves.BELOW, 0.1)
_AROUND_SPANS = (spans.LEFT, spans.RIGHT, spans.BELOW, spans.ABOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """Name of its file, function that draws it, titles alone and among others, and sizes in inches."""

    name: str
    draw: Callable[..., Axes]
    alone: str | None = None
    joined: str | None = ""
    inner: tuple[float, float] = (curves.WIDE, curves.TALL)
    around: tuple[float, float, float, float] = _AROUND_LINES

    @property
    def outer(self) -> tuple[float, float]:
        left, right, below, above = self.around
        return self.inner[0] + left + right, self.inner[1] + below + above


def figure_of(result: Result) -> Figure:
    """
    Draw a complete result, with a panel for each kind of curve and axis, and for each span map.

    Parameters
    ----------
    result : Result

    Returns
    -------
    matplotlib.figure.Figure
        Span maps share one color scale.
    """
    parts = _panels(result)
    if not parts:
        raise InputError(f"a figure must have something to draw, but the {result.experiment} has no curve.")
    across = 1 if len(parts) < 2 else 2
    rows = [parts[k : k + across] for k in range(0, len(parts), across)]
    heights = [max(part.outer[1] for part in row) for row in rows]
    widths = [max(row[k].outer[0] for row in rows if k < len(row)) for k in range(across)]
    figure = new_figure(sum(widths), sum(heights) + 0.3)
    for r, row in enumerate(rows):
        for c, part in enumerate(row):
            left = sum(widths[:c]) + part.around[0]
            top = sum(heights[:r]) + 0.3 + part.around[3]
            bottom = sum(heights) + 0.3 - top - part.inner[1]
            part.draw(ax=add_panel(figure, left, bottom, *part.inner), title=part.joined)
    add_title(figure, title_of(result))
    return figure


def save_figures(
    result: Result, folder: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> tuple[Path, ...]:
    """
    Write each panel of a result to its own files, reproducibly byte for byte.

    Parameters
    ----------
    result : Result
    folder : path
        Created if it does not exist.
    formats : sequence of str
        Of "png", "svg" and "pdf".

    Returns
    -------
    tuple of Path
        Such as `scores.png`, `differences.png` and `spans.png`.
    """
    drawings = {part.name: partial(part.draw, title=part.alone) for part in _panels(result)}
    written = save_all(folder, formats, drawings)
    trajectory = save_trajectory(result, folder, formats) if result.experiment == TRAJECTORY else ()
    return (*written, *trajectory)


def _panels(result: Result) -> list[_Panel]:
    """Scores before differences, by axis and reading; then what freezing saves; span maps on one scale."""
    parts = []
    for kind, draw in (("scores", draw_curves), ("differences", draw_differences)):
        selected = [
            curve for curve in result.curves if (curve.role == "difference") == (kind == "differences")
        ]
        groups = by_panel(result, selected)
        for (axis, reading), group in groups.items():
            name = f"{kind} {reading.replace(',', '') or axis}" if len(groups) > 1 else kind
            names = [curve.name for curve in group]
            parts.append(_Panel(name=name, draw=partial(draw, result, curves=names)))
    if savings_of(result):
        parts.append(_Panel(name="savings", draw=partial(draw_savings, result)))
    reach = common_reach(result.spans, result.points)
    for span_map in result.spans:
        title, side = title_of(result), map_side(span_map.depth)
        parts.append(
            _Panel(
                name=f"spans {span_map.arm}".strip(),
                draw=partial(draw_spans, span_map, points=result.points, score=result.score, reach=reach),
                alone=f"{title}: {span_map.name}" if len(result.spans) > 1 else title,
                joined=None,
                inner=(side, side),
                around=_AROUND_SPANS,
            )
        )
    return parts
