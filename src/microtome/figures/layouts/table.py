"""The table of layouts: figures and tables of the papers, drawn from the results of a study."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import must, unknown
from ...store.files import as_written
from . import lines, maps, tables
from .sheet import SHEETS, Drawing
from .sources import LayoutSource, StudyResultsLike, tuned_models

Draw = Callable[[LayoutSource], Drawing | tables.ResultTable]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperLayout:
    """
    One figure or table of a paper.

    Parameters
    ----------
    paper : str
        Key of a citation.
    name : str
        Within the paper.
    title : str
        One sentence: what it shows.
    needs : str
        The results that it draws, and the experiment of a study file that makes them.
    draw : callable
    figure : str
        Its number in the paper; empty where it is not known, or where the figure is not in the paper.
    """

    paper: str
    name: str
    title: str
    needs: str
    draw: Draw
    figure: str = ""

    @property
    def key(self) -> str:
        """What `--layout` takes."""
        return f"{self.paper}:{self.name}"


def _layout(key: str, title: str, needs: str, draw: Draw, figure: str = "") -> PaperLayout:
    paper, _, name = key.partition(":")
    return PaperLayout(paper=paper, name=name, title=title, needs=needs, draw=draw, figure=figure)


def _grid(kind: maps.Kind, title: str) -> PaperLayout:
    draw = partial(maps.tuned_grid, kind=kind)
    return _layout(f"phang2021:{kind}", title, TWO_TUNED if kind == "ft1-ft2" else TUNED, draw)


def _curves(x: str, choices: Mapping[str, lines.Choose], **options: Any) -> Draw:
    return partial(lines.lines, x=x, choices=choices, **options)


TUNED = 'maps of base and tuned models (of `compare` with models = ["{model}", "{tuned}"])'
TWO_TUNED = TUNED.replace("models (", "models of two seeds (")
OVER_TASKS = '(of `{}` with models = ["{{model}}", "{{all_tuned}}"]{})'
ATTENTION = ' and measures = ["attention_js"]'
KEPT = "blocks kept"
SIMILAR = ("rsa", "debiased_cka")
CHANGED = {"base to tuned": "base and tuned", "between seeds": "two tuned models"}
CHANGED["base to random baseline"] = "base and random baseline"
DOMAINS = {name: name for name in ("in domain", "out of domain")}
_ALL = (
    _layout(
        "phang2021:four-panel",
        "Layers of one model on one task: base and base, tuned and base, tuned and tuned, two seeds.",
        TWO_TUNED,
        maps.four_panels,
        "1",
    ),
    _grid("orig-orig", "Layers of every base model on the inputs of every task."),
    _grid("ft-orig", "Layers of every fine-tuned model against those of its base."),
    _grid("ft-ft", "Layers of every fine-tuned model: blocks of early and late layers."),
    _grid("ft1-ft2", "Layers of models that were fine-tuned with different seeds."),
    _layout(
        "phang2021:truncation",
        "Scores of heads at every layer: as fine-tuned (UNTUNED), trained further (TUNED), and trained on "
        "the model before fine-tuning (TUNEDORIG).",
        "scores of heads at every layer (of `truncate`)",
        _curves("layers kept", {"truncate": lines.arms("UNTUNED", "TUNED", "TUNEDORIG", axis="layers kept")}),
    ),
    _layout(
        "phang2021:pairs",
        "Layers of pairs of different encoders on the inputs of every task.",
        'a map of several models on a task (of `compare` with models = ["{models}"] and on = "{text}")',
        maps.model_pairs,
        "7",
    ),
    _layout(
        "phang2021:skipping",
        "The cost of skipping every span of blocks, without further training.",
        "costs of spans (of `skip`)",
        lines.skipped_spans,
    ),
    _layout(
        "wu2020:maps",
        "All layers of all models, one map per measure.",
        'a map of several models (of `compare` with models = ["{models}"])',
        maps.model_blocks,
        "1",
    ),
    _layout(
        "wu2020:random",
        "Layers of every model and of randomly initialized copies of it.",
        "maps of a model and random baselines (of `compare` with random_baselines)",
        partial(maps.model_blocks, of="random"),
    ),
    _layout(
        "wu2020:localization",
        "Localization of information in single neurons; scores depend on the models compared.",
        'localization scores of several models (of `localize` with models = ["{models}"])',
        lines.localization,
        "3",
    ),
    _layout(
        "wu2020:attention",
        "Attention of all layers of all models.",
        f'a map of attention (of `compare` with models = ["{{models}}"]{ATTENTION})',
        partial(maps.model_blocks, attention=True),
    ),
    _layout(
        "wu2020:tuned",
        "Layers of every model before and after fine-tuning on every task.",
        f"maps of models tuned on several tasks {OVER_TASKS.format('compare', '')}",
        partial(maps.model_blocks, of="tuned"),
    ),
    _layout(
        "wu2020:tuned-attention",
        "Attention of every model before and after fine-tuning on every task.",
        f"maps of attention of models tuned on several tasks {OVER_TASKS.format('compare', ATTENTION)}",
        partial(maps.model_blocks, attention=True, of="tuned"),
    ),
    _layout(
        "wu2020:tuned-localization",
        "Localization of information before and after fine-tuning; scores depend on the models compared.",
        f"localization scores of tuned models {OVER_TASKS.format('localize', '')}",
        partial(lines.localization, tuned=True),
    ),
    _layout(
        "wu2020:freezing",
        "Scores with the bottom or the top blocks frozen, beside the published ones.",
        "scores with frozen blocks (of `freeze`)",
        tables.freezing_table,
        "table-1",
    ),
    _layout(
        "tamkin2020:sizes",
        "Scores with all blocks above the first k re-initialized, by number of training examples.",
        "scores of re-initialized models (of `reinit` with sizes)",
        _curves(
            "blocks that keep their pretrained weights",
            {"reinit": lines.plans({"progressive": "first k kept"}, axis=KEPT)},
        ),
    ),
    _layout(
        "tamkin2020:blocks",
        "Scores with a window of blocks re-initialized, or with all blocks re-initialized but the window.",
        'scores of re-initialized windows (of `reinit` with plans = ["blocks", "inverse"])',
        _curves("first block of the window", {"reinit": lines.windows}, levels=("full", "scratch")),
    ),
    _layout(
        "tamkin2020:permutations",
        "Scores after fine-tuning with all blocks in random orders; each point is one order.",
        "scores of random orders of blocks (of `permute`)",
        lines.permuted,
    ),
    _layout(
        "tamkin2020:probing",
        "Scores of probes of each layer, and of models with all blocks above it re-initialized.",
        "scores of probes (of `probe` for a task) and of re-initialized models (of `reinit`)",
        _curves(
            "layer probed, or blocks that keep their pretrained weights",
            {"reinit": lines.plans({"progressive": "re-initialized"}, axis=KEPT), "probe": lines.probed},
        ),
    ),
    _layout(
        "merchant2020:change",
        "Similarity of each layer before and after fine-tuning, with two seeds as the reference.",
        "similarities before and after fine-tuning (of `change`)",
        _curves("layer", {"change": lines.named(CHANGED, SIMILAR)}),
    ),
    _layout(
        "merchant2020:freezing",
        "Scores with the bottom k blocks frozen, or with the top k blocks removed before fine-tuning.",
        "scores with frozen blocks (of `freeze`) and with removed ones (of `drop`)",
        _curves(
            "blocks frozen or removed",
            {
                "freeze": lines.plans({"bottom": "bottom frozen"}, axis="blocks frozen"),
                "drop": lines.plans({"top": "top removed"}, axis="blocks dropped"),
            },
        ),
    ),
    _layout(
        "merchant2020:domains",
        "Similarity of each layer before and after fine-tuning, on sentences of the task and on others.",
        "similarities in and out of domain (of `domains`)",
        _curves("layer", {"domains": lines.named(DOMAINS, SIMILAR)}),
    ),
    _layout(
        "sajjad2020:strategies",
        "Scores with blocks dropped by several strategies, before or after fine-tuning.",
        "scores with dropped blocks (of `drop`)",
        _curves("blocks dropped", {"drop": lines.dropped}),
    ),
)
LAYOUTS: Mapping[str, PaperLayout] = MappingProxyType({layout.key: layout for layout in _ALL})


def numbered() -> dict[str, PaperLayout]:
    """
    Layouts by their places among those of a paper, which follow its order, and by known names of tables.

    The place is the number of the figure in the paper where that is known.
    """
    places: dict[str, PaperLayout] = {}
    for paper in dict.fromkeys(layout.paper for layout in _ALL):
        layouts = [layout for layout in _ALL if layout.paper == paper]
        places |= {f"{paper}:{place}": layout for place, layout in enumerate(layouts, start=1)}
    return places | {f"{layout.paper}:{layout.figure}": layout for layout in _ALL if layout.figure}


def find_layout(name: str) -> PaperLayout:
    """
    Find a layout by its name, or by its number among those of a paper.

    Examples
    --------
    >>> find_layout("phang2021:7").name, find_layout("wu2020:table-1").name
    ('pairs', 'freezing')
    """
    choices = {**LAYOUTS, **numbered()}
    if name not in choices:
        raise unknown("--layout", name, LAYOUTS)
    return choices[name]


def draw_layout(
    results: StudyResultsLike,
    layout: str,
    out: str | os.PathLike[str],
    *,
    wide: str = "column",
    model: str | None = None,
    task: str | None = None,
    measure: str | None = None,
    claims: Any = None,
    command: str = "",
) -> tuple[Path, ...]:
    """
    Draw a figure or table of a paper from the results of a study.

    Parameters
    ----------
    results : StudyResults
    layout : str
        Such as "phang2021:truncation"; see `LAYOUTS`.
    out : path
        Ends in .pdf, .svg or .png; a table in .csv, .tex or .md.
    wide : {"column", "page", "slide"}
    model, task : str, optional
        Names in the study; all when absent.
    measure : str, optional
        Of maps.
    claims : ClaimSet, optional
        Of the paper, with published scores.
    command : str
        That the caption names.

    Returns
    -------
    tuple of Path
        The figure, and its caption.
    """
    entry = find_layout(layout)
    draws_maps = getattr(entry.draw, "func", entry.draw).__module__ == maps.__name__
    if measure is not None and not draws_maps:
        raise must("--measure", f"left out for {entry.key}, which draws no maps", measure)
    if wide not in SHEETS:
        raise unknown("--wide", wide, SHEETS)
    for fact, name in (("model", model), ("task", task)):
        names: tuple[str, ...] = getattr(results, f"{fact}s")
        if name is None:
            continue
        if name not in names:
            raise unknown(f"--{fact}", name, names)
        # Results over all models or tasks belong to every one of them.
        results = results.select(**{fact: (name, "")})
    facts: dict[str, Any] = {
        "layout": entry.key,
        "title": entry.title,
        "needs": entry.needs,
        "measure": measure,
    }
    with as_written(Path(f"a result of {results.name}")):
        source = LayoutSource(
            results=results, sheet=SHEETS[wide], tuned=tuned_models(results), claims=claims, **facts
        )
        drawing: Any = entry.draw(source)
    return drawing.save(Path(out), command)
