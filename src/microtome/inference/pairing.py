"""Is one model better than another on the same examples, and would it be so on others, or with other seeds?

What is easy for both models cancels in the difference, so each example is compared with itself. With several
seeds a model, the spread of seeds and that of examples both count: an interval over examples alone says
nothing of models trained anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import must
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from .answers import Answers, aligned, seeds_aligned
from .clusters import Clusters
from .estimate import Interval
from .scoring import example_groups, freedom, past_the_end, quantile, unit_influence, unit_of
from .simultaneous import Spread, spread

Array = NDArray[np.float64]

OTHER_EXAMPLES = "difference of the scores on other examples of the same kind"
OTHER_SEEDS = "difference of the mean scores on other examples, of models trained with other seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    How two models differ on the same examples.

    Parameters
    ----------
    score : str
    first, second : float
        Their scores, means over seeds.
    difference : float
        First minus second.
    interval : Interval or None
        For the difference; None where nothing tells its spread.
    p : float
        Two-sided probability of such a difference between equals; NaN where there is no test.
    test : str
        What gave p.
    n, units : int
        Examples, and what was taken as independent of them.
    seeds : tuple of int
        Seeds of the first and of the second.
    only_first, only_second : int or None
        Examples that only one of the two got right, for a share of right examples and one seed each.
    center, se, dof : float
        The interval is center +- t(dof) se. With several seeds these degrees of freedom hold for its level
        alone; see `spread`.
    spread : Spread or None
        What the error is made of, from which p is too; None for a share of right examples and one seed each.
    points : float
        Points a unit of the score is worth, negative where lower is better.
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
        To the same examples, in any order. Others are an error, never left out.
    labels : sequence of str
    level : float
    pair_seeds : bool
        Whether a seed of the first belongs to the same seed of the second, such as a tuned model and the
        same one without a layer. Models that were trained apart are not pairs for having equal seeds.

    Returns
    -------
    Comparison

    Notes
    -----
    With one seed each, a share of independent right examples gets McNemar's exact test and the adjusted
    interval of Bonett and Price; any other score a t interval of the paired influence of the examples (or
    groups), and its test. With several seeds, V = V_seeds + V_examples - V_both: the variance over seeds of
    the scores, that over examples of the mean influence, and what both count. The interval reaches to either
    side the root of t(seeds - 1)^2 V_seeds + t^2 (V_examples - V_both), and p is 1 - level of the interval
    that ends at 0. Of a side with one seed, V_seeds is taken from the other side, with its degrees of
    freedom: this holds as far as their seeds vary alike.

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
    asked = find_score(score)
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
    said = [
        f"{asked.name} is undefined and counts as 0: {reason}."
        for side in sides
        for each in side.predictions
        if (reason := asked.undefined(each, side.targets, labels)) is not None
    ]
    values = [np.array([asked.compute(p, side.targets, labels) for p in side.predictions]) for side in sides]
    seeds = (len(values[0]), len(values[1]))
    told = {
        "score": asked.name,
        "first": float(values[0].mean()),
        "second": float(values[1].mean()),
        "difference": float(values[0].mean() - values[1].mean()),
        "n": len(first.ids),
        "units": units,
        "seeds": seeds,
        "points": asked.points if asked.higher_is_better else -asked.points,
    }
    several = max(seeds) > 1
    if several and min(seeds) == 1:
        said.append("one side has one seed: the spread of its seeds is taken from the other side.")
    if not several:
        said.append("one seed each: this says nothing of models trained with other seeds.")
        if asked.counts and clusters is None:
            return _shares(asked, sides, labels, level, told, said)
    psi = [
        np.stack([unit_influence(asked, p, side.targets, labels, clusters) for p in side.predictions])
        for side in sides
    ]
    found = spread(psi, values, freedom(clusters, len(first.ids)), pair_seeds=pair_seeds)
    if found.se == 0 and told["difference"] == 0:
        said.append("the two models do the same on every example.")
        se = _unseen(asked, first, labels, units, quantile(level, found.dof))
        found = Spread.of_examples(se, found.dof)
    return _student(told, found, level, clusters, said, several=several)


def noninferiority(found: Comparison, max_drop: float) -> float:
    """
    Test whether the first model is worse than the second by less than a margin.

    Parameters
    ----------
    found : Comparison
    max_drop : float
        The margin in points of 100 (of perplexity: in its own units), declared before the scores were seen.

    Returns
    -------
    float
        One-sided p: small where a drop of `max_drop` can be ruled out. That the two do not differ
        significantly rules out nothing.
    """
    if not max_drop > 0:
        raise must("max_drop", "above 0", max_drop)
    if not found.se > 0:
        return float("nan")
    drop = max_drop / abs(found.points)
    room = float(np.sign(found.points)) * found.center + drop
    of = found.spread or Spread.of_examples(found.se, found.dof)
    return of.p(room) / 2 if room > 0 else 1 - of.p(room) / 2


def mcnemar(only_first: int, only_second: int) -> float:
    """
    Two-sided exact p that each of two models is as likely as the other to be the only one that is right.

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
    told: dict[str, Any],
    said: list[str],
) -> Comparison:
    assert score.parts is not None
    right = [score.parts(side.predictions[0], side.targets, labels)[:, 0] > 0 for side in sides]
    ours, theirs = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    n = told["n"]
    a, b = (ours + 1) / (n + 2), (theirs + 1) / (n + 2)
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
        **told,
        interval=interval,
        p=mcnemar(ours, theirs),
        test="McNemar's exact test",
        only_first=ours,
        only_second=theirs,
        center=a - b,
        se=se,
        dof=float("inf"),
        warnings=tuple(said),
    )


def _unseen(score: Score, side: Answers, labels: Sequence[str], units: int, reach: float) -> float:
    """Standard error that could hide behind no difference at all; NaN where the score cannot say."""
    predictions = side.predictions[0]
    other = past_the_end(score, predictions, side.targets, labels, units, reach**2)
    value = score.compute(predictions, side.targets, labels)
    return float("nan") if other is None else abs(value - other) / reach


def _student(
    told: dict[str, Any],
    found: Spread,
    level: float,
    clusters: Clusters | None,
    said: list[str],
    *,
    several: bool,
) -> Comparison:
    difference = told["difference"]
    interval = None
    if found.se > 0:
        reach = found.alone(level)
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
        **told,
        interval=interval,
        p=found.p(difference),
        test="t test over seeds and examples" if several else "t test of the paired influence",
        center=difference,
        se=found.se,
        dof=found.freedom(level),
        spread=found,
        warnings=tuple(said),
    )
