"""The verb `ls`: the tables of measures, families, corpora, tasks and the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..options import option
from .listings import Listing, list_recipes, list_tasks, list_zoo, picked
from .show import Columns, JsonOption, table
from .tools import Tool

if TYPE_CHECKING:
    from ..measures.declare import Measure

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


LISTINGS: Mapping[str, Callable[[], Listing]] = MappingProxyType(
    {
        "measures": _measures,
        "families": _families,
        "corpora": _corpora,
        "tasks": list_tasks,
        "recipes": list_recipes,
        "experiments": _experiments,
        "targets": _targets,
        "zoo": list_zoo,
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
