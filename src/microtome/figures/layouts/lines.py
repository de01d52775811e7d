"""Layouts of curves: a panel for each model and task, with the arms that the paper draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...findings.results import Curve, Result
from ...findings.words import score_label
from ..captions import printable
from ..curves import COLORS, MOST_SHADED
from ..curves import basis as curve_basis
from ..spans import basis as span_basis
from ..spans import common_reach
from .panels import draw_costs, draw_lines, limit_values, small_ticks
from .sheet import Drawing, Panels, wrapped_sheet
from .sources import LayoutSource, model_labels, source_command, spread

Choose = Callable[[Result], Sequence[Curve]]
Key = tuple[str, str]
TALL = 0.78  # height of a panel by its width
UNITS = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePanel:
    """Curves of one panel with its title, score and levels, and the results that they are from."""

    title: str
    curves: Sequence[Curve]
    score: str
    levels: Mapping[str, float]
    sources: Sequence[Result]


def lines(
    source: LayoutSource,
    choices: Mapping[str, Choose],
    *,
    x: str,
    levels: Sequence[str] = ("majority baseline",),
) -> Drawing:
    """
    Draw curves of every model and task.

    Parameters
    ----------
    source : LayoutSource
    choices : mapping of str to callable
        For each experiment, which curves of a result are drawn, with their labels.
    x : str
        Label of the horizontal axes.
    levels : sequence of str
        Which horizontal lines are drawn.

    Returns
    -------
    Drawing
    """
    curves: dict[Key, dict[str, Curve]] = {}
    sources: dict[Key, list[Result]] = {}
    missing = False
    for verb, choose in choices.items():
        contents = source.contents(verb)
        missing = missing or not any(choose(result) for results in contents.values() for result in results)
        for key, results in contents.items():
            for result in results:
                for curve in choose(result):
                    # Of the same arm in several experiments, the one with the most points.
                    earlier = curves.setdefault(key, {}).get(curve.label)
                    if earlier is None or len(curve.x) > len(earlier.x):
                        curves[key][curve.label] = curve
                    sources.setdefault(key, []).append(result)
    if missing:
        raise source.missing()
    labels = shorten(label for chosen in curves.values() for label in chosen)
    panels = [
        LinePanel(
            title=_title(key, curves),
            curves=[replace(curve, label=labels[label]) for label, curve in chosen.items()],
            score=sources[key][0].score,
            levels=_levels(sources[key], levels),
            sources=sources[key],
        )
        for key, chosen in curves.items()
    ]
    return draw_line_panels(source, panels, x=x)


def draw_line_panels(source: LayoutSource, panels: Sequence[LinePanel], *, x: str) -> Drawing:
    """Draw panels of curves in rows, with one legend."""
    sheet = source.sheet
    drawn = wrapped_sheet(sheet, len(panels), source.layout, aspect=TALL, alone=0.6)
    handles: dict[str, Any] = {}
    cut = False
    by_score: dict[str, list[str]] = {}
    for panel in panels:
        by_score.setdefault(score_label(panel.score), []).append(panel.title)
    several = len(by_score) > 1
    scores = [f"{name} of {', '.join(titles)}" if several else name for name, titles in by_score.items()]
    order = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    for axes, panel in zip(drawn, panels, strict=False):
        # The same arm has the same color everywhere, also where a panel lacks another one.
        places = {curve.label: curve for curve in panel.curves}
        curves = [places.get(label) or _blank(panel.curves[0], label) for label in order]
        handles |= draw_lines(axes, curves, panel.levels, sheet)
        cut = limit_values(axes, panel.curves, panel.levels) or cut
        drawn.title(axes, panel.title)
    levels = {name for panel in panels for name in panel.levels}
    drawn.legend({name: handles[name] for name in (*order, *(n for n in handles if n in levels))})
    drawn.name_axes(x, UNITS if several else scores[0])
    sources = list({id(result): result for panel in panels for result in panel.sources}.values())
    shown = [curve for panel in panels for curve in panel.curves]
    basis = curve_basis(shown, shaded=len(order) <= MOST_SHADED)
    notes = ["; bands are cut at the edges" if cut else "", f"; scores: {'; '.join(scores)}"]
    caption = f"{source.title} {basis}{''.join(notes)}.{source_command(sources)}"
    return Drawing(figure=drawn.figure, caption=caption)


def _title(key: Key, keys: Mapping[Key, Any]) -> str:
    """The task, and the model where there are several."""
    model, task = key
    several = [len({k[place] for k in keys}) > 1 for place in (0, 1)]
    return ", ".join(
        [part for part, shown in ((task, several[1] or not several[0]), (model, several[0])) if shown]
    )


def _levels(results: Sequence[Result], names: Sequence[str]) -> dict[str, float]:
    """Levels of some results by name, without what the names of all share."""
    levels = {
        name: value
        for result in results
        for name, value in result.lines.items()
        if name.split(", ")[0] in names
    }
    short = shorten(levels)
    return {short[name]: value for name, value in levels.items()}


def _blank(like: Curve, label: str) -> Curve:
    """A curve without points, which keeps the place of an arm that a panel lacks."""
    names = ("values", "low", "high", "band_low", "band_high")
    return replace(like, label=label, x=(), seeds=(), reasons=(), **dict.fromkeys(names, np.zeros(0)))


def arms(*names: str, axis: str) -> Choose:
    """Choose the scores of some arms over an axis, or of all."""

    def choose(result: Result) -> list[Curve]:
        chosen = [curve for curve in result.curves if curve.role == "score" and curve.axis == axis]
        return [curve for curve in chosen if not names or (curve.arm or curve.label) in names]

    return choose


def plans(labels: Mapping[str, str], *, axis: str) -> Choose:
    """Choose the scores of some plans of re-initialization, whose names begin with what labels replace."""

    def choose(result: Result) -> list[Curve]:
        chosen = []
        for curve in result.curves:
            plan, *settings = curve.arm.split(", ")
            if curve.role == "score" and curve.axis == axis and plan in labels:
                chosen.append(replace(curve, label=", ".join([labels[plan], *settings])))
        return chosen

    return choose


def dropped(result: Result) -> list[Curve]:
    """Choose the scores of all strategies of dropping, and say where nothing was trained afterwards."""
    then = result.provenance.get("options", {}).get("then", ())
    trained = "" if list(then) != ["none"] else ", after fine-tuning"
    chosen = arms(axis="blocks dropped")(result)
    return [replace(curve, label=f"{curve.label}{trained}") for curve in chosen]


def windows(result: Result) -> list[Curve]:
    """Choose the scores of models with a window of blocks re-initialized, and of those that keep only it."""
    changed = plans({"blocks": "window re-initialized"}, axis="first block re-initialized")(result)
    return [*changed, *plans({"inverse": "window kept"}, axis="first block kept")(result)]


def shorten(names: Iterable[str]) -> dict[str, str]:
    """
    Leave out the settings that all names with settings share.

    Examples
    --------
    >>> list(shorten(["full", "kept, library, 64 examples", "kept, library, 384 examples"]).values())
    ['full', 'kept, 64 examples', 'kept, 384 examples']
    """
    parts = {name: name.split(", ") for name in names}
    settings = [{*rest} for _, *rest in parts.values() if rest]
    shared = set.intersection(*settings) if settings else set()
    return {name: ", ".join(part for part in listed if part not in shared) for name, listed in parts.items()}


def named(names: Mapping[str, str], measures: Sequence[str]) -> Choose:
    """Choose curves of the first measure that a result has, by the second part of their names."""

    def choose(result: Result) -> list[Curve]:
        curves = {curve.name: curve for curve in result.curves}
        for measure in measures:
            chosen = {f"{measure}: {name}": label for name, label in names.items()}
            if any(name in curves for name in chosen):
                return [replace(curves[n], label=label) for n, label in chosen.items() if n in curves]
        return []

    return choose


def probed(result: Result) -> list[Curve]:
    """Choose the curves of a probe for a task that are not of a random baseline."""
    names = {
        f"{model} ({solver})": f"probe ({solver})"
        for model in result.model.split(", ")
        for solver in str(result.more.get("probe", "")).split(", ")
    }
    return [replace(curve, label=names[curve.name]) for curve in result.curves if curve.name in names]


def localization(source: LayoutSource, *, tuned: bool = False) -> Drawing:
    """Localization scores by layer: a panel for each reading, a curve for each model."""
    for result in source.results.select(verb="localize"):
        if bool(result.model) != tuned:
            continue
        content: Result = result.content
        labels = model_labels(dict.fromkeys(curve.model for curve in content.curves), source.tuned)
        readings = dict.fromkeys(curve.arm for curve in content.curves if curve.role == "score")
        panels = [
            LinePanel(
                title=reading,
                curves=[
                    replace(curve, label=labels[curve.model])
                    for curve in content.curves
                    if curve.arm == reading
                ],
                score="localization score",
                levels={},
                sources=[content],
            )
            for reading in readings
        ]
        return draw_line_panels(source, panels, x="layer")
    raise source.missing()


def skipped_spans(source: LayoutSource) -> Drawing:
    """The cost of skipping every span of blocks, a triangle for each model and task, on one color scale."""
    contents = {key: results[0] for key, results in source.contents("skip").items() if results[0].spans}
    if not contents:
        raise source.missing()
    sheet = source.sheet
    panels = wrapped_sheet(sheet, len(contents), source.layout, aspect=1, bar=True)
    reach = max(common_reach(result.spans[:1], result.points) for result in contents.values())
    mesh, notes = None, []
    for axes, (key, result) in zip(panels, contents.items(), strict=False):
        mesh = draw_costs(axes, result.spans[0], sheet, reach, points=result.points, room=panels.room)
        title = _title(key, contents)
        panels.title(axes, title)
        notes.append(f"{title}: {span_basis(result.spans[0], score_label(result.score))}")
    panels.name_axes("last skipped block", "first skipped block")
    bar = panels.bar(mesh, "cost in points")
    bar.ax.axhline(0.0, color="black", linewidth=0.8)
    # The colors are symmetric around 0, but the bar is cut below the largest gain.
    lowest = min(float(np.nanmin(r.points * r.spans[0].values)) for r in contents.values())
    bar.ax.set_ylim(min(lowest, -0.1 * reach), reach)
    caption = f"{source.title} {'. '.join(notes)}.{source_command(list(contents.values()))}"
    return Drawing(figure=panels.figure, caption=caption)


def permuted(source: LayoutSource) -> Drawing:
    """Scores after fine-tuning with blocks in random orders, of the full model and from scratch."""
    by_model: dict[str, list[tuple[str, Result, Curve]]] = {}
    for (model, task), results in source.contents("permute").items():
        for result in results[:1]:
            for curve in arms("random", axis="seed of the order")(result):
                by_model.setdefault(model, []).append((task, result, curve))
    if not by_model:
        raise source.missing()
    panels = wrapped_sheet(source.sheet, len(by_model), source.layout, aspect=TALL, alone=0.6)
    handles: dict[str, Any] = {}
    for axes, (model, entries) in zip(panels, by_model.items(), strict=False):
        handles |= _draw_orders(axes, entries, panels)
        panels.title(axes, model)
    panels.legend(handles)
    entries = [entry for of_model in by_model.values() for entry in of_model]
    scores = dict.fromkeys(score_label(result.score) for _, result, _ in entries)
    panels.name_axes("", next(iter(scores)) if len(scores) == 1 else UNITS)
    counts = sorted({curve.n for _, _, curve in entries})
    runs = sorted({count for _, _, curve in entries for count in curve.seeds})
    basis = f"n = {spread(counts)} examples, {spread(runs)} seeds for each order"
    caption = f"{source.title} {basis}.{source_command([result for _, result, _ in entries])}"
    return Drawing(figure=panels.figure, caption=caption)


def _draw_orders(axes: Any, entries: Sequence[tuple[str, Result, Curve]], panels: Panels) -> dict[str, Any]:
    """A violin of the orders of each task, their scores as points, and bars at the references."""
    from matplotlib.ticker import MaxNLocator

    scale = panels.sheet.scale
    for place, (_, result, curve) in enumerate(entries):
        values = curve.values[np.isfinite(curve.values)]
        if np.ptp(values) > 0:
            body: Any = axes.violinplot([values], [place], widths=0.7, showextrema=False)
            body["bodies"][0].set(facecolor=COLORS[0], alpha=0.18, linewidth=0)
        # Points of equal scores stand side by side.
        offsets = np.zeros(len(values))
        for value in set(values.round(4)):
            same = np.flatnonzero(values.round(4) == value)
            offsets[same] = 0.07 * (np.arange(len(same)) - (len(same) - 1) / 2)
        look: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "white", "markeredgewidth": 0.3}
        axes.plot(
            place + offsets,
            values,
            marker="o",
            markersize=3 * scale,
            color=COLORS[0],
            label="random order",
            **look,
        )
        for k, (name, value) in enumerate(result.lines.items()):
            axes.plot(
                [place - 0.36, place + 0.36],
                [value, value],
                color=COLORS[1 + k],
                linestyle=("-", (0, (4, 1.5)), (0, (1, 1)))[k % 3],
                linewidth=1.3 * scale,
                label=printable(name),
            )
    axes.set_xticks(range(len(entries)), labels=[printable(task) for task, _, _ in entries])
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    small_ticks(axes, panels.sheet)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))
