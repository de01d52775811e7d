"""Is a drop told in points, bounded from above, and never called safe too often?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from microtome.errors import InputError
from microtome.inference.answers import Answers
from microtome.pruning.exact import exact_p
from microtome.pruning.margin import FEWEST, UNSEEN_UNKNOWN, judge_drop
from microtome.randomness import generator


def answers(predictions: Any, targets: Any, groups: Any = None) -> Answers:
    return Answers(
        ids=[str(i) for i in range(len(targets))], targets=targets, predictions=[predictions], groups=groups
    )


def shares(lost: int, gained: int, n: int) -> tuple[Answers, Answers]:
    full = np.r_[np.ones(lost, int), np.zeros(gained, int), np.ones(n - lost - gained, int)]
    cut = np.r_[np.zeros(lost, int), np.ones(gained, int), np.ones(n - lost - gained, int)]
    return answers(full, np.ones(n, int)), answers(cut, np.ones(n, int))


@pytest.mark.parametrize("lost,gained,n", [(0, 0, 400), (5, 3, 400), (30, 10, 400), (0, 9, 80)])
def test_shares_are_tested_exactly_and_the_limit_is_where_p_is_alpha(lost: int, gained: int, n: int) -> None:
    found = judge_drop("accuracy", *shares(lost, gained, n), max_drop=2.0)
    assert found.p == exact_p(lost, gained, n, 0.02)
    assert (found.lost, found.gained) == (lost, gained)
    assert found.drop == pytest.approx(100 * (lost - gained) / n)
    assert found.safe == (found.upper <= 2.0)
    assert exact_p(lost, gained, n, found.upper / 100 * 1.001) <= 0.05
    if lost >= gained:
        assert exact_p(lost, gained, n, found.upper / 100 * 0.98) > 0.05
    else:
        assert found.upper == pytest.approx(0, abs=1e-5)  # a gain is not promised


def test_other_scores_by_t_with_failures_that_were_not_seen() -> None:
    rng = generator(0, "numbers")
    targets = rng.standard_normal(300)
    full = targets + 0.5 * rng.standard_normal(300)
    cut = full + 0.1 * rng.standard_normal(300)
    found = judge_drop("pearson", answers(full, targets), answers(cut, targets), max_drop=3.0)
    r = [np.corrcoef(side, targets)[0, 1] for side in (full, cut)]
    assert found.drop == pytest.approx(100 * (r[0] - r[1]))
    # The textbook t of the jackknife would be surer.
    left = np.array(
        [
            [np.corrcoef(np.delete(side, i), np.delete(targets, i))[0, 1] for side in (full, cut)]
            for i in range(300)
        ]
    )
    difference = left[:, 1] - left[:, 0]
    se = math.sqrt(299 / 300 * ((difference - difference.mean()) ** 2).sum())
    plain = student.sf((0.03 - (r[0] - r[1])) / se, 299)
    assert plain < found.p < 1
    assert found.se == pytest.approx(100 * se, rel=0.01)
    worst = 100 * r[0] / 300
    assert found.upper > found.drop + UNSEEN_UNKNOWN * worst


def test_models_that_never_disagree_are_not_safe_by_that_alone() -> None:
    for score, targets in (("mcc", np.arange(40) % 2), ("pearson", np.arange(40.0))):
        same = answers(targets, targets)
        found = judge_drop(score, same, same, ("a", "b") if score == "mcc" else (), max_drop=1.0)
        assert found.drop == 0
        assert not found.safe
        assert found.needed is not None
        assert found.needed > 100
        # About so many are enough, and a tenth fewer are not.
        for count, safe in ((int(1.05 * found.needed), True), (int(0.9 * found.needed), False)):
            targets = np.arange(count) % 2 if score == "mcc" else np.arange(float(count))
            same = answers(targets, targets)
            again = judge_drop(score, same, same, ("a", "b") if score == "mcc" else (), max_drop=1.0)
            assert again.safe is safe


def test_perplexity_in_its_own_units() -> None:
    rng = generator(1, "texts")
    tokens = rng.integers(20, 60, 400)
    nats = tokens * rng.normal(3.0, 0.3, 400)
    full = np.column_stack([nats, tokens])
    cut = np.column_stack([nats * 1.003 + 0.2 * rng.standard_normal(400), tokens])
    nothing = [None] * 400
    found = judge_drop("perplexity", answers(full, nothing), answers(cut, nothing), max_drop=1.0)
    value = [math.exp(side[:, 0].sum() / tokens.sum()) for side in (full, cut)]
    assert found.drop == pytest.approx(value[1] - value[0])
    assert found.safe
    assert found.drop < found.upper < 1.0
    wide = judge_drop("perplexity", answers(full, nothing), answers(cut, nothing), max_drop=0.05)
    assert not wide.safe
    assert wide.upper == pytest.approx(found.upper, rel=0.05)


def test_a_loss_that_rests_on_few_texts_has_no_limit() -> None:
    tokens = np.full(200, 30.0)
    full = np.column_stack([tokens * 3, tokens])
    cut = full.copy()
    cut[:2, 0] += 20
    found = judge_drop("perplexity", answers(full, [None] * 200), answers(cut, [None] * 200), max_drop=5.0)
    assert not found.safe
    assert found.reason is not None
    assert f"{FEWEST:g} are needed" in found.reason
    cut[:, 0] = 1e9
    found = judge_drop("perplexity", answers(full, [None] * 200), answers(cut, [None] * 200), max_drop=5.0)
    assert (found.p, math.isinf(found.drop)) == (1.0, True)


def test_groups_are_what_is_independent() -> None:
    full, cut = shares(10, 4, 400)
    groups = np.arange(400) // 10
    apart = judge_drop("accuracy", full, cut, max_drop=5.0)
    together = judge_drop(
        "accuracy",
        answers(full.predictions[0], full.targets, groups),
        answers(cut.predictions[0], cut.targets, groups),
        max_drop=5.0,
    )
    assert (together.units, together.unit) == (40, "group of examples")
    assert together.upper > apart.upper


def test_the_number_of_examples_that_are_needed_is_about_right() -> None:
    found = judge_drop("accuracy", *shares(6, 4, 200), max_drop=2.5)
    assert not found.safe
    assert found.needed is not None
    n = found.needed
    rng = generator(2, "power")
    drawn = rng.multinomial(n, [0.03, 0.02, 0.95], size=150)
    passed = np.mean([exact_p(int(a), int(b), n, 0.025) <= 0.05 for a, b, _ in drawn])
    assert 0.7 < passed < 0.93
    assert judge_drop("accuracy", *shares(10, 4, 200), max_drop=2.5).needed is None


@pytest.mark.slow
@pytest.mark.parametrize("score", ["mcc", "f1", "macro_f1"])
def test_the_level_is_kept_where_few_examples_disagree(score: str) -> None:
    # In truth the cut loses the margin; n and the share of disagreement are those where plain t fails most.
    rng = generator(3, "level", score)
    lost, n = 0.015, 200
    share = 0.3
    big = _drawn(rng, 200_000, share, lost)
    from microtome.scores.table import find_score

    labels = ("a", "b")
    values = [find_score(score).compute(side, big[2], labels) for side in big[:2]]
    margin = 100 * (values[0] - values[1])
    safe = [
        judge_drop(score, answers(f, t), answers(c, t), labels, max_drop=margin, limit=False).safe
        for f, c, t in (_drawn(rng, n, share, lost) for _ in range(400))
    ]
    assert np.mean(safe) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def _drawn(rng: np.random.Generator, n: int, share: float, lost: float) -> tuple[Any, Any, Any]:
    targets = (rng.random(n) < share).astype(int)
    full = np.where(rng.random(n) < 0.9, targets, 1 - targets)
    cut = np.where((full == targets) & (rng.random(n) < lost), 1 - targets, full)
    return full, cut, targets


@pytest.mark.parametrize(
    "options,words",
    [
        ({"max_drop": 0.0}, "max_drop must be above 0"),
        ({"max_drop": math.inf}, "max_drop must be above 0"),
        ({"max_drop": 1.0, "level": 0.5}, "level must be between 0.5 and 1"),
    ],
)
def test_wrong_options(options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        judge_drop("accuracy", *shares(1, 1, 10), **options)  # pyright: ignore[reportArgumentType]


def test_one_model_on_each_side() -> None:
    full, cut = shares(1, 1, 10)
    two = Answers(ids=full.ids, targets=full.targets, predictions=[*full.predictions, *cut.predictions])
    with pytest.raises(InputError, match="answers must be of one model each"):
        judge_drop("accuracy", two, cut, max_drop=1.0)
