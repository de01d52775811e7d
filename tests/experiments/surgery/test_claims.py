"""Every claim of truncation and skipping agrees with the numbers behind it, whichever way they come out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figures.resulting import make_curve, make_spans
from microtome.experiments.surgery.claims import (
    Costs,
    costs_of_curve,
    cut_claim,
    extent_claims,
    extreme_claims,
    head_claims,
)
from microtome.experiments.surgery.skipping import span_claims
from microtome.findings.claims.render import few_seeds, headline, render
from microtome.scores.table import SCORES

QUICK = settings(max_examples=60, deadline=None)
COSTS = st.one_of(st.floats(-0.6, 0.6), st.sampled_from([0.0, 0.01, -0.01, 0.0001, math.nan]))
WIDTHS = st.one_of(st.floats(0.0, 0.3), st.sampled_from([0.0, 0.001, math.nan]))
POINTS = st.lists(st.tuples(COSTS, WIDTHS), min_size=1, max_size=6)
BOTH_WAYS = st.sampled_from([SCORES["accuracy"], SCORES["perplexity"]])


@QUICK
@given(POINTS, BOTH_WAYS)
def test_cuts(points: list[tuple[float, float]], score: Any) -> None:
    cost, width = (np.array([*column, 0.0]) for column in zip(*points, strict=True))
    sign = -1.0 if score.higher_is_better else 1.0
    ends = np.sort(np.stack([sign * (cost - width), sign * (cost + width)]), axis=0)
    claim = cut_claim(make_curve("costs", sign * cost, band_low=ends[0], band_high=ends[1]), score)
    cost, most = score.points * cost[:-1], score.points * (cost + width)[:-1]
    with np.errstate(invalid="ignore"):
        safe = np.flatnonzero((most <= 1) & np.isfinite(cost))
    if np.isnan(cost).all():
        assert claim.kind == "undefined"
        return
    place = len(cost) - len(claim.layers)
    assert claim.estimate is not None
    assert claim.estimate.value == cost[place]
    assert (claim.verdict == "holds") == bool(len(safe))
    assert place == (safe[0] if len(safe) else place)
    assert len(safe) or cost[place] == np.nanmin(cost)
    assert ("can be removed" in headline(claim)) == bool(len(safe))
    if claim.bound is not None:
        assert claim.bound.value == most[place]


def test_a_cut_names_the_head_that_it_leaves_as_it_is() -> None:
    curve = replace(make_curve("costs", [-0.001, 0.0], band_low=[-0.002, 0], band_high=[0, 0]), arm="UNTUNED")
    assert headline(cut_claim(curve, SCORES["accuracy"])) == (
        "The top 1 of 2 layers can be removed at a cost of at most 0.2 points of accuracy, without training "
        "anything (UNTUNED)."
    )


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.03, 0.09), "helps at 1 of 2 layers, most with 1 layer kept: a gain of 5.0 points of accuracy"),
        ((-0.09, -0.03), "is not shown to help at any layer and hurts at 1 of 2, most with 1 layer kept: a "),
        ((-0.09, 0.09), "is not shown to help at any layer; the largest gain, with 1 layer kept, is 5.0 "),
    ],
)
def test_what_a_converged_probe_gains_or_loses_is_claimed(ends: tuple[float, float], text: str) -> None:
    value = -0.05 if ends[1] < 0 else 0.05
    gain = make_curve("gain", [value, 0.0], band_low=[ends[0], -0.01], band_high=[ends[1], 0.01])
    scores = {name: make_curve(name.upper(), [0.5, 0.6]) for name in ("untuned", "converged")}
    [claim] = head_claims({**scores, "converged gain": gain}, SCORES["accuracy"])
    start = f"A linear probe trained to convergence in place of the head {text}"
    assert headline(claim).startswith(start)
    assert "(CONVERGED)" in headline(claim)


def test_a_model_of_one_layer_has_nothing_to_remove() -> None:
    claim = cut_claim(make_curve("costs", [0.0]), SCORES["accuracy"])
    assert render(claim) == "Nothing is concluded about truncation: a model of one layer has no top layers."


def costs_of(points: list[tuple[float, float]], score: Any) -> tuple[Costs, Any, Any]:
    """Costs of a curve of differences, and their values and upper ends in points."""
    cost, width = (np.array(column) for column in zip(*points, strict=True))
    sign = -1.0 if score.higher_is_better else 1.0
    ends = np.sort(np.stack([sign * (cost - width), sign * (cost + width)]), axis=0)
    curve = make_curve("difference", sign * cost, band_low=ends[0], band_high=ends[1])
    return costs_of_curve(curve, score, "all points"), score.points * cost, score.points * width


@QUICK
@given(POINTS, BOTH_WAYS)
def test_how_far_a_change_may_go(points: list[tuple[float, float]], score: Any) -> None:
    costs, cost, width = costs_of(points, score)
    depth = len(cost)
    changes = {place: tuple(range(1, place + 2)) for place in range(depth)}
    claims = extent_claims(costs, "frozen", changes, subject="bottom", depth=depth)
    if np.isnan(cost).all():
        assert claims == []
        return
    with np.errstate(invalid="ignore"):
        safe = np.flatnonzero(cost + width <= 1)
        costly = np.flatnonzero(cost - width > 1)
    place = len(claims[0].layers) - 1
    assert claims[0].verdict == ("holds" if len(safe) else claims[0].verdict)
    assert place == safe.max() if len(safe) else cost[place] == np.nanmin(cost)
    assert ("can be frozen" in headline(claims[0])) == bool(len(safe))
    assert len(claims) == 1 + bool(len(costly))
    if len(costly):
        assert claims[1].facts["onward"] == (1 < len(costly) == depth - costly.min())
        assert len(claims[1].layers) == costly.min() + 1
        assert (", or more, costs more than" in headline(claims[1])) == claims[1].facts["onward"]


@QUICK
@given(POINTS, BOTH_WAYS)
def test_which_change_costs_least_and_most(points: list[tuple[float, float]], score: Any) -> None:
    costs, cost, width = costs_of(points, score)
    claims = extreme_claims(costs, "window", {place: (place + 1,) for place in range(len(cost))})
    defined = np.flatnonzero(np.isfinite(cost))
    assert len(claims) == min(2, len(defined))
    for claim, pick in zip(claims, (np.nanmin, np.nanmax), strict=False):
        place = claim.layers[0] - 1
        assert cost[place] == pick(cost)
        others = [k for k in defined if k != place]
        side = 1 if pick is np.nanmin else -1
        gaps = [side * (cost[k] - cost[place]) - width[k] - width[place] for k in others]
        # Rounding differs where bands meet exactly.
        if not any(abs(gap) < 1e-9 for gap in gaps):
            assert (claim.verdict == "holds") == all(gap > 0 for gap in gaps)


@QUICK
@given(POINTS, BOTH_WAYS, st.sampled_from(["tuned", "converged"]))
def test_what_heads_gain_or_lose(points: list[tuple[float, float]], score: Any, arm: str) -> None:
    gain, width = (np.array(column) for column in zip(*points, strict=True))
    sign = 1.0 if score.higher_is_better else -1.0
    ends = np.sort(np.stack([sign * (gain - width), sign * (gain + width)]), axis=0)
    scores = make_curve("TUNED", np.full(len(gain), 0.5))
    prefix = "" if arm == "tuned" else "converged "
    curves = {
        arm: scores,
        "untuned": replace(scores, name="UNTUNED"),
        f"{prefix}gain": make_curve("gain", sign * gain, band_low=ends[0], band_high=ends[1]),
    }
    claims = head_claims(curves, score)
    assert bool(claims) == np.isfinite(gain).any()
    for claim in claims:
        with np.errstate(invalid="ignore"):
            helped = np.flatnonzero((gain - width > 0) & np.isfinite(gain))
            hurt = np.flatnonzero((gain + width < 0) & np.isfinite(gain))
        assert claim.facts["helped"] == len(helped)
        assert claim.facts["hurt"] == len(hurt)
        lost = bool(len(hurt) and not len(helped))
        assert (claim.verdict == "holds") == bool(len(helped))
        assert (claim.verdict == "does not hold") == lost
        among = helped if len(helped) else hurt if lost else np.flatnonzero(np.isfinite(gain))
        assert gain[claim.layers[0] - 1] == (gain[among].min() if lost else gain[among].max())
        assert headline(claim).startswith("Training the head" if arm == "tuned" else "A linear probe")
        assert "(TUNED)" in headline(claim)
        assert ("a loss of" in headline(claim)) == lost
        assert set(claim.beside) == {"TUNED", "UNTUNED"}


@QUICK
@given(st.integers(1, 5), st.data())
def test_spans(depth: int, data: Any) -> None:
    above = [(i, j) for i in range(depth) for j in range(i, depth)]
    drawn = data.draw(st.lists(st.tuples(COSTS, WIDTHS), min_size=len(above), max_size=len(above)))
    value, low, high = (np.full((depth, depth), np.nan) for _ in range(3))
    for at, (cost, width) in zip(above, drawn, strict=True):
        value[at], low[at], high[at] = cost, cost - width, cost + width
    spans = make_spans(depth, values=value, low=low, high=high, band_low=low, band_high=high)
    singles = [k for k in range(depth) if np.isfinite(value[k, k])]
    known = [at for at in above if np.isfinite(value[at])]
    claims = span_claims(spans, SCORES["accuracy"])
    assert [claim.kind for claim in claims].count("span") == bool(known)
    for claim in claims:
        if claim.kind == "span":
            safe = [at for at in known if 100 * high[at] <= 1]
            small = safe or [at for at in known if 100 * value[at] <= 1]
            assert (claim.verdict == "holds") == bool(safe)
            assert len(claim.layers) == max((j - i + 1 for i, j in small), default=0)
            assert not claim.layers or (claim.layers[0] - 1, claim.layers[-1] - 1) in small
            continue
        block, most = claim.layers[0] - 1, claim.facts["extreme"] == "most"
        costs = [value[k, k] for k in singles]
        assert value[block, block] == (max if most else min)(costs)
        others = [k for k in singles if k != block]
        clear = all(
            low[block, block] > high[k, k] if most else high[block, block] < low[k, k] for k in others
        )
        assert (claim.verdict == "holds") == clear
        assert ("another may cost" in headline(claim)) == (not clear and depth > 1)


def test_that_seeds_are_few_is_one_claim_of_a_result() -> None:
    wide = make_curve(
        "costs",
        [-0.125, 0.0],
        low=[-0.9, 0.0],
        high=[0.9, 0.0],
        unit="example and seed",
        seeds=(2, 2),
    )
    claim = cut_claim(wide, SCORES["accuracy"], np.array([[0.5, 0.6], [0.5, 0.65]]))
    assert claim.estimate is not None
    assert claim.estimate.by_seed == pytest.approx((10.0, 15.0))
    [remark] = few_seeds([claim, claim])
    assert headline(remark).endswith("are wide, since there are 2 seeds.")
    assert few_seeds([remark]) == []
