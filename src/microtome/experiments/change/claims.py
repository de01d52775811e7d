"""What may be said of a change? How large it is, where it sits, and whether two texts differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...findings.change import change_profile, upper_third
from ...findings.words import between, layer_list, number, p_value
from ..cell_errors import Points, Sample, center_of, points_of
from ..tuned_models import SEEDS, TUNED, TWIN

NAMES = {
    TUNED: "base and tuned",
    SEEDS: "two seeds (the ceiling)",
    TWIN: "base and a random twin (the floor)",
}


def said_levels(label: str, average: Mapping[str, Points], unit: str) -> str:
    """Say how alike models are on average over the layers: base and tuned, two seeds, base and twin."""
    parts = [f"{NAMES[name]} {said_value(found)}" for name, found in average.items()]
    first = average[TUNED]
    # Pairs of seeds share models, and a twin is one draw: what varies of them is the texts.
    others = f"; of the others {unit}, for these very models" if len(average) > 1 and first.models > 1 else ""
    return (
        f"By {label}, averaged over layers, the similarity is: {'; '.join(parts)} "
        f"({first.level * 100:g}%, unit: {said_unit(unit, first)}{others})."
    )


def said_beyond(label: str, beyond: Points, layers: Sequence[int]) -> list[str]:
    """Say in which layers fine-tuning changed more, or less, than the choice of the seed does."""
    more, less = (_chosen(layers, which) for which in (beyond.band_high < 0, beyond.band_low > 0))
    said = []
    if more:
        said.append(
            f"By {label}, tuned models are surely less like the base than like each other in "
            f"{layer_list(more)} (bands for all layers at once, for these models)."
        )
    else:
        said.append(f"By {label}, in no layer is it sure that fine-tuning changed more than a seed does.")
    if less:
        said.append(
            f"By {label}, tuned models are surely more like the base than like each other in "
            f"{layer_list(less)} (bands for all layers at once, for these models): seeds went different ways."
        )
    return said


def said_center(
    label: str, similar: Sample, layers: Sequence[int], level: float, unit: str
) -> tuple[dict[str, Any], str]:
    """
    Say where the change sits.

    Parameters
    ----------
    label : str
        Of the measure.
    similar : Sample
        Similarity of each layer before and after, of one model or several.
    layers : sequence of int
    level : float
    unit : str

    Returns
    -------
    told : dict
        Plain data: change, low, high, center and share of the upper third with intervals ("top_share", of the
        models' mean share), and what equal steps of all blocks would put there ("even").
    sentence : str
    """
    found = points_of(similar, level=level, bounds=(-1.0, 1.0))
    # A debiased value may lie beyond that of layers that did not change.
    values = np.minimum(found.values, 1.0)
    profile = change_profile(values, found.low, found.high, positions=list(layers))
    told: dict[str, Any] = {
        "values": profile.change.tolist(),
        "low": [] if profile.low is None else profile.low.tolist(),
        "high": [] if profile.high is None else profile.high.tolist(),
        "top_third": profile.top_third,
        "even": profile.even,
        "center": None,
        "top_share": None,
    }
    names = [str(layer) for layer in layers]
    center, share = center_of(similar, layers), top_share(similar)
    if center is None or share is None:
        return told, f"By {label}: {profile.sentence(names)}"
    one = points_of(center, level=level, bounds=(layers[0], layers[-1]))
    part = points_of(share, level=level, bounds=(0.0, 1.0))
    told |= {"center": one.plain(), "top_share": part.plain()}
    value, low, high = (100 * float(each[0]) for each in (part.values, part.low, part.high))
    shown: dict[str, Any] = {
        "center": said_value(one, 2),
        "share": f"{number(value, 0)}% {between(low, high, 0)}",
    }
    sentence = profile.sentence(names, **shown)
    return told, f"By {label}: {sentence} Intervals: {level * 100:g}%, unit: {said_unit(unit, one)}."


def top_share(similar: Sample) -> Sample | None:
    """The share of the upper third of each model, as `ChangeProfile` has it; None where nothing changed."""
    kept = np.flatnonzero(np.isfinite(similar.values).all(axis=0))
    inside = np.zeros(similar.values.shape[1])
    inside[kept] = upper_third(len(kept))
    # A share is the center of the change where layers stand at how much of them lies within the third.
    return center_of(similar, inside.tolist())


def said_domains(label: str, mean: Points, apart: Points, layers: Sequence[int], unit: str) -> list[str]:
    """Say whether sentences of other kinds stay closer to the base than those of the task."""
    low, high = float(mean.low[0]), float(mean.high[0])
    if low > 0:
        start = f"By {label}, sentences from outside stay closer to the base than those of the task"
    elif high < 0:
        start = f"By {label}, sentences of the task stay closer to the base than those from outside"
    else:
        start = f"By {label}, no difference between sentences of the task and others is sure"
    shown = f"{said_value(mean)}, {p_value(float(mean.p[0]))}"
    over = f"({mean.level * 100:g}%, unit: {said_unit(unit, mean)})"
    said = [f"{start}: out of domain minus in domain, averaged over layers, is {shown} {over}."]
    for which, sure in (("above", apart.band_low > 0), ("below", apart.band_high < 0)):
        if sure.any():
            there = layer_list(_chosen(layers, sure))
            said.append(f"By {label}, the difference is surely {which} 0 in {there}.")
    return said


def said_unit(unit: str, found: Points) -> str:
    """What was taken as independent."""
    return f"{unit} and model" if found.models > 1 else unit


def said_value(found: Points, digits: int = 3) -> str:
    """Say the first point with its interval."""
    value, low, high = (float(one[0]) for one in (found.values, found.low, found.high))
    if not np.isfinite(value):
        return "undefined"
    return f"{number(value, digits)} {between(low, high, digits)}"


def _chosen(layers: Sequence[int], marks: np.ndarray) -> list[int]:
    return [layer for layer, mark in zip(layers, marks, strict=True) if mark]
