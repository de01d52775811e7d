"""Claims about a change: how large it is, where it is, and whether two texts differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...findings.change import change_profile, upper_third
from ...findings.words import between, layer_list, number, p_value
from ..cell_errors import Points, Sample, center_of, points_of
from ..layer_similarity import Recorded
from ..tuned_models import RANDOM, SEEDS, TUNED

NAMES = {
    TUNED: "base and tuned",
    SEEDS: "two seeds (upper reference)",
    RANDOM: "base and random baseline (lower reference)",
}


def mean_levels(label: str, average: Mapping[str, Points], unit: str) -> str:
    """State mean similarities over the layers: base and tuned, two seeds, base and random baseline."""
    parts = [f"{NAMES[name]} {value_text(points)}" for name, points in average.items()]
    first = average[TUNED]
    # Pairs of seeds share models, and a random baseline is one draw: what varies of them is the texts.
    references = f"; of the references {unit}, for these models" if len(average) > 1 < first.models else ""
    return (
        f"By {label}, averaged over layers, the similarity is: {'; '.join(parts)} "
        f"({first.level * 100:g} %, unit: {unit_text(unit, first)}{references})."
    )


def beyond_seeds(label: str, beyond: Points, layers: Sequence[int]) -> list[str]:
    """State in which layers fine-tuning changed more, or less, than the choice of the seed does."""
    further, closer = (_where(layers, marks) for marks in (beyond.band_high < 0, beyond.band_low > 0))
    band = f"({beyond.level * 100:g} % simultaneous band, for these models)"
    if further:
        findings = [
            f"By {label}, tuned models are significantly less similar to the base than to each other in "
            f"{layer_list(further)} {band}."
        ]
    else:
        findings = [
            f"By {label}, no layer changed significantly more than two fine-tuning seeds differ {band}."
        ]
    if closer:
        findings.append(
            f"By {label}, tuned models are significantly more similar to the base than to each other in "
            f"{layer_list(closer)} {band}: seeds changed them differently."
        )
    return findings


def change_center(
    label: str, similar: Sample, recorded: Recorded, level: float
) -> tuple[dict[str, Any], str]:
    """
    State where the change is.

    Parameters
    ----------
    label : str
        Of the measure.
    similar : Sample
        Similarity of each layer before and after, of one model or several.
    recorded : Recorded
    level : float

    Returns
    -------
    document : dict
        Plain data: change, low, high, center and share of the upper third with intervals ("top_share", of the
        models' mean share), and what equal steps of all blocks would put there ("even").
    sentence : str
    """
    layers = recorded.layers
    points = points_of(similar, level=level, bounds=(-1.0, 1.0))
    # A debiased value may lie beyond that of layers that did not change.
    values = np.minimum(points.values, 1.0)
    profile = change_profile(values, points.low, points.high, positions=list(layers))
    document: dict[str, Any] = {
        "values": profile.change.tolist(),
        "low": [] if profile.low is None else profile.low.tolist(),
        "high": [] if profile.high is None else profile.high.tolist(),
        "top_third": profile.top_third,
        "even": profile.even,
        "center": None,
        "top_share": None,
    }
    names = [str(layer) for layer in layers]
    centers, shares = center_of(similar, layers), top_share(similar)
    if centers is None or shares is None:
        return document, f"By {label}: {profile.sentence(names)}"
    center = points_of(centers, level=level, bounds=(layers[0], layers[-1]))
    share = points_of(shares, level=level, bounds=(0.0, 1.0))
    document |= {"center": center.plain(), "top_share": share.plain()}
    value, low, high = (100 * float(end[0]) for end in (share.values, share.low, share.high))
    texts: dict[str, Any] = {
        "center": value_text(center, 2),
        "share": f"{number(value, 0)}% {between(low, high, 0)}",
    }
    sentence = profile.sentence(names, **texts)
    unit = unit_text(recorded.unit, center)
    return document, f"By {label}: {sentence} Intervals: {level * 100:g} %, unit: {unit}."


def top_share(similar: Sample) -> Sample | None:
    """The share of the upper third of each model, as `ChangeProfile` has it; None where nothing changed."""
    defined = np.flatnonzero(np.isfinite(similar.values).all(axis=0))
    inside = np.zeros(similar.values.shape[1])
    inside[defined] = upper_third(len(defined))
    # A share is the center of the change where layers stand at how much of them lies within the third.
    return center_of(similar, inside.tolist())


def domain_difference(
    label: str, mean: Points, difference: Points, layers: Sequence[int], unit: str
) -> list[str]:
    """State whether sentences of other kinds stay closer to the base than those of the task."""
    low, high = float(mean.low[0]), float(mean.high[0])
    if low > 0:
        start = "sentences from outside stay closer to the base than those of the task"
    elif high < 0:
        start = "sentences of the task stay closer to the base than those from outside"
    else:
        start = "the change of sentences of the task is not significantly different from that of others"
    value = f"{value_text(mean)}, {p_value(float(mean.p[0]))}"
    over = f"({mean.level * 100:g} %, unit: {unit_text(unit, mean)})"
    findings = [
        f"By {label}, {start}: out of domain minus in domain, averaged over layers, is {value} {over}."
    ]
    for side, marks in (("above", difference.band_low > 0), ("below", difference.band_high < 0)):
        if marks.any():
            where = layer_list(_where(layers, marks))
            findings.append(f"By {label}, the difference is significantly {side} 0 in {where}.")
    return findings


def unit_text(unit: str, points: Points) -> str:
    """What was taken as independent."""
    return f"{unit} and model" if points.models > 1 else unit


def value_text(points: Points, digits: int = 3) -> str:
    """The first point with its interval."""
    value, low, high = (float(end[0]) for end in (points.values, points.low, points.high))
    if not np.isfinite(value):
        return "undefined"
    return f"{number(value, digits)} {between(low, high, digits)}"


def _where(layers: Sequence[int], marks: np.ndarray) -> list[int]:
    return [layer for layer, mark in zip(layers, marks, strict=True) if mark]
