"""Panels of the layouts: a map of layers by layers, curves over layers, and the costs of spans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...findings.blocks import Block
from ...findings.results import Curve, SpanMap
from ..captions import draw_cells, hatch_cells, is_dark, printable
from ..curves import LEVEL_LINES, plot_curves
from ..heatmap import DIVERGING, LOWEST, SEQUENTIAL, outline_blocks
from .sheet import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TICKS = 6
MOST_TURNED = 4  # names of models below a map that are turned by half a right angle


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPanel:
    """
    A part of a map.

    Parameters
    ----------
    title : str
    values : ndarray of shape (rows, columns)
    rows, columns : sequence of str
        Numbers of the layers.
    blocks : sequence of Block
        To be outlined, where rows and columns are the same layers.
    """

    title: str
    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    blocks: Sequence[Block] = ()


def value_range(panels: Sequence[np.ndarray]) -> tuple[float, float]:
    """Limits of the color scale of several maps: from 0, or from the smallest value below it, to 1."""
    finite = np.concatenate([values[np.isfinite(values)] for values in panels])
    smallest, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return max(min(0.0, smallest), LOWEST), max(1.0, largest)


def draw_map(axes: Axes, panel: MapPanel, sheet: Sheet, limits: tuple[float, float]) -> Any:
    """
    Draw a part of a map, with the first layers at the lower left.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    panel : MapPanel
    sheet : Sheet
    limits : (float, float)
        Of the color scale.

    Returns
    -------
    matplotlib.collections.QuadMesh
    """
    mesh = draw_cells(axes, panel.values, cmap=SEQUENTIAL, vmin=limits[0], vmax=limits[1])
    axes.set_aspect("equal")
    hatch_cells(axes, np.argwhere(~np.isfinite(panel.values)).tolist())
    outline_blocks(axes, panel.blocks, range(len(panel.rows)))
    for axis, numbers in ((axes.xaxis, panel.columns), (axes.yaxis, panel.rows)):
        ticks = sparse(len(numbers))
        axis.set_ticks(ticks, labels=[numbers[k] for k in ticks], fontsize=sheet.small)
    small_ticks(axes, sheet)
    return mesh


def sparse(count: int) -> list[int]:
    """
    Choose the first layer, the last one, and one to three between them.

    Examples
    --------
    >>> sparse(12), sparse(13), sparse(2)
    ([0, 5, 11], [0, 6, 12], [0, 1])
    """
    return sorted({0, (count - 1) // 2, count - 1}) if count > 2 else list(range(count))


def small_ticks(axes: Axes, sheet: Sheet) -> None:
    """Set the size of the ticks of a panel."""
    axes.tick_params(labelsize=sheet.small, length=1.6 * sheet.scale, width=0.5 * sheet.scale, pad=1.5)


def draw_stacks(
    axes: Axes,
    values: np.ndarray,
    names: Mapping[str, int],
    sheet: Sheet,
    limits: tuple[float, float],
    *,
    room: float,
) -> Any:
    """
    Draw a map of several models, with borders between them and their names instead of layers.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    values : ndarray of shape (layers, layers)
    names : mapping of str to int
        Number of layers of each model, in the order of the map.
    sheet : Sheet
    limits : (float, float)
        Of the color scale.
    room : float
        Points that the map is wide.

    Returns
    -------
    matplotlib.collections.QuadMesh
    """
    mesh = draw_cells(axes, values, cmap=SEQUENTIAL, vmin=limits[0], vmax=limits[1])
    axes.set_aspect("equal")
    # Published maps leave the diagonal out; a layer with itself is 1 by definition or undefined.
    hatch_cells(axes, [(i, j) for i, j in np.argwhere(~np.isfinite(values)).tolist() if i != j])
    ends = np.cumsum(list(names.values()))
    for border in ends[:-1] - 0.5:
        axes.axhline(border, color="white", linewidth=1.2 * sheet.scale)
        axes.axvline(border, color="white", linewidth=1.2 * sheet.scale)
    middles = ends - np.array(list(names.values())) / 2 - 0.5
    # Names of small models stand beside each other.
    places = spaced(middles, 1.2 * sheet.small * len(values) / room, len(values))
    labels = [printable(name) for name in names]
    axes.set_xticks(places, labels=labels)
    turned = {"rotation": 45, "ha": "right", "va": "top", "rotation_mode": "anchor"}
    for text in axes.get_xticklabels():
        text.set(**(turned if len(names) <= MOST_TURNED else {"rotation": 90}))
    axes.set_yticks(places, labels=labels)
    small_ticks(axes, sheet)
    axes.tick_params(length=0)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    return mesh


def spaced(places: np.ndarray, gap: float, end: float) -> np.ndarray:
    """
    Move places apart to a least distance, as little as needed, within 0 and an end.

    Examples
    --------
    >>> spaced(np.array([2.0, 2.5, 9.0]), 1.0, 10).tolist()
    [1.75, 2.75, 9.0]
    """
    gap = min(gap, end / len(places))
    steps = gap * np.arange(len(places))
    # The nearest increasing sequence is the isotonic regression of what is left of the places.
    blocks: list[list[float]] = []
    for value in places - steps:
        blocks.append([float(value)])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) + steps


def draw_lines(
    axes: Axes, curves: Sequence[Curve], levels: Mapping[str, float], sheet: Sheet
) -> dict[str, Any]:
    """
    Draw curves with their intervals, and levels such as the majority baseline.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    curves : sequence of Curve
    levels : mapping of str to float
    sheet : Sheet

    Returns
    -------
    dict
        What the legend shows, by its text.
    """
    from matplotlib.ticker import MaxNLocator

    plot_curves(axes, curves, size=0.72 * sheet.scale)
    for k, (name, value) in enumerate(levels.items()):
        look: dict[str, Any] = {"color": "#555555", "linewidth": 0.9 * sheet.scale, "zorder": 1}
        axes.axhline(value, linestyle=LEVEL_LINES[k % len(LEVEL_LINES)], label=name, **look)
    xs = sorted({x for curve in curves for x in curve.x if not isinstance(x, str)}, reverse=True)
    if xs:
        ticks = xs[:: math.ceil(len(xs) / MOST_TICKS)]
        axes.set_xticks(ticks, labels=[f"{x:g}" for x in ticks])
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_linewidth(0.6 * sheet.scale)
    small_ticks(axes, sheet)
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def limit_values(axes: Axes, curves: Sequence[Curve], levels: Mapping[str, float]) -> bool:
    """Limit an axis to the values and little more, as bands of few seeds are wide; whether some are cut."""
    values = np.concatenate([*(curve.values for curve in curves), [*levels.values()]])
    bands = np.concatenate([v for c in curves for v in (c.low, c.high, c.band_low, c.band_high)])
    values, bands = (part[np.isfinite(part)] for part in (values, bands))
    if not values.size:
        return False
    low, high = float(values.min()), float(values.max())
    reach = max(0.6 * (high - low), 0.04)
    bounds = np.clip([bands.min(), bands.max()] if bands.size else [low, high], low - reach, high + reach)
    ends = min(low, float(bounds[0])), max(high, float(bounds[1]))
    room = 0.05 * (ends[1] - ends[0]) or 0.05
    axes.set_ylim(ends[0] - room, ends[1] + room)
    return bool(bands.size and (bands.min() < ends[0] - room or bands.max() > ends[1] + room))


def draw_costs(
    axes: Axes, span_map: SpanMap, sheet: Sheet, reach: float, *, points: float, room: float
) -> Any:
    """
    Draw the costs of spans: first skipped block from the top, last one from the left, a dot where not 0.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    span_map : SpanMap
    sheet : Sheet
    reach : float
        Cost at the limits of the color scale.
    points : float
        Points per unit of the score.
    room : float
        Points that the map is wide.

    Returns
    -------
    matplotlib.collections.QuadMesh
    """
    depth = span_map.depth
    scale = {"cmap": DIVERGING, "vmin": -reach, "vmax": reach}
    mesh = draw_cells(axes, points * span_map.values, first=1, **scale)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    undefined = np.argwhere(np.triu(~np.isfinite(span_map.values))).tolist()
    hatch_cells(axes, undefined, first=1)
    certain = (span_map.band_low > 0) | (span_map.band_high < 0)
    dark = np.vectorize(lambda cost: is_dark(mesh, cost))(np.nan_to_num(points * span_map.values))
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": min(0.12 * room / depth, 2)}
    for cells, color in ((certain & dark, "white"), (certain & ~dark, "black")):
        rows, columns = np.nonzero(cells)
        axes.plot(columns + 1, rows + 1, color=color, **look)
    ticks = [k + 1 for k in sparse(depth)]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    small_ticks(axes, sheet)
    return mesh
