"""Minimum description length of word labels given each layer (Voita and Titov 2020), by an online code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...context import Context
from ...findings.intervals import Unit, with_own_interval
from ...findings.results import Curve, Result
from ...findings.words import counted, number
from ...probes.dataset import Asked
from ...probes.mdl import Code, code_difference, code_interval, online_code
from ...probes.targets import word_labels
from ...probes.wordprobe import words_left_out
from ...rows.documents import document_codes
from ...store.shelf import Shelf
from ...version import VERSION
from ..base import Plan
from ..citations import cited
from ..curve_claims import differences_from
from .curves import AXIS, difference_facts
from .facts import CONTROL, probe_provenance
from .inputs import RANDOM_BASELINE, RecordedRows, annotation_plan, open_annotations, record_rows
from .stored_probes import kept_code, question

if TYPE_CHECKING:
    from .probing import Probing

SCORE = "bits per word"
UNIFORM = "all labels equally likely"


def plan(experiment: Probing, context: Context) -> Plan:
    """Open treebank and models, and count sentences, words and bytes."""
    inputs = open_annotations(experiment, context)
    sentences = counted(len(inputs.train), "sentence")
    target = inputs.annotated.target.name
    return annotation_plan(
        experiment, inputs, f"{target}: description length of {sentences}, by an online code, at"
    )


def run(experiment: Probing, plan: Plan, context: Context) -> Result:
    """Record the activations, code the labels given every layer, and make curves and findings."""
    started, inputs = time.monotonic(), plan.inputs
    asked, recorded = record_rows(inputs, experiment.probe_seeds, context)
    annotated, names, target = inputs.annotated, inputs.names, inputs.annotated.target.name
    labels = word_labels(annotated, asked.examples, asked.units)
    rows = asked.rows_of(asked.train)
    rows = rows[labels[rows] >= 0]
    # The model, the task and its labels, by curve.
    tasks = {name: (recorded[name], asked, labels) for name in recorded}
    if experiment.control_task:
        seed = asked.seeds[0]
        control = replace(asked, control=seed), _control_labels(asked, labels, seed)
        tasks |= {f"{CONTROL}, {name}": (recorded[name], *control) for name in names}
    codes = _codes(tasks, rows, context)
    lost = asked.words_lost(asked.train)
    coded = next(iter(codes.values())).groups
    documents, few = document_codes(coded, annotated.ids, annotated.groups)
    curves = _curves(codes, names, len(rows), documents, context.level)
    uniform = float(np.log2(len(annotated.labels)))
    converged = all(code.converged.all() for code in codes.values())
    return Result(
        experiment=experiment.name,
        model=", ".join(names),
        task=target,
        split="train",
        score=SCORE,
        points=1.0,
        higher_is_better=False,
        curves=tuple(curves),
        lines=MappingProxyType({UNIFORM: uniform}),
        rows=tuple(_rows(codes, len(rows))),
        findings=_findings({curve.name: curve for curve in curves}, names, target, uniform),
        methods=_methods(asked, names, target, len(rows), curves[0].unit, context.level),
        references=cited("voita2020", "merchant2020"),
        warnings=(
            *([few] if few else []),
            *([words_left_out(lost)] if lost else []),
            *([] if converged else ["Some linear probes did not converge."]),
        ),
        more=MappingProxyType({"target": target, "probe": "online code", "words": len(rows)}),
        provenance=probe_provenance(
            asked,
            inputs,
            context,
            started=started,
            seeds=list(experiment.probe_seeds),
            train_size=experiment.train_size,
            control=experiment.control_task,
        ),
    )


def _codes(
    tasks: Mapping[str, tuple[RecordedRows, Asked, np.ndarray]], rows: np.ndarray, context: Context
) -> dict[str, Code]:
    """Code the labels of every task block by block, or read the code from the store."""
    codes: dict[str, Code] = {}
    shelf = Shelf(context.store)
    for place, (name, (activations, asked, labels)) in enumerate(tasks.items()):
        if context.progress is not None:
            context.progress(f"coding {name}", place, len(tasks))
        compute = partial(
            online_code,
            activations.X[:, rows],
            labels[rows],
            len(asked.annotated.labels),
            groups=asked.examples[rows],
            seed=asked.seeds[0],
            device=context.device,
        )
        specification = question(asked, "online code")
        codes[name] = kept_code(shelf, specification, activations.address, compute, context.command)
    return codes


def _control_labels(asked: Asked, labels: np.ndarray, seed: int) -> np.ndarray:
    from ...probes.control import control_labels

    sentences = asked.annotated.sentences
    words = [sentences[row][unit] for row, unit in zip(asked.examples, asked.units, strict=True)]
    return np.where(labels < 0, -1, control_labels(words, labels, seed=seed))


def _curves(
    codes: Mapping[str, Code],
    names: Sequence[str],
    words: int,
    documents: np.ndarray | None,
    level: float,
) -> list[Curve]:
    shared: dict[str, Any] = {"words": words, "documents": documents, "level": level}
    curves = [_curve(code, reference=None, name=name, model=name, **shared) for name, code in codes.items()]
    for name in names:
        curves.append(_curve(codes[name], reference=0, **difference_facts(name, "its layer 0"), **shared))
    for name in [*names[1:], *([RANDOM_BASELINE] if RANDOM_BASELINE in codes else [])]:
        first = codes[names[0]]
        if len(codes[name].bits) == len(first.bits):
            facts = difference_facts(name, names[0])
            curves.append(_curve(codes[name], reference=first, **facts, **shared))
    return curves


def _curve(
    code: Code,
    *,
    words: int,
    documents: np.ndarray | None,
    level: float,
    reference: Code | int | None,
    **facts: Any,
) -> Curve:
    """Bits per word, or how many more they are than those of another code or layer."""
    count = len(code.bits)
    ends = []
    values = code.bits
    for coverage in (level, 1 - (1 - level) / count):
        if reference is None:
            band = code_interval(code, clusters=documents, level=coverage)
        elif isinstance(reference, int):
            values, band = code_difference(code, reference=reference, clusters=documents, level=coverage)
        else:
            values, band = code_difference(code, reference, clusters=documents, level=coverage)
        ends += [band.low / words, band.high / words]
    return Curve(
        axis=AXIS,
        x=tuple(range(count)),
        values=values / words,
        low=ends[0],
        high=ends[1],
        band_low=ends[2],
        band_high=ends[3],
        level=level,
        unit=Unit("sentence" if documents is None else "document"),
        n=words,
        seeds=(1,) * count,
        reasons=(None,) * count,
        note="The band is Bonferroni's over the layers; it does not cover other training sentences.",
        **facts,
    )


def _findings(
    curves: Mapping[str, Curve], names: Sequence[str], target: str, uniform: float
) -> tuple[str, ...]:
    findings = []
    for name in names:
        curve, gain = curves[name], curves[f"difference, {name} from its layer 0"]
        best = int(np.nanargmin(curve.values))
        sentence = (
            f"{name}: {target} takes fewest bits at layer {best}, {_at(curve, best)} per word, "
            f"{number(uniform / curve.values[best])} times fewer than labels that are all equally likely"
        )
        findings.append(f"{sentence}; {_at(gain, best)} from layer 0." if best else f"{sentence}.")
        control = curves.get(f"{CONTROL}, {name}")
        if control is not None:
            findings.append(f"{name}: the control task takes {_at(control, best)} per word there.")
    for curve in differences_from(list(curves.values()), names[0]):
        most = int(np.nanargmax(np.abs(curve.values)))
        significant = curve.band_low[most] > 0 or curve.band_high[most] < 0
        doubt = "" if significant else f", not significant by the {curve.level * 100:g}% band of all layers"
        findings.append(
            f"{curve.model} against {curve.against}: {_at(curve, most)} per word at layer {most}{doubt}."
        )
    return tuple(findings)


def _at(curve: Curve, at: int) -> str:
    sign = "+" if curve.role == "difference" and curve.values[at] > 0 else ""
    value, low, high = (float(line[at]) for line in (curve.values, curve.low, curve.high))
    return sign + with_own_interval(
        value, low, high, level=curve.level, unit=curve.unit, noun="bits", digits=3, points=1.0
    )


def _rows(codes: Mapping[str, Code], words: int) -> list[dict[str, Any]]:
    return [
        {
            "model": name,
            "layer": layer,
            "bits": float(code.bits[layer]),
            "score": float(code.bits[layer]) / words,
            "compression": float(code.compression[layer]),
        }
        for name, code in codes.items()
        for layer in range(len(code.bits))
    ]


def _methods(asked: Asked, names: Sequence[str], target: str, words: int, unit: str, level: float) -> str:
    return (
        f"Labels of {target} of {words:,} words in {len(asked.train):,} sentences of "
        f"{asked.annotated.source} were coded block by block given each layer of {', '.join(names)} (online "
        "code, Voita and Titov 2020): the first block with all labels equally likely, each further one with "
        "a linear probe (logistic regression) trained on the blocks before it. Blocks end at 0.1 to 100 % of "
        f"the words, at the end of a sentence. Intervals of {level * 100:g}% are over {unit}s within blocks; "
        f"bands hold for all layers at once. Computed with microtome {VERSION}."
    )
