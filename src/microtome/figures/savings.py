"""Plots of the time and memory that freezing saves in the backward pass, relative to no frozen blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..findings.results import Result
from .captions import add_caption, printable, room_of, title_of
from .curves import COLORS, MARKERS, MOST_TICKS, new_axes, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FREEZING, WHOLE = "freezing", "none"


def savings_of(result: Result) -> dict[str, list[Mapping[str, Any]]]:
    """
    Collect the measured costs of updates with frozen blocks.

    Parameters
    ----------
    result : Result

    Returns
    -------
    dict of str to list of mapping
        For each end that was frozen, the records ordered by the number of blocks, starting with none frozen.
        Empty where nothing was measured.
    """
    # Other experiments have other kinds of costs.
    measured: Sequence[Mapping[str, Any]] = (
        result.more.get("cost") or () if result.experiment == FREEZING else ()
    )
    baseline = [{**record, "blocks": 0} for record in measured if record["case"] == WHOLE]
    records_by_part: dict[str, list[Mapping[str, Any]]] = {}
    for record in measured:
        part, _, blocks = record["case"].partition(" ")
        if blocks.isdecimal():
            records_by_part.setdefault(part, list(baseline)).append({**record, "blocks": int(blocks)})
    return {
        part: sorted(records, key=lambda record: record["blocks"])
        for part, records in records_by_part.items()
    }


def draw_savings(result: Result, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """
    Draw the time and memory of an update against the number of frozen blocks.

    Parameters
    ----------
    result : Result
        Of freezing, with the measured cost of updates.
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    title : str, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    records_by_part = savings_of(result)
    if not records_by_part:
        raise InputError("a result must have measured costs to draw them, but this one has none.")
    axes = new_axes() if ax is None else ax
    for k, (part, records) in enumerate(records_by_part.items()):
        block_counts = np.array([record["blocks"] for record in records], dtype=float)
        looks: dict[str, Any] = {"color": COLORS[k % len(COLORS)], "markersize": 4.2, "linewidth": 1.2}
        low, high = ([record[f"backward_{end}"] for record in records] for end in ("low", "high"))
        axes.vlines(block_counts, low, high, color=looks["color"], linewidth=1.8, alpha=0.5)
        for name, ratio, line, marker in (
            ("time of the backward pass", "backward_ratio", "-", MARKERS[2 * k]),
            ("memory of activations", "memory_ratio", (0, (3, 1.5)), MARKERS[2 * k + 1]),
        ):
            values = [record[ratio] for record in records]
            axes.plot(
                block_counts,
                values,
                linestyle=line,
                marker=marker,
                label=printable(f"{part}: {name}"),
                **looks,
            )
    ticks = sorted({record["blocks"] for records in records_by_part.values() for record in records})
    if len(ticks) <= MOST_TICKS:
        axes.set_xticks(ticks)
    # Bars of a disturbed measurement may be long, so only the ratios set the limits.
    most = max(
        record[ratio]
        for records in records_by_part.values()
        for record in records
        for ratio in ("backward_ratio", "memory_ratio")
    )
    axes.set_ylim(0.0, 1.15 * max(most, 1.0))
    axes.axhline(1.0, color="#333333", linewidth=0.8, zorder=1)
    axes.set_xlabel("blocks frozen", fontsize=8)
    axes.set_ylabel("relative to nothing frozen", fontsize=8)
    style(axes, title_of(result) if title is None else title)
    device = result.provenance.get("device", "")
    caption = (
        "medians of repeated updates on one batch, in turns; bars: from the smallest to the largest ratio"
    )
    add_caption(axes, f"{caption}; device: {device}" if device else caption, room_of(axes)[0] + 40)
    return axes
