"""Titles, captions and layout of figures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ..errors import must
from ..findings.results import Result
from .heatmap import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def title_of(result: Result) -> str:
    """Title of the figures of a result."""
    name = result.experiment.replace("_", " ")
    return f"{name[:1].upper()}{name[1:]}: {result.model}, {result.about}"


def new_figure(wide: float, tall: float) -> Figure:
    """Create a figure of a size in inches that can be saved without a display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, tall))
    FigureCanvasAgg(figure)
    return figure


def add_panel(figure: Figure, left: float, bottom: float, wide: float, tall: float) -> Axes:
    """Add axes to a figure, at a position in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, wide / across, tall / up))


def room_of(axes: Axes) -> tuple[float, float]:
    """Width and height of axes in points, as far as known before layout."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise must("ax", "part of a figure", "axes without one")
    box = axes.get_position(original=True)
    width, height = figure.get_size_inches() * 72
    return float(box.width * width), float(box.height * height)


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
