"""Claims about a change: how large it is, where it is, and whether two texts or methods differ in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ...context import Context
from ...findings.change import change_profile, upper_third
from ...findings.claims.claim import Claim, Quantity, Verdict, overlapping
from ..cell_errors import Points, Sample, center_of, points_of
from ..comparison_options import RANDOM, SEEDS, TUNED
from ..layer_similarity import Recorded

MEANS = {
    TUNED: "mean similarity over layers of base and tuned",
    SEEDS: "of two seeds (upper reference)",
    RANDOM: "of base and random baseline (lower reference)",
}


def similarity_claim(kind: str, measure: str, verdict: Verdict = "holds", **fields: Any) -> Claim:
    """A claim about similarities by one measure."""
    return Claim(kind=kind, verdict=verdict, score="similarity", points=1.0, subject=measure, **fields)


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
    measure: str,
    similar: Sample,
    recorded: Recorded,
    context: Context,
    *,
    means: Mapping[str, Points] = MappingProxyType({}),
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[dict[str, Any], Claim]:
    """
    Claim where the change is.

    Parameters
    ----------
    measure : str
    similar : Sample
        Similarity of each layer before and after, of one model or several.
    recorded : Recorded
    context : Context
    means : mapping of str to Points
        Mean similarities over the layers, by the name of the series.
    facts : mapping
        Of the claim.

    Returns
    -------
    document : dict
        Plain data: change, low, high, center and share of the upper third with intervals ("top_share", of the
        models' mean share), and what equal steps of all blocks would put there ("even").
    claim : Claim
    """
    layers, unit, level = recorded.layers, recorded.unit, context.level
    points = points_of(similar, level=level, bounds=(-1.0, 1.0))
    # A debiased value may lie beyond that of layers that did not change.
    profile = change_profile(np.minimum(points.values, 1.0), points.low, points.high, positions=list(layers))
    document: dict[str, Any] = {
        "values": profile.change.tolist(),
        "low": np.asarray(profile.low).tolist(),
        "high": np.asarray(profile.high).tolist(),
        "top_third": profile.top_third,
        "even": profile.even,
        "center": None,
        "top_share": None,
    }
    beside = {MEANS[name]: mean.quantity(unit) for name, mean in means.items()}
    facts = {**facts, "reason": profile.reason, "left_out": [layers[k] for k in profile.left_out]}
    if profile.reason is not None:
        return document, similarity_claim(
            "change center", measure, "inconclusive", beside=beside, facts=facts
        )
    center, share = Quantity(value=profile.center), Quantity(value=profile.top_third)
    centers, shares = center_of(similar, layers), _top_share(similar)
    if centers is not None and shares is not None:
        center_points = points_of(centers, level=level, bounds=(layers[0], layers[-1]))
        share_points = points_of(shares, level=level, bounds=(0.0, 1.0))
        document |= {"center": center_points.plain(), "top_share": share_points.plain()}
        center, share = center_points.quantity(unit), share_points.quantity(unit)
    most = int(np.nanargmax(profile.change))
    largest = {
        "largest": float(profile.change[most]),
        "overlapping": overlapping_layers(layers, points, most),
        "span": [int(end) for end in profile.span],
    }
    shares_of_third = {
        "share of the upper third": share,
        "the same if every block added as much": Quantity(value=profile.even),
    }
    claim = similarity_claim(
        "change center",
        measure,
        layers=(layers[most],),
        estimate=center,
        beside={**shares_of_third, **beside},
        facts={**facts, **largest},
    )
    return document, claim


def overlapping_layers(layers: Sequence[int], points: Points, place: int) -> list[int] | None:
    """The layers that may have changed as much as the one at a place; None where there are no bands."""
    near = overlapping(points.values, points.band_low, points.band_high, place)
    return None if near is None else [layers[k] for k in near]


def _top_share(similar: Sample) -> Sample | None:
    """The share of the upper third of each model, as `ChangeProfile` has it; None where nothing changed."""
    defined = np.flatnonzero(np.isfinite(similar.values).all(axis=0))
    inside = np.zeros(similar.values.shape[1])
    inside[defined] = upper_third(len(defined))
    # A share is the center of the change where layers stand at how much of them lies within the third.
    return center_of(similar, inside.tolist())


def center_difference(
    similar: Sample, reference: Sample, recorded: Recorded, context: Context
) -> Points | None:
    """How far the center of the change is from that of others; None where one did not change."""
    center, other = center_of(similar, recorded.layers), center_of(reference, recorded.layers)
    if center is None or other is None:
        return None
    # Models of two methods are not pairs for having equal seeds.
    return points_of(center, other, level=context.level, pair_models=False)


def domain_claim(measure: str, mean: Points, difference: Points, recorded: Recorded, unit: str) -> Claim:
    """Claim whether sentences of other kinds stay closer to the base than those of the task, and where."""
    verdicts: Mapping[str, Verdict] = {"above": "holds", "below": "does not hold", "neither": "inconclusive"}
    return similarity_claim(
        "domains",
        measure,
        verdicts[side_of(mean)],
        layers=_where(recorded.layers, (difference.band_low > 0) | (difference.band_high < 0)),
        estimate=mean.quantity(unit),
        facts={"p": float(mean.p[0])},
    )


def side_of(difference: Points) -> Literal["above", "below", "neither"]:
    """The side of 0 on which the interval of the first point lies."""
    return "above" if difference.low[0] > 0 else "below" if difference.high[0] < 0 else "neither"


def _where(layers: tuple[int, ...], marks: np.ndarray) -> tuple[int, ...]:
    return tuple(layer for layer, mark in zip(layers, marks, strict=True) if mark)
