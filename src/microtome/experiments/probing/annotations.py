"""Probes of annotation: labels of words, labels of spans, and dependency trees, in every layer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ...context import Context
from ...findings.results import Result
from ...findings.words import counted
from ...probes.dataset import Asked, Probed
from ...store.shelf import Shelf
from ..base import Plan
from ..citations import cited
from ..curve_claims import said_lines
from .claims import layer_findings, length_findings, methods_of
from .control import control_questions, over_draws
from .curves import probe_curves, with_unit
from .facts import depth_notes, more_facts, probe_provenance, probe_rows, sizes_of
from .inputs import AnnotationInputs, RecordedRows, annotation_plan, open_annotations, record_rows
from .layer_mixes import LAYERS, called, mix_facts, mix_findings
from .stored_probes import kept_probe, question

if TYPE_CHECKING:
    from .probing import Probing


@dataclass(frozen=True, kw_only=True, eq=False)
class _Probes:
    """Probes of all models, by what they read ("single", "upto", "mix") and curve."""

    targets: dict[str, dict[str, Probed]] = field(default_factory=dict)
    controls: dict[str, dict[str, Probed]] = field(default_factory=dict)


def plan(experiment: Probing, context: Context) -> Plan:
    """Open treebank and models, and count sentences, words and bytes."""
    inputs = open_annotations(experiment, context)
    probe, target = inputs.probe, inputs.annotated.target.name
    stopping = f", {len(inputs.held):,} for early stopping" if probe.seeded else ""
    return annotation_plan(
        experiment,
        inputs,
        f"{target}: {probe.name} probes trained on {counted(len(inputs.train), 'sentence')}{stopping} and "
        f"tested on {len(inputs.judged):,} ({inputs.split}), at",
    )


def run(experiment: Probing, plan: Plan, context: Context) -> Result:
    """Record the activations, probe all layers, and make curves and findings."""
    started, inputs = time.monotonic(), plan.inputs
    asked, recorded = record_rows(inputs, experiment.probe_seeds, context)
    probes = _probe_all(experiment, inputs, recorded, context)
    names, target, draws = inputs.names, inputs.annotated.target.name, experiment.draws
    first = next(iter(probes.targets[experiment.layers[0]].values()))
    curves, findings = [], []
    for kind, probed in probes.targets.items():
        labels = [called(name, kind) for name in names]
        scored = [
            replace(with_unit(curve, asked, inputs.probe, draws=draws), arm=kind)
            for curve in probe_curves(probed, probes.controls[kind], labels, level=context.level, draws=draws)
        ]
        curves += scored
        findings += layer_findings(scored, labels, first.score, target, kind=kind, lines=first.lines)
        findings += mix_findings(probed, labels, kind)
    facts = more_facts(probes.targets)
    findings += length_findings(facts, names)
    depths = {name: len(activations.X) - 1 for name, activations in recorded.items() if name in names}
    notes = [result.note for probed in probes.targets.values() for result in probed.values()]
    return Result(
        experiment=experiment.name,
        model=", ".join(names),
        task=target,
        split=asked.split,
        score=first.score.name,
        points=first.score.points,
        higher_is_better=first.score.higher_is_better,
        curves=tuple(curves),
        lines=first.lines,
        rows=tuple(
            row
            for kind, probed in probes.targets.items()
            for row in probe_rows(kind, probed, probes.controls[kind])
        ),
        findings=(*findings, *said_lines(first.lines)),
        methods=methods_of(experiment, inputs, asked, context.level),
        references=cited(
            "merchant2020",
            inputs.probe.cites,
            *(["tenney2019pipeline"] if "upto" in experiment.layers else []),
        ),
        warnings=tuple(dict.fromkeys(filter(None, (asked.few, *depth_notes(depths), *notes)))),
        more=MappingProxyType(
            {
                "target": target,
                "probe": inputs.probe.name,
                "layers": list(experiment.layers),
                "size": experiment.size,
                "sentences": sizes_of(asked),
                **mix_facts(probes.targets),
                **facts,
            }
        ),
        provenance=probe_provenance(
            asked,
            inputs,
            context,
            started=started,
            seeds=list(experiment.probe_seeds),
            train_size=experiment.train_size,
            control=draws,
            steps=experiment.steps,
            size=experiment.size,
        ),
    )


def _probe_all(
    experiment: Probing, inputs: AnnotationInputs, recorded: dict[str, RecordedRows], context: Context
) -> _Probes:
    """Probe every encoder for the target, and the given ones for the control task too."""
    train, shelf, probes = inputs.probe.function(), Shelf(context.store), _Probes()
    for kind in experiment.layers:
        targets, controls = probes.targets.setdefault(kind, {}), probes.controls.setdefault(kind, {})
        for place, (name, activations) in enumerate(recorded.items()):
            if context.progress is not None:
                context.progress(f"probing {name}", place, len(recorded))
            asked = replace(
                activations.asked,
                steps=experiment.steps,
                size=experiment.size,
                progress=context.progress,
                inputs=LAYERS[kind],
            )

            def stored(task: Asked, X: np.ndarray = activations.X, rows: str = activations.address) -> Probed:
                specification = question(task, inputs.probe.name)
                return kept_probe(shelf, specification, rows, lambda: train(task, X), context.command)

            targets[called(name, kind)] = stored(asked)
            if experiment.draws and name in inputs.names:
                drawn = [stored(task) for task in control_questions(asked, experiment.draws)]
                controls[called(name, kind)] = over_draws(drawn)
    return probes
