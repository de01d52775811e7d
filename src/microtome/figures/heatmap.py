"""Heat maps of similarity maps, with layer 0 at the lower left, and outlines of blocks of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from ..findings.blocks import Block
from ..findings.maps import Map
from ..findings.methods import declared, model_borders, null_range, split_names
from ..findings.stackblocks import StackBlocks
from ..findings.words import capital, coverage, number, over
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
from .files import FORMATS, save_all

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

SEQUENTIAL = "viridis"
DIVERGING = "PuOr"
# Inches per cell, and the bounds of the drawing; between them every layer has the same size.
CELL, SMALLEST, LARGEST = 0.31, 1.6, 6.5
# Lower bound of the color scale: some cross-validated shares of variance are far below 0.
LOWEST = -1.0
LONGEST_NAME = 28  # characters of a layer's name on an axis


def draw(
    similarity_map: Map,
    ax: Axes | None = None,
    *,
    cmap: Any = None,
    vmin: float | None = None,
    vmax: float | None = None,
    annotate: bool | None = None,
    title: str | None = None,
    blocks: Sequence[StackBlocks] = (),
) -> Axes:
    """
    Draw one map.

    Left layers are on the vertical axis and right layers on the horizontal one, the first of each at the
    lower left. Undefined cells are hatched, and cells below 0 have a minus sign where values are not
    written. The caption below the axes describes the sample and the estimator.

    Parameters
    ----------
    similarity_map : Map
    ax : matplotlib.axes.Axes, optional
        Where to draw; axes of a new figure when absent.
    cmap : str or Colormap, optional
        Viridis when absent, or purple to orange for a difference of maps.
    vmin, vmax : float, optional
        Limits of the color scale. When absent, the range of the measure from 0 up, wider where values are
        below 0; for a difference, the largest absolute value on both sides.
    annotate : bool, optional
        Whether to write the value into each cell; when absent, where there is room.
    title : str, optional
        The measure's title when absent.
    blocks : sequence of StackBlocks
        Outlined where they are certain.

    Returns
    -------
    matplotlib.axes.Axes
    """
    axes = new_axes(similarity_map) if ax is None else ax
    low, high = color_range(similarity_map, vmin, vmax)
    mesh = draw_cells(
        axes,
        np.asarray(similarity_map.values, dtype=np.float64),
        cmap=cmap or (DIVERGING if _is_difference(similarity_map) else SEQUENTIAL),
        vmin=low,
        vmax=high,
    )
    axes.set_aspect("equal")
    wide, tall = _room(axes, similarity_map)
    _name_axis(axes, similarity_map, "right", wide)
    _name_axis(axes, similarity_map, "left", tall)
    axes.set_title(
        _title(similarity_map) if title is None else printable(title),
        fontsize=10,
        pad=8,
        parse_math=False,
        wrap=False,
    )
    hatch_cells(axes, np.argwhere(~np.isfinite(similarity_map.values)).tolist())
    _part_models(axes, similarity_map)
    _write_cells(axes, similarity_map, mesh, wide / similarity_map.shape[1], annotate)
    finite = similarity_map.values[np.isfinite(similarity_map.values)]
    below, above = bool((finite < low - 1e-4).any()), bool((finite > high + 1e-4).any())
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    label = "difference" if _is_difference(similarity_map) else "similarity"
    bar = add_bar(axes, mesh, label, wide, extend=extend, extendfrac=0.03)
    if low < 0 < high:
        bar.ax.axhline(0.0, color="black", linewidth=0.8)
    outlined = outline_stacks(axes, similarity_map, blocks)
    add_caption(axes, f"{basis(similarity_map)}{outlined}", wide + 70)
    return axes


def _part_models(axes: Axes, similarity_map: Map) -> None:
    """Draw lines between the layers of different models."""
    for names, line in ((similarity_map.left, axes.axhline), (similarity_map.right, axes.axvline)):
        for start in list(model_borders(names).values())[1:]:
            line(start - 0.5, color="white", linewidth=1.2)


def save_figures(
    maps: Mapping[str, Map],
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = FORMATS,
    **options: Any,
) -> tuple[Path, ...]:
    """
    Write every map to files, reproducibly byte for byte.

    Parameters
    ----------
    maps : Maps
    folder : path
        Created if it does not exist.
    formats : sequence of str
        Of "png", "svg" and "pdf".
    **options
        Of `draw`.

    Returns
    -------
    tuple of Path
        `<measure>.<format>` for each map.
    """
    shared = {"blocks": getattr(maps, "blocks", ()), **options}
    drawings = {name: partial(draw, similarity_map, **shared) for name, similarity_map in maps.items()}
    return save_all(folder, formats, drawings)


def color_range(
    similarity_map: Map, vmin: float | None = None, vmax: float | None = None
) -> tuple[float, float]:
    """
    Choose the limits of the color scale.

    Parameters
    ----------
    similarity_map : Map
    vmin, vmax : float, optional
        Limits set by the user.

    Returns
    -------
    low, high : float
        From 0, or from the smallest value below it, to the largest value that the measure can take.
    """
    finite = similarity_map.values[np.isfinite(similarity_map.values)]
    smallest, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if _is_difference(similarity_map):
        reach = max(abs(smallest), abs(largest)) or 1.0
        low, high = -reach, reach
    else:
        choice = declared(similarity_map)
        top = float(choice.declared("range")[1]) if choice else 1.0
        low, high = max(min(0.0, smallest), LOWEST), top if np.isfinite(top) else max(largest, 1.0)
    low, high = low if vmin is None else float(vmin), high if vmax is None else float(vmax)
    if not low < high:
        raise must("vmin", f"below vmax, {high:g}", low)
    return low, high


def basis(similarity_map: Map) -> str:
    """Describe the basis of a map: rows, unit, estimator, null, intervals and undefined cells."""
    parts = [f"n = {similarity_map.n:,} rows", similarity_map.estimator]
    choice = declared(similarity_map)
    if choice is not None and not choice.declared("symmetric"):
        parts.append("vertical layers are looked for in horizontal ones")
    null = null_range(similarity_map)
    if null:
        parts.append(f"unrelated rows would give {null}")
    elif not _is_difference(similarity_map):
        parts.append("what unrelated rows would give is not known")
    if (
        similarity_map.low is not None
        and similarity_map.high is not None
        and similarity_map.level is not None
    ):
        half = (
            float(np.nanmedian((similarity_map.high - similarity_map.low) / 2))
            if np.isfinite(similarity_map.low).any()
            else float("nan")
        )
        level = coverage(similarity_map.level)
        how = f"{over(similarity_map.unit)} by {similarity_map.method}"
        parts.append(f"{level} intervals {how}, median half-width {number(half, 3)}")
    if not np.isfinite(similarity_map.values).all():
        reasons = list(dict.fromkeys(r for row in similarity_map.reasons for r in row if r))
        parts.append(f"hatched: undefined ({'; '.join(reasons)})" if reasons else "hatched: undefined")
    return "; ".join(printable(part) for part in parts)


def new_axes(similarity_map: Map) -> Axes:
    """Create axes of a new figure, sized by the number of layers."""
    rows, columns = similarity_map.shape
    most = max(rows, columns)
    cell = min(max(CELL, SMALLEST / most), LARGEST / most)
    wide, tall = cell * columns, cell * rows
    return add_panel(new_figure(wide + 1.8, tall + 1.8), 0.7, 1.2, wide, tall)


def _room(axes: Axes, similarity_map: Map) -> tuple[float, float]:
    """Width and height of the drawn square cells in points."""
    (width, height), (rows, columns) = room_of(axes), similarity_map.shape
    cell = min(width / columns, height / rows)
    return cell * columns, cell * rows


def _is_difference(similarity_map: Map) -> bool:
    return similarity_map.estimator.startswith("difference of two maps")


def _title(similarity_map: Map) -> str:
    choice = declared(similarity_map)
    if choice is None:
        return printable(similarity_map.measure)
    parts = [f"{k} {v}" for k, v in choice.options.items() if v != choice.measure.options[k].default]
    name = capital(str(choice.declared("title")))
    name = f"{name} ({', '.join(parts)})" if parts else name
    return f"Difference of {name}" if _is_difference(similarity_map) else name


def _name_axis(axes: Axes, similarity_map: Map, side: str, room: float) -> None:
    names = similarity_map.left if side == "left" else similarity_map.right
    shared, suffixes = split_names(names)
    # The distinct part of layer names is at their end.
    suffixes = tuple(
        name if len(name) <= LONGEST_NAME else "…" + name[1 - LONGEST_NAME :] for name in suffixes
    )
    size = 7.0 if room / len(suffixes) >= 9 else 6.0
    longest = max(len(name) for name in suffixes) * size * 0.62
    rotated = side == "right" and longest > room / len(suffixes) - 2 and longest > 3 * size * 0.62
    along = longest + 3 if side == "right" and not rotated else size * 1.25
    step = _step(len(suffixes), room, along)
    ticks = list(range(0, len(suffixes), step))
    labels = [suffixes[i] for i in ticks]
    label = (
        f"layer of {shared}"
        if shared
        else "layer"
        if similarity_map.symmetric
        else f"layer of the {side} side"
    )
    axis = axes.xaxis if side == "right" else axes.yaxis
    axis.set_ticks(ticks, labels=labels, fontsize=size, parse_math=False)
    axis.set_tick_params(length=2, width=0.5, pad=2)
    if rotated:
        for text in axis.get_ticklabels():
            text.set(rotation=45, ha="right", va="top", rotation_mode="anchor")
    axis.set_label_text(label, fontsize=8, parse_math=False)


def _step(count: int, room: float, along: float) -> int:
    """Smallest round step at which labels do not overlap."""
    least = along * count / room
    return next((s for s in (1, 2, 3, 4, 5, 6, 10, 12, 20, 24, 50) if s >= least), int(np.ceil(least)))


def _write_cells(axes: Axes, similarity_map: Map, mesh: Any, cell: float, annotate: bool | None) -> None:
    """Write the values or, where there is no room for them, a minus sign into the cells below 0."""
    finite = [(int(i), int(j)) for i, j in np.argwhere(np.isfinite(similarity_map.values))]
    texts = {index: number(float(similarity_map.values[index])).replace("-", "−") for index in finite}
    # Widths of characters in the default font, in units of its size.
    ems = max((sum({"−": 0.84, ".": 0.32}.get(c, 0.64) for c in text) for text in texts.values()), default=1)
    size = min(7.0, 0.86 * cell / ems)
    if not (size >= 4.5 if annotate is None else annotate):
        below = [
            index
            for index in finite
            if similarity_map.values[index] < 0 and not _is_difference(similarity_map)
        ]
        texts, size = dict.fromkeys(below, "−"), min(7.0, 0.7 * cell)
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size, "parse_math": False}
    for (i, j), text in texts.items():
        dark = is_dark(mesh, float(similarity_map.values[i, j]))
        axes.text(j, i, text, color="white" if dark else "black", **look)


def outline_blocks(
    axes: Axes, blocks: Sequence[Block], rows: Sequence[int], columns: Sequence[int] | None = None
) -> int:
    """
    Draw a square around each certain block.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Cells are centered on integers.
    blocks : sequence of Block
        Those that are not certain are not drawn.
    rows, columns : sequence of int
        Position of each layer index of a block on the two axes; columns as rows when absent.

    Returns
    -------
    int
        Number of blocks drawn.
    """
    from matplotlib.patches import Rectangle

    certain = [block for block in blocks if block.certain]
    for block in certain:
        (first_row, last_row), (first_column, last_column) = (
            (positions[block.first], positions[block.last]) for positions in (rows, columns or rows)
        )
        corner, size = (
            (first_column - 0.5, first_row - 0.5),
            (last_column - first_column + 1, last_row - first_row + 1),
        )
        for color, width in (("#15171a", 2.2), ("white", 1.1)):
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=color, linewidth=width, zorder=3))
    return len(certain)


def outline_stacks(axes: Axes, similarity_map: Map, stacks: Sequence[StackBlocks]) -> str:
    """
    Outline the certain blocks of every model of a map.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    similarity_map : Map
    stacks : sequence of StackBlocks
        Those of another measure, or with layers that the map does not have on both axes, are left out.

    Returns
    -------
    str
        Text about them for the caption.
    """
    count = 0
    for stack in stacks:
        if stack.measure == similarity_map.measure and set(stack.names) <= {*similarity_map.left} & {
            *similarity_map.right
        }:
            positions = (
                [side.index(name) for name in stack.names]
                for side in (similarity_map.left, similarity_map.right)
            )
            count += outline_blocks(axes, stack.finding.certain, *positions)
    return f"; outlined: {count} certain block{'s' if count > 1 else ''} of layers" if count else ""
