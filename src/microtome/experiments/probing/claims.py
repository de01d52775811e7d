"""Findings and methods of probing annotation: sentences with bands of all layers, and a methods paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...findings.results import Curve
from ...findings.words import counted, number, with_article
from ...probes.dataset import Asked
from ...probes.structural.scores import DEPTH_SPEARMAN, DISTANCE_SPEARMAN, LONGEST, SHORTEST
from ...scores.declare import Score
from ...version import VERSION
from ..curve_claims import (
    above_lines,
    best_place,
    differences_from,
    doubt,
    reasons_at,
    said_best,
    said_difference,
    said_nothing,
    said_points,
    without_interval,
)

if TYPE_CHECKING:
    from .inputs import AnnotationInputs
    from .probing import Probing


def layer_findings(
    curves: Sequence[Curve],
    names: Sequence[str],
    score: Score,
    target: str,
    *,
    kind: str = "single",
    lines: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """
    Say which layer is read best, what the layers add to layer 0, and how other models differ.

    Parameters
    ----------
    curves : sequence of Curve
        Of `probe_curves`, with their units.
    names : sequence of str
        Of the models, without the random baseline.
    score : Score
    target : str
    kind : {"single", "upto", "mix"}
        What was read at each place.
    lines : mapping of str to float, optional
        Baselines that read no layer.

    Returns
    -------
    tuple of str
    """
    by_name = {curve.name: curve for curve in curves}
    findings = []
    for name in names:
        curve, gain = by_name[name], by_name.get(f"difference, {name} from its layer 0")
        best = best_place(curve, score)
        if best is None:
            why = reasons_at(curve, range(len(curve.x))) or f"its {score.name} is undefined"
            findings.append(f"{name}: nothing can be said of {target}, since {why}.")
            continue
        if not above_lines(curve, best, score, lines or {}):
            findings.append(f"{said_nothing(curve, best, score, target, lines or {})}.")
            continue
        where = {
            "single": None,
            "upto": f"best from layers 0 to {curve.x[best]}" if best else "best from layer 0 alone",
            "mix": "from all layers at once",
        }[kind]
        sentence = said_best(curve, best, score, target, where)
        if best and gain is not None:
            sentence += f", {said_points(gain, best, score)} {_from_bottom(gain, best, score)}"
        findings.append(f"{sentence}.")
        selectivity = by_name.get(f"difference, selectivity of {name}")
        if selectivity is not None:
            findings.append(
                f"{name}: the control task has {number(by_name[f'control, {name}'].values[best], 3)} there, "
                f"so that the selectivity is {said_points(selectivity, best, score)}"
                f"{without_interval(selectivity, best)}."
            )
    return (*findings, *(said_difference(pair, score) for pair in differences_from(curves, names[0])))


def length_findings(facts: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """
    Say at which layer trees are read best by the correlation that is averaged over lengths of sentences.

    Parameters
    ----------
    facts : mapping
        Results of probes beside the score, by their name and then by curve.
    names : sequence of str
        Of curves, without the random baseline.

    Returns
    -------
    list of str
        None where no sentence has such a length.
    """
    findings = []
    for score, noun in ((DISTANCE_SPEARMAN, "distances"), (DEPTH_SPEARMAN, "depths")):
        by_name = facts.get(score.name, {})
        for name in names:
            means = np.array(by_name[name]["mean"], dtype=float) if name in by_name else np.empty(0)
            if not np.isfinite(means).any():
                continue
            best = int(np.nanargmax(means))
            findings.append(
                f"{name}: correlation of {noun} by length (Spearman, mean over lengths {SHORTEST} to "
                f"{LONGEST} that occur) is highest at layer {best}, {number(means[best], 3)}."
            )
    return findings


def _from_bottom(gain: Curve, best: int, score: Score) -> str:
    """How the best layer stands to layer 0, with doubt where it is not shown to be better."""
    better = gain.band_low[best] > 0 if score.higher_is_better else gain.band_high[best] < 0
    if not better:
        return f"from layer 0{doubt(gain, best)}"
    return "above layer 0" if score.higher_is_better else "from layer 0"


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


def methods_of(experiment: Probing, inputs: AnnotationInputs, asked: Asked, level: float) -> str:
    """Write the methods paragraph."""
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
        f"Intervals of {level * 100:g}% are over {asked.units_judged:,} {asked.unit}s; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)
