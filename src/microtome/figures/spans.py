"""Heat maps of span costs: the first skipped block on the vertical axis, the last on the horizontal one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from ..findings.results import SpanMap
from ..findings.words import coverage, over, score_label
from .captions import (
    add_bar,
    add_caption,
    add_panel,
    draw_cells,
    hatch_cells,
    is_dark,
    new_figure,
    printable,
    room_of,
)
from .heatmap import DIVERGING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL, SMALLEST, LARGEST = 0.36, 2.0, 6.5  # inches of a cell, and of the map
LEFT, RIGHT, BELOW, ABOVE = 0.6, 1.2, 0.9, 0.4  # inches around it, the scale of colors at the right
MOST_WRITTEN = 12  # blocks of a model whose costs are written into the cells
# Above this ratio of the largest cost to the median one, a linear scale would leave most cells white.
STEEP = 50.0


def draw_spans(
    span_map: SpanMap,
    ax: Axes | None = None,
    *,
    points: float = 100.0,
    title: str | None = None,
    score: str = "",
    reach: float | None = None,
) -> Axes:
    """
    Draw the cost of skipping each span of blocks.

    The first skipped block is on the vertical axis, from the top, and the last one on the horizontal axis, so
    that single blocks are the diagonal and longer spans lie farther from it. A dot marks a cost whose
    simultaneous band over all spans excludes 0. Undefined costs are hatched.

    Parameters
    ----------
    span_map : SpanMap
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    points : float
        Points per unit of the score in the figure: 100 gives points of 100.
    title : str, optional
        The map's name when absent.
    score : str
        Name of the score.
    reach : float, optional
        Cost at the limits of the color scale, for maps that share a scale; the largest one when absent.

    Returns
    -------
    matplotlib.axes.Axes
    """
    axes = span_axes(span_map) if ax is None else ax
    costs = points * span_map.values
    end = common_reach([span_map], points) if reach is None else float(reach)
    if not end > 0:
        raise must("reach", "above 0", reach)
    norm, steep = _norm(costs, end, bounded=points == 100)
    mesh = draw_cells(axes, costs, first=1, cmap=DIVERGING, norm=norm)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    # Points of a cell.
    cell = min(room_of(axes)) / span_map.depth
    _name_axes(axes, span_map, cell)
    hatch_cells(axes, _undefined(span_map), first=1)
    _write_cells(axes, span_map, costs, mesh, cell)
    lowest = float(np.nanmin(costs, initial=0.0))
    unit = "points" if points == 100 else printable(score_label(score)) or "units of the score"
    label = f"cost in {unit}{', logarithmic' if steep else ''}"
    _limit_bar(add_bar(axes, mesh, label, cell * span_map.depth), mesh, lowest)
    axes.set_title(printable(span_map.name if title is None else title), fontsize=10, pad=8, parse_math=False)
    add_caption(axes, basis(span_map, score), cell * span_map.depth + 60)
    return axes


def common_reach(maps: Sequence[SpanMap], points: float = 100.0) -> float:
    """
    Find the cost at the limits of a color scale that several maps share.

    Parameters
    ----------
    maps : sequence of SpanMap
    points : float
        Points per unit of the score.

    Returns
    -------
    float
        The largest absolute cost of all, and 1 where there is none.
    """
    costs = [np.abs(span_map.values[np.isfinite(span_map.values)]) for span_map in maps]
    return max((points * float(v.max()) for v in costs if v.size), default=0.0) or 1.0


def basis(span_map: SpanMap, score: str = "", *, table: bool = False) -> str:
    """Describe the basis of a span map: score of the complete model, examples, unit, runs and markers."""
    full = f"{span_map.full:.4f}" if abs(span_map.full) < 10 else f"{span_map.full:,.1f}"
    parts = [f"{score or 'score'} of the whole model: {full}", f"n = {span_map.n:,} examples"]
    parts.append(f"bands {over(span_map.unit)}")
    if span_map.seeds > 1:
        parts.append(f"mean of {span_map.seeds} runs")
    if not table and np.isfinite(span_map.band_low).any():
        mark = "dot" if span_map.depth <= MOST_WRITTEN else "dot or minus"
        parts.append(f"{mark}: not 0 by a {coverage(span_map.level)} band of all spans at once")
    if not table and _undefined(span_map):
        parts.append("hatched: undefined")
    return "; ".join(printable(part).rstrip(".") for part in (*parts, span_map.note) if part)


def span_axes(span_map: SpanMap) -> Axes:
    """Create axes of a new figure, sized by the number of blocks."""
    side = map_side(span_map.depth)
    figure = new_figure(LEFT + side + RIGHT, BELOW + side + ABOVE)
    return add_panel(figure, LEFT, BELOW, side, side)


def map_side(depth: int) -> float:
    """Side of the map in inches, for a model of the given depth."""
    return min(max(CELL * depth, SMALLEST), LARGEST)


def _norm(costs: np.ndarray, end: float, *, bounded: bool) -> tuple[Any, bool]:
    """Color scale around 0; logarithmic where an unbounded score spans orders of magnitude."""
    from matplotlib.colors import Normalize, SymLogNorm

    sizes = np.abs(costs[np.isfinite(costs) & (costs != 0)])
    if not bounded and sizes.size and end > STEEP * float(np.median(sizes)):
        return SymLogNorm(float(np.quantile(sizes, 0.1)), vmin=-end, vmax=end), True
    return Normalize(-end, end), False


def _name_axes(axes: Axes, span_map: SpanMap, cell: float) -> None:
    size = 7.0 if cell >= 9 else 6.0
    step = next((s for s in (1, 2, 4, 6, 12, 24) if s * cell >= size * 1.6), 48)
    ticks = list(range(1, span_map.depth + 1, step))
    for axis, label in ((axes.yaxis, "first skipped block"), (axes.xaxis, "last skipped block")):
        axis.set_ticks(ticks, labels=[str(k) for k in ticks], fontsize=size)
        axis.set_tick_params(length=2, width=0.5, pad=2)
        axis.set_label_text(label, fontsize=8)


def _undefined(span_map: SpanMap) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(~np.isfinite(span_map.values)) if j >= i]


def _write_cells(axes: Axes, span_map: SpanMap, costs: np.ndarray, mesh: Any, cell: float) -> None:
    """Write the costs where there is room, and mark those whose band excludes 0."""
    written = span_map.depth <= MOST_WRITTEN
    marks: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for i, j in np.argwhere(np.isfinite(costs)):
        cost = float(costs[i, j])
        color = "white" if is_dark(mesh, cost) else "black"
        if written:
            size = min(7.0, 0.36 * cell)
            axes.text(j + 1, i + 1, short(cost), ha="center", va="center", fontsize=size, color=color)
        if span_map.band_low[i, j] > 0 or span_map.band_high[i, j] < 0:
            marker = "o" if written or cost > 0 else "_"
            position = (j + 1.38, i + 0.64) if written else (j + 1.0, i + 1.0)
            marks.setdefault((marker, color), []).append(position)
    for (marker, color), positions in marks.items():
        x, y = zip(*positions, strict=True)
        size = (0.075 if written else 0.16) * cell
        axes.plot(x, y, linestyle="none", marker=marker, markersize=size, color=color)


def short(cost: float) -> str:
    """
    Format a cost in at most five characters.

    Examples
    --------
    >>> short(0.04), short(-3.26), short(41.8), short(312.4), short(123456.0)
    ('0.0', '−3.3', '41.8', '312', '1e5')
    """
    size = abs(cost)
    text = f"{size:.1f}" if size < 99.95 else f"{size:.0f}" if size < 9999.5 else f"{size:.0e}"
    text = text.replace("e+0", "e").replace("e+", "e")
    return text if cost >= 0 or not float(text) else f"−{text}"


def _limit_bar(bar: Any, mesh: Any, lowest: float) -> None:
    bar.ax.axhline(0.0, color="black", linewidth=0.8)
    # The colors are symmetric around 0, but the bar is cut below the largest gain.
    near, end = getattr(mesh.norm, "linthresh", None), mesh.norm.vmax
    bar.ax.set_ylim(min(lowest, -0.1 * end if near is None else -near), end)
    if near is not None:
        powers = [10.0**k for k in range(-9, 16) if 2 * near < 10.0**k <= end]
        bar.set_ticks([*(-power for power in powers if -power >= lowest), 0.0, *powers])
        bar.ax.minorticks_off()
