"""Line plots of scores and differences along an axis, with intervals, bands and reference lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must, unknown
from ..findings.results import Curve, Result
from ..findings.words import coverage, over, score_label
from .captions import add_caption, add_panel, new_figure, printable, room_of, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colors without yellow; markers and line styles differ too, for grayscale prints.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 1, 1, 1, 1, 1)))
LEVEL_LINES: tuple[Any, ...] = ((0, (9, 4)), (0, (3, 3)), (0, (1, 3)), (0, (9, 3, 1, 3)))
WIDE, TALL = 4.4, 2.6  # inches of a panel
LEFT, RIGHT, BELOW, ABOVE = 0.8, 2.3, 0.9, 0.4  # inches around it, the legend at the right
# With more curves the shaded bands overlap, and thin bars replace them.
MOST_SHADED = 3
# Ratio of the largest to the median value above which a linear scale would hide most points.
STEEP = 50.0
LONGEST_NAME = 36  # characters of a curve's name in the legend
MOST_REASONS = 3
MOST_TICKS = 14
# Experiments whose arms have values of different kinds.
SEVERAL_READINGS = frozenset({"localization"})
# Axes with nominal values, which are not joined by lines.
UNORDERED = frozenset({"seed of the order", "order", "reversed"})


def draw_curves(
    result: Result,
    ax: Axes | None = None,
    *,
    curves: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """
    Draw scores along an axis, one line per curve.

    Bars are pointwise intervals; the shaded band is simultaneous over all points of a curve (thin bars, where
    many curves share the axes). Undefined points are crosses at the lower edge. Reference lines, such as the
    majority baseline, are dashed. The caption below the axes describes the sample.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    curves : sequence of str, optional
        Names of curves over one axis; all scores when absent.
    title : str, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    selected_curves = _chosen(result, curves, differences=False)
    what, readings = score_label(result.score), {reading for _, reading in by_panel(result, selected_curves)}
    if len(readings) == 1 and (reading := readings.pop()):
        # The common reading is part of the axis label, which leaves room for the models in the legend.
        what = f"{what}: {reading}"
        selected_curves = [replace(curve, label=curve.model or curve.label) for curve in selected_curves]
    axes = new_axes() if ax is None else ax
    values = plot_curves(axes, selected_curves)
    _add_lines(axes, result)
    if _is_steep(result, values) and (values > 0).all():
        axes.set_yscale("log")
    axes.set_ylabel(printable(what), fontsize=8, parse_math=False)
    _finish(axes, result, selected_curves, title)
    return axes


def draw_differences(
    result: Result,
    ax: Axes | None = None,
    *,
    curves: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """
    Draw differences from a reference along an axis, in points, around a line at 0.

    Parameters
    ----------
    result : Result
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    curves : sequence of str, optional
        Names of curves over one axis; all differences when absent.
    title : str, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    selected_curves = _chosen(result, curves, differences=True)
    axes = new_axes() if ax is None else ax
    values = plot_curves(axes, selected_curves, scale=result.points)
    axes.axhline(0.0, color="#333333", linewidth=0.8, zorder=1)
    if _is_steep(result, values):
        axes.set_yscale("symlog", linthresh=float(np.median(np.abs(values[values != 0]))))
    unit = "points" if result.points == 100 else printable(score_label(result.score))
    axes.set_ylabel(f"difference in {unit}", fontsize=8, parse_math=False)
    _finish(axes, result, selected_curves, title)
    return axes


def by_panel(result: Result, curves: Sequence[Curve]) -> dict[tuple[str, str], list[Curve]]:
    """
    Group curves by panel: those over one axis and, for localization, in one unit.

    Parameters
    ----------
    result : Result
    curves : sequence of Curve

    Returns
    -------
    dict of (str, str) to list of Curve
        By axis and reading; the reading is empty except for experiments with several.
    """
    by_reading = result.experiment in SEVERAL_READINGS
    panels: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        panels.setdefault((curve.axis, curve.arm if by_reading else ""), []).append(curve)
    return panels


def basis(curves: Sequence[Curve], *, table: bool = False, shaded: bool | None = None) -> str:
    """
    Describe the basis of curves: examples, unit, sound runs, intervals, bands and undefined points.

    A table has intervals where a figure has bars, and no bands. Whether bands are shaded follows from the
    number of curves, unless they are in several panels.
    """
    first = curves[0]
    counts = sorted({curve.n for curve in curves if curve.n} or {0})
    parts = [f"n = {' to '.join(f'{n:,}' for n in {counts[0]: 0, counts[-1]: 0})} examples"]
    parts.append(f"intervals {' or '.join(dict.fromkeys(over(curve.unit) for curve in curves))}")
    points = [
        (count, why, math.isfinite(value))
        for curve in curves
        for count, why, value in zip(curve.seeds, curve.reasons, curve.values, strict=True)
    ]
    runs = [count for count, _, finite in points if finite]
    if runs and max(runs) > 1:
        run_range = f"{max(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
        parts.append(f"{run_range} runs per point")
    if any(np.isfinite(curve.low).any() for curve in curves):
        bars = "intervals" if table else "thick bars"
        parts.append(f"{bars}: {coverage(first.level)} for each point alone")
    if not table and any(np.isfinite(curve.band_low).any() for curve in curves):
        what = "shaded" if (_are_shaded(curves) if shaded is None else shaded) else "thin bars"
        parts.append(f"{what}: {coverage(first.level)} for all points of a curve at once")
    if not all(finite for *_, finite in points):
        reasons = _listed([why for _, why, finite in points if not finite])
        parts.append(f"{'-:' if table else '×'} undefined{reasons}")
    remarks = [why for _, why, finite in points if finite and why]
    if remarks:
        remark_count = f"{len(remarks)} point{'' if len(remarks) == 1 else 's'} with a remark"
        parts.append(f"{remark_count}{_listed(remarks)}")
    return "; ".join(printable(part) for part in parts)


def _listed(reasons: Sequence[str | None]) -> str:
    unique_reasons = list(dict.fromkeys(why for why in reasons if why))
    suffix = ["and others"] if len(unique_reasons) > MOST_REASONS else []
    return f" ({'; '.join([*unique_reasons[:MOST_REASONS], *suffix])})" if unique_reasons else ""


def new_axes() -> Axes:
    """Create axes of a new figure, with room for a legend at the right."""
    figure = new_figure(LEFT + WIDE + RIGHT, BELOW + TALL + ABOVE)
    return add_panel(figure, LEFT, BELOW, WIDE, TALL)


def _chosen(result: Result, names: Sequence[str] | None, *, differences: bool) -> list[Curve]:
    curves_by_name = {curve.name: curve for curve in result.curves}
    if names is None:
        selected_curves = [curve for curve in result.curves if (curve.role == "difference") == differences]
    else:
        for name in names:
            if name not in curves_by_name:
                raise unknown("curve", name, curves_by_name)
        selected_curves = [curves_by_name[name] for name in names]
    if not selected_curves:
        kind = "differences" if differences else "scores"
        raise InputError(f"a result must have curves of {kind} to draw them, but this one has none.")
    axis_names = list(dict.fromkeys(curve.axis for curve in selected_curves))
    if len(axis_names) > 1:
        raise must("curves", "over one axis; name those that belong together", ", ".join(axis_names))
    return selected_curves


def _are_shaded(curves: Sequence[Curve]) -> bool:
    return len(curves) <= MOST_SHADED and not _is_named(curves)


def _is_named(curves: Sequence[Curve]) -> bool:
    """Whether the points are nominal, and so not joined by lines."""
    return any(curve.axis in UNORDERED or isinstance(x, str) for curve in curves for x in curve.x)


def plot_curves(axes: Axes, curves: Sequence[Curve], *, scale: float = 1.0, size: float = 1.0) -> np.ndarray:
    """
    Draw curves with their intervals and bands.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    curves : sequence of Curve
    scale : float
        Factor of the values.
    size : float
        Factor of lines and markers.

    Returns
    -------
    ndarray
        All finite values drawn.
    """
    from matplotlib.ticker import MaxNLocator

    named = _is_named(curves)
    positions: dict[Any, float] = {}
    for x in dict.fromkeys(x for curve in curves for x in curve.x):
        positions[x] = float(len(positions)) if named or isinstance(x, str) else float(x)
    ticks = sorted(set(positions.values()))
    gap = min(np.diff(ticks), default=1.0)
    shaded, finite_values = _are_shaded(curves), []
    for k, curve in enumerate(curves):
        # Curves are shifted sideways, so that their bars do not overlap.
        offset = (k - (len(curves) - 1) / 2) * min(0.1, 0.5 / len(curves)) * gap
        x_positions = np.array([positions[x] for x in curve.x]) + offset
        color, marker = COLORS[k % len(COLORS)], MARKERS[k % len(MARKERS)]
        y, low, high, band_low, band_high = (
            scale * v for v in (curve.values, curve.low, curve.high, curve.band_low, curve.band_high)
        )
        if shaded:
            axes.fill_between(x_positions, band_low, band_high, color=color, alpha=0.14, linewidth=0)
        else:
            axes.vlines(x_positions, band_low, band_high, color=color, linewidth=0.6 * size, alpha=0.9)
        axes.vlines(x_positions, low, high, color=color, linewidth=1.8 * size, alpha=0.75)
        axes.plot(
            x_positions,
            y,
            color=color,
            marker=marker,
            markersize=4.2 * size,
            markeredgecolor="white",
            markeredgewidth=0.4,
            linestyle="none" if named else LINES[k % len(LINES)],
            linewidth=1.2 * size,
            label=_short(curve.label),
            zorder=3,
        )
        missing = x_positions[~np.isfinite(y)]
        # An empty line in other coordinates would break the layout.
        if missing.size:
            axes.plot(
                missing,
                np.full(len(missing), 0.025),
                linestyle="none",
                marker="x",
                markersize=4.5 * size,
                color=color,
                transform=axes.get_xaxis_transform(),
                clip_on=False,
            )
        finite_values += [v[np.isfinite(v)] for v in (y, band_low, band_high)]
    if named:
        _name_points(axes, [str(x) for x in positions])
    elif len(ticks) <= MOST_TICKS:
        axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=MOST_TICKS, integer=True))
    axes.set_xlim(ticks[0] - 0.5 * gap, ticks[-1] + 0.5 * gap)
    return np.concatenate(finite_values)


def _name_points(axes: Axes, names: Sequence[str]) -> None:
    long = max(map(len, names)) * len(names) > 60
    labels = [printable(name) if len(name) <= 24 else "…" + printable(name[-23:]) for name in names]
    axes.set_xticks(range(len(names)), labels=labels, parse_math=False)
    if long:
        for text in axes.get_xticklabels():
            text.set(rotation=45, ha="right", va="top", rotation_mode="anchor")


def _short(name: str) -> str:
    name = printable(name)
    # matplotlib leaves names that begin with an underscore out of a legend.
    name = f" {name}" if name.startswith("_") else name
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _is_steep(result: Result, values: np.ndarray) -> bool:
    """Whether an unbounded score, such as perplexity, spans orders of magnitude."""
    sizes = np.abs(values[values != 0])
    return result.points != 100 and sizes.size > 2 and float(sizes.max()) > STEEP * float(np.median(sizes))


def _add_lines(axes: Axes, result: Result) -> None:
    levels = {name: value for name, value in result.lines.items() if math.isfinite(value)}
    for k, (name, value) in enumerate(levels.items()):
        axes.axhline(
            value,
            color="#555555",
            linewidth=1.0,
            linestyle=LEVEL_LINES[k % len(LEVEL_LINES)],
            zorder=1,
            label=f"{_short(name)}: {value:.4g}",
        )


def _finish(axes: Axes, result: Result, curves: Sequence[Curve], title: str | None) -> None:
    axes.set_xlabel(printable(curves[0].axis), fontsize=8, parse_math=False)
    style(axes, title_of(result) if title is None else title)
    caption_parts = [basis(curves), *dict.fromkeys(curve.note for curve in curves if curve.note)]
    add_caption(axes, "; ".join(part.rstrip(".") for part in caption_parts), room_of(axes)[0] + 40)


def style(axes: Axes, title: str) -> None:
    """Set the title, grid and spines of line plots, and a legend at the right."""
    axes.set_title(printable(title), fontsize=10, pad=8, parse_math=False)
    axes.tick_params(labelsize=7, length=2.5, width=0.5)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_linewidth(0.6)
    legend = axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=7, frameon=False, handlelength=3.4
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
