"""Figures of experiment results: a panel for each kind of curve and axis, and for each span map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..findings.results import Result, SpanMap
from . import curves, spans
from .captions import add_panel, new_figure, printable, title_of
from .curves import by_panel, draw_curves, draw_differences
from .files import FORMATS, save_all
from .savings import draw_savings, savings_of
from .spans import common_reach, draw_spans, map_side
from .trajectories import TRAJECTORY, save_trajectory

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """Draw function, size in inches, and the margins left, right, below and above."""

    draw: Callable[[Axes], Any]
    inner: tuple[float, float]
    around: tuple[float, float, float, float]

    @property
    def outer(self) -> tuple[float, float]:
        left_margin, right_margin, lower_margin, upper_margin = self.around
        return self.inner[0] + left_margin + right_margin, self.inner[1] + lower_margin + upper_margin


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
    parts = [*_curve_panels(result), *_saving_panels(result), *_span_panels(result)]
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
            part.draw(add_panel(figure, left, bottom, *part.inner))
    top = 1 - 0.08 / figure.get_size_inches()[1]
    figure.suptitle(printable(title_of(result)), fontsize=10, y=top, parse_math=False)
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
    drawings = {**_curve_files(result), **_span_files(result)}
    if savings_of(result):
        drawings["savings"] = partial(draw_savings, result)
    written = save_all(folder, formats, drawings)
    return (
        (*written, *save_trajectory(result, folder, formats)) if result.experiment == TRAJECTORY else written
    )


def _groups(result: Result) -> Iterator[tuple[bool, str, str, list[str]]]:
    """Yield the curves of each panel: scores before differences, by axis and reading."""
    for differences in (False, True):
        selected_curves = [curve for curve in result.curves if (curve.role == "difference") == differences]
        for (axis, reading), panel_curves in by_panel(result, selected_curves).items():
            yield differences, axis, reading, [curve.name for curve in panel_curves]


def _draw_group(
    result: Result, differences: bool, names: list[str], ax: Axes | None, title: str | None
) -> Axes:
    draw = draw_differences if differences else draw_curves
    return draw(result, ax, curves=names, title=title)


def _curve_panels(result: Result) -> list[_Panel]:
    def draw(differences: bool, names: list[str]) -> Callable[[Axes], Any]:
        return lambda ax: _draw_group(result, differences, names, ax, "")

    return [_line_panel(draw(differences, names)) for differences, _, _, names in _groups(result)]


def _saving_panels(result: Result) -> list[_Panel]:
    return [_line_panel(lambda ax: draw_savings(result, ax, title=""))] if savings_of(result) else []


def _line_panel(draw: Callable[[Axes], Any]) -> _Panel:
    # A panel without a title needs little space above it.
    around = (curves.LEFT, curves.RIGHT, curves.BELOW, 0.1)
    return _Panel(draw=draw, inner=(curves.WIDE, curves.TALL), around=around)


def _curve_files(result: Result) -> dict[str, Callable[[], Axes]]:
    groups = list(_groups(result))

    def make(differences: bool, names: list[str]) -> Callable[[], Axes]:
        return lambda: _draw_group(result, differences, names, None, None)

    files: dict[str, Callable[[], Axes]] = {}
    for differences, axis, reading, names in groups:
        kind = "differences" if differences else "scores"
        several = sum(group[0] == differences for group in groups) > 1
        which = reading.replace(",", "") or axis
        files[f"{kind} {which}" if several else kind] = make(differences, names)
    return files


def _span_panels(result: Result) -> list[_Panel]:
    reach = common_reach(result.spans, result.points)

    def draw(span_map: SpanMap) -> Callable[[Axes], Any]:
        return lambda ax: draw_spans(span_map, ax, points=result.points, score=result.score, reach=reach)

    around = (spans.LEFT, spans.RIGHT, spans.BELOW, spans.ABOVE)
    sides = [map_side(span_map.depth) for span_map in result.spans]
    return [
        _Panel(draw=draw(span_map), inner=(side, side), around=around)
        for span_map, side in zip(result.spans, sides, strict=True)
    ]


def _span_files(result: Result) -> dict[str, Callable[[], Axes]]:
    reach = common_reach(result.spans, result.points)

    def make(span_map: SpanMap) -> Callable[[], Axes]:
        title = f"{title_of(result)}: {span_map.name}" if len(result.spans) > 1 else title_of(result)
        return lambda: draw_spans(
            span_map, points=result.points, score=result.score, reach=reach, title=title
        )

    return {f"spans {span_map.arm}".strip(): make(span_map) for span_map in result.spans}
