"""Titles, captions, layout and cells of figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from ..findings.results import Result
from ..findings.words import capital

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def printable(text: str) -> str:
    """Replace characters that cannot be drawn."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def title_of(result: Result) -> str:
    """Title of the figures of a result."""
    return f"{capital(result.experiment.replace('_', ' '))}: {result.model}, {result.about}"


def new_figure(wide: float, tall: float) -> Figure:
    """Create a figure of a size in inches that can be saved without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, tall))
    FigureCanvasAgg(figure)
    return figure


def add_title(figure: Figure, title: str) -> None:
    """Write the title of a figure of several panels above them."""
    top = 1 - 0.08 / figure.get_size_inches()[1]
    figure.suptitle(printable(title), fontsize=10, y=top, parse_math=False)


def add_panel(figure: Figure, left: float, bottom: float, wide: float, tall: float) -> Axes:
    """Add axes to a figure, at a position in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, wide / across, tall / up))


def root_figure(axes: Axes) -> Figure:
    """The figure that axes are part of."""
    figure: Any = axes.get_figure(root=True)
    if figure is None:
        raise must("ax", "part of a figure", "axes without one")
    return figure


def room_of(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in points, as far as known before layout."""
    box = axes.get_position(original=True)
    width, height = root_figure(axes).get_size_inches() * 72
    return float(box.width * width), float(box.height * height)


def draw_cells(axes: Axes, values: np.ndarray, *, first: int = 0, **scale: Any) -> Any:
    """
    Draw a table of values as colored cells, centered on whole numbers.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    values : ndarray of shape (rows, columns)
        Cells that are not finite are left out.
    first : int
        The number of the first row and column.
    **scale
        cmap, and norm or vmin and vmax.

    Returns
    -------
    matplotlib.collections.QuadMesh
    """
    rows, columns = (np.arange(size + 1) + first - 0.5 for size in values.shape)
    # Without an edge of the same color, viewers of vector files show hairlines between cells.
    edges = {"edgecolors": "face", "linewidth": 0.2}
    mesh = axes.pcolormesh(columns, rows, np.ma.masked_invalid(values), **edges, **scale)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return mesh


def hatch_cells(axes: Axes, cells: Iterable[Sequence[int]], first: int = 0) -> None:
    """Hatch the cells of some rows and columns."""
    from matplotlib.collections import PolyCollection

    places = np.array([*cells]).reshape(-1, 1, 2)[:, :, ::-1] + first
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) - 0.5
    look: dict[str, Any] = {"facecolor": "#eeeeee", "edgecolor": "#777777", "hatch": "////", "linewidth": 0}
    # All at once: hundreds of patches take longer than the rest of a figure.
    axes.add_collection(PolyCollection([*(places + corners)], **look), autolim=False)


def is_dark(mesh: Any, value: float) -> bool:
    """Whether white stands out better than black on the color of a value, by relative luminance."""
    color = mesh.cmap(mesh.norm(value))[:3]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] < 0.179


def add_bar(axes: Axes, mesh: Any, label: str, room: float, *, small: bool = False, **options: Any) -> Any:
    """Add a color bar, sized in points and attached to cells that are `room` points wide."""
    gap, wide = (6, 7) if small else (8, 9)
    beside = axes.inset_axes((1 + gap / room, 0.0, wide / room, 1.0))
    bar = root_figure(axes).colorbar(mesh, cax=beside, **options)
    outline: Any = bar.outline
    outline.set_linewidth(0.4)
    bar.ax.tick_params(labelsize=6 if small else 7, length=2, width=0.5)
    bar.set_label(label, fontsize=7 if small else 8)
    return bar


def add_caption(axes: Axes, text: str, room: float) -> None:
    """Write a small caption of `room` points width below the label of the horizontal axis."""
    size = 6.0
    axes.annotate(
        "\n".join(textwrap.wrap(printable(text), max(int(room / (size * 0.52)), 40))),
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
