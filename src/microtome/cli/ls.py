"""The verb `ls`: the tables of measures, families, corpora, tasks and the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..options import option
from .listings import Listing, list_recipes, list_tasks, list_zoo, picked
from .show import JsonOption, Table
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

    families = [
        {
            **picked(family, "name", "title", "model_types", "reads", "causal", "shared"),
            "final_norm": family.final_norm is not None,
            "source": family.source,
        }
        for family in FAMILIES.values()
    ]
    table: Table = (
        ["family", "models", "types in config.json", "cls row", "causal", "last norm", "source"],
        [
            [
                family["name"],
                family["title"],
                ", ".join(family["model_types"]),
                "none" if family["reads"] == "none" else f"{family['reads']} token",
                "yes" if family["causal"] else "no",
                "yes" if family["final_norm"] else "no",
                family["source"],
            ]
            for family in families
        ],
        [
            "Layer 0 is what the first block reads, layer l what block l gives; where there is a last norm, "
            "its output is one more layer, called norm."
        ],
    )
    return families, [table]


def _targets() -> Listing:
    from ..probes.table import PROBES
    from ..probes.targets import TARGETS

    probes = {probe.kind: probe.name for probe in PROBES.values()}
    targets = [
        {**picked(target, "name", "about", "kind"), "probe": probes[target.kind], **picked(target, "formats")}
        for target in TARGETS.values()
    ]
    table: Table = (
        ["target", "what it asks", "probe", "files"],
        [
            [target["name"], target["about"], target["probe"], ", ".join(target["formats"])]
            for target in targets
        ],
        [
            "task:NAME reads the answers of a task of `microtome ls tasks` from the vector of a whole input "
            "(cls), as --target task:rte; with --data DIR from its original files."
        ],
    )
    return targets, [table]


def _experiments() -> Listing:
    from dataclasses import fields

    from ..experiments.table import EXPERIMENTS, NEEDS, Entry

    names = [f.name for f in fields(Entry)]
    table: Table = (
        ["experiment", "what it does", "needs", "source"],
        [[entry.verb, entry.summary, NEEDS[entry.takes], entry.source] for entry in EXPERIMENTS.values()],
        [],
    )
    return [picked(entry, *names) for entry in EXPERIMENTS.values()], [table]


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
    tables: list[Table] = [
        (
            ["reader", "files", "what an example is"],
            [[reader["name"], " ".join(reader["suffixes"]), reader["summary"]] for reader in readers],
            [
                "Files may also end in .gz, .xz or .bz2.",
                "A split of a task is a corpus too: task:rte/validation.",
            ],
        ),
        (
            ["reader", "option", "default", "meaning"],
            [
                [reader["name"], name, str(facts["default"]), facts["meaning"]]
                for reader in readers
                for name, facts in reader["options"].items()
            ],
            ["Given as --read name=value."],
        ),
    ]
    return readers, tables


def _measures() -> Listing:
    from ..findings.methods import cite
    from ..measures.table import ALIASES, EVERYTHING

    def row(measure: Measure) -> list[str]:
        left, right = measure.invariances.left, measure.invariances.right
        marks = {(True, True): "+", (True, False): "L", (False, True): "R", (False, False): "."}
        return [
            measure.name,
            " to ".join(f"{end:.3g}" for end in measure.range),
            "yes" if measure.symmetric else "no",
            " ".join(marks[name in left, name in right] for name in TRANSFORMED.values()),
            measure.needs,
            "; ".join(cite(key) for key in measure.citations),
        ]

    measures = list(EVERYTHING.values())
    legend = ", ".join(f"{letter} {name.replace('_', ' ')}" for letter, name in TRANSFORMED.items())
    tables: list[Table] = [
        (
            ["measure", "range", "symmetric", " ".join(TRANSFORMED), "reads", "source"],
            [row(measure) for measure in measures],
            [
                "Higher is more similar. One that is not symmetric says how well the left layer is found in, "
                "or predicted from, the right one.",
                f"What leaves the value unchanged, on both sides (+), left (L) or right (R): {legend}.",
                f"Names of Wu et al. 2020: {', '.join(f'{a} = {n}' for a, n in ALIASES.items())}.",
            ],
        ),
        (
            ["measure", "option", "default", "allowed", "meaning"],
            [
                [measure.name, name, str(facts.default), _allowed(facts), facts.meaning]
                for measure in measures
                for name, facts in measure.options.items()
            ],
            ["Written behind the name, as in svcca:threshold=0.95. Some change the table above; see --json."],
        ),
    ]
    return [_document(measure) for measure in measures], tables


def _allowed(facts: Any) -> str:
    if facts.choices is not None:
        return ", ".join(str(choice) for choice in facts.choices)
    ends = {"at least": facts.low, "at most": facts.high}
    return ", ".join(f"{words} {end:g}" for words, end in ends.items() if end is not None)


def _document(measure: Measure) -> dict[str, Any]:
    from ..measures.citations import CITATIONS, bibtex
    from ..measures.table import ALIASES

    sides = {"left": measure.invariances.left, "right": measure.invariances.right}
    return {
        "name": measure.name,
        "aliases": [alias for alias, name in ALIASES.items() if name.split(":")[0] == measure.name],
        **picked(measure, "title", "summary", "formula"),
        # JSON has no infinity: null is an open end.
        "range": [end if math.isfinite(end) else None for end in measure.range],
        "direction": "higher is more similar",
        "symmetric": measure.symmetric,
        "invariances": {side: sorted(names) for side, names in sides.items()},
        **picked(measure, "needs", "interval"),
        "null_known": measure.null is not None,
        "changed_by_options": sorted(set(measure.varying) - {"compute", "prepare"}),
        "options": {
            name: picked(facts, "default", "choices", "low", "high", "meaning")
            for name, facts in measure.options.items()
        },
        "citations": list(measure.citations),
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
    """List the entries of a table, with what each promises."""

    table: str = option("Table to list.", argument=True, choices=tuple(LISTINGS), metavar="TABLE")

    def run(self, command: str) -> None:
        """Print the entries."""
        from ..errors import unknown

        if self.table not in LISTINGS:
            raise unknown("table", self.table, LISTINGS)
        entries, tables = LISTINGS[self.table]()
        self.screen.listing({"format": f"microtome/{self.table}/1", self.table: entries}, *tables)
