"""Claims about the scores of fine-tuned and of pruned models: how they are made, and their text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...inference.estimate import Estimate
from ...inference.pairing import Comparison
from ..words import (
    amount,
    at_most,
    between,
    capital,
    certainty,
    counted,
    number,
    numbered,
    p_value,
    with_interval,
)
from .claim import Claim, ClaimKind, Quantity, no_evidence, value_text

MANY = 1_000_000  # examples beyond which an exact number would be of no use


def _score(claim: Claim) -> str:
    assert claim.estimate is not None
    estimate, facts = claim.estimate, claim.facts
    name = capital(claim.score)
    what = f"Mean {claim.score} of {estimate.seeds} seeds" if estimate.seeds > 1 else name
    text = f"{what} on {facts['split']} is {number(estimate.value, 3)}"
    if facts["baseline"] is None:
        return f"{text}."
    baseline = f"the majority baseline ({number(facts['baseline'], 3)})"
    if not math.isfinite(estimate.low):
        return f"{text}; {baseline[:-1].replace(' (', ' is ')}."
    if claim.verdict != "holds":
        return f"{text}, not significantly different from {baseline}."
    return f"{text}, {'above' if estimate.low > facts['baseline'] else 'below'} {baseline}."


def _score_evidence(claim: Claim) -> str:
    assert claim.estimate is not None
    estimate, facts = claim.estimate, claim.facts
    if math.isfinite(estimate.low):
        ends = between(estimate.low, estimate.high, 3)
        interval = f"Interval: {ends} {certainty(estimate.level, '', estimate.unit, estimate.seeds)}"
    else:
        interval = "No interval"
    seeds = " Other seeds are not covered." if facts["trained"] and estimate.seeds == 1 else ""
    return f"{interval}; n = {counted(claim.n, 'example')}.{seeds}"


def _failed(claim: Claim) -> str:
    runs, seeds = claim.facts["runs"], {}
    for seed, why in claim.facts["failures"]:
        seeds.setdefault(why, []).append(seed)
    failed = sum(map(len, seeds.values()))
    subject = "The only run" if runs == 1 else f"{failed} of {runs} runs"
    reasons = "; ".join(f"{numbered(among, 'seed')}: {why}" for why, among in seeds.items())
    return f"{subject} failed ({reasons})."


def _difference(claim: Claim) -> str:
    assert claim.estimate is not None
    value, against = claim.estimate.value, claim.facts["against"]
    where = f"on the same {counted(claim.n, 'example')}"
    scale, digits, noun = _units(claim, 1)
    if claim.verdict != "holds":
        gap = f"{number(scale * value, digits)}{noun}"
        return (
            f"{capital(claim.score)} is not significantly different from that of {against} {where} ({gap})."
        )
    gap, side = f"{number(scale * abs(value), digits)}{noun}", "higher" if value > 0 else "lower"
    return f"{capital(claim.score)} is {gap} {side} than that of {against} {where}."


def _difference_evidence(claim: Claim) -> str:
    assert claim.estimate is not None
    p, (scale, digits, noun) = claim.facts["p"], _units(claim, 2)
    text = with_interval(claim.estimate, digits, scale=scale, noun=noun)
    without = "" if math.isfinite(claim.estimate.low) else ", without an interval"
    test = "" if p is None or math.isnan(p) else f"; {p_value(p)}, {claim.facts['test']}"
    return f"Difference: {text}{without}{test}."


def _units(claim: Claim, digits: int) -> tuple[float, int, str]:
    """Scale, decimals and noun of a difference of scores: points of 100, or units of the score."""
    in_points = claim.facts.get("points") == 100
    return (100.0, digits, " points") if in_points else (1.0, 3, "")


def _removable(claim: Claim) -> str:
    bound = math.nan if claim.bound is None else claim.bound.value
    limit = f"at most {amount(at_most(bound), claim.points, claim.score)}"
    if not math.isfinite(bound):
        limit = f"less than {_margin(claim)}"
    return f"{_blocks(claim).capitalize()} of {claim.depth} can be removed at a cost of {limit}."


def _removable_evidence(claim: Claim) -> str:
    return f"{_cost(claim)}; n = {counted(claim.n, 'example')} never used to choose{_scores(claim)}."


def _not_safe(claim: Claim) -> str:
    if claim.facts["removed"]:
        start = "Removing more is not shown to be safe"
    else:
        start = "Nothing can be removed safely"
    if not claim.facts["tested"]:
        return (
            f"{start}: the cheapest cut, without {_blocks(claim)}, costs {value_text(claim)} on the examples "
            "that choose."
        )
    return f"{start}: without {_blocks(claim)} a cost of {_margin(claim)} is not excluded."


def _not_safe_evidence(claim: Claim) -> str:
    facts = claim.facts
    text = f"{_cost(claim)}; n = {counted(claim.n, 'example')}{_scores(claim)}."
    return f"{text} {_needed(claim)}" if facts["tested"] else f"{text} The margin is {_margin(claim)}."


def _needed(claim: Claim) -> str:
    """How many examples would show that a cut is safe."""
    facts = claim.facts
    needed, units, share = facts["needed"], facts["units"], facts["share"]
    unit = "examples" if facts["unit"] == "example" else "groups of examples"
    if needed is None:
        return "No number of examples would show it safe at this cost."
    if needed <= units:
        # The number is by a rule of thumb. A test that fails at this very cost cannot pass 8 times in 10.
        return (
            f"More {unit} that certify than the {units:,} that there were would be needed to show it 8 times "
            "in 10 at this cost and spread."
        )
    if needed > MANY:
        return (
            f"The cost is so near the margin that more than {MANY:,} {unit} that certify would be needed to "
            f"show it 8 times in 10; there were {units:,}."
        )
    text = f"About {needed:,} {unit} that certify would be needed to show it 8 times in 10 at this cost"
    if share is None:
        return f"{text}; there were {units:,}."
    total = math.ceil(needed / (1 - share))
    return (
        f"{text} and spread, so {total:,} in all; there were {units:,} ({units + facts['chose']:,} in all)."
    )


def _confirmed(claim: Claim) -> str:
    where = f"on {counted(claim.n, 'example')} of {claim.facts['split']}, used for nothing else"
    if claim.verdict == "holds":
        return f"Confirmed {where}: a cost of {_margin(claim)} is excluded there, too."
    return f"Not confirmed {where}: a cost of {_margin(claim)} is not excluded there; the choice stands."


def _confirmed_evidence(claim: Claim) -> str:
    return f"{_cost(claim)}{_scores(claim)}."


def _cost(claim: Claim) -> str:
    """The measured cost of a cut with its one-sided limit."""
    assert claim.estimate is not None
    estimate, facts = claim.estimate, claim.facts
    text = f"Cost: {amount(number(estimate.value), claim.points, claim.score)}"
    sure = certainty(estimate.level, "one-sided", estimate.unit)
    if facts["reason"]:
        return f"{text}, no limit can be given, since {facts['reason']}"
    upper = math.nan if claim.bound is None else claim.bound.value
    limit = f"at most {at_most(upper)} {sure}" if math.isfinite(upper) else f"no limit can be given {sure}"
    return f"{text}, {limit}, {p_value(facts['p'])}"


def _scores(claim: Claim) -> str:
    facts = claim.facts
    names = {
        "full": "of the whole model",
        "cut": "of the smaller one",
        "baseline": "of the majority baseline",
    }
    values = {name: facts[name] for name in names if facts[name] is not None and math.isfinite(facts[name])}
    parts = [f"{number(value, 3)} {names[name]}" for name, value in values.items()]
    return f"; {claim.score} {', '.join(parts)}" if parts else ""


def _margin(claim: Claim) -> str:
    return amount(f"{claim.facts['margin']:g}", claim.points, claim.score)


def _blocks(claim: Claim) -> str:
    return numbered(claim.layers, "block")


KINDS: Mapping[str, ClaimKind] = {
    "score": ClaimKind(headline=_score, evidence=_score_evidence),
    "failed runs": ClaimKind(headline=_failed, evidence=no_evidence),
    "score difference": ClaimKind(headline=_difference, evidence=_difference_evidence),
    "removable blocks": ClaimKind(headline=_removable, evidence=_removable_evidence),
    "cut not safe": ClaimKind(headline=_not_safe, evidence=_not_safe_evidence),
    "confirmation": ClaimKind(headline=_confirmed, evidence=_confirmed_evidence),
}


def baseline_of(baselines: Mapping[str, float], main: tuple[str, ...]) -> float:
    """The score of the majority baseline in the score of the task; NaN where it is not known."""
    values = [baselines.get(name, math.nan) for name in main]
    return sum(values) / len(values) if values else math.nan


def score_claim(
    score: Estimate, *, split: str, examples: int, baseline: float, seeds: int = 1, trained: bool = False
) -> list[Claim]:
    """
    Claim that a score is above or below the majority baseline.

    Parameters
    ----------
    score : Estimate
        Of one model, with an interval over examples; of several seeds their mean, with one over both.
    split : str
    examples : int
    baseline : float
        NaN where it is not known.
    seeds : int
    trained : bool
        Whether the seeds of a training are what the score is about.

    Returns
    -------
    list of Claim
        Empty where the score is undefined.
    """
    if not math.isfinite(score.value):
        return []
    low, high = (math.nan if end is None else end for end in (score.low, score.high))
    interval = score.interval
    clear = math.isfinite(low) and not (math.isfinite(baseline) and low <= baseline <= high)
    return [
        Claim(
            kind="score",
            verdict="holds" if clear else "inconclusive",
            score=score.measure,
            points=1.0,
            estimate=Quantity(
                value=score.value,
                low=low,
                high=high,
                level=0.95 if interval is None else interval.level,
                unit="example" if interval is None else interval.unit,
                seeds=seeds,
            ),
            n=examples,
            facts={
                "split": split,
                "baseline": baseline if math.isfinite(baseline) else None,
                "trained": trained,
            },
        )
    ]


def failure_claim(failures: Mapping[int, str], runs: int) -> list[Claim]:
    """Claim that runs of a fine-tuning failed, by seed; none where all are sound."""
    facts: dict[str, Any] = {"runs": runs, "failures": [[seed, why] for seed, why in failures.items()]}
    return [Claim(kind="failed runs", verdict="holds", score="", facts=facts)] if failures else []


def difference_claim(comparison: Comparison, against: str) -> list[Claim]:
    """Claim that one model scores higher or lower than another one on the same examples."""
    if not math.isfinite(comparison.difference):
        return []
    interval = comparison.interval
    clear = interval is not None and (interval.low > 0 or interval.high < 0)
    quantity = Quantity(
        value=comparison.difference,
        low=math.nan if interval is None else interval.low,
        high=math.nan if interval is None else interval.high,
        level=0.95 if interval is None else interval.level,
        unit="example" if interval is None else interval.unit,
    )
    facts = {"against": against, "test": comparison.test, "p": comparison.p, "points": abs(comparison.points)}
    return [
        Claim(
            kind="score difference",
            verdict="holds" if clear else "inconclusive",
            score=comparison.score,
            points=1.0,
            estimate=quantity,
            n=comparison.n,
            facts=facts,
        )
    ]
