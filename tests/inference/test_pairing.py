from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError
from microtome.inference.answers import Answers
from microtome.inference.pairing import compare_scores, mcnemar
from microtome.randomness import generator

BINARY = ("no", "yes")


def answers(targets: Any, *predictions: Any, **told: Any) -> Answers:
    told = {"ids": [str(i) for i in range(len(targets))], **told}
    return Answers(targets=targets, predictions=predictions, **told)


def fallible(rng: np.random.Generator, targets: Any, hard: Any, chance: float) -> Any:
    """Predictions that are wrong more often where an example is hard."""
    return np.where(rng.random(len(targets)) < 2 * chance * hard, 1 - targets, targets)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test(ours: int, theirs: int) -> None:
    expected = stats.binomtest(ours, ours + theirs).pvalue if ours + theirs else 1.0
    assert mcnemar(ours, theirs) == pytest.approx(expected)
    assert mcnemar(ours, theirs) == mcnemar(theirs, ours)


def test_accuracy_is_compared_on_the_examples_where_the_two_differ() -> None:
    targets = [1] * 100
    first, second = [1] * 90 + [0] * 10, [1] * 75 + [0] * 20 + [1] * 5
    found = compare_scores("accuracy", answers(targets, first), answers(targets, second), BINARY)
    assert (found.only_first, found.only_second, found.n) == (15, 5, 100)
    assert found.difference == pytest.approx(0.1)
    assert (found.first, found.second) == (0.9, 0.8)
    assert found.p == pytest.approx(stats.binomtest(5, 20).pvalue)
    assert found.test == "McNemar's exact test"
    assert found.interval is not None
    # (16 - 6) / 102, and sqrt((22/102 - (10/102)^2) / 102)
    arm = 1.959964 * math.sqrt((22 / 102 - (10 / 102) ** 2) / 102)
    assert (found.interval.low, found.interval.high) == pytest.approx((10 / 102 - arm, 10 / 102 + arm))
    assert "one seed each" in found.warnings[0]
    back = compare_scores("accuracy", answers(targets, second), answers(targets, first), BINARY)
    assert back.difference == -found.difference
    assert back.p == found.p


def test_the_order_of_examples_does_not_matter() -> None:
    rng = generator(0, "order")
    targets, p, q = rng.integers(0, 2, (3, 40))
    ids = [f"x{i}" for i in range(40)]
    order = rng.permutation(40)
    straight = compare_scores("mcc", answers(targets, p, ids=ids), answers(targets, q, ids=ids), BINARY)
    moved = answers(targets[order], q[order], ids=[ids[i] for i in order])
    assert compare_scores("mcc", answers(targets, p, ids=ids), moved, BINARY) == straight


def test_other_examples_are_an_error() -> None:
    one = answers([1, 0, 1], [1, 1, 1], ids=["a", "b", "c"])
    with pytest.raises(
        InputError, match="must be compared on the same examples, but 2 have one only, such as 'c'"
    ):
        compare_scores("accuracy", one, answers([1, 0, 1], [1, 1, 1], ids=["a", "b", "d"]))
    with pytest.raises(InputError, match=r"1 have one only, such as 'd' \(the second\)"):
        compare_scores("accuracy", one, answers([1, 0, 1, 1], [1, 1, 1, 1], ids=["a", "b", "c", "d"]))
    with pytest.raises(InputError, match="'b' has the target 0 for the first and 1 for the second"):
        compare_scores("accuracy", one, answers([1, 1, 1], [1, 1, 1], ids=["a", "b", "c"]))
    spans = [((0, "a"),), ()]
    same = answers(spans, ["a", ""])
    assert compare_scores("span_f1", same, same).difference == 0
    with pytest.raises(InputError, match="has the target"):
        compare_scores("span_f1", same, answers([((0, "a"),), ((1, "b"),)], ["a", ""]))


@pytest.mark.parametrize(
    "told,words",
    [
        ({"ids": ["a", "a"], "targets": [0, 1], "predictions": [[0, 1]]}, "must be unique"),
        ({"ids": ["a", "b"], "targets": [0, 1], "predictions": []}, "at least one seed"),
        ({"ids": ["a", "b"], "targets": [0, 1], "predictions": [[0]]}, "for each of the 2 ids"),
        (
            {"ids": ["a", "b"], "targets": [0, 1], "predictions": [[0, 1]], "seeds": [1, 2]},
            "one name for each",
        ),
        ({"ids": ["a"], "targets": [0], "predictions": [[0], [0]], "seeds": [1, 1]}, "each there once"),
    ],
)
def test_answers_must_fit(told: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Answers(**told)


def test_a_difference_of_means_has_the_paired_t_test() -> None:
    rng = generator(1, "paired")
    words = [["p q r s", "p q r", "p q", "p", "e"][i] for i in rng.integers(0, 5, 60)]
    others = [["p q r s", "p q r", "p q", "p", "e"][i] for i in rng.integers(0, 5, 60)]
    targets = [((0, "p q r s"),)] * 60
    found = compare_scores("span_f1", answers(targets, words), answers(targets, others))
    f1 = {"p q r s": 1, "p q r": 6 / 7, "p q": 4 / 6, "p": 2 / 5, "e": 0}
    expected: Any = stats.ttest_rel([f1[w] for w in words], [f1[w] for w in others])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval is not None
    ends = expected.confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high))
    assert found.interval.unit == "example"


def test_pairs_are_told_apart_better_than_two_intervals_would() -> None:
    rng = generator(2, "cancel")
    y = rng.standard_normal(300)
    x = y + rng.standard_normal(300)
    pair = (answers(y, x), answers(y, x + 0.5 * rng.standard_normal(300)))
    found = compare_scores(("pearson", "spearman"), *pair)
    other = compare_scores(("pearson", "spearman"), pair[0], answers(y, y + rng.standard_normal(300)))
    assert found.se < 0.7 * other.se
    assert found.p < 0.05


def test_two_models_that_never_differ() -> None:
    targets = [0, 1] * 30
    one = answers(targets, [0, 1] * 28 + [1, 0] * 2)
    for name in ("accuracy", "mcc", "f1"):
        found = compare_scores(name, one, one, BINARY)
        assert (found.difference, found.p) == (0, 1)
        assert found.interval is not None
        assert found.interval.low < -0.01
        assert found.interval.high > 0.01  # other examples could tell them apart
    line = list(np.arange(9.0))
    same = compare_scores("spearman", answers(line, line[::-1]), answers(line, line[::-1]))
    assert same.interval is None
    assert "the same on every example" in same.warnings[-1]


def test_an_undefined_score_is_told() -> None:
    targets = [0, 1] * 10
    found = compare_scores("mcc", answers(targets, targets), answers(targets, [1] * 20), BINARY)
    assert "mcc is undefined and counts as 0: every prediction is the same class." in found.warnings


@pytest.mark.parametrize("name", ["accuracy", "f1", "mcc", "macro_f1", ("accuracy", "f1")])
@pytest.mark.parametrize("grouped", [False, True])
def test_equals_are_seldom_told_apart(name: str, grouped: bool) -> None:
    trials, fired, covered = 400, 0, 0
    for number in range(trials):
        rng = generator(3, "size", str(name), int(grouped), number)
        targets = (rng.random(80) < 0.6).astype(int)
        groups = np.arange(80) // 4 if grouped else None
        hard = np.repeat(rng.random(20), 4) if grouped else rng.random(80)
        sides = [answers(targets, fallible(rng, targets, hard, 0.2), groups=groups) for _ in range(2)]
        found = compare_scores(name, sides[0], sides[1], BINARY)
        fired += found.p <= 0.05
        assert found.interval is not None
        covered += found.interval.low <= 0 <= found.interval.high
    error = math.sqrt(0.05 * 0.95 / trials)
    assert fired / trials < 0.05 + 3 * error
    assert 0.91 - 2 * error < covered / trials


@pytest.mark.parametrize("pair_seeds", [False, True])
def test_several_seeds_count_both_spreads(pair_seeds: bool) -> None:
    trials, fired, blind = 300, 0, 0
    for number in range(trials):
        rng = generator(4, "seeds", int(pair_seeds), number)
        targets = (rng.random(120) < 0.6).astype(int)
        hard = rng.random(120)
        shared = 0.2 + 0.05 * rng.standard_normal(4)
        sides = []
        for _ in range(2):
            # Every seed has its own chance to be wrong; paired seeds have theirs in common.
            chances = shared if pair_seeds else 0.2 + 0.05 * rng.standard_normal(4)
            told = [fallible(rng, targets, hard, float(np.clip(c, 0, 0.5))) for c in chances]
            sides.append(answers(targets, *told, seeds=range(4)))
        found = compare_scores("accuracy", sides[0], sides[1], BINARY, pair_seeds=pair_seeds)
        assert found.seeds == (4, 4)
        assert found.interval is not None
        assert found.interval.unit == "example and seed"
        fired += found.p <= 0.05
        ones = [answers(targets, side.predictions[0]) for side in sides]
        blind += compare_scores("accuracy", ones[0], ones[1], BINARY).p <= 0.05
    error = math.sqrt(0.05 * 0.95 / trials)
    assert fired / trials < 0.05 + 3 * error
    if not pair_seeds:
        assert blind / trials > 0.1  # one seed each, examples alone: two trainings are always told apart


@pytest.mark.parametrize("seeds", [(2, 2), (3, 3), (3, 1)])
def test_an_interval_leaves_0_out_exactly_where_p_is_small(seeds: tuple[int, int]) -> None:
    told = {True: 0, False: 0}
    for number in range(40):
        rng = generator(6, "touch", *seeds, number)
        targets = rng.integers(0, 2, 200)
        hard = rng.random(200)
        sides = [
            answers(targets, *(fallible(rng, targets, hard, float(c)) for c in rng.uniform(0, 0.1, n) + more))
            for n, more in zip(seeds, (0.05 + 0.01 * number, 0.05), strict=True)
        ]
        found = compare_scores("accuracy", sides[0], sides[1], BINARY, level=0.9)
        assert found.interval is not None
        out = not found.interval.low <= 0 <= found.interval.high
        told[out] += 1
        assert (found.p < 0.1) == out
        assert found.interval.low == pytest.approx(found.center - stats.t.ppf(0.95, found.dof) * found.se)
    assert min(told.values()) > 0


def test_seeds_are_paired_by_name() -> None:
    rng = generator(5, "names")
    targets = rng.integers(0, 2, 50)
    told = [fallible(rng, targets, rng.random(50), chance) for chance in (0.1, 0.3, 0.4)]
    one = answers(targets, *told, seeds=["a", "b", "c"])
    two = answers(targets, *told[::-1], seeds=["c", "b", "a"])
    found = compare_scores("accuracy", one, two, BINARY, pair_seeds=True)
    assert "the two models do the same on every example." in found.warnings
    assert compare_scores("accuracy", one, two, BINARY).se > 0.02
    with pytest.raises(InputError, match="seeds to pair must be named alike on both sides"):
        compare_scores("accuracy", one, answers(targets, told[0], seeds=["a"]), BINARY, pair_seeds=True)
    lone = compare_scores("accuracy", one, answers(targets, told[0]), BINARY)
    assert "taken from the other side" in lone.warnings[0]
    assert lone.seeds == (3, 1)


def test_bad_requests() -> None:
    one = answers([1], [1])
    with pytest.raises(
        InputError, match="the number of examples to compare on must be at least 2, but got 1"
    ):
        compare_scores("accuracy", one, one)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        compare_scores("accuracy", one, one, level=2)
