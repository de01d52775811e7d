"""One-sided tests that the loss of a cut is below a margin, valid where few examples disagree.

The share of right examples is tested exactly (`exact`). Every other score is tested by t over the influence
of its examples, with the cut model's failures counted for more than was seen: as if about one more example
had failed, as badly as one can, or as the worst one did. Without that a t test claims too much: at a margin
that is lost in truth it says "safe" in 10 to 30 % of cases where the loss comes from few examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import is_finite
from ..errors import must
from ..inference.answers import Answers, aligned
from ..inference.pairing import correct_examples
from ..inference.scoring import ScoredExamples, example_groups, several_groups, standard_error
from ..scores.declare import Score
from ..scores.table import find_score
from .exact import exact_p

Array = NDArray[np.float64]
# Units that are added as failures: half of the squared 5 % quantile, the place of Wilson's center. With no
# disagreement at all this asks for 3.3 / margin examples, a little more than the exact 3 / margin.
UNSEEN = 1.35
# Scores that do not say what a failure is (correlations, perplexity) get twice as many.
UNSEEN_UNKNOWN = 2.7
# A loss without an end (perplexity) that rests on fewer examples than this cannot be bounded.
FEWEST = 20.0
POWER = 0.8
STEPS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """
    What a cut costs on some examples.

    Parameters
    ----------
    score : str
    full, cut : float
        Scores of the full and of the cut model, in the score's own units.
    drop : float
        What is lost, positive where something is, whichever way the score runs: in points of 100, or in
        units of perplexity.
    upper : float
        The one-sided limit of the drop at `level`: the largest that cannot be excluded, 0 where the cut
        model is surely better.
    se : float
        Standard error of the drop over examples.
    p : float
        One-sided: small where a drop of `max_drop` can be excluded.
    max_drop, level : float
    method, unit : str
        The test, and what it takes as independent.
    n, units : int
        Examples, and how many independent units they are.
    lost, gained : int or None
        Examples that only one of the two got right, for a share of right examples.
    needed : int or None
        Units that a test with 80 % power would need at this drop and spread; None where none suffice.
    reason : str or None
        Why there is no test.
    """

    score: str
    full: float
    cut: float
    drop: float
    upper: float
    se: float
    p: float
    max_drop: float
    level: float
    method: str
    unit: str
    n: int
    units: int
    lost: int | None = None
    gained: int | None = None
    needed: int | None = None
    reason: str | None = None

    @property
    def safe(self) -> bool:
        """Whether a drop of the margin is excluded at the level."""
        return self.p <= 1 - self.level


def judge_drop(
    score: str | Score | Iterable[str | Score],
    full: Answers,
    cut: Answers,
    labels: Sequence[str] = (),
    *,
    max_drop: float,
    level: float = 0.95,
    limit: bool = True,
) -> Drop:
    """
    Test whether a cut model is worse than the full one by less than a margin.

    Parameters
    ----------
    score : str, Score or several
        Of several scores the mean is taken.
    full, cut : Answers
        Of one seed each, to the same examples.
    labels : sequence of str
    max_drop : float
        The margin in points of 100, of perplexity in its own units; declared before the scores were seen.
    level : float
        One-sided.
    limit : bool
        Whether `upper` is found too, which takes several tests.

    Returns
    -------
    Drop

    Notes
    -----
    For all scores but shares of independent examples, with psi the influence of each unit on the difference
    and v that of one more unit that fails (the worst of: a unit that the full model gets right and the cut
    one wrong; for a correlation, one that tells nothing; the worst unit that was seen), t = (margin - drop +
    k v) / sqrt(se^2 + k v^2) with k = 1.35, or 2.7 for correlations and perplexity, on 2 n / (kurtosis of
    psi - 1) degrees of freedom or n - 1 if those are fewer. For correlations and perplexity t is also
    corrected for the skewness of psi (Hall 1992) where that lowers it. Perplexity is tested on the log scale,
    and not at all where the degrees of freedom are fewer than 20: a few texts then carry the whole loss.

    `needed` solves (max_drop - drop) x^2 - z sigma x - k w = 0 for x = sqrt(units), with z the sum of the
    normal quantiles of the level and of the power 0.8, sigma the spread of a unit and w its worst loss. It is
    at least what the test asks for where no unit differs.

    References
    ----------
    Hall (1992), On the removal of skewness by transformation, Journal of the Royal Statistical Society B.

    Examples
    --------
    >>> ids, right = [str(i) for i in range(400)], [1] * 400
    >>> full = Answers(ids=ids, targets=right, predictions=[[1] * 390 + [0] * 10])
    >>> cut = Answers(ids=ids, targets=right, predictions=[[0] + [1] * 390 + [0] * 9])
    >>> found = judge_drop("accuracy", full, cut, max_drop=2.0)
    >>> found.drop, found.lost, found.gained, round(found.upper, 2), found.safe
    (0.0, 1, 1, 0.89, True)
    """
    if not max_drop > 0 or not is_finite(max_drop):
        raise must("max_drop", "above 0", max_drop)
    if not 0.5 < level < 1:
        raise must("level", "between 0.5 and 1", level)
    if len(full.predictions) != 1 or len(cut.predictions) != 1:
        raise must("answers", "of one model each", f"{len(full.predictions)} and {len(cut.predictions)}")
    cut = aligned(full, cut)
    n = len(full.ids)
    clusters = example_groups(several_groups(full.groups), n)
    examples = ScoredExamples(score=find_score(score), labels=labels, n=n, clusters=clusters)
    pair = _Pair(examples, full, cut)
    if examples.units < 2:
        raise must("the number of examples to test on", "at least 2", examples.units)
    facts: dict[str, Any] = {
        "score": examples.score.name,
        "full": pair.values[0],
        "cut": pair.values[1],
        "max_drop": max_drop,
        "level": level,
        "n": n,
        "units": examples.units,
        "unit": examples.unit,
    }
    if examples.shares:
        return _shares(pair, facts, limit)
    if not math.isfinite(pair.drop):
        facts |= {"drop": float("inf"), "upper": float("inf"), "se": float("nan"), "p": 1.0}
        return Drop(**facts, method="none", reason="the score of the cut model is beyond all numbers")
    return _influence(pair, facts, limit)


class _Pair:
    """Both models' answers, and what they score."""

    def __init__(self, examples: ScoredExamples, full: Answers, cut: Answers) -> None:
        self.examples, self.sides = examples, (full, cut)
        with np.errstate(over="ignore"):
            self.values = tuple(float(examples.values_of(side)[0]) for side in self.sides)
        self.sign = 1.0 if examples.score.higher_is_better else -1.0
        # In units of the score.
        self.drop = self.sign * (self.values[0] - self.values[1])


def _shares(pair: _Pair, facts: dict[str, Any], limit: bool) -> Drop:
    score, n, alpha = pair.examples.score, facts["n"], 1 - facts["level"]
    full, cut = (correct_examples(pair.examples, side) for side in pair.sides)
    lost, gained = int((full & ~cut).sum()), int((cut & ~full).sum())

    def p(drop: float) -> float:
        return exact_p(lost, gained, n, min(drop, 1 - 1e-9))

    margin, drop = facts["max_drop"] / score.points, pair.drop
    spread = math.sqrt(max((lost + gained) / n - drop**2, 0.0))
    p_margin = p(margin)
    upper = _limit(p, drop, margin, alpha, 1.0, safe=p_margin <= alpha) if limit else math.nan
    needed = _needed(margin - drop, spread, UNSEEN, facts["level"])
    if needed is not None and margin < 1:
        needed = max(needed, math.ceil(math.log(alpha) / math.log1p(-margin)))
    return Drop(
        **facts,
        drop=score.points * drop,
        upper=score.points * upper,
        se=score.points * spread / math.sqrt(n),
        p=p_margin,
        method="exact unconditional test of paired shares, ordered by Tango's score",
        lost=lost,
        gained=gained,
        needed=needed,
    )


def _influence(pair: _Pair, facts: dict[str, Any], limit: bool) -> Drop:
    from scipy.special import stdtr

    score, units, alpha = pair.examples.score, facts["units"], 1 - facts["level"]
    raw = [pair.examples.influences_of(side)[0] for side in pair.sides]
    endless = math.isinf(score.range[1])
    worst = 0.0 if endless else _failing(score, pair, facts["n"] / units)
    bounded = _knows_failures(score)
    unseen = UNSEEN if bounded else UNSEEN_UNKNOWN
    few: list[float] = []

    def p(drop: float) -> float:
        if endless:
            # H: log(full + drop) = log(cut). Ratios of perplexities are far more normal than differences.
            raised = pair.values[0] + drop
            psi, room = raw[0] / raised - raw[1] / pair.values[1], math.log(raised / pair.values[1])
        else:
            psi, room = pair.sign * (raw[1] - raw[0]), drop - pair.drop
        fails = min(worst, float(psi.min()), 0.0)
        se = math.sqrt(standard_error(psi) ** 2 + unseen * fails**2)
        dof = min(pair.examples.dof, _worth(psi))
        if endless and dof < FEWEST:
            few.append(dof)
            return 1.0
        if se == 0:
            return 1.0
        t = (room + unseen * fails) / se
        return float(stdtr(dof, -(t if bounded else min(t, _unskewed(t, psi)))))

    margin = facts["max_drop"] / score.points
    p_margin = p(margin)
    reason = None
    if few:
        reason = f"the loss rests on few examples: they are worth {max(few):.1f}, and {FEWEST:g} are needed"
    difference = pair.sign * (raw[1] - raw[0])
    se = standard_error(difference)
    fails = abs(min(worst, float(difference.min()), 0.0))
    top = max(4 * abs(pair.values[0]), 4 * abs(pair.drop), 4 * margin, 1.0) if endless else 2.0
    upper = _limit(p, pair.drop, margin, alpha, top, safe=p_margin <= alpha) if limit else math.nan
    return Drop(
        **facts,
        drop=score.points * pair.drop,
        upper=score.points * upper,
        se=score.points * se,
        p=p_margin,
        method="t over influence, with unseen failures" + (", on the log scale" if endless else ""),
        needed=_needed_influence(
            margin - pair.drop, se * math.sqrt(units), unseen, fails * units, facts["level"]
        ),
        reason=reason,
    )


def _worth(psi: Array) -> float:
    """Degrees of freedom of a variance: few, where it comes from few of the units."""
    n = len(psi)
    centered = psi - psi.mean()
    second = float((centered**2).mean())
    if second == 0:
        return float(n - 1)
    kurtosis = float((centered**4).mean()) / second**2
    return max(1.0, 2 * n / max(kurtosis - (n - 3) / (n - 1), 1e-9))


def _unskewed(t: float, psi: Array) -> float:
    """Correct t for the skewness of what it is made of, by Hall's monotone transformation."""
    centered = psi - psi.mean()
    second = float((centered**2).mean())
    if second == 0:
        return t
    skew = float((centered**3).mean()) / second**1.5 / math.sqrt(len(psi))
    return t + skew * (2 * t**2 + 1) / 6 + skew**2 * t**3 / 27


def _knows_failures(score: Score) -> bool:
    return all(part.extremes is not None for part in score.of or (score,))


def _failing(score: Score, pair: _Pair, size: float) -> float:
    """What one more unit adds to the difference that the full model gets right and the cut one wrong."""
    if score.of:
        return float(np.mean([_failing(part, pair, size) for part in score.of]))
    (full, cut), labels, n = pair.sides, pair.examples.labels, pair.examples.n
    if score.parts is None or score.from_parts is None or score.extremes is None:
        # A unit of which the cut model knows nothing takes its share of a correlation.
        value = float(score.compute(full.predictions[0], full.targets, labels))
        return -abs(value) * size / n
    sums = [score.parts(side.predictions[0], full.targets, labels).sum(axis=0) for side in (full, cut)]
    success, failure = score.extremes(sums[0], n)[1], score.extremes(sums[1], n)[0]
    before = score.from_parts(sums[1]) - score.from_parts(sums[0])
    after = score.from_parts(sums[1] + size * failure) - score.from_parts(sums[0] + size * success)
    return min(0.0, pair.sign * float(after - before))


def _limit(
    p: Callable[[float], float], drop: float, margin: float, alpha: float, top: float, *, safe: bool
) -> float:
    """Find the smallest drop that is excluded, by halving, on the side of the margin that the test says."""
    low, high = (max(drop, 0.0), margin) if safe else (margin, top)
    low = min(low, high)
    if not safe and p(high) > alpha:
        return math.inf
    for _ in range(STEPS):
        middle = (low + high) / 2
        if high - low <= 1e-5 * max(high, 1e-3):
            break
        low, high = (low, middle) if p(middle) <= alpha else (middle, high)
    return high


def _needed(room: float, spread: float, unseen: float, level: float) -> int | None:
    """How many units give a test its power; see `judge_drop`."""
    from scipy.special import ndtri

    if not room > 0:
        return None
    reach = float(ndtri(level) + ndtri(POWER)) * spread
    root = (reach + math.sqrt(reach**2 + 4 * room * unseen)) / (2 * room)
    return math.ceil(root**2)


def _needed_influence(room: float, spread: float, unseen: float, worst: float, level: float) -> int | None:
    """
    Do the same for the test over influence, whose unseen failures widen its standard error, too.

    Without that, a cut that changes no answer would be told that its examples are enough where they are not.
    """
    from scipy.special import ndtri

    least = _needed(room, spread, unseen * worst, level)
    if least is None:
        return None
    return max(least, math.ceil((unseen + float(ndtri(level)) * math.sqrt(unseen)) * worst / room))
