"""The verb `ls`: the tables of measures, families, corpora, tasks and the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .show import JsonOption, Screen
from .training import list_recipes, list_tasks
from .zoo import list_zoo

if TYPE_CHECKING:
    from ..measures.declare import Measure

TABLES = ("measures", "families", "corpora", "tasks", "recipes", "experiments", "targets", "zoo")
# The letters that formulas use for what is done to a layer.
TRANSFORMED = {
    "Q": "orthogonal",
    "a": "isotropic_scale",
    "A": "invertible_linear",
    "b": "translation",
    "P": "neuron_permutation",
    "s": "neuron_scale",
}


def ls(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="measures, families, corpora, tasks, recipes, experiments, targets or zoo",
            show_default=False,
        ),
    ],
    json: JsonOption = False,
) -> None:
    """List the entries of a table, with what each promises."""
    from ..errors import unknown

    if table not in TABLES:
        raise unknown("table", table, TABLES)
    listings = {
        "measures": _measures,
        "families": _families,
        "corpora": _corpora,
        "tasks": list_tasks,
        "recipes": list_recipes,
        "experiments": _experiments,
        "targets": _targets,
        "zoo": list_zoo,
    }
    listings[table](Screen(json=json))


def _families(screen: Screen) -> None:
    from ..encoders.table import FAMILIES

    families = [
        {
            "name": family.name,
            "title": family.title,
            "model_types": list(family.model_types),
            "reads": family.reads,
            "causal": family.causal,
            "shared": family.shared,
            "final_norm": family.final_norm is not None,
            "source": family.source,
        }
        for family in FAMILIES.values()
    ]
    if screen.json:
        screen.result({"format": "microtome/families/1", "families": families}, "")
        return
    screen.rows(
        ["family", "models", "types in config.json", "cls row", "causal", "last norm", "source"],
        [
            [
                str(family["name"]),
                str(family["title"]),
                ", ".join(family["model_types"]),
                "none" if family["reads"] == "none" else f"{family['reads']} token",
                "yes" if family["causal"] else "no",
                "yes" if family["final_norm"] else "no",
                str(family["source"]),
            ]
            for family in families
        ],
        [
            "Layer 0 is what the first block reads, layer l what block l gives; where there is a last norm, "
            "its output is one more layer, called norm."
        ],
    )


def _targets(screen: Screen) -> None:
    from ..probes.table import PROBES
    from ..probes.targets import TARGETS

    probes = {probe.kind: probe.name for probe in PROBES.values()}
    targets = [
        {
            "name": target.name,
            "about": target.about,
            "kind": target.kind,
            "probe": probes[target.kind],
            "formats": list(target.formats),
        }
        for target in TARGETS.values()
    ]
    if screen.json:
        screen.result({"format": "microtome/targets/1", "targets": targets}, "")
        return
    screen.rows(
        ["target", "what it asks", "probe", "files"],
        [
            [str(target["name"]), str(target["about"]), target["probe"], ", ".join(target["formats"])]
            for target in targets
        ],
        [
            "task:NAME reads the answers of a task of `microtome ls tasks` from the vector of a whole input "
            "(cls), as --target task:rte; with --data DIR from its original files."
        ],
    )


def _experiments(screen: Screen) -> None:
    from dataclasses import asdict

    from ..experiments.table import EXPERIMENTS

    if screen.json:
        entries = [{**asdict(entry), "protocols": list(entry.protocols)} for entry in EXPERIMENTS.values()]
        screen.result({"format": "microtome/experiments/1", "experiments": entries}, "")
        return
    needs = {
        "tuned": "a fine-tuned model",
        "encoder": "an encoder, which is fine-tuned",
        "layers": "an encoder and an annotated corpus",
        "changed": "a model before and after fine-tuning, and texts",
        "models": "models and a text",
        "checkpoints": "checkpoints of a training, and a text",
        "files": "files or folders of layers",
        "text": "a text",
    }
    screen.rows(
        ["experiment", "what it does", "needs", "source"],
        [[entry.verb, entry.summary, needs[entry.takes], entry.source] for entry in EXPERIMENTS.values()],
    )


def _corpora(screen: Screen) -> None:
    from ..corpora.table import CORPORA

    if screen.json:
        readers = [
            {
                "name": reader.name,
                "suffixes": list(reader.suffixes),
                "summary": reader.summary,
                "options": {
                    n: {"default": o.default, "meaning": o.meaning} for n, o in reader.options.items()
                },
            }
            for reader in CORPORA.values()
        ]
        screen.result({"format": "microtome/corpora/1", "corpora": readers}, "")
        return
    screen.rows(
        ["reader", "files", "what an example is"],
        [[reader.name, " ".join(reader.suffixes), reader.summary] for reader in CORPORA.values()],
        [
            "Files may also end in .gz, .xz or .bz2.",
            "A split of a task is a corpus too: task:rte/validation.",
            "",
        ],
    )
    screen.rows(
        ["reader", "option", "default", "meaning"],
        [
            [reader.name, name, str(option.default), option.meaning]
            for reader in CORPORA.values()
            for name, option in reader.options.items()
        ],
        ["Given as --read name=value."],
    )


def _measures(screen: Screen) -> None:
    from ..measures.table import ALIASES, EVERYTHING

    measures = list(EVERYTHING.values())
    if screen.json:
        screen.result({"format": "microtome/measures/1", "measures": [_document(m) for m in measures]}, "")
        return
    letters = " ".join(TRANSFORMED)
    screen.rows(
        ["measure", "range", "symmetric", letters, "reads", "source"],
        [_row(measure) for measure in measures],
        [
            "Higher is more similar. One that is not symmetric says how well the left layer is found in, or "
            "predicted from, the right one.",
            f"What leaves the value unchanged, on both sides (+), left (L) or right (R): {_legend()}.",
            f"Names of Wu et al. 2020: {', '.join(f'{a} = {n}' for a, n in ALIASES.items())}.",
            "",
        ],
    )
    screen.rows(
        ["measure", "option", "default", "allowed", "meaning"],
        [row for measure in measures for row in _option_rows(measure)],
        ["Written behind the name, as in svcca:threshold=0.95. Some change the table above; see --json."],
    )


def _legend() -> str:
    return ", ".join(f"{letter} {name.replace('_', ' ')}" for letter, name in TRANSFORMED.items())


def _row(measure: Measure) -> list[str]:
    from ..findings.methods import cite

    left, right = measure.invariances.left, measure.invariances.right
    marks = {(True, True): "+", (True, False): "L", (False, True): "R", (False, False): "."}
    low, high = (f"{end:.3g}" for end in measure.range)
    return [
        measure.name,
        f"{low} to {high}",
        "yes" if measure.symmetric else "no",
        " ".join(marks[name in left, name in right] for name in TRANSFORMED.values()),
        measure.needs,
        "; ".join(cite(key) for key in measure.citations),
    ]


def _option_rows(measure: Measure) -> list[list[str]]:
    rows = []
    for name, option in measure.options.items():
        if option.choices is not None:
            allowed = ", ".join(str(choice) for choice in option.choices)
        else:
            ends = [f"at least {option.low:g}"] if option.low is not None else []
            ends += [f"at most {option.high:g}"] if option.high is not None else []
            allowed = ", ".join(ends)
        rows.append([measure.name, name, str(option.default), allowed, option.meaning])
    return rows


def _document(measure: Measure) -> dict[str, Any]:
    from ..measures.citations import CITATIONS, bibtex
    from ..measures.table import ALIASES

    return {
        "name": measure.name,
        "aliases": [alias for alias, name in ALIASES.items() if name.split(":")[0] == measure.name],
        "title": measure.title,
        "summary": measure.summary,
        "formula": measure.formula,
        # JSON has no infinity: null is an open end.
        "range": [end if math.isfinite(end) else None for end in measure.range],
        "direction": "higher is more similar",
        "symmetric": measure.symmetric,
        "invariances": {
            "left": sorted(measure.invariances.left),
            "right": sorted(measure.invariances.right),
        },
        "needs": measure.needs,
        "interval": measure.interval,
        "null_known": measure.null is not None,
        "changed_by_options": sorted(set(measure.varying) - {"compute", "prepare"}),
        "options": {name: _option(option) for name, option in measure.options.items()},
        "citations": list(measure.citations),
        "bibtex": bibtex(key for key in measure.citations if key in CITATIONS),
    }


def _option(option: Any) -> Mapping[str, Any]:
    choices: Sequence[Any] | None = option.choices
    return {
        "default": option.default,
        "choices": None if choices is None else list(choices),
        "low": option.low,
        "high": option.high,
        "meaning": option.meaning,
    }
