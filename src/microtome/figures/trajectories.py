"""How does a training look? A small map for each step, and below one another what changes along the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, WorkError, must
from ..findings.blocks import STEP_CONTRAST
from ..findings.results import Result
from ..findings.words import score_label
from .captions import add_caption, add_panel, new_figure, room_of, title_of
from .curves import COLORS
from .heatmap import FORMATS, SEQUENTIAL, printable, save_figure

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
    Draw the map of the layers at every step, with one color scale and the border where one stands.

    Parameters
    ----------
    result : Result
        Of a trajectory.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    more = _read(result)
    maps = [np.array(one, dtype=float) for one in more["maps"]]
    layers: Sequence[int] = more["layers"]
    across = min(ACROSS, len(maps))
    down = math.ceil(len(maps) / across)
    wide = LEFT + across * SIDE + (across - 1) * GAP + RIGHT
    tall = ABOVE + down * (SIDE + GAP) + BELOW - 0.3
    figure = new_figure(wide, tall)
    finite = np.concatenate([one[np.isfinite(one)] for one in maps])
    low = min(0.0, float(finite.min())) if finite.size else 0.0
    panels = []
    for place, values in enumerate(maps):
        row, column = divmod(place, across)
        left = LEFT + column * (SIDE + GAP)
        bottom = tall - ABOVE - row * (SIDE + GAP) - SIDE
        axes = add_panel(figure, left, bottom, SIDE, SIDE)
        mesh = _mesh(axes, values, low, 1.0)
        axes.set_aspect("equal")
        axes.set_title(f"step {more['steps'][place]:,}", fontsize=7, pad=3)
        _number_layers(axes, layers, horizontal=True)
        border = _border(more["blocks"][place])
        if more["stands"][place] and border is not None:
            at = layers.index(border) + 0.5
            axes.axhline(at, color="white", linewidth=1.2)
            axes.axvline(at, color="white", linewidth=1.2)
        panels.append((axes, mesh))
    _add_bar(figure, panels[min(across, len(panels)) - 1], _measure(more))
    _name_figure(figure, result, title)
    stands = sum(map(bool, more["stands"]))
    shown = f"white lines: a border stands out ({stands} of {len(maps)} steps)"
    said = f"layers by layers, {_measure(more)}; {shown}"
    add_caption(panels[(down - 1) * across][0], said, 72 * (wide - LEFT))
    return figure


def draw_course(result: Result, *, title: str | None = None) -> Figure:
    """
    Draw what changes along the steps, one panel below the other: change, border, score, and what is read.

    Steps stand at equal distances, whatever lies between them.

    Parameters
    ----------
    result : Result
        Of a trajectory.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    more = _read(result)
    panels: list[Callable[[Axes, Figure], None]] = [
        lambda axes, figure: _draw_change(axes, figure, more),
        lambda axes, figure: _draw_contrast(axes, more),
    ]
    if more.get("score"):
        panels.append(lambda axes, figure: _draw_score(axes, result, more))
    for which in ("readouts", "heads"):
        if more.get(which):
            panels.append(_layered(result, more, which))
    tall = ABOVE + len(panels) * TALL + (len(panels) - 1) * APART + BELOW
    figure = new_figure(LEFT + WIDE + RIGHT, tall)
    drawn = []
    for place, draw in enumerate(panels):
        axes = add_panel(figure, LEFT, tall - ABOVE - place * (TALL + APART) - TALL, WIDE, TALL)
        draw(axes, figure)
        axes.set_xlim(-0.5, len(more["steps"]) - 0.5)
        _name_steps(axes, more["steps"], last=place == len(panels) - 1)
        axes.tick_params(labelsize=7, length=2.5, width=0.5)
        drawn.append(axes)
    _name_figure(figure, result, title)
    order = more.get("order")
    told = [f"bars and bands: {_level(result)} over documents, sentences or examples, of one training"]
    if any(more["stands"]):
        told.append("a|b: a border stands between these layers")
    if order:
        told.append(f"border against score: {order['verdict']}")
    add_caption(drawn[-1], "; ".join(told), room_of(drawn[-1])[0] + 60)
    return figure


def save_trajectory(
    result: Result, folder: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> tuple[Path, ...]:
    """
    Write the small maps and the course of a trajectory into files, the same bytes each time.

    Parameters
    ----------
    result : Result
    folder : path
        Made if it is not there.
    formats : sequence of str
        Of "png", "svg" and "pdf".

    Returns
    -------
    tuple of Path
        `maps` and `course`, in each format.
    """
    for kind in formats:
        if kind not in FORMATS:
            raise must("formats", f"among {', '.join(FORMATS)}", kind)
    place, written = Path(folder), []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for stem, figure in (("maps", draw_maps(result)), ("course", draw_course(result))):
            for kind in formats:
                save_figure(figure.axes[0], place / f"{stem}.{kind}")
                written.append(place / f"{stem}.{kind}")
    except OSError as error:
        raise WorkError(f"figures must be written to a writable folder, but got: {error}.") from error
    return tuple(written)


def _read(result: Result) -> Mapping[str, Any]:
    if result.experiment != TRAJECTORY or not result.more.get("maps"):
        raise InputError(
            f"a result must be of a trajectory to be drawn along its steps, but it is: {result.experiment}."
        )
    return result.more


def _mesh(axes: Axes, values: np.ndarray, low: float, high: float) -> Any:
    rows, columns = values.shape
    axes.set_facecolor("#dddddd")
    mesh = axes.pcolormesh(
        np.arange(columns + 1) - 0.5,
        np.arange(rows + 1) - 0.5,
        np.ma.masked_invalid(values),
        cmap=SEQUENTIAL,
        vmin=low,
        vmax=high,
        edgecolors="face",
        linewidth=0.2,
    )
    for spine in axes.spines.values():
        spine.set_visible(False)
    return mesh


def _draw_change(axes: Axes, figure: Figure, more: Mapping[str, Any]) -> None:
    values = np.array(more["change"]["first"]["values"], dtype=float).T
    finite = values[np.isfinite(values)]
    mesh = _mesh(axes, values, min(0.0, float(finite.min(initial=0.0))), 1.0)
    _number_layers(axes, more["layers"])
    _add_bar(figure, (axes, mesh), "similarity\nto the first")


def _draw_contrast(axes: Axes, more: Mapping[str, Any]) -> None:
    at = np.arange(len(more["steps"]))
    values = np.array(more["contrast"], dtype=float)
    found = [None if one is None else one["finding"]["interval"] for one in more["blocks"]]
    ends = np.array(
        [[np.nan] * 2 if one is None else [one["low"], one["high"]] for one in found], dtype=float
    )
    axes.vlines(at, ends[:, 0], ends[:, 1], color=COLORS[0], linewidth=1.8, alpha=0.75)
    axes.plot(at, values, color=COLORS[0], marker="o", markersize=3.5, linewidth=1.2)
    axes.axhline(STEP_CONTRAST, color="#555555", linewidth=0.8, linestyle=(0, (5, 3)))
    for place, (stands, block) in enumerate(zip(more["stands"], more["blocks"], strict=True)):
        border = _border(block)
        if stands and border is not None:
            used = block["finding"]["used"]
            told = f"{border}|{used[used.index(border) + 1]}"
            axes.annotate(
                told,
                (place, values[place]),
                xytext=(-4, 3),
                textcoords="offset points",
                fontsize=6,
                ha="right",
            )
    _plain(axes, "contrast of the\nborder, in gaps")


def _draw_score(axes: Axes, result: Result, more: Mapping[str, Any]) -> None:
    score = more["score"]
    at = np.arange(len(score["x"]))
    values, low, high, under, over = (
        np.array(score[name], dtype=float) for name in ("values", "low", "high", "band_low", "band_high")
    )
    axes.fill_between(at, under, over, color=COLORS[1], alpha=0.14, linewidth=0)
    axes.vlines(at, low, high, color=COLORS[1], linewidth=1.8, alpha=0.75)
    axes.plot(at, values, color=COLORS[1], marker="s", markersize=3.5, linewidth=1.2)
    _plain(axes, f"{printable(score_label(result.score))}\n({printable(score['name'])})")


def _layered(result: Result, more: Mapping[str, Any], which: str) -> Callable[[Axes, Figure], None]:
    def draw(axes: Axes, figure: Figure) -> None:
        some = more[which]
        steps = [f"step {step}" for step in more["steps"]]
        values = np.full((len(some[0]["x"]), len(steps)), np.nan)
        for one in some:
            values[:, steps.index(one["name"])] = np.array(one["values"], dtype=float)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        # The same score everywhere is no reason for other colors than a full scale has.
        low, high = (low, high) if high > low else (min(low, 0.0), max(high, 1.0))
        mesh = _mesh(axes, values, low, high)
        _number_layers(axes, some[0]["x"])
        _add_bar(figure, (axes, mesh), f"{printable(score_label(result.score))}\nof {which}")

    return draw


def _plain(axes: Axes, label: str) -> None:
    axes.set_ylabel(label, fontsize=7, parse_math=False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _number_layers(axes: Axes, layers: Sequence[int], *, horizontal: bool = False) -> None:
    step = max(1, math.ceil(len(layers) / 7))
    places = list(range(0, len(layers), step))
    names = [str(layers[place]) for place in places]
    axes.set_yticks(places, labels=names, fontsize=6)
    if horizontal:
        axes.set_xticks(places, labels=names, fontsize=6)
    else:
        axes.set_ylabel("layer", fontsize=7)
    axes.tick_params(length=2, width=0.5, pad=1.5)


def _name_steps(axes: Axes, steps: Sequence[int], *, last: bool) -> None:
    step = max(1, math.ceil(len(steps) / MOST_TICKS))
    places = list(range(0, len(steps), step))
    axes.set_xticks(places, labels=[f"{steps[place]:,}" if last else "" for place in places])
    if last:
        axes.set_xlabel("step", fontsize=8)


def _add_bar(figure: Figure, panel: tuple[Axes, Any], label: str) -> None:
    axes, mesh = panel
    beside = axes.inset_axes((1 + 6 / room_of(axes)[0], 0.0, 7 / room_of(axes)[0], 1.0))
    bar = figure.colorbar(mesh, cax=beside)
    outline: Any = bar.outline
    outline.set_linewidth(0.4)
    bar.ax.tick_params(labelsize=6, length=2, width=0.5)
    bar.set_label(label, fontsize=7)


def _border(block: Mapping[str, Any] | None) -> int | None:
    return None if block is None else block["finding"]["border"]


def _measure(more: Mapping[str, Any]) -> str:
    return str(more["measure"]).replace("_", " ").replace("cka", "CKA")


def _level(result: Result) -> str:
    return f"{result.curves[0].level * 100:g}%" if result.curves else "intervals"


def _name_figure(figure: Figure, result: Result, title: str | None) -> None:
    top = 1 - 0.06 / figure.get_size_inches()[1]
    shown = title_of(result) if title is None else title
    figure.suptitle(printable(shown), fontsize=10, y=top, parse_math=False)
