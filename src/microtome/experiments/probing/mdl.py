"""Minimum description length of word labels given each layer (Voita and Titov 2020), by an online code."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...context import Context
from ...findings.results import Curve, Result
from ...findings.words import Unit, counted, coverage
from ...probes.dataset import Asked
from ...probes.mdl import Code, code_interval, online_code
from ...probes.wordprobe import labels_of_rows, words_left_out
from ...rows.documents import document_codes
from ...scores.declare import Score
from ..base import Pieces, Plan
from ..citations import cited
from ..result import make_result
from .claims import baseline_claims, reading_claims
from .curves import AXIS, BOTTOM, CONTROL, difference_facts
from .inputs import (
    AnnotationInputs,
    RecordedRows,
    annotation_plan,
    open_annotations,
    probe_provenance,
    record_rows,
)
from .stored_probes import stored_code

if TYPE_CHECKING:
    from .probing import Probing

BITS = Score(
    name="bits per word",
    title="Bits per word of an online code",
    kinds=(),
    range=(0.0, math.inf),
    higher_is_better=False,
    points=1.0,
    compute=lambda predictions, targets, labels: float(np.mean(predictions)),
)
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
    """Record the activations, code the labels given every layer, and make curves and claims."""
    started, inputs = time.monotonic(), plan.inputs
    asked, recorded = record_rows(inputs, experiment.probe_seeds, context)
    annotated, names, target = inputs.annotated, inputs.names, inputs.annotated.target.name
    tasks = _tasks(experiment, inputs)
    coded: list[Code] = []
    for place, (name, control) in enumerate(tasks):
        if context.progress is not None:
            context.progress(f"coding {name}", place, len(tasks))
        coded.append(_stored(recorded[name], context, control=control))
    codes = dict(zip(recorded, coded, strict=False))
    controls = dict(zip(names, coded[len(recorded) :], strict=False))
    words = int(coded[0].ends[-1])
    all_codes = codes | {f"{CONTROL}, {name}": code for name, code in controls.items()}
    lost = asked.words_lost(asked.train)
    documents, few = document_codes(codes[names[0]].groups, annotated.ids, annotated.groups)
    curves = _curves(codes, controls, names, documents, context)
    lines = {UNIFORM: float(np.log2(len(annotated.labels)))}
    converged = all(code.converged.all() for code in coded)
    return make_result(
        experiment.name,
        target,
        "train",
        score=BITS,
        started=started,
        model=", ".join(names),
        curves=curves,
        lines=MappingProxyType(lines),
        rows=_rows(all_codes, words),
        claims=(
            *reading_claims(curves, names, BITS, target, lines),
            *baseline_claims(lines, BITS),
        ),
        methods=_methods(asked, inputs, words, curves[0].unit, context),
        references=cited("voita2020", "merchant2020"),
        warnings=(
            *([few] if few else []),
            *([words_left_out(lost)] if lost else []),
            *([] if converged else ["Some linear probes did not converge."]),
        ),
        more={"target": target, "probe": "online code", "words": words},
        provenance=probe_provenance(
            asked,
            inputs,
            context,
            seeds=list(experiment.probe_seeds),
            train_size=experiment.train_size,
            control=experiment.control_task,
        ),
    )


def pieces(experiment: Probing, plan: Plan, context: Context) -> Pieces:
    """For each model and task, its rows and the code of the labels given every layer."""

    def perform(name: str, control: bool) -> None:
        _, recorded = record_rows(plan.inputs, experiment.probe_seeds, context, [name])
        _stored(recorded[name], context, control=control)

    return {
        f"{f'{CONTROL}, ' * control}{name}": partial(perform, name, control)
        for name, control in _tasks(experiment, plan.inputs)
    }


def _tasks(experiment: Probing, inputs: AnnotationInputs) -> list[tuple[str, bool]]:
    """Which encoders are coded, and whether for the control task."""
    controls = inputs.names if experiment.control_task else []
    return [*((name, False) for name in inputs.encoders), *((name, True) for name in controls)]


def _stored(rows: RecordedRows, context: Context, *, control: bool) -> Code:
    asked = replace(rows.asked, control=rows.asked.seeds[0]) if control else rows.asked
    return stored_code(asked, rows, _code, context)


def _code(asked: Asked, X: np.ndarray) -> Code:
    labels, rows = labels_of_rows(asked), asked.rows_of(asked.train)
    rows = rows[labels[rows] >= 0]
    return online_code(
        X[:, rows],
        labels[rows],
        len(asked.annotated.labels),
        groups=asked.examples[rows],
        seed=asked.seeds[0],
        device=asked.device,
    )


def _curves(
    codes: Mapping[str, Code],
    controls: Mapping[str, Code],
    names: Sequence[str],
    documents: np.ndarray | None,
    context: Context,
) -> list[Curve]:
    """Bits per word, then differences of layers from layer 0 and of models from the first."""
    curves = []

    def add(code: Code, minus: Code | int | None = None, **facts: Any) -> None:
        """Add bits per word, or how many more they are than those of another code or layer."""
        count, words = len(code.bits), int(code.ends[-1])
        level, values, ends = context.level, code.bits, []
        for of_all in (level, 1 - (1 - level) / count):
            band = code_interval(code, minus, clusters=documents, level=of_all)
            ends += [band.low / words, band.high / words]
            values = code.bits if minus is None else band.center
        curve = Curve(
            axis=AXIS,
            x=tuple(range(count)),
            values=values / words,
            **dict(zip(("low", "high", "band_low", "band_high"), ends, strict=True)),
            level=level,
            unit=Unit("sentence" if documents is None else "document"),
            n=words,
            seeds=(1,) * count,
            reasons=(None,) * count,
            note="The band is Bonferroni's over the layers; it does not cover other training sentences.",
            **facts,
        )
        curves.append(curve)

    first = codes[names[0]]
    for name, code in codes.items():
        add(code, name=name, model=name)
    for name, code in controls.items():
        add(code, name=f"{CONTROL}, {name}", model=name, role="control")
    for name in names:
        add(codes[name], 0, **difference_facts(name, BOTTOM))
    for name, code in list(codes.items())[1:]:
        if len(code.bits) == len(first.bits):
            add(code, first, **difference_facts(name, names[0]))
    return curves


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


def _methods(asked: Asked, inputs: AnnotationInputs, words: int, unit: str, context: Context) -> str:
    """Describe the code, for a paper."""
    return (
        f"Labels of {inputs.annotated.target.name} of {words:,} words in {len(asked.train):,} sentences of "
        f"{asked.annotated.source} were coded block by block given each layer of "
        f"{', '.join(inputs.names)} (online code, Voita and Titov 2020): the first block with all labels "
        "equally likely, each further one with a linear probe (logistic regression) trained on the blocks "
        f"before it. Blocks end at 0.1 to 100 % of the words, at the end of a sentence. Intervals of "
        f"{coverage(context.level)} are over {unit}s within blocks; bands hold for all layers at once."
    )
