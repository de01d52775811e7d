"""How does a score change along the layers? Lines with their doubt, level lines, and what they rest on."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must, unknown
from ..findings.results import Curve, Result
from ..findings.words import score_label
from .captions import add_caption, add_panel, new_figure, room_of, title_of
from .heatmap import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colors without yellow; with a marker and a line of its own each, gray is enough.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 1, 1, 1, 1, 1)))
LEVEL_LINES: tuple[Any, ...] = ((0, (9, 4)), (0, (3, 3)), (0, (1, 3)), (0, (9, 3, 1, 3)))
WIDE, TALL = 4.4, 2.6  # inches of a panel
LEFT, RIGHT, BELOW, ABOVE = 0.8, 2.3, 0.9, 0.4  # inches around it, the legend at the right
# Of more curves the shaded bands cover one another, and thin bars show them instead.
MOST_SHADED = 3
# A level scale would show one point and press all others onto a line.
STEEP = 50.0
LONGEST_NAME = 36  # characters of a curve's name in the legend
MOST_REASONS = 3
MOST_TICKS = 14
# A curve of differences is called so, perhaps after the name of a task.
DIFFERENCE = re.compile(r"(^|: )difference\b,? ?", re.IGNORECASE)
# Axes whose numbers are mere names, so that no line leads from one to the next.
UNORDERED = frozenset({"seed of the order", "order", "reversed"})


def draw_curves(
    result: Result,
    ax: Axes | None = None,
    *,
    curves: Sequence[str] | None = None,
    title: str | None = None,
) -> Axes:
    """
    Draw scores along an axis, one line a curve.

    Bars are intervals for each point alone; the shaded band holds all points of a curve at once (thin bars,
    where many curves share the axes). Points that are undefined stand as crosses at the lower edge. Level
    lines, such as the most frequent answer, are dashed. Below the axes stands what the numbers rest on.

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
    chosen = _chosen(result, curves, differences=False)
    axes = new_axes() if ax is None else ax
    values = _plot(axes, chosen, scale=1.0)
    _add_lines(axes, result)
    if _is_steep(result, values) and (values > 0).all():
        axes.set_yscale("log")
    axes.set_ylabel(printable(score_label(result.score)), fontsize=8, parse_math=False)
    _finish(axes, result, chosen, title)
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
    chosen = _chosen(result, curves, differences=True)
    axes = new_axes() if ax is None else ax
    values = _plot(axes, chosen, scale=result.points)
    axes.axhline(0.0, color="#333333", linewidth=0.8, zorder=1)
    if _is_steep(result, values):
        axes.set_yscale("symlog", linthresh=float(np.median(np.abs(values[values != 0]))))
    unit = "points" if result.points == 100 else printable(score_label(result.score))
    axes.set_ylabel(f"difference in {unit}", fontsize=8, parse_math=False)
    _finish(axes, result, chosen, title)
    return axes


def is_difference(curve: Curve) -> bool:
    """Whether a curve is about differences from a reference, by its name or by the first word of its note."""
    return any(DIFFERENCE.search(text) for text in (curve.name, curve.note))


def label_of(curve: Curve) -> str:
    """
    What a curve is called among others of its kind: that it is about differences is said beside it.

    Parameters
    ----------
    curve : Curve

    Returns
    -------
    str
    """
    return DIFFERENCE.sub(r"\1", curve.name).strip() or curve.name


def basis(curves: Sequence[Curve]) -> str:
    """Say what curves rest on: examples, unit, sound runs, intervals, bands, and undefined points."""
    first = curves[0]
    counts = sorted({one.n for one in curves if one.n} or {0})
    parts = [f"n = {' to '.join(f'{n:,}' for n in {counts[0]: 0, counts[-1]: 0})} examples"]
    parts.append(f"unit: {', '.join(dict.fromkeys(one.unit for one in curves))}")
    runs = [count for one in curves for count, x in zip(one.seeds, one.values, strict=True) if np.isfinite(x)]
    if runs and max(runs) > 1:
        said = f"{max(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
        parts.append(f"{said} runs a point")
    if any(np.isfinite(one.low).any() for one in curves):
        parts.append(f"thick bars: {first.level * 100:g}% for each point alone")
    if any(np.isfinite(one.band_low).any() for one in curves):
        what = "shaded" if _are_shaded(curves) else "thin bars"
        parts.append(f"{what}: {first.level * 100:g}% for all points of a curve at once")
    told = [(why, math.isfinite(v)) for one in curves for why, v in zip(one.reasons, one.values, strict=True)]
    if not all(finite for _, finite in told):
        parts.append(f"× undefined{_listed([why for why, finite in told if not finite])}")
    remarks = [why for why, finite in told if finite and why]
    if remarks:
        some = f"{len(remarks)} point{'' if len(remarks) == 1 else 's'} with a remark"
        parts.append(f"{some}{_listed(remarks)}")
    return "; ".join(printable(part) for part in parts)


def _listed(reasons: Sequence[str | None]) -> str:
    found = list(dict.fromkeys(why for why in reasons if why))
    more = ["and others"] if len(found) > MOST_REASONS else []
    return f" ({'; '.join([*found[:MOST_REASONS], *more])})" if found else ""


def new_axes() -> Axes:
    """Make axes of a new figure, with room for a legend at the right."""
    figure = new_figure(LEFT + WIDE + RIGHT, BELOW + TALL + ABOVE)
    return add_panel(figure, LEFT, BELOW, WIDE, TALL)


def _chosen(result: Result, names: Sequence[str] | None, *, differences: bool) -> list[Curve]:
    known = {one.name: one for one in result.curves}
    if names is None:
        chosen = [one for one in result.curves if is_difference(one) == differences]
    else:
        for name in names:
            if name not in known:
                raise unknown("curve", name, known)
        chosen = [known[name] for name in names]
    if not chosen:
        kind = "differences" if differences else "scores"
        raise InputError(f"a result must have curves of {kind} to draw them, but this one has none.")
    found = list(dict.fromkeys(one.axis for one in chosen))
    if len(found) > 1:
        raise must("curves", "over one axis; name those that belong together", ", ".join(found))
    return chosen


def _are_shaded(curves: Sequence[Curve]) -> bool:
    return len(curves) <= MOST_SHADED and not _is_named(curves)


def _is_named(curves: Sequence[Curve]) -> bool:
    """Whether the points have names, so that no line leads from one to the next."""
    return any(one.axis in UNORDERED or isinstance(x, str) for one in curves for x in one.x)


def _plot(axes: Axes, curves: Sequence[Curve], *, scale: float) -> np.ndarray:
    """Draw the curves, and give all that was drawn of them."""
    from matplotlib.ticker import MaxNLocator

    named = _is_named(curves)
    places: dict[Any, float] = {}
    for x in dict.fromkeys(x for one in curves for x in one.x):
        places[x] = float(len(places)) if named or isinstance(x, str) else float(x)
    spots = sorted(set(places.values()))
    gap = min(np.diff(spots), default=1.0)
    shaded, drawn = _are_shaded(curves), []
    for k, one in enumerate(curves):
        # Side by side, so that bars of different curves do not hide one another.
        aside = (k - (len(curves) - 1) / 2) * min(0.1, 0.5 / len(curves)) * gap
        at = np.array([places[x] for x in one.x]) + aside
        color, marker = COLORS[k % len(COLORS)], MARKERS[k % len(MARKERS)]
        y, low, high, band_low, band_high = (
            scale * v for v in (one.values, one.low, one.high, one.band_low, one.band_high)
        )
        if shaded:
            axes.fill_between(at, band_low, band_high, color=color, alpha=0.14, linewidth=0)
        else:
            axes.vlines(at, band_low, band_high, color=color, linewidth=0.6, alpha=0.9)
        axes.vlines(at, low, high, color=color, linewidth=1.8, alpha=0.75)
        axes.plot(
            at,
            y,
            color=color,
            marker=marker,
            markersize=4.2,
            markeredgecolor="white",
            markeredgewidth=0.4,
            linestyle="none" if named else LINES[k % len(LINES)],
            linewidth=1.2,
            label=_short(label_of(one)),
            zorder=3,
        )
        missing = at[~np.isfinite(y)]
        # An empty line with other coordinates would spoil the layout.
        if missing.size:
            axes.plot(
                missing,
                np.full(len(missing), 0.025),
                linestyle="none",
                marker="x",
                markersize=4.5,
                color=color,
                transform=axes.get_xaxis_transform(),
                clip_on=False,
            )
        drawn += [v[np.isfinite(v)] for v in (y, band_low, band_high)]
    if named:
        _name_points(axes, [str(x) for x in places])
    elif len(spots) <= MOST_TICKS:
        axes.set_xticks(spots, labels=[f"{spot:g}" for spot in spots])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=MOST_TICKS, integer=True))
    axes.set_xlim(spots[0] - 0.5 * gap, spots[-1] + 0.5 * gap)
    return np.concatenate(drawn)


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
    """Whether a score without bounds, such as a perplexity, runs over orders of magnitude."""
    sizes = np.abs(values[values != 0])
    return result.points != 100 and sizes.size > 2 and float(sizes.max()) > STEEP * float(np.median(sizes))


def _add_lines(axes: Axes, result: Result) -> None:
    known = {name: value for name, value in result.lines.items() if math.isfinite(value)}
    for k, (name, value) in enumerate(known.items()):
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
    said = [basis(curves), *dict.fromkeys(one.note for one in curves if one.note)]
    add_caption(axes, "; ".join(part.rstrip(".") for part in said), room_of(axes)[0] + 40)


def style(axes: Axes, title: str) -> None:
    """Give axes with lines their title, a legend at the right, and little else."""
    axes.set_title(printable(title), fontsize=10, pad=8, parse_math=False)
    axes.tick_params(labelsize=7, length=2.5, width=0.5)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_linewidth(0.6)
    beside = axes.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=7, frameon=False, handlelength=3.4
    )
    for text in beside.get_texts():
        text.set_parse_math(False)
