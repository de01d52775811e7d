"""Figures of training trajectories: a small map per step, and panels of change, blocks and scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..findings.blocks import Block
from ..findings.results import Result
from ..findings.stackblocks import read_blocks
from ..findings.words import coverage, score_label
from .captions import (
    add_bar,
    add_caption,
    add_panel,
    add_title,
    draw_cells,
    new_figure,
    printable,
    room_of,
    title_of,
)
from .curves import COLORS
from .files import FORMATS, save_all
from .heatmap import SEQUENTIAL, outline_blocks

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAJECTORY = "trajectory"
ACROSS = 6  # small maps in a row
SIDE, GAP = 1.25, 0.42  # inches of a small map, and between two of them
WIDE, TALL, APART = 4.4, 1.35, 0.35  # of a panel along the steps
LEFT, RIGHT, ABOVE, BELOW = 0.75, 1.0, 0.45, 0.95
MOST_TICKS = 12


def draw_maps(result: Result, *, title: str | None = None) -> Figure:
    """
    Draw the map of the layers at every step, with one color scale and outlines of certain blocks.

    Parameters
    ----------
    result : Result
        Of a trajectory.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    details = _read(result)
    maps = [np.array(similarity, dtype=float) for similarity in details["maps"]]
    layers: Sequence[int] = details["layers"]
    across = min(ACROSS, len(maps))
    down = math.ceil(len(maps) / across)
    wide = LEFT + across * SIDE + (across - 1) * GAP + RIGHT
    tall = ABOVE + down * (SIDE + GAP) + BELOW - 0.3
    figure = new_figure(wide, tall)
    finite = np.concatenate([similarity[np.isfinite(similarity)] for similarity in maps])
    low = min(0.0, float(finite.min())) if finite.size else 0.0
    panels = []
    for index, values in enumerate(maps):
        row, column = divmod(index, across)
        left = LEFT + column * (SIDE + GAP)
        bottom = tall - ABOVE - row * (SIDE + GAP) - SIDE
        axes = add_panel(figure, left, bottom, SIDE, SIDE)
        mesh = _mesh(axes, values, low, 1.0)
        axes.set_aspect("equal")
        axes.set_title(f"step {details['steps'][index]:,}", fontsize=7, pad=3)
        _number_layers(axes, layers, horizontal=True)
        outline_blocks(axes, _certain(details["blocks"][index]), _positions(layers))
        panels.append((axes, mesh))
    measure = score_label(str(details["measure"]))
    last, mesh = panels[min(across, len(panels)) - 1]
    add_bar(last, mesh, measure, room_of(last)[0], small=True)
    add_title(figure, title_of(result) if title is None else title)
    outline_note = (
        f"outlined: certain blocks of layers (at {sum(map(bool, details['certain']))} of {len(maps)} steps)"
    )
    caption = f"layers by layers, {measure}; {outline_note}"
    add_caption(panels[(down - 1) * across][0], caption, 72 * (wide - LEFT))
    return figure


def draw_course(result: Result, *, title: str | None = None) -> Figure:
    """
    Draw the course of training in stacked panels: change, blocks, score, linear probes and heads.

    Steps are equally spaced, whatever their numbers.

    Parameters
    ----------
    result : Result
        Of a trajectory.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    details = _read(result)
    panels: list[Callable[[Axes], None]] = [
        partial(_draw_change, details=details),
        partial(_draw_margin, details=details),
    ]
    if details.get("score"):
        panels.append(partial(_draw_score, result=result, details=details))
    for which in ("probes", "heads"):
        if details.get(which):
            panels.append(partial(_draw_layers, result=result, details=details, which=which))
    tall = ABOVE + len(panels) * TALL + (len(panels) - 1) * APART + BELOW
    figure = new_figure(LEFT + WIDE + RIGHT, tall)
    panel_axes = []
    for index, draw in enumerate(panels):
        axes = add_panel(figure, LEFT, tall - ABOVE - index * (TALL + APART) - TALL, WIDE, TALL)
        draw(axes)
        axes.set_xlim(-0.5, len(details["steps"]) - 0.5)
        _name_steps(axes, details["steps"], last=index == len(panels) - 1)
        axes.tick_params(labelsize=7, length=2.5, width=0.5)
        panel_axes.append(axes)
    add_title(figure, title_of(result) if title is None else title)
    order = details.get("order")
    level = coverage(result.curves[0].level) if result.curves else "intervals"
    caption_parts = [f"bars and bands: {level} over documents, sentences or examples, of one training"]
    if any(details["certain"]):
        caption_parts.append("a-b: these layers form the block with the most evidence")
    if order:
        caption_parts.append(f"blocks against score: {order['verdict']}")
    add_caption(panel_axes[-1], "; ".join(caption_parts), room_of(panel_axes[-1])[0] + 60)
    return figure


def save_trajectory(
    result: Result, folder: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> tuple[Path, ...]:
    """
    Write the small maps and the course of a trajectory to files, reproducibly byte for byte.

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
        `maps` and `course`, in each format.
    """
    drawings = {"maps": lambda: draw_maps(result).axes[0], "course": lambda: draw_course(result).axes[0]}
    return save_all(folder, formats, drawings)


def _read(result: Result) -> Mapping[str, Any]:
    if result.experiment != TRAJECTORY or not result.more.get("maps"):
        raise InputError(
            f"a result must be of a trajectory to be drawn along its steps, but it is: {result.experiment}."
        )
    return result.more


def _mesh(axes: Axes, values: np.ndarray, low: float, high: float) -> Any:
    axes.set_facecolor("#dddddd")
    return draw_cells(axes, values, cmap=SEQUENTIAL, vmin=low, vmax=high)


def _layers_by_steps(
    axes: Axes, values: np.ndarray, layers: Sequence[int], label: str, low: float, high: float
) -> None:
    add_bar(axes, _mesh(axes, values, low, high), label, room_of(axes)[0], small=True)
    _number_layers(axes, layers)


def _draw_change(axes: Axes, details: Mapping[str, Any]) -> None:
    values = np.array(details["change"]["first"]["values"], dtype=float).T
    low = min(0.0, float(values[np.isfinite(values)].min(initial=0.0)))
    _layers_by_steps(axes, values, details["layers"], "similarity\nto the first", low, 1.0)


def _draw_layers(axes: Axes, result: Result, details: Mapping[str, Any], which: str) -> None:
    curves = details[which]
    steps = [f"step {step}" for step in details["steps"]]
    values = np.full((len(curves[0]["x"]), len(steps)), np.nan)
    for curve in curves:
        values[:, steps.index(curve["name"])] = np.array(curve["values"], dtype=float)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    # A constant score is drawn on a full color scale.
    low, high = (low, high) if high > low else (min(low, 0.0), max(high, 1.0))
    label = f"{printable(score_label(result.score))}\nof {which}"
    _layers_by_steps(axes, values, curves[0]["x"], label, low, high)


def _draw_margin(axes: Axes, details: Mapping[str, Any]) -> None:
    best = [read_blocks(entry).finding.best for entry in details["blocks"]]
    intervals = [None if block is None else block.interval for block in best]
    low, high = (
        [np.nan if interval is None else getattr(interval, end) for interval in intervals]
        for end in ("low", "high")
    )
    _draw_line(axes, details["margins"], low, high, "margin of the\nbest block", COLORS[0], "o")
    axes.axhline(0.0, color="#555555", linewidth=0.8, linestyle=(0, (5, 3)))
    look: dict[str, Any] = {"xytext": (-4, 3), "textcoords": "offset points", "fontsize": 6, "ha": "right"}
    for index, block in enumerate(best):
        if block is not None and block.certain:
            axes.annotate(f"{block.first}-{block.last}", (index, details["margins"][index]), **look)


def _draw_score(axes: Axes, result: Result, details: Mapping[str, Any]) -> None:
    score = details["score"]
    under, over = (np.array(score[name], dtype=float) for name in ("band_low", "band_high"))
    axes.fill_between(np.arange(len(under)), under, over, color=COLORS[1], alpha=0.14, linewidth=0)
    label = f"{printable(score_label(result.score))}\n({printable(score['name'])})"
    _draw_line(axes, score["values"], score["low"], score["high"], label, COLORS[1], "s")


def _draw_line(axes: Axes, values: Any, low: Any, high: Any, label: str, color: str, marker: Any) -> None:
    """Draw values along the steps, with a bar for the interval of each."""
    values, low, high = (np.array(array, dtype=float) for array in (values, low, high))
    positions = np.arange(len(values))
    axes.vlines(positions, low, high, color=color, linewidth=1.8, alpha=0.75)
    axes.plot(positions, values, color=color, marker=marker, markersize=3.5, linewidth=1.2)
    axes.set_ylabel(label, fontsize=7, parse_math=False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _number_layers(axes: Axes, layers: Sequence[int], *, horizontal: bool = False) -> None:
    ticks = _ticks(len(layers), 7)
    names = [str(layers[tick]) for tick in ticks]
    axes.set_yticks(ticks, labels=names, fontsize=6)
    if horizontal:
        axes.set_xticks(ticks, labels=names, fontsize=6)
    else:
        axes.set_ylabel("layer", fontsize=7)
    axes.tick_params(length=2, width=0.5, pad=1.5)


def _name_steps(axes: Axes, steps: Sequence[int], *, last: bool) -> None:
    ticks = _ticks(len(steps), MOST_TICKS)
    axes.set_xticks(ticks, labels=[f"{steps[tick]:,}" if last else "" for tick in ticks])
    if last:
        axes.set_xlabel("step", fontsize=8)


def _ticks(count: int, most: int) -> list[int]:
    return list(range(0, count, max(1, math.ceil(count / most))))


def _certain(block: Mapping[str, Any]) -> tuple[Block, ...]:
    return read_blocks(block).finding.certain


def _positions(layers: Sequence[int]) -> list[int]:
    """Index of each layer of the model in a map, also where layer 0 is left out."""
    return [layers.index(layer) if layer in layers else -1 for layer in range(layers[-1] + 1)]
