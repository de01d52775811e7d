"""Claims about a change: how large it is, where it is, and whether two texts or methods differ in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...findings.change import change_profile, upper_third
from ...findings.claims.claim import Claim, Quantity, Verdict
from ..cell_errors import Points, Sample, center_of, points_of
from ..layer_similarity import Recorded
from ..tuned_models import RANDOM, SEEDS, TUNED

REFERENCES = {
    SEEDS: "two seeds (upper reference)",
    RANDOM: "base and random baseline (lower reference)",
}


def similarity_claim(kind: str, measure: str, verdict: Verdict = "holds", **fields: Any) -> Claim:
    """A claim about similarities by one measure."""
    return Claim(kind=kind, verdict=verdict, score="similarity", points=1.0, subject=measure, **fields)


def mean_claim(measure: str, averages: Mapping[str, Points], unit: str) -> Claim:
    """Claim mean similarities over the layers: base and tuned, two seeds, base and random baseline."""
    quantities = {name: points.quantity(unit) for name, points in averages.items()}
    beside = {REFERENCES[name]: quantity for name, quantity in quantities.items() if name in REFERENCES}
    return similarity_claim("mean similarity", measure, estimate=quantities[TUNED], beside=beside)


def beyond_seeds_claims(measure: str, beyond: Points, recorded: Recorded) -> list[Claim]:
    """Claim in which layers fine-tuning changed more, or less, than the choice of the seed does."""
    claims = []
    for further in (True, False):
        marks = beyond.band_high < 0 if further else beyond.band_low > 0
        if not further and not marks.any():
            continue
        extreme = None
        if np.isfinite(beyond.values).any():
            place = int((np.nanargmin if further else np.nanargmax)(beyond.values))
            extreme = beyond.quantity(recorded.unit, place)
        claims.append(
            similarity_claim(
                "beyond seeds",
                measure,
                "holds" if marks.any() else "inconclusive",
                layers=_where(recorded.layers, marks),
                estimate=extreme,
                facts={"further": further},
            )
        )
    return claims


def center_claim(
    measure: str, similar: Sample, recorded: Recorded, level: float, **facts: Any
) -> tuple[dict[str, Any], Claim]:
    """
    Claim where the change is.

    Parameters
    ----------
    measure : str
    similar : Sample
        Similarity of each layer before and after, of one model or several.
    recorded : Recorded
    level : float
    **facts
        Of the claim.

    Returns
    -------
    document : dict
        Plain data: change, low, high, center and share of the upper third with intervals ("top_share", of the
        models' mean share), and what equal steps of all blocks would put there ("even").
    claim : Claim
    """
    layers, unit = recorded.layers, recorded.unit
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
    facts |= {"reason": profile.reason, "left_out": [layers[k] for k in profile.left_out]}
    if profile.reason is not None:
        return document, similarity_claim("change center", measure, "inconclusive", facts=facts)
    center, share = Quantity(value=profile.center), Quantity(value=profile.top_third)
    centers, shares = center_of(similar, layers), top_share(similar)
    if centers is not None and shares is not None:
        center_points = points_of(centers, level=level, bounds=(layers[0], layers[-1]))
        share_points = points_of(shares, level=level, bounds=(0.0, 1.0))
        document |= {"center": center_points.plain(), "top_share": share_points.plain()}
        center, share = center_points.quantity(unit), share_points.quantity(unit)
    most = int(np.nanargmax(profile.change))
    even = Quantity(value=profile.even)
    claim = similarity_claim(
        "change center",
        measure,
        layers=(layers[most],),
        estimate=center,
        beside={"share of the upper third": share, "the same if every block added as much": even},
        facts={**facts, "largest": float(profile.change[most]), "span": [int(end) for end in profile.span]},
    )
    return document, claim


def top_share(similar: Sample) -> Sample | None:
    """The share of the upper third of each model, as `ChangeProfile` has it; None where nothing changed."""
    defined = np.flatnonzero(np.isfinite(similar.values).all(axis=0))
    inside = np.zeros(similar.values.shape[1])
    inside[defined] = upper_third(len(defined))
    # A share is the center of the change where layers stand at how much of them lies within the third.
    return center_of(similar, inside.tolist())


def center_differences(
    measure: str, samples: Mapping[str, Sample], recorded: Recorded, level: float
) -> dict[str, tuple[dict[str, Any], Claim]]:
    """How far the center of the change of each tuning method is from that of the first: data and claim."""
    centers = {name: center_of(sample, recorded.layers) for name, sample in samples.items()}
    reference, first = next(iter(centers.items()))
    differences = {}
    for name, center in centers.items():
        if name == reference or center is None or first is None:
            continue
        # Models of two methods are not pairs for having equal seeds.
        difference = points_of(center, first, level=level, pair_models=False)
        claim = similarity_claim(
            "center apart",
            measure,
            _verdict(difference),
            estimate=difference.quantity(recorded.unit),
            facts={"method": name, "reference": reference},
        )
        differences[name] = {"from": reference, **difference.plain(tested=True)}, claim
    return differences


def domain_claims(
    measure: str, mean: Points, difference: Points, recorded: Recorded, unit: str
) -> list[Claim]:
    """Claim whether sentences of other kinds stay closer to the base than those of the task, and where."""
    claims = [
        similarity_claim(
            "domains",
            measure,
            "inconclusive"
            if _verdict(mean) != "holds"
            else "holds"
            if mean.values[0] > 0
            else "does not hold",
            estimate=mean.quantity(unit),
            facts={"p": float(mean.p[0])},
        )
    ]
    for side, marks in (("above", difference.band_low > 0), ("below", difference.band_high < 0)):
        if marks.any():
            layers = _where(recorded.layers, marks)
            claims.append(similarity_claim("domain layers", measure, layers=layers, facts={"side": side}))
    return claims


def _verdict(difference: Points) -> Verdict:
    """Whether the first point is shown to differ from 0."""
    return "holds" if difference.low[0] > 0 or difference.high[0] < 0 else "inconclusive"


def _where(layers: tuple[int, ...], marks: np.ndarray) -> tuple[int, ...]:
    return tuple(layer for layer, mark in zip(layers, marks, strict=True) if mark)
