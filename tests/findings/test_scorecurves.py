"""Curves and span maps tell scores, costs and failed runs as a reader expects them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.findings.scorecurves import difference_curve, paired_curve, score_curve, span_map
from microtome.inference.answers import Answers
from microtome.inference.bands import score_bands
from microtome.inference.pairing import compare_scores
from microtome.randomness import generator

BINARY = ("no", "yes")
N = 90


def answers(right: float, *seeds: int | str, name: str = "") -> Answers:
    """Answers of which about so many are right, the same examples each time."""
    targets = generator(0, "targets").integers(0, 2, N)
    hard = generator(0, "hard").random(N)
    said = [
        np.where(0.7 * hard + 0.3 * generator(0, "said", name, seed).random(N) < right, targets, 1 - targets)
        for seed in seeds
    ]
    return Answers(ids=[f"e{i}" for i in range(N)], targets=targets, predictions=said, seeds=list(seeds))


def test_a_curve_holds_scores_intervals_and_a_band() -> None:
    points = [answers(right, 1, 2, 3) for right in (0.5, 0.6, 0.8)]
    curve = score_curve("UNTUNED", [1, 2, 3], points, "accuracy", BINARY, axis="layers kept", note="cut")
    bands = score_bands("accuracy", points, BINARY)
    for name in ("values", "low", "high", "band_low", "band_high"):
        np.testing.assert_array_equal(getattr(curve, name), getattr(bands, name))
    expected = [np.mean([(said == one.targets).mean() for said in one.predictions]) for one in points]
    np.testing.assert_allclose(curve.values, expected)
    assert (curve.name, curve.axis, curve.x, curve.note) == ("UNTUNED", "layers kept", (1, 2, 3), "cut")
    assert (curve.n, curve.seeds, curve.unit, curve.level) == (N, (3, 3, 3), "example and seed", 0.95)
    assert curve.reasons == (None, None, None)


def test_failed_runs_are_named_and_never_averaged() -> None:
    points = [answers(0.5, 1, 2, 3), answers(0.6, 1, 2), None]
    failed = [(4, 2, "loss is NaN"), (8, 3, "collapsed"), (12, 1, "collapsed"), (12, 2, "loss is NaN")]
    curve = score_curve("freeze", [4, 8, 12], points, "accuracy", BINARY, axis="k", failed=failed)
    assert curve.values[0] == np.mean(
        [(points[0].predictions[p] == points[0].targets).mean() for p in (0, 2)]
    )
    assert curve.seeds == (2, 2, 0)
    assert np.isnan([curve.values[2], curve.low[2], curve.band_high[2]]).all()
    assert curve.reasons == (
        "1 of 3 runs was left out: seed 2 (loss is NaN)",
        "1 of 3 runs was left out: seed 3 (collapsed)",
        "no sound run: seed 1 (collapsed), seed 2 (loss is NaN)",
    )


def test_a_curve_without_any_sound_run_is_undefined() -> None:
    for given in ([None, None], [answers(0.5, 1), answers(0.6, 1)]):
        failed = [(x, 1, "diverged") for x in ("a", "b")]
        curve = score_curve("all failed", ["a", "b"], given, "mcc", BINARY, axis="scheme", failed=failed)
        assert np.isnan(curve.values).all()
        assert curve.seeds == (0, 0)
        assert curve.reasons == ("no sound run: seed 1 (diverged)",) * 2


def test_differences_are_paired_by_example_and_seed() -> None:
    points = [answers(0.5, 1, 2), answers(0.7, 1, 2), answers(0.8, 1, 2)]
    curve = difference_curve("drop", [1, 2, 3], points, points[-1], "mcc", BINARY, axis="layers kept")
    alone = compare_scores("mcc", points[0], points[-1], BINARY, pair_seeds=True)
    assert alone.interval is not None
    assert curve.values[0] == pytest.approx(alone.difference)
    assert (curve.low[0], curve.high[0]) == pytest.approx((alone.interval.low, alone.interval.high))
    assert curve.values[0] < 0
    assert (curve.values[2], curve.low[2], curve.band_high[2]) == (0, 0, 0)


def test_the_reference_stays_itself_where_a_seed_of_it_failed() -> None:
    points = [answers(0.5, 1, 2, 3), answers(0.8, 1, 2, 3)]
    failed = [(x, 2, "diverged") for x in (1, 2)]
    curve = difference_curve("cut", [1, 2], points, points[1], "mcc", BINARY, axis="k", failed=failed)
    assert (curve.values[1], curve.low[1], curve.high[1]) == (0, 0, 0)
    assert curve.seeds == (2, 2)
    assert curve.reasons[1] == "1 of 3 runs was left out: seed 2 (diverged)"


def test_seeds_that_cannot_be_paired_are_an_error() -> None:
    points = [answers(0.5, 1, 2), answers(0.6, 1, 2)]
    with pytest.raises(InputError, match="seeds to pair must be named alike on both sides"):
        difference_curve("x", [1, 2], points, answers(0.8, 7, 8), "mcc", BINARY, axis="k")
    apart = difference_curve(
        "x", [1, 2], points, answers(0.8, 7, 8), "mcc", BINARY, axis="k", pair_seeds=False
    )
    assert np.isfinite(apart.low).all()


def test_costs_of_spans_are_positive_where_something_is_lost() -> None:
    whole = answers(0.9, 1)
    spans = {(1, 1): answers(0.5, 1), (2, 2): answers(0.85, 1), (1, 2): answers(0.3, 1)}
    found = span_map("skip", 2, spans, whole, "accuracy", BINARY)
    assert found.full == (whole.predictions[0] == whole.targets).mean()
    assert np.isnan(found.values[1, 0])
    for (first, last), one in spans.items():
        place = first - 1, last - 1
        lost = found.full - (one.predictions[0] == one.targets).mean()
        assert found.values[place] == pytest.approx(lost)
        alone = compare_scores("accuracy", whole, one, BINARY).interval
        assert alone is not None
        assert (found.low[place], found.high[place]) == pytest.approx((alone.low, alone.high))
        assert found.band_low[place] < found.low[place] < found.high[place] < found.band_high[place]
    assert found.values[0, 1] > found.values[0, 0] > found.values[1, 1] > 0
    assert (found.n, found.seeds, found.unit, found.depth) == (N, 1, "example", 2)


def test_a_higher_perplexity_is_a_cost() -> None:
    rng = generator(0, "perplexity")
    tokens = rng.integers(5, 50, 40)
    hard = rng.gamma(20, 0.05, 40)

    def said(size: float) -> Answers:
        loss = tokens * size * hard * rng.gamma(100, 0.01, 40)
        return Answers(
            ids=[str(i) for i in range(40)], targets=tokens, predictions=[np.column_stack([loss, tokens])]
        )

    found = span_map("skip", 1, {(1, 1): said(3.0)}, said(2.0), "perplexity")
    assert 0 < found.low[0, 0] < found.values[0, 0] < found.high[0, 0]
    assert found.full == pytest.approx(np.exp(2), rel=0.2)


def test_spans_that_were_not_run_or_say_nothing_are_told() -> None:
    whole = answers(0.9, 1)
    same = Answers(ids=whole.ids, targets=whole.targets, predictions=[np.ones(N, dtype=int)], seeds=[1])
    found = span_map("skip", 3, {(2, 3): same}, whole, "mcc", BINARY)
    assert np.isnan(found.values[np.triu_indices(3)]).sum() == 5
    assert found.values[1, 2] == pytest.approx(found.full)
    assert found.note == (
        "Without blocks 2 to 3: mcc is undefined and counts as 0: every prediction is the same class."
    )


@pytest.mark.parametrize(
    "given,words",
    [
        ({"x": [1], "answers": []}, "answers must be one for each of the 1 points"),
        ({"x": [1, 1], "answers": [answers(0.5, 1)] * 2}, "points of a curve must be each there once"),
        ({"x": [], "answers": []}, "the number of points must be at least 1"),
        (
            {"x": [1], "answers": [answers(0.5, 1)], "failed": [(2, 1, "why")]},
            "the point of a failed run must be",
        ),
    ],
)
def test_bad_points_are_told(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        score_curve("x", score="mcc", labels=BINARY, axis="k", **given)


def test_bad_spans_are_told() -> None:
    with pytest.raises(
        InputError, match=r"a span must be first and last of the blocks 1 to 2, but got \(2, 3\)"
    ):
        span_map("x", 2, {(2, 3): answers(0.5, 1)}, answers(0.9, 1), "mcc", BINARY)
    with pytest.raises(InputError, match="the number of spans must be at least 1"):
        span_map("x", 2, {}, answers(0.9, 1), "mcc", BINARY)


def test_points_with_references_of_their_own_have_paired_intervals_and_bonferronis_band() -> None:
    points, references = ([answers(right, 1, 2, name=name) for right in (0.6, 0.8)] for name in "ab")
    options: dict[str, Any] = {"name": "gain", "score": "accuracy", "labels": BINARY, "axis": "layer"}
    curve = paired_curve([3, 4], points, references, level=0.9, **options)
    for place, (point, reference) in enumerate(zip(points, references, strict=True)):
        for level, low, high in ((0.9, curve.low, curve.high), (0.95, curve.band_low, curve.band_high)):
            one = compare_scores("accuracy", point, reference, BINARY, level=level, pair_seeds=True)
            assert one.interval is not None
            assert (low[place], high[place]) == pytest.approx((one.interval.low, one.interval.high))
            assert curve.values[place] == pytest.approx(one.difference)
    assert (curve.x, curve.seeds, curve.unit, curve.level) == ((3, 4), (2, 2), "example and seed", 0.9)
    failed = paired_curve([3, 4], points, references, failed=[(4, 1, "diverged")], **options)
    assert (failed.seeds, failed.reasons[0]) == ((2, 1), None)
    assert "seed 1 (diverged)" in str(failed.reasons[1])
