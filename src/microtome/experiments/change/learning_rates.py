"""Learning rates that bring tuning methods to about the same score, and how far scores stay apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...checks import several
from ...context import Context
from ...errors import must, unknown
from ...findings.claims.claim import Claim, Quantity
from ...inference.answers import Answers
from ...inference.bands import score_bands
from ...inference.pairing import compare_scores
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cut_store import as_answers
from ..result import guess_line
from ..run_curves import counts
from ..runs import Done, Run

MATCHED = 5.0  # points that scores of methods may lie apart and be called matched
WEAKEST, BEST = "weakest", "best"


class Method(NamedTuple):
    """
    A tuning method.

    Parameters
    ----------
    description : str
        What learns, for the methods of a paper.
    multiples : tuple of float
        Rates to try, as multiples of the recipe's, which is one for all weights: where few of them learn, a
        larger one does no harm.
    citation : str
    """

    description: str
    multiples: tuple[float, ...]
    citation: str = ""


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "full": Method("all weights", (0.25, 0.5, 1.0)),
        "lora": Method("adapters of low rank (LoRA, Hu et al. 2022)", (5.0, 10.0, 20.0), "hu2022"),
        "bitfit": Method("biases (BitFit, Ben Zaken et al. 2022)", (5.0, 10.0, 20.0), "benzaken2022"),
        "head": Method("the head only", (20.0, 50.0, 100.0)),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedMethod:
    """
    One tuning method, at the rate that was chosen for it.

    Parameters
    ----------
    name : str
    rate : float
    tried : mapping of float to float
        Mean score of each rate in points of 100; rates at which a run failed have none.
    target : float
        Score to be matched, in points; NaN where no rate has one.
    done : tuple of Done
        Sound runs at the chosen rate, one per seed.
    """

    name: str
    rate: float
    tried: Mapping[float, float]
    target: float
    done: tuple[Done, ...] = ()


def rates_of(method: str, rates: Mapping[str, Any], rate: float) -> list[float]:
    """
    Learning rates to try for a tuning method.

    Parameters
    ----------
    method : str
    rates : mapping of str to (float or sequence of float)
        Of methods for which they are chosen.
    rate : float
        Of the recipe, whose multiples are tried for the others.

    Returns
    -------
    list of float

    Examples
    --------
    >>> rates_of("head", {"head": 0.01}, 2e-5)
    [0.01]
    """
    values = several(rates.get(method, [rate * times for times in METHODS[method].multiples]))
    for value in values:
        if not isinstance(value, int | float) or not value > 0:
            raise must(f"rates of {method}", "numbers above 0", value)
    return [float(value) for value in values]


def check_methods(methods: Sequence[str], rates: Mapping[str, Any]) -> None:
    """Refuse tuning methods that stand twice, and rates of others."""
    if not methods or len(set(methods)) < len(methods):
        raise must("methods", "one or more, each once", list(methods))
    for method in rates:
        if method not in methods:
            raise unknown("method of rates", method, methods)


def method_run(method: str, rate: float, seed: int, train_size: int | None) -> Run:
    """One fine-tuning by a method at a rate."""
    size = {} if train_size is None else {"train_size": train_size}
    return Run(arm=method, x=rate, seed=seed, options={"method": method, "rate": rate, **size})


def check_match(match: Any) -> str | float:
    """Check the score that methods are to have."""
    if match not in (WEAKEST, BEST) and (type(match) not in (int, float) or not math.isfinite(match)):
        raise must("match", "'weakest', 'best' or a score in points", match)
    return match


def read_match(typed: str) -> str | float:
    """Read the score that methods are to have: a name, or a number in points."""
    try:
        return float(typed)
    except ValueError:
        return typed


def choose_rates(tried: Sequence[Done], task: Task, match: str | float = WEAKEST) -> dict[str, TunedMethod]:
    """
    Choose for each method the rate whose score is nearest to the target.

    A rate above the best one scores less because it spoils the training, not because it trains less: of
    those none is chosen, nor one at which a run diverged, nor, unless all do, one at which a run collapsed to
    one prediction.

    Parameters
    ----------
    tried : sequence of Done
    task : Task
    match : "weakest", "best" or float
        As in `TuningMethods`.

    Returns
    -------
    dict of str to TunedMethod
        Without runs yet. Of rates that are equally near the smallest is taken.
    """
    score = find_score(task.main)
    runs: dict[str, dict[float, list[Done]]] = {}
    for done in tried:
        runs.setdefault(done.run.arm, {}).setdefault(float(done.run.x), []).append(done)
    scores = {method: _sound(by_rate, score.points) for method, by_rate in runs.items()}
    better, worse = (max, min) if score.higher_is_better else (min, max)
    best = {method: better(by_rate.values()) for method, by_rate in scores.items() if by_rate}
    weakest = worse(best.values(), default=math.nan)
    methods = {}
    for method, by_rate in scores.items():
        targets = {WEAKEST: weakest, BEST: best.get(method, math.nan)}
        target = targets[match] if isinstance(match, str) else float(match)
        stable = [rate for rate in by_rate if rate <= max(r for r in by_rate if by_rate[r] == best[method])]
        rate = min(stable, key=lambda r: (abs(by_rate[r] - target), r), default=math.nan)
        methods[method] = TunedMethod(name=method, rate=rate, tried=by_rate, target=target)
    return methods


def _sound(runs: Mapping[float, Sequence[Done]], points: float) -> dict[float, float]:
    """Mean scores of the rates at which no run failed or, where there is none, at which none diverged."""
    for sound in (lambda done: done.failure is None, counts):
        scores = {
            rate: points * float(np.mean([done.score for done in by_seed]))
            for rate, by_seed in runs.items()
            if all(sound(done) and math.isfinite(done.score) for done in by_seed)
        }
        if scores:
            return scores
    return {}


def compare_methods(
    task: Task, methods: Mapping[str, TunedMethod], context: Context
) -> tuple[dict[str, dict[str, Any]], Claim]:
    """
    Score each method, and compare it with the first of them.

    Parameters
    ----------
    task : Task
    methods : mapping of str to TunedMethod
        With runs.
    context : Context

    Returns
    -------
    documents : dict of str to dict
        Plain data, scores in points of 100.
    claim : Claim
        How well scores are matched.
    """
    score, split, level = find_score(task.main), task.split(task.validation), context.level
    documents: dict[str, dict[str, Any]] = {}
    quantities: dict[str, Quantity] = {}
    differences: dict[str, Quantity] = {}
    reference: tuple[str, Answers] | None = None
    for name, method in methods.items():
        values = {str(done.run.seed): score.points * done.score for done in method.done}
        documents[name] = document = {
            "rate": method.rate,
            "tried": {f"{rate:g}": value for rate, value in method.tried.items()},
            "target": method.target,
            "scores": values,
            "score": float(np.mean([*values.values()])) if values else math.nan,
            "low": None,
            "high": None,
            "n": len(split),
            "apart": None,
        }
        if not method.done:
            continue
        seeds = [done.run.seed for done in method.done]
        answers = as_answers(split, [done.answers for done in method.done], seeds)
        band = score_bands(score, [answers], task.labels, level=level)
        low, high = (score.points * float(end[0]) for end in (band.low, band.high))
        basis: dict[str, Any] = {"level": level, "unit": band.unit, "seeds": len(seeds)}
        quantities[name] = Quantity(
            value=document["score"], low=low, high=high, by_seed=tuple(values.values()), **basis
        )
        document |= {"low": low, "high": high} if math.isfinite(low) else {}
        if reference is None:
            reference = name, answers
            continue
        difference = compare_scores(score, answers, reference[1], task.labels, level=level)
        ends = difference.interval
        low, high = (math.nan, math.nan) if ends is None else (ends.low, ends.high)
        numbers = {"value": difference.difference, "low": low, "high": high}
        apart = {end: score.points * value for end, value in numbers.items()}
        document["apart"] = {"from": reference[0], **apart, "p": difference.p}
        differences[name] = Quantity(**apart, **basis)
    return documents, _matched(task, methods, quantities, differences)


def _matched(
    task: Task,
    methods: Mapping[str, TunedMethod],
    scores: Mapping[str, Quantity],
    differences: Mapping[str, Quantity],
) -> Claim:
    """Claim how well scores are matched, and whether anything was learned."""
    score, split = find_score(task.main), task.split(task.validation)
    first, values = next(iter(scores), ""), [quantity.value for quantity in scores.values()]
    lines = {name: score.points * value for name, value in guess_line(task, split).items()}
    gap = max(values) - min(values) if len(values) > 1 else 0.0
    sign = 1.0 if score.higher_is_better else -1.0
    best = max((sign * value for value in values), default=math.nan)
    apart = [name for name, difference in differences.items() if difference.low > 0 or difference.high < 0]
    return Claim(
        kind="matched scores",
        verdict="holds" if gap <= MATCHED else "does not hold",
        score=score.name,
        points=score.points,
        subject=task.name,
        estimate=Quantity(value=gap) if len(values) > 1 else None,
        n=len(split),
        beside={
            **{f"{name} at rate {methods[name].rate:g}": quantity for name, quantity in scores.items()},
            **{f"{name} minus {first}": difference for name, difference in differences.items()},
            **{name: Quantity(value=value) for name, value in lines.items()},
        },
        facts={
            "apart": [first, *apart] if apart else [],
            "learned": not best <= max((sign * value for value in lines.values()), default=-math.inf),
        },
    )
