"""Learning rates that bring tuning methods to about the same score, and how far scores stay apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...checks import several
from ...errors import must, unknown
from ...findings.words import between, number
from ...inference.bands import score_bands
from ...inference.pairing import compare_scores
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cut_store import as_answers
from ..models import guess_line
from ..run_curves import counts
from ..runs import Done, Run

MATCHED = 5.0  # points that scores of methods may lie apart and be called matched
METHODS = ("full", "lora", "bitfit", "head")
WEAKEST, BEST = "weakest", "best"
# Of the recipe's rate, which is one for all weights: where few of them learn, more of it does no harm.
MULTIPLES: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "full": (0.25, 0.5, 1.0),
        "lora": (5.0, 10.0, 20.0),
        "bitfit": (5.0, 10.0, 20.0),
        "head": (20.0, 50.0, 100.0),
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
    values = several(rates.get(method, [rate * times for times in MULTIPLES[method]]))
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
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
    number_ = isinstance(match, int | float) and not isinstance(match, bool) and math.isfinite(match)
    if match in (WEAKEST, BEST) or number_:
        return match
    raise must("match", "'weakest', 'best' or a score in points", match)


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
    sign = 1.0 if score.higher_is_better else -1.0
    runs: dict[str, dict[float, list[Done]]] = {}
    for done in tried:
        runs.setdefault(done.run.arm, {}).setdefault(float(done.run.x), []).append(done)
    scores = {method: _sound(by_rate, score.points) for method, by_rate in runs.items()}
    best = {
        method: max(by_rate.values(), key=lambda v: sign * v) for method, by_rate in scores.items() if by_rate
    }
    weakest = min(best.values(), key=lambda v: sign * v) if best else math.nan
    methods = {}
    for method, by_rate in scores.items():
        if match == BEST:
            target = best.get(method, math.nan)
        else:
            target = weakest if match == WEAKEST else float(match)
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


def score_documents(
    task: Task, methods: Mapping[str, TunedMethod], level: float
) -> dict[str, dict[str, Any]]:
    """
    Score each method, and compare it with the first of them.

    Parameters
    ----------
    task : Task
    methods : mapping of str to TunedMethod
        With runs.
    level : float

    Returns
    -------
    dict of str to dict
        Plain data, scores in points of 100.
    """
    score, split = find_score(task.main), task.split(task.validation)
    answers = {
        name: as_answers(
            split, [done.answers for done in method.done], [done.run.seed for done in method.done]
        )
        for name, method in methods.items()
        if method.done
    }
    reference = next(iter(answers), None)
    documents: dict[str, dict[str, Any]] = {}
    for name, method in methods.items():
        values = [score.points * done.score for done in method.done]
        document: dict[str, Any] = {
            "rate": method.rate,
            "tried": {f"{rate:g}": value for rate, value in method.tried.items()},
            "target": method.target,
            "scores": {str(done.run.seed): value for done, value in zip(method.done, values, strict=True)},
            "score": float(np.mean(values)) if values else math.nan,
            "low": None,
            "high": None,
            "n": len(split),
            "apart": None,
        }
        if name in answers:
            band = score_bands(score, [answers[name]], task.labels, level=level)
            for end, value in (("low", band.low[0]), ("high", band.high[0])):
                document[end] = score.points * float(value) if math.isfinite(value) else None
        if name in answers and reference is not None and name != reference:
            difference = compare_scores(score, answers[name], answers[reference], task.labels, level=level)
            interval = difference.interval
            document["apart"] = {
                "from": reference,
                "value": score.points * difference.difference,
                "low": None if interval is None else score.points * interval.low,
                "high": None if interval is None else score.points * interval.high,
                "p": difference.p,
            }
        documents[name] = document
    return documents


def _interval(document: Mapping[str, Any]) -> str:
    return "" if document["low"] is None else f" {between(document['low'], document['high'], 1)}"


def score_findings(task: Task, documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """State how well scores are matched."""
    scored = {name: document for name, document in documents.items() if math.isfinite(document["score"])}
    score, baselines = find_score(task.main), guess_line(task, task.split(task.validation))
    parts = ", ".join(
        f"{name} {number(document['score'], 1)}{_interval(document)} (rate {document['rate']:g})"
        for name, document in scored.items()
    )
    baseline = "".join(f"; majority baseline: {number(score.points * v, 1)}" for v in baselines.values())
    count = len(task.split(task.validation))
    findings = [f"{score.name} on {task.name}, in points, n = {count:,}: {parts}{baseline}."]
    sign = 1.0 if score.higher_is_better else -1.0
    best = max((sign * document["score"] for document in scored.values()), default=math.nan)
    floor = max((sign * score.points * value for value in baselines.values()), default=-math.inf)
    if best <= floor:
        findings.append(
            "No tuning method scores above the majority baseline: nothing was learned, and the changes show "
            "that."
        )
    if len(scored) > 1:
        values = [document["score"] for document in scored.values()]
        gap = max(values) - min(values)
        findings.append(
            f"Scores are matched to within {number(gap, 1)} points."
            if gap <= MATCHED
            else f"Scores are not matched, they lie {number(gap, 1)} points apart: other rates may bring "
            "them closer."
        )
    for name, document in scored.items():
        apart = document["apart"]
        if apart is not None and apart["low"] is not None and (apart["low"] > 0 or apart["high"] < 0):
            side = "above" if apart["value"] > 0 else "below"
            findings.append(
                f"{name} stays {number(abs(apart['value']), 1)} points {side} {apart['from']} "
                f"{between(apart['low'], apart['high'], 1)}: what differs between them may be due to the "
                "score."
            )
    return findings
