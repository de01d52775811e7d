"""Paired comparison of the scores of two models, over examples and seeds.

The difficulty of an example cancels in the paired difference. With several seeds per model, the variances
over seeds and over examples both count: an interval over examples alone does not cover models trained with
other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import must
from ..scores.declare import Score
from ..scores.table import find_score
from .answers import Answers, aligned, seeds_aligned
from .clusters import Clusters
from .estimate import Interval, quantile
from .scoring import example_groups, freedom, past_the_end, unit_influence, unit_of
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
        only; see `spread`.
    spread : Spread or None
        Variance components of the error, which also give p; None for accuracy-like scores and one seed each.
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
    spread: Spread | None = None
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
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    second = aligned(first, second)
    if pair_seeds:
        second = seeds_aligned(first, second)
    clusters = example_groups(first.groups, len(first.ids))
    units = len(first.ids) if clusters is None else len(clusters)
    if units < 2:
        raise must("the number of examples to compare on", "at least 2", units)
    sides = (first, second)
    messages = [
        f"{metric.name} is undefined and counts as 0: {reason}."
        for side in sides
        for predictions in side.predictions
        if (reason := metric.undefined(predictions, side.targets, labels)) is not None
    ]
    values = [np.array([metric.compute(p, side.targets, labels) for p in side.predictions]) for side in sides]
    seeds = (len(values[0]), len(values[1]))
    fields = {
        "score": metric.name,
        "first": float(values[0].mean()),
        "second": float(values[1].mean()),
        "difference": float(values[0].mean() - values[1].mean()),
        "n": len(first.ids),
        "units": units,
        "seeds": seeds,
        "points": metric.points if metric.higher_is_better else -metric.points,
    }
    several = max(seeds) > 1
    if several and min(seeds) == 1:
        messages.append("one side has one seed: the spread of its seeds is taken from the other side.")
    if not several:
        messages.append("one seed each: this says nothing of models trained with other seeds.")
        if metric.counts and clusters is None:
            return _shares(metric, sides, labels, level, fields, messages)
    psi = [
        np.stack([unit_influence(metric, p, side.targets, labels, clusters) for p in side.predictions])
        for side in sides
    ]
    error = spread(psi, values, freedom(clusters, len(first.ids)), pair_seeds=pair_seeds)
    if error.se == 0 and fields["difference"] == 0:
        messages.append("the two models do the same on every example.")
        se = _unseen(metric, first, labels, units, quantile(level, error.dof))
        error = Spread.of_examples(se, error.dof)
    return _student(fields, error, level, clusters, messages, several=several)


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


def _shares(
    score: Score,
    sides: tuple[Answers, Answers],
    labels: Sequence[str],
    level: float,
    fields: dict[str, Any],
    messages: list[str],
) -> Comparison:
    assert score.parts is not None
    correct = [score.parts(side.predictions[0], side.targets, labels)[:, 0] > 0 for side in sides]
    only_first, only_second = int((correct[0] & ~correct[1]).sum()), int((correct[1] & ~correct[0]).sum())
    n = fields["n"]
    a, b = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    se = float(np.sqrt((a + b - (a - b) ** 2) / (n + 2)))
    reach = quantile(level) * se
    interval = Interval(
        low=max(-1.0, a - b - reach),
        high=min(1.0, a - b + reach),
        level=level,
        method="adjusted interval of Bonett and Price",
        unit="example",
        target=OTHER_EXAMPLES,
    )
    return Comparison(
        **fields,
        interval=interval,
        p=mcnemar(only_first, only_second),
        test="McNemar's exact test",
        only_first=only_first,
        only_second=only_second,
        center=a - b,
        se=se,
        dof=float("inf"),
        warnings=tuple(messages),
    )


def _unseen(score: Score, side: Answers, labels: Sequence[str], units: int, reach: float) -> float:
    """Standard error of two models that agree on every example; NaN where it is not defined."""
    predictions = side.predictions[0]
    extreme = past_the_end(score, predictions, side.targets, labels, units, reach**2)
    value = score.compute(predictions, side.targets, labels)
    return float("nan") if extreme is None else abs(value - extreme) / reach


def _student(
    fields: dict[str, Any],
    error: Spread,
    level: float,
    clusters: Clusters | None,
    messages: list[str],
    *,
    several: bool,
) -> Comparison:
    difference = fields["difference"]
    interval = None
    if error.se > 0:
        reach = error.alone(level)
        unit = unit_of(clusters)
        interval = Interval(
            low=difference - reach,
            high=difference + reach,
            level=level,
            method="t over seeds and examples" if several else "paired influence, t",
            unit=f"{unit} and seed" if several else unit,
            target=OTHER_SEEDS if several else OTHER_EXAMPLES,
        )
    return Comparison(
        **fields,
        interval=interval,
        p=error.p(difference),
        test="t test over seeds and examples" if several else "t test of the paired influence",
        center=difference,
        se=error.se,
        dof=error.freedom(level),
        spread=error,
        warnings=tuple(messages),
    )
