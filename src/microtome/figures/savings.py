"""What does freezing save? Time of the way back and memory of an update, relative to nothing frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..findings.results import Result
from .captions import add_caption, room_of, title_of
from .curves import COLORS, MARKERS, MOST_TICKS, new_axes, style
from .heatmap import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FREEZING, WHOLE = "freezing", "none"


def savings_of(result: Result) -> dict[str, list[Mapping[str, Any]]]:
    """
    Find what was measured of updates with blocks frozen.

    Parameters
    ----------
    result : Result

    Returns
    -------
    dict of str to list of mapping
        For each end that was frozen, the records in the order of the number of blocks, the first of them
        with nothing frozen. Empty where nothing was measured.
    """
    # Other experiments have costs of other kinds.
    measured: Sequence[Mapping[str, Any]] = (
        result.more.get("cost") or () if result.experiment == FREEZING else ()
    )
    whole = [{**one, "blocks": 0} for one in measured if one["case"] == WHOLE]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in measured:
        part, _, blocks = one["case"].partition(" ")
        if blocks.isdecimal():
            found.setdefault(part, list(whole)).append({**one, "blocks": int(blocks)})
    return {part: sorted(some, key=lambda one: one["blocks"]) for part, some in found.items()}


def draw_savings(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """
    Draw how much time and memory an update takes with more and more blocks frozen.

    Parameters
    ----------
    result : Result
        Of freezing, with what an update costs.
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    title : str, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = savings_of(result)
    if not found:
        raise InputError("a result must have measured costs to draw them, but this one has none.")
    axes = new_axes() if ax is None else ax
    for k, (part, some) in enumerate(found.items()):
        at = np.array([one["blocks"] for one in some], dtype=float)
        looks: dict[str, Any] = {"color": COLORS[k % len(COLORS)], "markersize": 4.2, "linewidth": 1.2}
        low, high = ([one[f"backward_{end}"] for one in some] for end in ("low", "high"))
        axes.vlines(at, low, high, color=looks["color"], linewidth=1.8, alpha=0.5)
        for name, ratio, line, marker in (
            ("time of the way back", "backward_ratio", "-", MARKERS[2 * k]),
            ("memory of activations", "memory_ratio", (0, (3, 1.5)), MARKERS[2 * k + 1]),
        ):
            values = [one[ratio] for one in some]
            axes.plot(at, values, linestyle=line, marker=marker, label=printable(f"{part}: {name}"), **looks)
    ticks = sorted({one["blocks"] for some in found.values() for one in some})
    if len(ticks) <= MOST_TICKS:
        axes.set_xticks(ticks)
    # Bars of a disturbed measurement may be long, and the ratios matter.
    most = max(
        one[ratio] for some in found.values() for one in some for ratio in ("backward_ratio", "memory_ratio")
    )
    axes.set_ylim(0.0, 1.15 * max(most, 1.0))
    axes.axhline(1.0, color="#333333", linewidth=0.8, zorder=1)
    axes.set_xlabel("blocks frozen", fontsize=8)
    axes.set_ylabel("relative to nothing frozen", fontsize=8)
    style(axes, title_of(result) if title is None else title)
    device = result.provenance.get("device", "")
    said = "medians of repeated updates on one batch, in turns; bars: from the smallest to the largest ratio"
    add_caption(axes, f"{said}; device: {device}" if device else said, room_of(axes)[0] + 40)
    return axes
