"""Layouts of maps: fine-tuned layers (Phang et al. 2021), and all models or tasks (Wu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ...findings.maps import Map
from ...findings.record import Maps
from ...findings.words import counted, listed
from .panels import MapPanel, draw_map, draw_stacks, value_range
from .sheet import Drawing, new_sheet
from .sources import LayoutSource, MapStack, certain_blocks, map_basis, source_command

StackKind = Literal["models", "tuned", "random"]
Kind = Literal["orig-orig", "ft-orig", "ft-ft", "ft1-ft2"]
# What is on the vertical and on the horizontal axis, as places among the base and the fine-tuned models.
KINDS: Mapping[str, tuple[str, int, int]] = MappingProxyType(
    {
        "orig-orig": ("base with itself", 0, 0),
        "ft-orig": ("tuned (vertical) with base (horizontal)", 1, 0),
        "ft-ft": ("tuned with itself", 1, 1),
        "ft1-ft2": ("tuned with another seed", 1, 2),
    }
)
LAYERS = "layer"
PHANG_MEASURES = ("linear_cka", "debiased_cka")
OUTLINED = "white outlines: blocks of layers whose margin is positive by its whole interval"


def four_panels(source: LayoutSource) -> Drawing:
    """Base and fine-tuned layers of one model and task: four parts of one map, on one color scale."""
    for result, maps in source.maps(model=True, task=True):
        similarity_map = source.choose(maps, *PHANG_MEASURES)
        panels = [_part(source, maps, similarity_map, kind, kind.upper()) for kind in KINDS]
        shown = [panel for panel in panels if panel is not None]
        if len(shown) > 2:
            across = 2 if source.sheet.across == 2 else len(shown)
            about = f"{result.model} fine-tuned on {result.task}: {_kinds(KINDS)}"
            return _draw(source, [shown[k : k + across] for k in range(0, len(shown), across)], about, [maps])
    raise source.missing()


def tuned_grid(source: LayoutSource, kind: Kind) -> Drawing:
    """One kind of map of every model and task, on one color scale."""
    places: dict[tuple[str, str], tuple[Maps, MapPanel]] = {}
    for result, maps in source.maps(model=True, task=True):
        part = _part(source, maps, source.choose(maps, *PHANG_MEASURES), kind, "")
        if part is not None:
            places.setdefault((result.model, result.task), (maps, part))
    if not places:
        raise source.missing()
    models, tasks = ([*dict.fromkeys(key[k] for key in places)] for k in (0, 1))
    # A column has few panels in a row, a page and a slide many.
    tall = source.sheet.across == 2
    rows, columns = (tasks, models) if tall else (models, tasks)
    grid = [
        [places.get((column, row) if tall else (row, column), (None, None))[1] for column in columns]
        for row in rows
    ]
    about = f"{KINDS[kind][0]}, for {counted(len(models), 'model')} and {counted(len(tasks), 'task')}"
    return _draw(source, grid, about, [maps for maps, _ in places.values()], names=(rows, columns))


def model_pairs(source: LayoutSource) -> Drawing:
    """Layers of every pair of models on the inputs of a task."""
    grid: list[list[MapPanel | None]] = []
    names: list[str] = []
    columns: list[str] = []
    sources = []
    for result, maps in source.maps(model=False, task=True):
        similarity_map = source.choose(maps, *PHANG_MEASURES)
        stacks = source.stacks(similarity_map)
        pairs = [(a, b) for a, b in combinations(stacks, 2) if a.model != b.model]
        titles = [" × ".join(stack.model for stack in pair) for pair in pairs]
        if result.task in names or not pairs or titles != (columns or titles):
            continue
        columns = titles
        names.append(result.task)
        sources.append(maps)
        grid.append([_cut(maps, similarity_map, a, b, "") for a, b in pairs])
    if not grid:
        raise source.missing()
    about = "the first model of a pair is on the vertical axis, the second on the horizontal one"
    return _draw(source, grid, about, sources, names=(names, columns))


def model_blocks(source: LayoutSource, *, attention: bool = False, of: StackKind = "models") -> Drawing:
    """
    Maps of all layers of all models, with borders between models.

    Parameters
    ----------
    source : LayoutSource
    attention : bool
        Whether attention was compared.
    of : {"models", "tuned", "random"}
        Several models; one model before and after fine-tuning on tasks; or one with random baselines.

    Returns
    -------
    Drawing
    """
    chosen: dict[str, Map] = {}
    results = source.maps(model=of != "models", **({} if of == "models" else {"task": False}))
    # Results that are of no task come first.
    for result, maps in sorted(results, key=lambda entry: bool(entry[0].task)):
        for measure, similarity_map in maps.items():
            title = f"{result.model}: {similarity_map.title}".removeprefix(": ")
            tuned = [stack.tuned is not None for stack in source.stacks(similarity_map)]
            wanted = any(tuned) and not all(tuned) if of == "tuned" else len(tuned) > 1 and not any(tuned)
            if source.measure in (None, measure) and measure.startswith("attention") == attention and wanted:
                chosen.setdefault(title, similarity_map)
    if not chosen:
        raise source.missing()
    stacks_by_map = [source.stacks(similarity_map) for similarity_map in chosen.values()]
    parts = []
    for similarity_map, stacks in zip(chosen.values(), stacks_by_map, strict=True):
        places = np.concatenate([stack.places for stack in stacks])
        parts.append(similarity_map.values[np.ix_(places, places)])
    labels = [{stack.label: len(stack.numbers) for stack in stacks} for stacks in stacks_by_map]
    alike = len(chosen) > 2 and all(names == labels[0] for names in labels)
    sheet = source.sheet
    across = min(len(chosen), {"column": 2 if alike else 1, "page": 3, "slide": 3}[sheet.name])
    panels = new_sheet(sheet, -(-len(chosen) // across), across, aspect=1.05 if alike else 1.2, bar=True)
    for axes in list(panels)[len(chosen) :]:
        axes.remove()
    limits, mesh = value_range(parts), None
    for place, (axes, title, values) in enumerate(zip(panels, chosen, parts, strict=False)):
        mesh = draw_stacks(axes, values, labels[place], sheet, limits, room=0.7 * panels.room)
        panels.title(axes, title)
        # Where all maps have the same models, names are at the left and below only.
        if alike and place % across:
            axes.set_yticklabels([])
        if alike and place // across < (len(chosen) - 1) // across:
            axes.set_xticklabels([])
    panels.bar(mesh, "similarity")
    about = (
        "all layers of all models, the first layer of each at the lower left; white lines: borders of models"
    )
    return Drawing(figure=panels.figure, caption=_caption(about, list(chosen.values())))


def _part(source: LayoutSource, maps: Maps, similarity_map: Map, kind: str, title: str) -> MapPanel | None:
    """One kind of map of base and tuned models; None where it lacks one of them."""
    stacks = source.stacks(similarity_map)
    ordered = [
        *[stack for stack in stacks if not stack.tuned][:1],
        *[stack for stack in stacks if stack.tuned],
    ]
    _, row, column = KINDS[kind]
    if max(row, column) >= len(ordered) or ordered[0].tuned:
        return None
    return _cut(maps, similarity_map, ordered[row], ordered[column], title)


def _cut(maps: Maps, similarity_map: Map, rows: MapStack, columns: MapStack, title: str) -> MapPanel:
    """The part of a map between two models."""
    blocks = certain_blocks(maps, similarity_map.measure, rows) if rows == columns else ()
    values = similarity_map.values[np.ix_(rows.places, columns.places)]
    return MapPanel(title=title, values=values, rows=rows.numbers, columns=columns.numbers, blocks=blocks)


def _draw(
    source: LayoutSource,
    grid: Sequence[Sequence[MapPanel | None]],
    about: str,
    sources: Sequence[Maps],
    *,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Drawing:
    """Draw a grid of maps of layers on one color scale, with names of its rows and columns or titles."""
    shown = [panel for row in grid for panel in row if panel is not None]
    limits = value_range([panel.values for panel in shown])
    panels = new_sheet(source.sheet, len(grid), max(map(len, grid)), aspect=1, bar=True)
    mesh = None
    for i, row in enumerate(panels.axes):
        for j, axes in enumerate(row):
            row_panels = grid[i]
            panel = row_panels[j] if j < len(row_panels) else None
            if panel is None:
                _leave_out(axes, source)
                continue
            mesh = draw_map(axes, panel, source.sheet, limits)
            if names is None:
                panels.title(axes, panel.title)
                continue
            # Numbers of layers that a panel shares with its neighbors are at the left and below only.
            first, below = row_panels[0], grid[i + 1][j] if i + 1 < len(grid) else None
            if j and first is not None and first.rows == panel.rows:
                axes.set_yticklabels([])
            if below is not None and below.columns == panel.columns:
                axes.set_xticklabels([])
            if i == 0:
                panels.title(axes, names[1][j])
    if names is not None:
        panels.name_rows(names[0])
    panels.name_axes(LAYERS, LAYERS)
    chosen = [source.choose(maps, *PHANG_MEASURES) for maps in sources]
    panels.bar(mesh, chosen[0].title)
    outlined = f"; {OUTLINED}" if any(panel.blocks for panel in shown) else ""
    text = f"{about}; the first layers are at the lower left{outlined}"
    return Drawing(figure=panels.figure, caption=_caption(text, chosen))


def _leave_out(axes: Any, source: LayoutSource) -> None:
    """Mark the place of a map that the study does not have."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "–", ha="center", va="center", fontsize=source.sheet.font, transform=axes.transAxes)


def _kinds(kinds: Iterable[str]) -> str:
    return ", ".join(f"{kind.upper()}: {KINDS[kind][0]}" for kind in kinds)


def _caption(about: str, chosen: Sequence[Map]) -> str:
    measures = list(dict.fromkeys(similarity_map.title for similarity_map in chosen))
    text = f"{listed(measures)}: {about}. {map_basis(chosen)}.{source_command(chosen)}"
    return text[:1].upper() + text[1:]
