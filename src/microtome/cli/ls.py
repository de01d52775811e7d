"""The verb `ls`: the tables of measures, families, corpora, tasks and the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..options import option
from .show import Columns, JsonOption, Table, picked, table
from .tools import Tool

if TYPE_CHECKING:
    from ..measures.declare import Measure

Listing = tuple[Sequence[Mapping[str, Any]], list[Table]]
STSB = "stsb"
# The letters that formulas use for what is done to a layer.
TRANSFORMED = {
    "Q": "orthogonal",
    "a": "isotropic_scale",
    "A": "invertible_linear",
    "b": "translation",
    "P": "neuron_permutation",
    "s": "neuron_scale",
}


def _families() -> Listing:
    from ..encoders.table import FAMILIES

    names = ("name", "title", "model_types", "reads", "causal", "shared", "source")
    families = [
        {**picked(family, *names), "final_norm": family.final_norm is not None}
        for family in FAMILIES.values()
    ]
    columns: Columns = {
        "family": "name",
        "models": "title",
        "types in config.json": lambda family: ", ".join(family["model_types"]),
        "cls row": lambda family: "none" if family["reads"] == "none" else f"{family['reads']} token",
        "causal": lambda family: "yes" if family["causal"] else "no",
        "last norm": lambda family: "yes" if family["final_norm"] else "no",
        "source": "source",
    }
    note = (
        "Layer 0 is what the first block reads, layer l what block l gives; where there is a last norm, "
        "its output is one more layer, called norm."
    )
    return families, [table(families, columns, [note])]


def _targets() -> Listing:
    from ..probes.table import PROBES
    from ..probes.targets import TARGETS

    probes = {probe.kind: probe.name for probe in PROBES.values()}
    names = ("name", "about", "kind", "formats")
    targets = [{**picked(target, *names), "probe": probes[target.kind]} for target in TARGETS.values()]
    columns: Columns = {
        "target": "name",
        "what it asks": "about",
        "probe": "probe",
        "files": lambda target: ", ".join(target["formats"]),
    }
    note = (
        "task:NAME reads the answers of a task of `microtome ls tasks` from the vector of a whole input "
        "(cls), as --target task:rte; with --data DIR from its original files."
    )
    return targets, [table(targets, columns, [note])]


def _experiments() -> Listing:
    from dataclasses import fields

    from ..experiments.table import EXPERIMENTS, NEEDS, Entry

    names = [f.name for f in fields(Entry)]
    entries = [picked(entry, *names) for entry in EXPERIMENTS.values()]
    columns: Columns = {
        "experiment": "verb",
        "what it does": "summary",
        "needs": lambda entry: NEEDS[entry["takes"]],
        "source": "source",
    }
    return entries, [table(entries, columns)]


def _corpora() -> Listing:
    from ..corpora.table import CORPORA

    readers = [
        {
            **picked(reader, "name", "suffixes", "summary"),
            "options": {
                name: picked(option, "default", "meaning") for name, option in reader.options.items()
            },
        }
        for reader in CORPORA.values()
    ]
    files: Columns = {
        "reader": "name",
        "files": lambda reader: " ".join(reader["suffixes"]),
        "what an example is": "summary",
    }
    notes = [
        "Files may also end in .gz, .xz or .bz2.",
        "A split of a task is a corpus too: task:rte/validation.",
    ]
    options = [
        {"reader": reader["name"], "option": name, **facts}
        for reader in readers
        for name, facts in reader["options"].items()
    ]
    columns = {name: name for name in ("reader", "option", "default", "meaning")}
    return readers, [
        table(readers, files, notes),
        table(options, columns, ["Given as --read name=value."]),
    ]


def _measures() -> Listing:
    from ..findings.methods import cite
    from ..measures.table import ALIASES, EVERYTHING

    def marks(measure: Measure) -> str:
        left, right = measure.invariances.left, measure.invariances.right
        signs = {(True, True): "+", (True, False): "L", (False, True): "R", (False, False): "."}
        return " ".join(signs[name in left, name in right] for name in TRANSFORMED.values())

    measures = list(EVERYTHING.values())
    columns: Columns = {
        "measure": lambda measure: measure.name,
        "range": lambda measure: " to ".join(f"{end:.3g}" for end in measure.range),
        "symmetric": lambda measure: "yes" if measure.symmetric else "no",
        " ".join(TRANSFORMED): marks,
        "reads": lambda measure: measure.needs,
        "source": lambda measure: "; ".join(cite(key) for key in measure.citations),
    }
    legend = ", ".join(f"{letter} {name.replace('_', ' ')}" for letter, name in TRANSFORMED.items())
    notes = [
        "Higher is more similar. One that is not symmetric says how well the left layer is found in, "
        "or predicted from, the right one.",
        f"What leaves the value unchanged, on both sides (+), left (L) or right (R): {legend}.",
        f"Names of Wu et al. 2020: {', '.join(f'{a} = {n}' for a, n in ALIASES.items())}.",
    ]
    options: list[Any] = [
        (measure.name, name, facts) for measure in measures for name, facts in measure.options.items()
    ]
    allowed: Columns = {
        "measure": lambda row: row[0],
        "option": lambda row: row[1],
        "default": lambda row: str(row[2].default),
        "allowed": lambda row: _allowed(row[2]),
        "meaning": lambda row: row[2].meaning,
    }
    behind = "Written behind the name, as in svcca:threshold=0.95. Some change the table above; see --json."
    tables = [table(measures, columns, notes), table(options, allowed, [behind])]
    return [_document(measure) for measure in measures], tables


def _allowed(facts: Any) -> str:
    if facts.choices is not None:
        return ", ".join(str(choice) for choice in facts.choices)
    ends = {"at least": facts.low, "at most": facts.high}
    return ", ".join(f"{words} {end:g}" for words, end in ends.items() if end is not None)


def _document(measure: Measure) -> dict[str, Any]:
    from ..measures.citations import CITATIONS, bibtex
    from ..measures.table import ALIASES

    names = ("name", "title", "summary", "formula", "symmetric", "needs", "interval", "citations")
    sides = {"left": measure.invariances.left, "right": measure.invariances.right}
    return {
        **picked(measure, *names),
        "aliases": [alias for alias, name in ALIASES.items() if name.split(":")[0] == measure.name],
        # JSON has no infinity: null is an open end.
        "range": [end if math.isfinite(end) else None for end in measure.range],
        "direction": "higher is more similar",
        "invariances": {side: sorted(transformations) for side, transformations in sides.items()},
        "null_known": measure.null is not None,
        "changed_by_options": sorted(set(measure.varying) - {"compute", "prepare"}),
        "options": {
            name: picked(facts, "default", "choices", "low", "high", "meaning")
            for name, facts in measure.options.items()
        },
        "bibtex": bibtex(key for key in measure.citations if key in CITATIONS),
    }


def _tasks() -> Listing:
    """List the tasks, those of files and those that are generated."""
    from ..tasks.generated.grammar import SIZES
    from ..tasks.generated.table import GENERATED
    from ..tasks.table import TASKS

    names = ("name", "title", "kind", "labels", "scores", "main")
    tasks = [
        {
            **picked(task, *names, "about", "license", "citation"),
            "sizes": dict(task.sizes),
            "hub": None if task.hub is None else task.hub.id,
            "revision": None if task.hub is None else (task.hub.revision or None),
        }
        for task in TASKS.values()
    ]
    generated = {"sizes": dict(SIZES), "hub": None, "revision": None, "citation": ""}
    for task in (make() for make in GENERATED.values()):
        card = {"about": task.card["tests"], "license": task.card["license"]}
        tasks.append({**picked(task, *names), **card, **generated})
    columns: Columns = {
        "task": "name",
        "kind": lambda task: task["kind"].replace("_", " "),
        "score": lambda task: " + ".join(task["main"]),
        "train": lambda task: _size(task, "train"),
        "validation": lambda task: _size(task, "validation"),
        "hub": lambda task: task["hub"] or "generated",
        "license": "license",
    }
    notes = [
        "With --data DIR a task is read from its original files, plain or packed; without it, from the "
        "hub, whose revision is pinned only where a source for it can be cited.",
        "Your own table: --task FILE.csv --column text=NAME --column label=NAME.",
    ]
    return tasks, [table(tasks, columns, notes)]


def _size(task: Mapping[str, Any], split: str) -> str:
    return f"{task['sizes'][split]:,}" if split in task["sizes"] else ""


def _recipes() -> Listing:
    """List the recipes, with where a doubtful value comes from."""
    from ..training.recipe import RECIPES, changeable

    recipes = list(RECIPES.values())
    entries = [
        {**recipe.specification(), **picked(recipe, "name", "citation"), "notes": dict(recipe.notes)}
        for recipe in recipes
    ]
    columns: Columns = {
        "recipe": lambda recipe: recipe.name,
        "batch": lambda recipe: str(recipe.batch),
        "rate": lambda recipe: f"{recipe.rate:g}",
        "length": lambda recipe: (
            f"{recipe.steps:,} updates" if recipe.epochs is None else f"{recipe.epochs:g} epochs"
        ),
        "warm-up": lambda r: (
            f"{100 * r.warmup:g} %" if r.warmup_steps is None else f"{r.warmup_steps:,} updates"
        ),
        "decay": lambda recipe: f"{recipe.decay:g}",
        "clip": lambda recipe: "" if recipe.clip is None else f"{recipe.clip:g}",
        "tokens": lambda recipe: str(recipe.longest),
        "head": lambda recipe: recipe.head,
        "source": lambda recipe: recipe.citation,
    }
    notes = [
        *(f"{recipe.name}, {name}: {note}." for recipe in recipes for name, note in recipe.notes.items()),
        f"Other values are given as --set name=value, with these names: {', '.join(changeable())}.",
        "warmup is a share of all updates, and warmup_steps a number of them, at most all.",
    ]
    return entries, [table(recipes, columns, notes)]


def _zoo() -> Listing:
    """List the encoders that come with the package, with what was measured of each."""
    from ..zoo.shipped import shipped

    encoders = list(shipped().values())
    notes = ["Loaded by name, as zoo:masked; the README.md in each folder tells the rest."]
    if not encoders:
        notes = ["No encoder comes with this installation; `microtome pretrain` makes them."]
    columns: Columns = {
        "encoder": "name",
        "objective": "title",
        "parameters": lambda encoder: f"{encoder['parameters']:,}",
        "size": lambda encoder: f"{encoder['bytes'] / 1e6:.1f} MB",
        "tokens seen": lambda encoder: _measured(encoder["tokens"], lambda count: f"{count / 1e6:,.1f} M"),
        "loss": lambda encoder: _measured(encoder["loss"]),
        "held-out accuracy (unigram)": lambda encoder: _beside(encoder["held_out"], "accuracy", "unigram"),
        "STS-B (random baseline)": lambda encoder: _beside(
            _means(encoder["scores"].get(STSB)), "model", "random"
        ),
    }
    return encoders, [table(encoders, columns, notes)]


def _layouts() -> Listing:
    from ..figures.layouts.table import LAYOUTS, numbered

    names = ("key", "paper", "figure", "title", "needs")
    numbers = {layout.key: name for name, layout in reversed(numbered().items())}
    layouts = [{**picked(layout, *names), "number": numbers[layout.key]} for layout in LAYOUTS.values()]
    columns: Columns = {"layout": "key", "or": "number", "paper": "figure", "what it shows": "title"}
    note = (
        "`microtome figure STUDY --layout NAME --out FILE` draws one. Numbers follow the order of the paper."
    )
    return layouts, [table(layouts, columns, [note])]


def _means(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: ((scores or {}).get(name) or {}).get("mean") for name in ("model", "random")}


def _beside(scores: Mapping[str, Any] | None, key: str, reference: str) -> str:
    """A number, and in brackets its baseline."""
    value, against = (scores or {}).get(key), (scores or {}).get(reference)
    return _measured(value) if value is None else f"{value:.3f} ({_measured(against)})"


def _measured(value: float | None, write: Callable[[float], str] = "{:.3f}".format) -> str:
    return "not measured" if value is None else write(value)


def _studies() -> Listing:
    """List the studies that come with the package, with the sizes of each."""
    from ..studies.claims import read_claims, shipped_claims
    from ..studies.file import shipped_studies, study

    studies = []
    for name, sizes in shipped_studies().items():
        for size in sizes:
            content = study(name, size=size)
            counts = {what: len(getattr(content, what)) for what in ("models", "tasks", "experiments")}
            claims = len(read_claims(name).claims) if name in shipped_claims() else 0
            studies.append({"study": name, "size": size, "title": content.title, **counts, "claims": claims})
    columns: Columns = {
        "study": "study",
        "size": "size",
        "what it is": "title",
        **{what: what for what in ("models", "tasks", "experiments", "claims")},
    }
    note = "microtome study plan NAME --size SIZE tells what it takes."
    return studies, [
        table(studies, columns, [note] if studies else ["No study comes with this installation."])
    ]


def _claims() -> Listing:
    """List the claims of papers, with what was published and what counts as holding."""
    from ..studies.claims import read_claims, shipped_claims
    from ..studies.statistics.table import STATISTICS

    names = ("id", "statement", "published", "source", "experiment", "statistic", "reading", "holds_where")
    claims = [
        {**picked(claim, *names), "paper": paper, "version": sheet.version, "digest": sheet.digest}
        for paper, sheet in ((paper, read_claims(paper)) for paper in shipped_claims())
        for claim in sheet.claims
    ]
    columns: Columns = {
        "paper": "paper",
        "claim": "id",
        "what it states": "statement",
        "statistic": "statistic",
        "holds where": "holds_where",
    }
    statistics: Columns = {"statistic": lambda entry: entry.name, "what it is": lambda entry: entry.summary}
    notes = ["A claim holds where the whole interval of the statistic lies between its bounds."]
    return claims, [table(claims, columns, notes), table(STATISTICS.values(), statistics)]


LISTINGS: Mapping[str, Callable[[], Listing]] = MappingProxyType(
    {
        "measures": _measures,
        "families": _families,
        "corpora": _corpora,
        "tasks": _tasks,
        "recipes": _recipes,
        "experiments": _experiments,
        "targets": _targets,
        "zoo": _zoo,
        "studies": _studies,
        "claims": _claims,
        "layouts": _layouts,
    }
)


@dataclass(frozen=True, kw_only=True)
class Ls(JsonOption, Tool):
    """List the available measures, families, corpora, tasks, recipes, experiments and other tables."""

    table: str = option("Table to list.", argument=True, choices=tuple(LISTINGS), metavar="TABLE")

    def run(self, context: Context) -> None:
        """Print the entries."""
        from ..errors import unknown

        if self.table not in LISTINGS:
            raise unknown("table", self.table, LISTINGS)
        entries, tables = LISTINGS[self.table]()
        self.screen.listing({"format": f"microtome/{self.table}/1", self.table: entries}, *tables)
