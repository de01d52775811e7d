"""Paired comparison of the scores of two models, over examples and seeds.

The difficulty of an example cancels in the paired difference. With several seeds per model, the variances
over seeds and over examples both count: an interval over examples alone does not cover models trained with
other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import must
from ..scores.declare import Score
from ..scores.table import find_score
from .answers import Answers, aligned, seeds_aligned
from .estimate import Confidence, Interval
from .scoring import ScoredExamples, example_groups
from .simultaneous import Spread, spread

OTHER_EXAMPLES = "difference of the scores on other examples of the same kind"
OTHER_SEEDS = "difference of the mean scores on other examples, of models trained with other seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    Difference of two models on the same examples.

    Parameters
    ----------
    score : str
    first, second : float
        Their scores, means over seeds.
    difference : float
        First minus second.
    interval : Interval or None
        For the difference; None where its spread cannot be estimated.
    p : float
        Two-sided p-value of the difference; NaN where there is no test.
    test : str
        Name of the test.
    n, units : int
        Number of examples, and of independent units among them.
    seeds : tuple of int
        Number of seeds of the first and of the second model.
    only_first, only_second : int or None
        Examples that only one of the two got right, for accuracy-like scores and one seed each.
    center, se, dof : float
        The interval is center +- t(dof) se. With several seeds these degrees of freedom hold for its level
        only; see `Spread`.
    points : float
        Points per unit of the score, negative where lower is better.
    warnings : tuple of str
    """

    score: str
    first: float
    second: float
    difference: float
    interval: Interval | None
    p: float
    test: str
    n: int
    units: int
    seeds: tuple[int, int]
    only_first: int | None = None
    only_second: int | None = None
    center: float
    se: float
    dof: float
    points: float
    warnings: tuple[str, ...] = ()


def compare_scores(
    score: str | Score | Iterable[str | Score],
    first: Answers,
    second: Answers,
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
    pair_seeds: bool = False,
) -> Comparison:
    """
    Compare two models on the same examples.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    first, second : Answers
        To the same examples, in any order. Examples that only one of them has are an error.
    labels : sequence of str
    level : float
    pair_seeds : bool
        Whether a seed of the first is paired with the same seed of the second, such as a tuned model and
        the same one without a layer. Equal seeds do not make pairs of models that were trained separately.

    Returns
    -------
    Comparison

    Notes
    -----
    With one seed each, the proportion of independent correct examples gets McNemar's exact test and the
    adjusted interval of Bonett and Price; any other score a t interval of the paired influence of the
    examples (or groups), and its test. With several seeds, V = V_seeds + V_examples - V_both: the variance of
    the scores over seeds, that of the mean influence over examples, and what both include. The half-width of
    the interval is the root of t(seeds - 1)^2 V_seeds + t^2 (V_examples - V_both), and p is 1 - level of the
    interval that ends at 0. For a side with one seed, V_seeds and its degrees of freedom are those of the
    other side, which assumes that the seeds of both sides have the same variance.

    References
    ----------
    Bonett and Price (2012), Adjusted Wald confidence interval for a difference of binomial proportions
    based on paired data, Journal of Educational and Behavioral Statistics.

    Examples
    --------
    >>> ids, right = [str(i) for i in range(8)], [1] * 8
    >>> one = Answers(ids=ids, targets=right, predictions=[[1] * 8])
    >>> two = Answers(ids=ids, targets=right, predictions=[[0] * 6 + [1] * 2])
    >>> found = compare_scores("accuracy", one, two)
    >>> found.difference, found.p, found.test
    (0.75, 0.03125, "McNemar's exact test")
    """
    metric = find_score(score)
    confidence = Confidence(level=level, pair_seeds=pair_seeds)
    second = aligned(first, second)
    if pair_seeds:
        second = seeds_aligned(first, second)
    n = len(first.ids)
    examples = ScoredExamples(score=metric, labels=labels, n=n, clusters=example_groups(first.groups, n))
    if examples.units < 2:
        raise must("the number of examples to compare on", "at least 2", examples.units)
    sides = (first, second)
    messages = [
        f"{metric.name} is undefined and counts as 0: {reason}."
        for side in sides
        for reason in examples.undefined_in(side)
    ]
    values = [examples.values_of(side) for side in sides]
    seeds = (len(values[0]), len(values[1]))
    several = max(seeds) > 1
    if several and min(seeds) == 1:
        messages.append("one side has one seed: the spread of its seeds is taken from the other side.")
    if not several:
        messages.append("one seed each: this says nothing of models trained with other seeds.")
    difference = float(values[0].mean() - values[1].mean())
    if examples.shares and not several:
        test = _test_of_shares(examples, sides, confidence)
    else:
        psi = [examples.influences_of(side) for side in sides]
        error = spread(psi, values, examples.dof, pair_seeds=pair_seeds)
        if error.se == 0 and difference == 0:
            messages.append("the two models do the same on every example.")
            reach = confidence.reach(error.dof)
            extreme = examples.past_the_end(first.predictions[0], first.targets, reach)
            error = Spread.of_examples(abs(float(values[0][0]) - extreme) / reach, error.dof)
        test = _test_of_influence(examples, difference, error, confidence, several=several)
    return Comparison(
        score=metric.name,
        first=float(values[0].mean()),
        second=float(values[1].mean()),
        difference=difference,
        n=n,
        units=examples.units,
        seeds=seeds,
        points=metric.points if metric.higher_is_better else -metric.points,
        warnings=tuple(messages),
        **test,
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """
    McNemar's exact test: two-sided p that both models are equally likely to be the only correct one.

    Examples
    --------
    >>> mcnemar(0, 6), mcnemar(3, 3)
    (0.03125, 1.0)
    """
    from scipy.special import bdtr

    n = only_first + only_second
    return 1.0 if n == 0 else min(1.0, 2 * float(bdtr(min(only_first, only_second), n, 0.5)))


def bonett_price(correct: Sequence[np.ndarray]) -> tuple[float, float]:
    """
    Center and standard error of the adjusted interval of Bonett and Price (2012).

    Parameters
    ----------
    correct : pair of ndarray of bool, shape (examples,)
        Which examples each of two models gets right.
    """
    n = len(correct[0])
    a, b = ((np.count_nonzero(x & ~y) + 1) / (n + 2) for x, y in (correct, correct[::-1]))
    return a - b, float(np.sqrt((a + b - (a - b) ** 2) / (n + 2)))


def correct_examples(examples: ScoredExamples, answers: Answers) -> np.ndarray:
    """Which examples a model gets right, for a score that counts them."""
    assert examples.score.parts is not None
    return examples.score.parts(answers.predictions[0], answers.targets, examples.labels)[:, 0] > 0


def _test_of_shares(
    examples: ScoredExamples, sides: Sequence[Answers], confidence: Confidence
) -> dict[str, Any]:
    correct = [correct_examples(examples, side) for side in sides]
    only_first, only_second = int((correct[0] & ~correct[1]).sum()), int((correct[1] & ~correct[0]).sum())
    center, se = bonett_price(correct)
    reach = confidence.reach() * se
    return {
        "interval": Interval(
            low=max(-1.0, center - reach),
            high=min(1.0, center + reach),
            level=confidence.level,
            method="adjusted interval of Bonett and Price",
            unit="example",
            target=OTHER_EXAMPLES,
        ),
        "p": mcnemar(only_first, only_second),
        "test": "McNemar's exact test",
        "only_first": only_first,
        "only_second": only_second,
        "center": center,
        "se": se,
        "dof": float("inf"),
    }


def _test_of_influence(
    examples: ScoredExamples, difference: float, error: Spread, confidence: Confidence, *, several: bool
) -> dict[str, Any]:
    interval = None
    if error.se > 0:
        reach = error.arm(confidence.reach)
        interval = Interval(
            low=difference - reach,
            high=difference + reach,
            level=confidence.level,
            method="t over seeds and examples" if several else "paired influence, t",
            unit=f"{examples.unit} and seed" if several else examples.unit,
            target=OTHER_SEEDS if several else OTHER_EXAMPLES,
        )
    return {
        "interval": interval,
        "p": error.p(difference),
        "test": "t test over seeds and examples" if several else "t test of the paired influence",
        "center": difference,
        "se": error.se,
        "dof": error.freedom(confidence),
    }


def holm(p: Sequence[float]) -> list[float]:
    """
    Adjust the p-values of several tests by Holm's method.

    Parameters
    ----------
    p : sequence of float
        NaN where there is no test.

    Returns
    -------
    list of float

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    out = [math.nan] * len(p)
    order = sorted(
        (index for index, probability in enumerate(p) if not math.isnan(probability)),
        key=lambda index: p[index],
    )
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p[index]))
        out[index] = largest
    return out
