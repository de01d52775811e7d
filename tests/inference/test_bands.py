"""Bands agree with the intervals of single points, and points without spread do not break the others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError
from microtome.inference.answers import Answers
from microtome.inference.bands import Bands, difference_bands, score_bands
from microtome.inference.pairing import compare_scores
from microtome.inference.scoring import score_interval
from microtome.randomness import generator

BINARY = ("no", "yes")


def layers(
    n: int = 120,
    points: int = 5,
    seeds: int = 1,
    *,
    kind: str = "classes",
    name: str = "layers",
    groups: Any = None,
) -> list[Answers]:
    """Answers that get better with depth; what is hard is shared."""
    rng = generator(0, name, n, points, seeds, kind)
    hard = rng.standard_normal(n)
    targets: Any = rng.integers(0, 2, n) if kind == "classes" else rng.standard_normal(n)
    found = []
    for level in np.linspace(0.3, 1.5, points):
        moved = level + 0.2 * rng.standard_normal((seeds, 1))
        error = 0.7 * hard + 0.7 * rng.standard_normal((seeds, n))
        if kind == "classes":
            said = np.where(error < moved, targets, 1 - targets)
        else:
            said = moved * targets + error
        found.append(
            Answers(
                ids=[f"e{i}" for i in range(n)],
                targets=targets,
                predictions=list(said),
                groups=groups,
                seeds=list(range(seeds)),
            )
        )
    return found


def check_order(found: Bands) -> None:
    known = np.isfinite(found.low)
    assert (found.band_low <= found.low + 1e-12)[known].all()
    assert (found.high <= found.band_high + 1e-12)[known].all()


@pytest.mark.parametrize("score", ["accuracy", "mcc", "f1", ("accuracy", "f1")])
def test_with_one_seed_each_point_has_the_interval_of_its_score(score: Any) -> None:
    points = layers()
    found = score_bands(score, points, BINARY)
    for place, one in enumerate(points):
        alone = score_interval(score, one.predictions[0], one.targets, BINARY)
        assert found.values[place] == alone.value
        assert (found.low[place], found.high[place]) == pytest.approx((alone.low, alone.high))
    assert (found.unit, found.n, found.seeds) == ("example", 120, (1,) * 5)
    assert (found.band_low < found.low).all()
    assert (found.band_high > found.high).all()


def test_groups_are_the_unit_where_examples_share_a_text() -> None:
    points = layers(groups=np.repeat(np.arange(40), 3))
    found = score_bands("accuracy", points, BINARY)
    alone = score_interval(
        "accuracy", points[2].predictions[0], points[2].targets, BINARY, groups=points[2].groups
    )
    assert (found.low[2], found.high[2]) == pytest.approx((alone.low, alone.high))
    assert found.unit == "group of examples"


@pytest.mark.parametrize("score,kind", [("accuracy", "classes"), ("mcc", "classes"), ("pearson", "numbers")])
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("paired", [True, False])
def test_differences_are_those_of_compare_scores(score: str, kind: str, seeds: int, paired: bool) -> None:
    points = layers(seeds=seeds, kind=kind)
    labels = BINARY if kind == "classes" else ()
    found = difference_bands(score, points[:-1], points[-1], labels, pair_seeds=paired)
    for place, one in enumerate(points[:-1]):
        alone = compare_scores(score, one, points[-1], labels, pair_seeds=paired)
        assert alone.interval is not None
        assert found.values[place] == pytest.approx(alone.difference)
        assert (found.se[place], found.dof[place]) == pytest.approx((alone.se, alone.dof))
        assert (found.low[place], found.high[place]) == pytest.approx(
            (alone.interval.low, alone.interval.high)
        )
    check_order(found)
    assert found.unit == ("example" if seeds == 1 else "example and seed")


def test_the_order_of_examples_does_not_matter() -> None:
    points = layers()
    order = generator(0, "order").permutation(120)
    moved = [
        Answers(
            ids=[one.ids[int(i)] for i in order],
            targets=one.targets[order],
            predictions=[one.predictions[0][order]],
        )
        for one in points[1:]
    ]
    straight, turned = (score_bands("mcc", each, BINARY) for each in (points, [points[0], *moved]))
    np.testing.assert_allclose(straight.band_low, turned.band_low)


def test_one_point_has_its_interval_for_a_band() -> None:
    for score, seeds in itertools.product(("accuracy", "mcc"), (1, 4)):
        found = score_bands(score, layers(points=1, seeds=seeds), BINARY)
        assert (found.band_low[0], found.band_high[0]) == pytest.approx((found.low[0], found.high[0]))


def test_the_same_answers_at_every_point_need_no_wider_band() -> None:
    one = layers()[2]
    found = score_bands("mcc", [one] * 20, BINARY)
    assert found.critical == pytest.approx(stats.t.ppf(0.975, 119), abs=0.06)


def test_an_identical_reference_differs_by_exactly_nothing() -> None:
    points = layers(seeds=2)
    found = difference_bands("accuracy", points, points[-1], BINARY)
    assert (found.values[-1], found.low[-1], found.high[-1], found.band_high[-1]) == (0, 0, 0, 0)
    without = difference_bands("accuracy", points[:-1], points[-1], BINARY)
    assert found.critical == without.critical


def test_a_copy_of_the_reference_may_hide_a_difference() -> None:
    points = layers()
    last = points[-1]
    copy = Answers(ids=last.ids, targets=last.targets, predictions=[list(last.predictions[0])])
    for score in ("accuracy", "mcc"):
        found = difference_bands(score, [*points[:-1], copy], last, BINARY)
        assert found.values[-1] == 0
        assert found.low[-1] < 0 < found.high[-1]
        assert found.band_low[-1] < found.low[-1]


def test_points_without_spread_do_not_break_the_others() -> None:
    points = layers()
    targets = points[0].targets
    right = Answers(ids=points[0].ids, targets=targets, predictions=[targets])
    same = Answers(ids=points[0].ids, targets=targets, predictions=[np.ones_like(targets)])
    for score in ("accuracy", "mcc"):
        found = score_bands(score, [*points, right], BINARY)
        assert found.values[-1] == found.high[-1] == found.band_high[-1] == 1
        assert 0.85 < found.band_low[-1] < found.low[-1] < 1
    found = score_bands("mcc", [*points, same], BINARY)
    assert found.values[-1] == 0
    assert np.isnan([found.low[-1], found.band_high[-1]]).all()
    assert found.reasons[-1] == "mcc is undefined and counts as 0: every prediction is the same class"
    np.testing.assert_allclose(found.band_low[:-1], score_bands("mcc", points, BINARY).band_low)
    nothing = score_bands("mcc", [same], BINARY)
    assert np.isnan(nothing.critical)


def test_numbers_that_follow_exactly_have_no_interval_and_say_so() -> None:
    points = layers(kind="numbers")
    exact = Answers(ids=points[0].ids, targets=points[0].targets, predictions=[2 * points[0].targets])
    found = score_bands("pearson", [*points, exact])
    assert found.values[-1] == pytest.approx(1)
    assert np.isnan(found.low[-1])
    assert found.reasons[-1] == "every example has the same outcome, which gives no interval"
    assert np.isfinite(found.band_low[:-1]).all()


def test_seeds_without_a_score_are_told() -> None:
    one = layers(seeds=3)[0]
    constant = np.ones_like(one.targets)
    mixed = Answers(ids=one.ids, targets=one.targets, predictions=[*one.predictions[:2], constant])
    found = score_bands("mcc", [mixed], BINARY)
    assert found.reasons[0] == (
        "mcc is undefined and counts as 0 for 1 of 3 seeds: every prediction is the same class"
    )
    assert np.isfinite(found.low[0])


def test_perplexity_keeps_to_its_range() -> None:
    rng = generator(0, "perplexity")
    tokens = rng.integers(5, 60, 50)
    points = [
        Answers(
            ids=[str(i) for i in range(50)],
            targets=tokens,
            predictions=[np.column_stack([tokens * size * rng.gamma(20, 0.05, 50), tokens])],
        )
        for size in (0.01, 1.0, 4.0)
    ]
    found = score_bands("perplexity", points)
    assert (found.band_low >= 1).all()
    assert (found.band_low < found.values).all()
    assert (found.values < found.band_high).all()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bands_stay_in_the_range_whatever_the_answers(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 12))
    seeds = data.draw(st.integers(1, 3))
    labels = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    targets = data.draw(labels)
    points = [
        Answers(
            ids=[str(i) for i in range(n)],
            targets=targets,
            predictions=[data.draw(labels) for _ in range(seeds)],
        )
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    score = data.draw(st.sampled_from(["accuracy", "mcc", "f1", ("accuracy", "f1")]))
    found = score_bands(score, points, BINARY)
    bottom = -1 if score == "mcc" else 0
    check_order(found)
    known = np.isfinite(found.low)
    assert all(reason for reason, sure in zip(found.reasons, known, strict=True) if not sure)
    for ends in (found.low, found.high, found.band_low, found.band_high):
        assert ((bottom - 1e-12 <= ends[known]) & (ends[known] <= 1 + 1e-12)).all()
    assert (found.band_low[known] <= found.values[known] + 1e-12).all()
    assert (found.values[known] <= found.band_high[known] + 1e-12).all()


def test_the_same_call_gives_the_same_band() -> None:
    points = layers(seeds=2)
    first, second = (score_bands("mcc", points, BINARY).band_low for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_seeds_that_one_side_lacks_are_left_out_of_pairs() -> None:
    points = layers(seeds=3)
    part = Answers(
        ids=points[0].ids, targets=points[0].targets, predictions=points[0].predictions[1:], seeds=[1, 2]
    )
    found = difference_bands("mcc", [part], points[-1], BINARY)
    alone = compare_scores(
        "mcc",
        part,
        Answers(ids=part.ids, targets=part.targets, predictions=points[-1].predictions[1:], seeds=[1, 2]),
        BINARY,
        pair_seeds=True,
    )
    assert found.seeds == (2,)
    assert found.se[0] == pytest.approx(alone.se)
    other = Answers(ids=part.ids, targets=part.targets, predictions=part.predictions, seeds=[8, 9])
    lone = difference_bands("mcc", [part, other], points[-1], BINARY)
    assert np.isnan(lone.values[1])
    assert lone.reasons[1] == "no seed has both a sound run and its reference"


def test_one_pair_of_seeds_is_found_wherever_it_stands() -> None:
    points = layers(seeds=3)
    ids, targets, said = points[0].ids, points[0].targets, points[0].predictions
    two = Answers(ids=ids, targets=targets, predictions=said[1:], seeds=["b", "c"])
    reference = Answers(ids=ids, targets=targets, predictions=points[-1].predictions[:2], seeds=["c", "d"])
    alone = compare_scores(
        "accuracy",
        Answers(ids=ids, targets=targets, predictions=[said[2]]),
        Answers(ids=ids, targets=targets, predictions=[points[-1].predictions[0]]),
        BINARY,
    )
    found = difference_bands("accuracy", [two], reference, BINARY)
    assert alone.interval is not None
    assert found.seeds == (1,)
    assert found.values[0] == pytest.approx(alone.difference)
    assert (found.low[0], found.high[0]) == pytest.approx((alone.interval.low, alone.interval.high))


def test_bad_input_is_told() -> None:
    points = layers(seeds=2)
    unnamed = [Answers(ids=one.ids, targets=one.targets, predictions=one.predictions) for one in points]
    with pytest.raises(InputError, match="seeds to pair must be named on both sides"):
        difference_bands("mcc", unnamed, points[-1], BINARY)
    with pytest.raises(InputError, match="level must be between 0 and 1, but got 95"):
        score_bands("mcc", points, BINARY, level=95)
    with pytest.raises(InputError, match="the number of points must be at least 1"):
        score_bands("mcc", [], BINARY)
    with pytest.raises(InputError, match="must be at least 2, but got 1"):
        score_bands("accuracy", [Answers(ids=["a"], targets=[1], predictions=[[1]])], BINARY)
    with pytest.raises(InputError, match="must be compared on the same examples"):
        score_bands("mcc", [points[0], layers(n=60)[0]], BINARY)
