"""How do layers look before and after tuning, in a picture? A column a model; for tuned_layers.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tuned_layers_bylayer import Documents, of_kind
from tuned_layers_claims import PUBLISHED

from microtome.errors import InputError
from microtome.figures.captions import add_caption, add_panel, new_figure
from microtome.figures.curves import COLORS, LINES, MARKERS
from microtome.figures.files import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, TALL = 2.6, 1.7  # inches of a panel
LEFT, RIGHT, BELOW, ABOVE = 0.7, 0.2, 0.9, 0.55
ACROSS, DOWN = 0.55, 0.5  # between two panels
BASE, TWIN, SEEDS = "#000000", "#999999", "#bbbbbb"
SIMILARITY = "similarity to the base"


def draw_layers(documents: Documents) -> Figure:
    """
    Draw similarity to the base and readouts by layer, a column a model and a line a task.

    Parameters
    ----------
    documents : sequence of mapping
        The files of the jobs.

    Returns
    -------
    matplotlib.figure.Figure
    """
    tuned = [one for one in of_kind(documents, "task", "change") if "probe" in one]
    if not tuned:
        raise InputError(
            "a picture of tuned layers must have tasks with change and probes, but there is none."
        )
    models = list(dict.fromkeys(one["job"]["model"] for one in tuned))
    tasks = list(dict.fromkeys(one["job"]["what"] for one in tuned))
    targets = list(dict.fromkeys(target for one in tuned for target in one["probe"]))
    before = {one["job"]["model"]: one["probe"] for one in of_kind(documents, "base", "probe")}
    rows = [SIMILARITY, *targets]
    wide = LEFT + len(models) * (WIDE + ACROSS) - ACROSS + RIGHT
    tall = ABOVE + len(rows) * (TALL + DOWN) - DOWN + BELOW
    figure = new_figure(wide, tall)
    for down, row in enumerate(rows):
        ends: list[Axes] = []
        for across, model in enumerate(models):
            left = LEFT + across * (WIDE + ACROSS)
            axes = add_panel(figure, left, tall - ABOVE - (down + 1) * TALL - down * DOWN, WIDE, TALL)
            mine = {one["job"]["what"]: one for one in tuned if one["job"]["model"] == model}
            if row == SIMILARITY:
                _similar(axes, mine, tasks)
                axes.set_title(model, fontsize=9, pad=6, parse_math=False)
            else:
                _read(axes, mine, tasks, row, before.get(model, {}).get(row))
            _style(axes, row if across == 0 else "", last=down == len(rows) - 1)
            ends.append(axes)
        _level(ends)
    _explain(figure, tuned)
    return figure


def save_picture(documents: Documents, path: Path) -> None:
    """Draw layers into a file."""
    save_figure(draw_layers(documents).axes[0], path)


def _similar(axes: Axes, mine: Mapping[str, Any], tasks: Sequence[str]) -> None:
    for task, one in mine.items():
        curves, k = one["change"]["measures"][PUBLISHED]["curves"], tasks.index(task)
        if "seeds" in curves:
            axes.plot(curves["seeds"]["x"], curves["seeds"]["values"], color=SEEDS, linewidth=0.9, zorder=1)
        if "twin" in curves:
            axes.plot(curves["twin"]["x"], curves["twin"]["values"], color=TWIN, linewidth=0.9, linestyle=":")
        _line(axes, curves["tuned"], k, np.array(curves["tuned"]["values"], dtype=float), 0.0)


def _read(
    axes: Axes, mine: Mapping[str, Any], tasks: Sequence[str], target: str, before: Mapping[str, Any] | None
) -> None:
    for task, one in mine.items():
        told = one["probe"][target]
        # Bands are of differences from the base, on the same sentences.
        base = np.array(told["base"], dtype=float)
        _line(axes, told["difference"], tasks.index(task), np.mean(told["tuned"], axis=0), base)
        axes.plot(told["difference"]["x"], base, color=BASE, linewidth=1.2, zorder=4)
    if before is not None and "twin" in before:
        axes.plot(before["difference"]["x"], before["twin"], color=TWIN, linewidth=0.9, linestyle=":")


def _line(axes: Axes, curve: Mapping[str, Any], k: int, values: Any, offset: Any) -> None:
    low, high = (offset + np.array(curve[name], dtype=float) for name in ("band_low", "band_high"))
    axes.fill_between(curve["x"], low, high, color=COLORS[k], alpha=0.16, linewidth=0)
    axes.plot(
        curve["x"],
        values,
        color=COLORS[k],
        marker=MARKERS[k],
        linestyle=LINES[k],
        markersize=3,
        linewidth=1.1,
        zorder=3,
    )


def _style(axes: Axes, name: str, *, last: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.tick_params(labelsize=6.5, length=2.5, width=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(name, fontsize=8, parse_math=False)
    if last:
        axes.set_xlabel("layer", fontsize=8)


def _level(row: Sequence[Axes]) -> None:
    """Give the panels of a row one scale, so that models can be set beside each other."""
    ends = np.array([axes.get_ylim() for axes in row])
    for axes in row:
        axes.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def _explain(figure: Figure, tuned: Documents) -> None:
    from matplotlib.lines import Line2D

    tasks = list(dict.fromkeys(one["job"]["what"] for one in tuned))
    marks: list[Any] = [
        Line2D(
            [],
            [],
            color=COLORS[k],
            marker=MARKERS[k],
            linestyle=LINES[k],
            markersize=3,
            label=f"tuned on {task}",
        )
        for k, task in enumerate(tasks)
    ]
    marks += [
        Line2D([], [], color=BASE, linewidth=1.2, label="before tuning"),
        Line2D([], [], color=SEEDS, linewidth=0.9, label="two seeds of a tuned model"),
        Line2D([], [], color=TWIN, linewidth=0.9, linestyle=":", label="random baseline"),
    ]
    wide = float(figure.get_size_inches()[0])
    figure.legend(
        handles=marks,
        loc="upper left",
        bbox_to_anchor=(LEFT / wide, 1.0),
        ncols=len(marks),
        fontsize=7,
        frameon=False,
        handlelength=3,
        columnspacing=1.2,
    )
    some = next(iter(tuned[0]["probe"].values()))
    seeds = len(tuned[0]["tuned"]["runs"])
    counts = sorted({one["change"]["measures"][PUBLISHED]["n"] for one in tuned})
    sentences = " to ".join(f"{n:,}" for n in dict.fromkeys((counts[0], counts[-1])))
    over = some["unit"]
    said = (
        f"similarity: {PUBLISHED}, n = {sentences} sentences; "
        f"linear probes: {some['score']}, linear, {some['train']:,} sentences to learn from and "
        f"{some['judged']:,} to judge on; means of {seeds} fine-tunings; shaded: 95 % over {over}s and "
        "fine-tunings for all layers of a line at once, of probes for the difference from before tuning"
    )
    lowest = figure.axes[len(figure.axes) - sum(axes.get_xlabel() != "" for axes in figure.axes)]
    add_caption(lowest, said, 72 * (wide - LEFT))
