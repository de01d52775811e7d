"""Probes of annotation: labels of words, labels of spans, and dependency trees, in every layer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...context import Context
from ...findings.claims.claim import Claim
from ...findings.results import Curve, Result
from ...findings.words import counted, coverage, with_article
from ...probes.dataset import Asked, Probed
from ...probes.mixing import center_of_gravity, expected_layer
from ..base import Pieces, Plan
from ..citations import cited
from ..result import make_result
from .claims import baseline_claims, length_claims, mix_claims, reading_claims
from .curves import CONTROL, control_questions, over_draws, probe_curves, with_unit
from .inputs import (
    LAYERS,
    AnnotationInputs,
    RecordedRows,
    annotation_plan,
    open_annotations,
    probe_provenance,
    record_rows,
)
from .stored_probes import stored_probe

if TYPE_CHECKING:
    from .probing import Probing

# Of the curves, behind the name of their model.
_SUFFIXES = {"single": "", "upto": " (layers 0 to l)", "mix": " (all layers)"}
_SUBWORDS = MappingProxyType(
    {
        "last": "A word is represented by its last subword.",
        "mean": "A word is represented by the mean of its subwords.",
        "each": "A span is pooled over all subwords of its words.",
    }
)
_INPUTS = MappingProxyType(
    {"single": "one layer", "upto": "the mix of all layers up to one", "mix": "the mix of all layers"}
)


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
    """Record the activations, probe all layers, and make curves and claims."""
    started, inputs = time.monotonic(), plan.inputs
    asked, recorded = record_rows(inputs, experiment.probe_seeds, context)
    names, target, draws = inputs.names, inputs.annotated.target.name, experiment.draws
    curves: list[Curve] = []
    claims: list[Claim] = []
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    facts: dict[str, Any] = {}
    probes = {kind: _probe_all(experiment, inputs, recorded, kind, context) for kind in experiment.layers}
    first = next(iter(probes[experiment.layers[0]][0].values()))
    for kind, (probed, controls) in probes.items():
        models = [f"{name}{_SUFFIXES[kind]}" for name in names]
        own = [
            replace(with_unit(curve, asked, inputs.probe, draws=draws), arm=kind)
            for curve in probe_curves(probed, controls, models, context)
        ]
        curves += own
        claims += reading_claims(own, models, first.score, target, first.lines)
        if mixes := mix_facts(probed, kind):
            claims += mix_claims(mixes, models, first.score)
            facts.setdefault("mix", {}).update(mixes)
        for name, result in probed.items():
            notes.append(result.note)
            for fact, value in result.more.items():
                facts.setdefault(fact, {})[name] = value
        rows += [*_rows(kind, "target", probed), *_rows(kind, CONTROL, controls)]
    claims += [*length_claims(facts, names), *baseline_claims(first.lines, first.score)]
    return make_result(
        experiment.name,
        target,
        asked.split,
        score=first.score,
        started=started,
        model=", ".join(names),
        curves=curves,
        lines=first.lines,
        rows=rows,
        claims=claims,
        methods=_methods(experiment, inputs, asked, context),
        references=cited(
            "merchant2020",
            inputs.probe.cites,
            *(["tenney2019pipeline"] if "upto" in experiment.layers else []),
        ),
        warnings=filter(None, (asked.few, *_depth_notes(inputs, recorded), *notes)),
        more={
            "target": target,
            "probe": inputs.probe.name,
            "layers": list(experiment.layers),
            "size": experiment.size,
            "sentences": inputs.sizes,
            **facts,
        },
        provenance=probe_provenance(
            asked,
            inputs,
            context,
            seeds=list(experiment.probe_seeds),
            train_size=experiment.train_size,
            control=draws,
            steps=experiment.steps,
            size=experiment.size,
        ),
    )


def _probe_all(
    experiment: Probing,
    inputs: AnnotationInputs,
    recorded: Mapping[str, RecordedRows],
    kind: str,
    context: Context,
) -> tuple[dict[str, Probed], dict[str, Probed]]:
    """Probe every encoder for the target, and the models for the control task too; by curve."""
    targets, controls = {}, {}
    for place, (name, activations) in enumerate(recorded.items()):
        if context.progress is not None:
            context.progress(f"probing {name}", place, len(recorded))
        count = _count_tasks(experiment, inputs, name)
        target, *drawn = (
            _probe(experiment, inputs, activations, kind, number, context) for number in range(count)
        )
        curve = f"{name}{_SUFFIXES[kind]}"
        targets[curve] = target
        if drawn:
            controls[curve] = over_draws(drawn)
    return targets, controls


def _count_tasks(experiment: Probing, inputs: AnnotationInputs, name: str) -> int:
    """The number of tasks that a model is probed for: the target, and for no random baseline its controls."""
    return 1 + (experiment.draws if name in inputs.names else 0)


def _probe(
    experiment: Probing,
    inputs: AnnotationInputs,
    activations: RecordedRows,
    kind: str,
    number: int,
    context: Context,
) -> Probed:
    """Probe all layers of an encoder for the target, number 0, or for a control task."""
    task = replace(
        activations.asked,
        steps=experiment.steps,
        size=experiment.size,
        progress=context.progress,
        inputs=LAYERS[kind],
    )
    if number > 0:
        task = control_questions(task, experiment.draws)[number - 1]
    return stored_probe(task, inputs.probe.name, activations, inputs.probe.function(), context)


def pieces(experiment: Probing, plan: Plan, context: Context) -> Pieces:
    """For each model, what is read of it, and each task: its rows and the probes of all layers."""
    inputs = plan.inputs

    def perform(name: str, kind: str, number: int) -> None:
        _, recorded = record_rows(inputs, experiment.probe_seeds, context, [name])
        _probe(experiment, inputs, recorded[name], kind, number, context)

    return {
        f"{name}{_SUFFIXES[kind]}{f', {CONTROL} {number}' if number else ''}": partial(
            perform, name, kind, number
        )
        for name in inputs.encoders
        for kind in experiment.layers
        for number in range(_count_tasks(experiment, inputs, name))
    }


def mix_facts(probed: Mapping[str, Probed], kind: str) -> dict[str, dict[str, Any]]:
    """
    Weights of the layers in the mix of all of them, averaged over seeds, by curve.

    With their center of gravity, and for mixes of the layers up to one the expected layer.
    """
    facts: dict[str, dict[str, Any]] = {}
    for name, result in probed.items():
        if result.shares:
            shares = result.shares[-1]
            facts[name] = {"shares": list(shares), "center": float(center_of_gravity(shares))}
            if kind == "upto":
                facts[name]["expected_layer"] = _expected(result)
    return facts


def _expected(result: Probed) -> float | None:
    """Expected layer of the mean score over seeds; None where layers above 0 add nothing."""
    scores = [
        np.mean(
            [
                result.score.compute(predicted, answers.targets, result.labels)
                for predicted in answers.predictions
            ]
        )
        for answers in result.answers
    ]
    # Where layers lower the score more than they raise it, the mean of what they add is undefined.
    added = scores[-1] - scores[0]
    if added <= 0 if result.score.higher_is_better else added >= 0:
        return None
    value = float(expected_layer(scores))
    return value if np.isfinite(value) else None


def _rows(kind: str, task: str, probed: Mapping[str, Probed]) -> list[dict[str, Any]]:
    """One row per probe: its task and draw, model, layer, seed and score."""
    return [
        {
            "labels": task,
            "model": name.removesuffix(_SUFFIXES[kind]),
            "layers": kind,
            "layer": layer,
            "seed": answers.seeds[place] if len(answers.seeds) else 0,
            "draw": None if task == "target" else 0,
            "score": float(result.score.compute(predictions, answers.targets, result.labels)),
            **{key: value[place] if isinstance(value, tuple) else value for key, value in record.items()},
        }
        for name, result in probed.items()
        for layer, answers, record in zip(
            result.x, result.answers, result.rows or ({},) * len(result.answers), strict=True
        )
        for place, predictions in enumerate(answers.predictions)
    ]


def _depth_notes(inputs: AnnotationInputs, recorded: Mapping[str, RecordedRows]) -> list[str]:
    """Notes on models with another depth than the first, so that their layers do not correspond."""
    (first, depth), *others = ((name, len(recorded[name].X) - 1) for name in inputs.names)
    return [
        f"{name} has {blocks} blocks and {first} {depth}: they are not compared layer by layer."
        for name, blocks in others
        if blocks != depth
    ]


def _methods(experiment: Probing, inputs: AnnotationInputs, asked: Asked, context: Context) -> str:
    """Describe the probes, for a paper."""
    annotated, probe, names = inputs.annotated, inputs.probe, inputs.names
    train, held, judged = (f"{len(part):,}" for part in (asked.train, asked.held, asked.judged))
    texts = ", ".join(dict.fromkeys(str(text["name"]) for text in annotated.texts)) or annotated.source
    size, steps = experiment.size, experiment.steps
    parts = [
        f"Every layer of {', '.join(names)} was probed for {annotated.target.name} by "
        f"{with_article(probe.name)} probe ({probe.about}), trained on {train} sentences and tested on "
        f"{judged} others ({asked.split}), all of {texts}.",
        "Every model ran once over the corpus, and all were probed on the same words."
        if len(inputs.encoders) > 1
        else "The model ran once over the corpus.",
        _SUBWORDS[probe.subword],
    ]
    if list(experiment.layers) != ["single"]:
        parts.append(
            f"Probes read {' or '.join(_INPUTS[kind] for kind in experiment.layers)}; weights of a mix are a "
            "softmax, learned with the probe, times a learned number (Tenney et al. 2019)."
        )
    if size is not None:
        parts.append(
            f"Probes read the {size} principal component{'' if size == 1 else 's'} of largest variance of "
            "each layer, of features of variance 1."
        )
    if steps is not None:
        parts.append(f"Training ended after at most {counted(steps, 'update')}.")
    if probe.seeded:
        parts.append(
            f"{held} further sentences served for early stopping; seeds {', '.join(map(str, asked.seeds))}."
        )
    if experiment.random_baselines:
        parts.append("The random baseline is a randomly initialized copy of the first model.")
    if experiment.draws:
        parts.append(
            f"Labels of the control task are drawn for every type of "
            f"{'word' if probe.kind == 'words' else 'span'} from the frequencies of the labels (Hewitt and "
            "Liang 2019), "
            + (
                "once."
                if experiment.draws == 1
                else f"{experiment.draws} times, and intervals cover other draws."
            )
        )
    parts.append(
        f"Intervals of {coverage(context.level)} are over {asked.units_judged:,} {asked.unit}s; bands "
        "hold for all layers at once."
    )
    return " ".join(parts)
