"""Heat maps of similarity maps, with layer 0 at the lower left."""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import WorkError, must
from ..findings.maps import Map
from ..findings.methods import declared, model_borders, null_range, split_names
from ..findings.stackblocks import StackBlocks
from ..findings.words import number
from .earlier import CREATOR, is_foreign, write_picture
from .outlines import outline_stacks

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
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
    figure = _root_figure(axes)
    values = np.ma.masked_invalid(np.asarray(similarity_map.values, dtype=np.float64))
    low, high = color_range(similarity_map, vmin, vmax)
    mesh = axes.pcolormesh(
        np.arange(similarity_map.shape[1] + 1) - 0.5,
        np.arange(similarity_map.shape[0] + 1) - 0.5,
        values,
        cmap=cmap or (DIVERGING if _is_difference(similarity_map) else SEQUENTIAL),
        vmin=low,
        vmax=high,
        # Without an edge of the same color, viewers of vector files show hairlines between cells.
        edgecolors="face",
        linewidth=0.2,
    )
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
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
    _hatch_undefined(axes, similarity_map)
    _part_models(axes, similarity_map)
    _write_cells(axes, similarity_map, mesh, wide / similarity_map.shape[1], annotate)
    _add_colorbar(figure, axes, similarity_map, mesh, low, high, wide)
    _add_basis(axes, similarity_map, wide, outline_stacks(axes, similarity_map, blocks))
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
    for kind in formats:
        if kind not in FORMATS:
            raise must("formats", f"among {', '.join(FORMATS)}", kind)
    target = Path(folder)
    written: list[Path] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for stem, similarity_map in zip(file_stems(list(maps)), maps.values(), strict=True):
            axes = draw(similarity_map, **{"blocks": getattr(maps, "blocks", ()), **options})
            for kind in formats:
                path = target / f"{stem}.{kind}"
                save_figure(axes, path)
                written.append(path)
    except OSError as error:
        raise WorkError(f"figures must be written to a writable folder, but got: {error}.") from error
    return tuple(written)


def save_figure(axes: Axes, path: Path) -> None:
    """Write the figure of some axes in the format of the file suffix, without a timestamp."""
    if is_foreign(path):
        return
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    metadata = {"Creator": CREATOR, **dates.get(path.suffix[1:], {})}
    with _file_settings():
        write_picture(_root_figure(axes), path, metadata)


def file_stems(measures: Sequence[str]) -> list[str]:
    """
    Convert names of measures to distinct file names.

    Examples
    --------
    >>> file_stems(["svcca", "svcca:threshold=0.9"])
    ['svcca', 'svcca_threshold-0.9']
    """
    stems: list[str] = []
    for measure in measures:
        stem = re.sub(r"[^A-Za-z0-9._-]", "_", measure.replace("=", "-")).strip(".") or "map"
        free = stem
        while free.lower() in (used.lower() for used in stems):
            free = f"{stem}_{len(stems)}"
        stems.append(free)
    return stems


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


def printable(text: str) -> str:
    """Replace characters that cannot be drawn."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def basis(similarity_map: Map) -> str:
    """Describe the basis of a map: rows, unit, estimator, null, intervals and undefined cells."""
    parts = [f"n = {similarity_map.n:,} rows", f"unit: {similarity_map.unit}", similarity_map.estimator]
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
        level = f"{similarity_map.level * 100:g}%"
        parts.append(f"{level} intervals by {similarity_map.method}, median half-width {number(half, 3)}")
    if not np.isfinite(similarity_map.values).all():
        reasons = list(dict.fromkeys(r for row in similarity_map.reasons for r in row if r))
        parts.append(f"hatched: undefined ({'; '.join(reasons)})" if reasons else "hatched: undefined")
    return "; ".join(printable(part) for part in parts)


def new_axes(similarity_map: Map) -> Axes:
    """Create axes of a new figure, sized by the number of layers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = similarity_map.shape
    most = max(rows, columns)
    cell = min(max(CELL, SMALLEST / most), LARGEST / most)
    wide, tall = cell * columns, cell * rows
    figure = Figure(figsize=(wide + 1.8, tall + 1.8))
    FigureCanvasAgg(figure)
    return figure.add_axes((0.7 / (wide + 1.8), 1.2 / (tall + 1.8), wide / (wide + 1.8), tall / (tall + 1.8)))


def _root_figure(axes: Axes) -> Figure:
    from matplotlib.figure import Figure

    figure = axes.get_figure(root=True)
    if not isinstance(figure, Figure):
        raise must("ax", "part of a figure", "axes without one")
    return figure


@contextmanager
def _file_settings() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "microtome", "pdf.fonttype": 42}), warnings.catch_warnings():
        # Names in a script that the font lacks are drawn as boxes; a warning would not help the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _room(axes: Axes, similarity_map: Map) -> tuple[float, float]:
    """Width and height of the drawn square cells in points."""
    box = axes.get_position(original=True)
    width, height = _root_figure(axes).get_size_inches() * 72
    cell = min(box.width * width / similarity_map.shape[1], box.height * height / similarity_map.shape[0])
    return cell * similarity_map.shape[1], cell * similarity_map.shape[0]


def _is_difference(similarity_map: Map) -> bool:
    return similarity_map.estimator.startswith("difference of two maps")


def _title(similarity_map: Map) -> str:
    choice = declared(similarity_map)
    if choice is None:
        return printable(similarity_map.measure)
    parts = [f"{k} {v}" for k, v in choice.options.items() if v != choice.measure.options[k].default]
    name = str(choice.declared("title"))
    name = name[0].upper() + name[1:]
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


def _hatch_undefined(axes: Axes, similarity_map: Map) -> None:
    from matplotlib.patches import Rectangle

    for i, j in np.argwhere(~np.isfinite(similarity_map.values)):
        axes.add_patch(
            Rectangle(
                (j - 0.5, i - 0.5), 1, 1, facecolor="#eeeeee", edgecolor="#777777", hatch="////", linewidth=0
            )
        )


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
    for (i, j), text in texts.items():
        dark = _luminance(mesh.cmap(mesh.norm(float(similarity_map.values[i, j])))) < 0.179
        axes.text(
            j,
            i,
            text,
            ha="center",
            va="center",
            fontsize=size,
            color="white" if dark else "black",
            parse_math=False,
        )


def _luminance(color: Sequence[float]) -> float:
    """Relative luminance; black and white stand out equally at 0.179."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _add_colorbar(
    figure: Figure, axes: Axes, similarity_map: Map, mesh: Any, low: float, high: float, wide: float
) -> None:
    finite = similarity_map.values[np.isfinite(similarity_map.values)]
    below, above = bool((finite < low - 1e-4).any()), bool((finite > high + 1e-4).any())
    extend = "both" if below and above else "min" if below else "max" if above else "neither"
    # Sized in points, and attached to the square cells rather than to the space around them.
    colorbar_axes = axes.inset_axes((1 + 8 / wide, 0.0, 9 / wide, 1.0))
    bar = figure.colorbar(mesh, cax=colorbar_axes, extend=extend, extendfrac=0.03)
    outline: Any = bar.outline
    outline.set_linewidth(0.4)
    bar.ax.tick_params(labelsize=7, length=2, width=0.5)
    if low < 0 < high:
        bar.ax.axhline(0.0, color="black", linewidth=0.8)
    bar.set_label("difference" if _is_difference(similarity_map) else "similarity", fontsize=8)


def _add_basis(axes: Axes, similarity_map: Map, wide: float, outline_note: str) -> None:
    size = 6.0
    lines = textwrap.wrap(basis(similarity_map) + outline_note, max(int((wide + 70) / (size * 0.5)), 44))
    axes.annotate(
        "\n".join(lines),
        xy=(0.0, 0.0),
        xycoords=(axes.transAxes, axes.xaxis.label),
        xytext=(-24, -5),
        textcoords="offset points",
        ha="left",
        va="top",
        fontsize=size,
        color="#333333",
        linespacing=1.25,
        annotation_clip=False,
        parse_math=False,
    )
