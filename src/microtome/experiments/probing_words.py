"""How is it said what layers know? Sentences with the bands of all layers, and a paragraph for a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..findings.results import Curve
from ..findings.words import number
from ..probes.asking import Asked
from ..probes.table import Probe
from ..tasks.scores_declare import Score
from ..version import VERSION


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
        best = int(np.nanargmax(curve.values))
        where = {
            "single": f"best at layer {best}",
            "upto": f"best from layers 0 to {best}" if best else "best from layer 0 alone",
            "mix": "from all layers at once",
        }[kind]
        sentence = f"{name}: {target} is read {where}, {score.name} {_at(curve, best, 1.0, 3)}"
        if best and gain is not None:
            sure = gain.band_low[best] > 0
            above = "above layer 0" if sure else "from layer 0, which is no sure difference"
            sentence += f", {_points(gain, best, score)} {above}"
        said.append(f"{sentence}{_not_above(curve, best, lines or {})}.")
        chosen = known.get(f"difference, selectivity of {name}")
        if chosen is not None:
            said.append(
                f"{name}: labels drawn at random for each type are read there with "
                f"{number(known[f'control, {name}'].values[best], 3)}, so that its selectivity is "
                f"{_points(chosen, best, score)}."
            )
    for curve in curves:
        if " from " in curve.name and "its layer 0" not in curve.name:
            said.append(_difference(curve, score))
    return tuple(said)


def _not_above(curve: Curve, best: int, lines: Mapping[str, float]) -> str:
    """What is as good without any layer, where something is."""
    higher = {name: value for name, value in lines.items() if math.isfinite(value)}
    if not higher:
        return ""
    name = max(higher, key=lambda each: higher[each])
    if curve.band_low[best] > higher[name]:
        return ""
    return f"; it is not shown to be above what needs no layer ({name}: {number(higher[name], 3)})"


def said_lines(lines: Mapping[str, float]) -> tuple[str, ...]:
    """Say what can be had without any layer."""
    told = [f"{name} {number(value, 3)}" for name, value in lines.items() if math.isfinite(value)]
    return (f"Without any layer: {', '.join(told)}.",) if told else ()


def _difference(curve: Curve, score: Score) -> str:
    name = curve.name.removeprefix("difference, ")
    if len(curve.x) == 1:
        sure = curve.band_high[0] < 0 or curve.band_low[0] > 0
        return f"{_apart(name)} {_points(curve, 0, score)}{'' if sure else ', which is no sure difference'}."
    down = [at for at in range(len(curve.x)) if curve.band_high[at] < 0]
    up = [at for at in range(len(curve.x)) if curve.band_low[at] > 0]
    if not down and not up:
        worst = int(np.nanargmax(np.abs(curve.values)))
        return (
            f"{_apart(name)} no difference is shown at any layer; the largest is "
            f"{_points(curve, worst, score)} at layer {worst}."
        )
    parts = []
    for places, way in ((down, "less"), (up, "more")):
        if places:
            most = max(places, key=lambda at: abs(curve.values[at]))
            parts.append(
                f"{way} is read at {_layers(places)}, most so at layer {most}: {_points(curve, most, score)}"
            )
    return f"{_apart(name)} {'; '.join(parts)}."


def _apart(name: str) -> str:
    one, _, other = name.partition(" from ")
    return f"{one} against {other}:"


def _layers(places: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1][1] = place
        else:
            runs.append([place, place])
    said = [f"{a}" if a == b else f"{a} to {b}" for a, b in runs]
    noun = "layer" if len(places) == 1 else "layers"
    return f"{noun} {', '.join(said)}"


def _points(curve: Curve, at: int, score: Score) -> str:
    whole = score.points == 100
    return _at(curve, at, score.points, 1 if whole else 3, " points" if whole else "")


def _at(curve: Curve, at: int, scale: float, digits: int, unit: str = "") -> str:
    value, low, high = (scale * float(each[at]) for each in (curve.values, curve.band_low, curve.band_high))
    said = f"{number(value, digits)}{unit}"
    if not (math.isfinite(low) and math.isfinite(high)):
        return said
    return (
        f"{said} [{number(low, digits)}, {number(high, digits)}] "
        f"({curve.level * 100:g}% for all layers, unit: {curve.unit})"
    )


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
) -> str:
    """Write the paragraph for a paper."""
    found = asked.annotated
    sizes = [f"{len(each):,}" for each in (asked.train, asked.held, asked.judged)]
    texts = ", ".join(dict.fromkeys(str(one["name"]) for one in found.texts)) or found.source
    parts = [
        f"{found.target.name} was read out of every layer of {', '.join(names)} by a {probe.name} probe "
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
