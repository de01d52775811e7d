"""How is it said what layers know? Sentences with the bands of all layers, and a paragraph for a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...findings.results import Curve
from ...findings.words import number, with_article
from ...probes.dataset import Asked
from ...probes.structural.scores import DEPTH_SPEARMAN, DISTANCE_SPEARMAN, LONGEST, SHORTEST
from ...probes.table import Probe
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
from ..curve_claims import said_lines as said_lines


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
        Of `probing`.
    names : sequence of str
        Of the models, without the random twin.
    score : Score
    target : str
    kind : {"single", "upto", "mix"}
        What was read at each place.
    lines : mapping of str to float, optional
        What can be had without any layer.

    Returns
    -------
    tuple of str
    """
    known = {one.name: one for one in curves}
    said = []
    for name in names:
        curve, gain = known[name], known.get(f"difference, {name} from its layer 0")
        best = best_place(curve, score)
        if best is None:
            why = reasons_at(curve, range(len(curve.x))) or f"its {score.name} is undefined"
            said.append(f"{name}: nothing can be said of {target}, since {why}.")
            continue
        if not above_lines(curve, best, score, lines or {}):
            said.append(f"{said_nothing(curve, best, score, target, lines or {})}.")
            continue
        where = {
            "single": None,
            "upto": f"best from layers 0 to {curve.x[best]}" if best else "best from layer 0 alone",
            "mix": "from all layers at once",
        }[kind]
        sentence = said_best(curve, best, score, target, where)
        if best and gain is not None:
            sentence += f", {said_points(gain, best, score)} {_from_bottom(gain, best, score)}"
        said.append(f"{sentence}.")
        chosen = known.get(f"difference, selectivity of {name}")
        if chosen is not None:
            said.append(
                f"{name}: labels drawn at random for each type are read there with "
                f"{number(known[f'control, {name}'].values[best], 3)}, so that its selectivity is "
                f"{said_points(chosen, best, score)}{without_interval(chosen, best)}."
            )
    return (*said, *(said_difference(one, score) for one in differences_from(curves, names[0])))


def length_findings(facts: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """
    Say at which layer trees are read best by the correlation that is averaged over lengths of sentences.

    Parameters
    ----------
    facts : mapping
        What probes found beside the score, by what it is and then by curve.
    names : sequence of str
        Of curves, without the random twin.

    Returns
    -------
    list of str
        None where no sentence has such a length.
    """
    said = []
    for score, noun in ((DISTANCE_SPEARMAN, "distances"), (DEPTH_SPEARMAN, "depths")):
        found = facts.get(score.name, {})
        for name in names:
            means = np.array(found[name]["mean"], dtype=float) if name in found else np.empty(0)
            if not np.isfinite(means).any():
                continue
            best = int(np.nanargmax(means))
            said.append(
                f"{name}: correlation of {noun} by length (Spearman, mean over lengths {SHORTEST} to "
                f"{LONGEST} that occur) is highest at layer {best}, {number(means[best], 3)}."
            )
    return said


def _from_bottom(gain: Curve, best: int, score: Score) -> str:
    """How the best layer stands to layer 0, with doubt where it is not shown to be better."""
    better = gain.band_low[best] > 0 if score.higher_is_better else gain.band_high[best] < 0
    if not better:
        return f"from layer 0{doubt(gain, best)}"
    return "above layer 0" if score.higher_is_better else "from layer 0"


_READ = MappingProxyType(
    {
        "last": "A word is read by its last sub-word.",
        "mean": "A word is read by the mean of its sub-words.",
        "each": "A span is pooled over all sub-words of its words.",
    }
)


def methods_of(
    asked: Asked,
    probe: Probe,
    names: Sequence[str],
    *,
    twin: bool,
    control: int,
    level: float,
    kinds: Sequence[str] = ("single",),
    steps: int | None = None,
    size: int | None = None,
) -> str:
    """Write the paragraph for a paper."""
    found = asked.annotated
    sizes = [f"{len(each):,}" for each in (asked.train, asked.held, asked.judged)]
    texts = ", ".join(dict.fromkeys(str(one["name"]) for one in found.texts)) or found.source
    parts = [
        f"{found.target.name} was read out of every layer of {', '.join(names)} by "
        f"{with_article(probe.name)} probe "
        f"({probe.about}), trained on {sizes[0]} sentences and judged on {sizes[2]} others ({asked.split}), "
        f"all of {texts}.",
        "Every model ran once over the corpus, and all were probed on the same words."
        if len(names) + twin > 1
        else "The model ran once over the corpus.",
        _READ[probe.subword],
    ]
    read = {
        "single": "one layer",
        "upto": "the mix of all layers up to one",
        "mix": "the mix of all layers",
    }
    if list(kinds) != ["single"]:
        parts.append(
            f"Probes read {' or '.join(read[kind] for kind in kinds)}; weights of a mix are a "
            "softmax, learned with the probe, times a learned number (Tenney et al. 2019)."
        )
    if size is not None:
        parts.append(
            f"Probes saw the {size} principal component{'' if size == 1 else 's'} of largest variance of "
            "each layer, of features of variance 1."
        )
    if steps is not None:
        parts.append(f"Training ended after {steps:,} update{'' if steps == 1 else 's'} at the latest.")
    if probe.seeded:
        parts.append(f"{sizes[1]} further sentences ended the training; seeds {_listed(asked.seeds)}.")
    if twin:
        parts.append("The random twin has the shape of the first model and weights drawn anew.")
    if control:
        parts.append(
            f"Control labels are drawn for every type of {'word' if probe.kind == 'words' else 'span'} from "
            "the frequencies of the labels (Hewitt and Liang 2019), "
            + ("once." if control == 1 else f"{control} times, and intervals cover other draws.")
        )
    parts.append(
        f"Intervals of {level * 100:g}% are over {asked.units_judged:,} {asked.unit}s; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
