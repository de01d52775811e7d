"""Sheets that a figure of a study is drawn on: a column, a page or a slide, with panels and a legend."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, must
from ...store.files import write_whole
from ..captions import printable
from ..files import FORMATS, is_ours, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MILLIMETER = 1 / 25.4  # inches
DPI = 300
MARGIN = 0.03  # inches above and below what is drawn
LEAST_ROOM = 0.05  # inches
# Lines of text that a panel is wide at least, and how much lower panels become where there are many.
LEAST_WIDE, LOW = 8, 0.72
EM = 0.56  # width of a character, relative to the size of the font


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """
    The size of a figure.

    Parameters
    ----------
    name : str
    wide, tall : float
        Millimeters; the height is the largest one.
    font, small : float
        Points of titles and labels, and of ticks.
    across : int
        Panels in a row.
    """

    name: str
    wide: float
    tall: float
    font: float
    small: float
    across: int

    @property
    def scale(self) -> float:
        """Size of lines and markers, relative to a column."""
        return self.font / SHEETS["column"].font


SHEETS: Mapping[str, Sheet] = MappingProxyType(
    {
        "column": Sheet(name="column", wide=84, tall=240, font=7, small=6, across=2),
        "page": Sheet(name="page", wide=174, tall=240, font=7.5, small=6.5, across=4),
        "slide": Sheet(name="slide", wide=254, tall=143, font=13, small=11, across=4),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure of a study, with the caption that says what it shows and what it rests on."""

    figure: Figure
    caption: str

    def save(self, path: Path, command: str = "") -> tuple[Path, ...]:
        """
        Write the figure at its exact width, and the caption beside it.

        Parameters
        ----------
        path : Path
            Ends in .pdf, .svg or .png; the caption has the same name with .txt.
        command : str
            That the caption names.

        Returns
        -------
        tuple of Path
        """
        import matplotlib as mpl

        if path.suffix[1:] not in FORMATS:
            raise must("--out", f"a file that ends in {', '.join(f'.{kind}' for kind in FORMATS)}", str(path))
        if os.path.lexists(path) and not is_ours(path):
            raise must("--out", "a new file, or a figure that microtome drew", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context({"svg.fonttype": "none"}):  # text stays text
            save_figure(self.figure.axes[0], path, dpi=DPI, box=self._box())
        return path, write_caption(path, self.caption, command)

    def _box(self) -> Any:
        """The whole width, and the height that something is drawn on."""
        from matplotlib.transforms import Bbox

        self.figure.canvas.draw()
        self._take_room_away()
        tight = self.figure.get_tightbbox()
        return Bbox([[0, tight.y0 - MARGIN], [self.figure.get_size_inches()[0], tight.y1 + MARGIN]])

    def _take_room_away(self) -> None:
        """Make the figure lower where square panels leave room between them and what is around them."""
        figure: Any = self.figure
        dpi, (wide, tall) = figure.dpi, figure.get_size_inches()
        boxes = [axes.get_tightbbox() for axes in figure.axes]
        above = [legend.get_window_extent().y0 / dpi for legend in figure.legends]
        below = [text.get_window_extent().y1 / dpi for text in figure.texts if text.get_text()]
        low, high = min(box.y0 for box in boxes) / dpi, max(box.y1 for box in boxes) / dpi
        # The label of the vertical axes is beside the panels.
        below = [end for end in below if end <= low]
        room = (min([tall, *above]) - high) + (low - max([0.0, *below]))
        if room > 4 * LEAST_ROOM:
            figure.set_size_inches(wide, tall - room + 2 * LEAST_ROOM)
            figure.canvas.draw()


def write_caption(path: Path, caption: str, command: str) -> Path:
    """Write a caption, and the command that draws what it is of, beside a file."""
    beside = path.with_suffix(".txt")
    drawn = f" Drawn by: {command}" if command else ""
    write_whole(beside, [f"{caption}{drawn}\n".encode()])
    return beside


def new_sheet(sheet: Sheet, rows: int, columns: int, *, aspect: float, bar: bool = False) -> Panels:
    """
    Create a figure with a grid of panels.

    Parameters
    ----------
    sheet : Sheet
    rows, columns : int
        Of panels.
    aspect : float
        Height of a panel by its width.
    bar : bool
        Whether there is room for a color bar.

    Returns
    -------
    Panels
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = sheet.wide * MILLIMETER
    line = sheet.font / 72
    around = 4.5 * line + (7 * line if bar else 0)
    panel = (wide - around) / columns - 1.2 * line
    tall = rows * (max(panel * aspect, 3 * line) + 2.6 * line) + 5 * line
    figure = Figure(figsize=(wide, min(tall, sheet.tall * MILLIMETER)), layout="compressed")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)  # pyright: ignore[reportOptionalMemberAccess, reportCallIssue]
    axes = figure.subplots(rows, columns, squeeze=False)
    return Panels(sheet=sheet, figure=figure, axes=axes, room=72 * (wide - around) / columns)


def wrapped_sheet(
    sheet: Sheet, count: int, layout: str, *, aspect: float, alone: float | None = None, bar: bool = False
) -> Panels:
    """
    Create a figure with panels in rows, as wide as they can be.

    Parameters
    ----------
    sheet : Sheet
    count : int
        Of panels.
    layout : str
        For error messages.
    aspect : float
        Height of a panel by its width.
    alone : float, optional
        The same, where there is one panel.
    bar : bool
        Whether there is room for a color bar.

    Returns
    -------
    Panels
    """
    line, tall = sheet.font, 72 * MILLIMETER * sheet.tall
    wide = 72 * MILLIMETER * sheet.wide - (11 if bar else 4) * line
    most = max(int(wide / (LEAST_WIDE * line)), sheet.across)
    if count == 1:
        aspect = aspect if alone is None else alone
    for shape in (aspect,) if bar else (aspect, LOW * aspect):
        for across in range(min(count, sheet.across), most + 1):
            down = -(-count // across)
            if down * (wide / across * shape + 3 * line) + 5 * line <= tall:
                panels = new_sheet(sheet, down, across, aspect=shape, bar=bar)
                for axes in list(panels)[count:]:
                    axes.remove()
                return panels
    raise InputError(
        f"{layout} must have panels that are large enough to read, but {count} of them do not fit on a "
        f"{sheet.name}; choose some with --model or --task, or a larger --wide."
    )


def fitted(text: str, room: float, font: float) -> tuple[str, float]:
    """
    Make a text smaller, down to three quarters, and then shorter, until it fits.

    Examples
    --------
    >>> fitted("rte", 36, 7), fitted("roberta-base", 30, 7)
    (('rte', 7), ('roberta-b…', 5.25))
    """
    text = printable(text)
    size = min(font, max(room / (EM * max(len(text), 1)), 0.75 * font))
    letters = max(int(room / (EM * size)), 3)
    return text if len(text) <= letters else text[: letters - 1] + "…", size


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """
    The panels of a figure.

    Parameters
    ----------
    sheet : Sheet
    figure : matplotlib.figure.Figure
    axes : ndarray of shape (rows, columns)
    room : float
        Points that each panel has, with its ticks.
    """

    sheet: Sheet
    figure: Figure
    axes: np.ndarray
    room: float

    def __iter__(self) -> Iterator[Axes]:
        return iter(self.axes.ravel())

    def title(self, axes: Axes, text: str) -> None:
        """Write the title of a panel: on two lines, smaller or shorter where there is little room."""
        font = self.sheet.font
        lines = [text] if EM * font * len(text) < 0.9 * self.room else text.split(", ", 1)
        shown, sizes = zip(*(fitted(line, 0.9 * self.room, font) for line in lines), strict=True)
        look: dict[str, Any] = {"pad": 3 * self.sheet.scale, "parse_math": False, "linespacing": 1.0}
        axes.set_title("\n".join(shown), fontsize=min(sizes), **look)

    def name_rows(self, names: Sequence[str]) -> None:
        """Write the names of the rows at their left."""
        for axes, name in zip(self.axes[:, 0], names, strict=True):
            text, size = fitted(name, 1.2 * self.room, self.sheet.font)
            axes.set_ylabel(text, fontsize=size, parse_math=False)

    def name_axes(self, x: str, y: str) -> None:
        """Name the axes that all panels share."""
        for put, text in ((self.figure.supxlabel, x), (self.figure.supylabel, y)):
            if text:
                put(printable(text), fontsize=self.sheet.font, parse_math=False)

    def legend(self, handles: Mapping[str, Any]) -> None:
        """Write what the lines of all panels are, above them."""
        if not handles:
            return
        room = 72 * self.figure.get_size_inches()[0]
        longest = (EM * max(map(len, handles)) + 4.5) * self.sheet.small
        legend = self.figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper center",
            ncols=max(1, min(len(handles), int(room / longest))),
            fontsize=self.sheet.small,
            frameon=False,
            handlelength=2.6,
            columnspacing=1.2,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)

    def bar(self, mesh: Any, label: str, **options: Any) -> Any:
        """Add the color bar of all panels at their right."""
        shown = [axes for axes in self if axes.figure is not None]
        bar = self.figure.colorbar(mesh, ax=shown, fraction=0.05, pad=0.02, aspect=25, shrink=0.9, **options)
        bar.set_label(printable(label), fontsize=self.sheet.font)
        bar.ax.tick_params(labelsize=self.sheet.small, length=2 * self.sheet.scale, width=0.5)
        bar.outline.set_linewidth(0.4)  # pyright: ignore[reportCallIssue]
        return bar
