"""How do maps and cuts of the small encoders look, in pictures? For zoo_question.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microtome.errors import InputError
from microtome.figures.captions import add_caption, add_panel, new_figure
from microtome.figures.curves import COLORS, LINES
from microtome.figures.files import save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Encoders under equal heads, at the rate that most tasks are learned at.
ENCODERS = ("masked", "every", "replaced", "causal", "shared")
HEAD = "cls1"
ROWS = "cls"
KINDS: Mapping[str, str] = {
    "orig-orig": "before tuning",
    "ft-ft": "tuned",
    "ft-orig": "tuned, with before",
    "ft-ft2": "two seeds",
}
ARMS = ("UNTUNED", "TUNED")
SQUARE, WIDE, TALL = 1.35, 1.6, 1.25  # inches of a panel
LEFT, RIGHT, BELOW, ABOVE = 0.7, 0.65, 0.8, 0.45
ACROSS, DOWN = 0.3, 0.3  # between two panels

Documents = Sequence[Mapping[str, Any]]


def draw_maps(documents: Documents, task: str) -> Figure:
    """
    Draw maps of one task: a row an encoder, a column a kind of map, means over seeds.

    Parameters
    ----------
    documents : sequence of mapping
        The files of the jobs.
    task : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = _chosen(documents, task)
    wide = LEFT + len(KINDS) * (SQUARE + ACROSS) - ACROSS + RIGHT
    tall = ABOVE + len(shown) * (SQUARE + DOWN) - DOWN + BELOW
    figure = new_figure(wide, tall)
    mesh: Any = None
    axes: Any = None
    for down, (encoder, one) in enumerate(shown.items()):
        for across, (kind, title) in enumerate(KINDS.items()):
            left = LEFT + across * (SQUARE + ACROSS)
            axes = add_panel(figure, left, tall - ABOVE - (down + 1) * SQUARE - down * DOWN, SQUARE, SQUARE)
            table = _mean(one, kind)
            ends = (0.5, len(table) + 0.5)
            mesh = axes.imshow(
                table, origin="lower", cmap="viridis", vmin=0, vmax=1, extent=(*ends, *ends), aspect="equal"
            )
            axes.set_xticks([1, len(table) // 2, len(table)])
            axes.set_yticks([1, len(table) // 2, len(table)])
            axes.tick_params(labelsize=6, length=2, width=0.5)
            if down == 0:
                axes.set_title(title, fontsize=8, pad=5, parse_math=False)
            if across == 0:
                axes.set_ylabel(encoder, fontsize=8, parse_math=False)
            if down == len(shown) - 1:
                axes.set_xlabel("layer", fontsize=7)
    bar = add_panel(figure, wide - RIGHT + 0.15, tall - ABOVE - SQUARE, 0.1, SQUARE)
    figure.colorbar(mesh, cax=bar)
    bar.tick_params(labelsize=6, length=2, width=0.5)
    first = next(iter(shown.values()))
    add_caption(
        figure.axes[(len(shown) - 1) * len(KINDS)],
        f"debiased CKA of the first token (the last one of causal), {task}, {first['n']:,} examples; head "
        f"{HEAD}, rate {first['job']['rate']:g}; means over {len(first['runs'])} seeds; half of the 95 % "
        f"interval of a cell, over examples: {reach_text(shown.values())}",
        72 * (wide - LEFT),
    )
    return figure


def draw_cuts(documents: Documents, tasks: Sequence[str]) -> Figure:
    """
    Draw what is left when models are cut after each layer: a row a task, a column an encoder.

    Parameters
    ----------
    documents : sequence of mapping
        The files of the jobs.
    tasks : sequence of str

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = {task: _chosen(documents, task) for task in tasks}
    wide = LEFT + len(ENCODERS) * (WIDE + ACROSS) - ACROSS + RIGHT
    tall = ABOVE + len(tasks) * (TALL + DOWN) - DOWN + BELOW
    figure = new_figure(wide, tall)
    for down, (task, by_encoder) in enumerate(shown.items()):
        row: list[Axes] = []
        for across, encoder in enumerate(ENCODERS):
            left = LEFT + across * (WIDE + ACROSS)
            axes = add_panel(figure, left, tall - ABOVE - (down + 1) * TALL - down * DOWN, WIDE, TALL)
            if encoder in by_encoder:
                _cut(axes, by_encoder[encoder])
            axes.set_xticks([1, 4, 8, 12])
            axes.tick_params(labelsize=6, length=2, width=0.5)
            axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
            if down == 0:
                axes.set_title(encoder, fontsize=8, pad=5, parse_math=False)
            if across == 0:
                name = next(iter(by_encoder.values()))["score"]["name"]
                axes.set_ylabel(f"{task}\n{name}", fontsize=7, parse_math=False)
            if down == len(shown) - 1:
                axes.set_xlabel("layers kept", fontsize=7)
            row.append(axes)
        ends = np.array([axes.get_ylim() for axes in row])
        for axes in row:
            axes.set_ylim(ends[:, 0].min(), ends[:, 1].max())
    _legend(figure, wide)
    some = next(iter(next(iter(shown.values())).values()))
    add_caption(
        figure.axes[(len(tasks) - 1) * len(ENCODERS)],
        f"cut after each layer, with the head as it was tuned (UNTUNED) or tuned further there (TUNED); head "
        f"{HEAD}, rate {some['job']['rate']:g}; means over {len(some['runs'])} seeds; shaded: 95 % of each "
        "layer alone, over examples and seeds; dotted: the majority baseline",
        72 * (wide - LEFT),
    )
    return figure


def save_pictures(documents: Documents, folder: Path, tasks: Sequence[str]) -> None:
    """Draw maps of the first task and cuts of all into files."""
    folder.mkdir(parents=True, exist_ok=True)
    save_figure(draw_maps(documents, tasks[0]).axes[0], folder / "zoo-maps.svg")
    save_figure(draw_cuts(documents, tasks).axes[0], folder / "zoo-truncation.svg")


def reach_text(documents: Any) -> str:
    """How far intervals of cells reach, in the median of the maps and at most."""
    found = [
        each["reach"]
        for one in documents
        for kind in KINDS
        for each in one["maps"][ROWS].get(kind, {}).values()
        if "reach" in each
    ]
    if not found:
        return "not kept"
    median, most = float(np.median([one[0] for one in found])), max(one[1] for one in found)
    return f"{median:.2f} in the median, {most:.2f} at most"


def _chosen(documents: Documents, task: str) -> dict[str, Mapping[str, Any]]:
    """Jobs of a task by encoder, under the head that all have, at the highest rate."""
    mine = [one for one in documents if (one["job"]["task"], one["job"]["head"]) == (task, HEAD)]
    if not mine:
        raise InputError(f"a picture of {task} must have jobs with the head {HEAD}, but there is none.")
    rate = max(one["job"]["rate"] for one in mine)
    by_encoder = {one["job"]["encoder"]: one for one in mine if one["job"]["rate"] == rate}
    return {name: by_encoder[name] for name in ENCODERS if name in by_encoder}


def _mean(one: Mapping[str, Any], kind: str) -> np.ndarray:
    """The mean map of a kind over seeds that learned."""
    failed = {str(run["seed"]) for run in one["runs"] if run["failure"] is not None}
    kept = [
        np.array([[math.nan if v is None else v for v in row] for row in told["values"]], dtype=float)
        for name, told in one["maps"][ROWS][kind].items()
        if not failed & set(name.split("|"))
    ]
    return np.mean(kept, axis=0)


def _cut(axes: Axes, one: Mapping[str, Any]) -> None:
    x = one["truncation"]["x"]
    for k, arm in enumerate(ARMS):
        curve = one["truncation"]["curves"].get(arm)
        if curve is None:
            continue
        values, low, high = (
            np.array([math.nan if v is None else v for v in curve[name]], dtype=float)
            for name in ("values", "low", "high")
        )
        axes.fill_between(x, low, high, color=COLORS[k], alpha=0.16, linewidth=0)
        axes.plot(x, values, color=COLORS[k], linestyle=LINES[k], linewidth=1.1)
    axes.axhline(one["guess"] or 0.0, color="#999999", linestyle=":", linewidth=0.8)


def _legend(figure: Figure, wide: float) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=COLORS[k], linestyle=LINES[k], label=arm) for k, arm in enumerate(ARMS)]
    figure.legend(
        handles=marks,
        loc="upper left",
        bbox_to_anchor=(LEFT / wide, 1.0),
        ncols=len(marks),
        fontsize=7,
        frameon=False,
        handlelength=3,
    )
