"""Which learning rate gives each way of tuning about the same score, and how far apart do scores stay?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...checks import check_seeds, several
from ...errors import must, unknown
from ...findings.words import between, number
from ...inference.bands import score_bands
from ...inference.pairing import compare_scores
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.methods import METHODS
from ...training.recipe import Recipe, find_recipe
from ..models import as_answers, guess_line
from ..run_curves import counts
from ..runs import Done, Run

MATCHED = 5.0  # points that scores of ways may lie apart and be called matched
WAYS = ("full", "lora", "bitfit", "head")
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
class Way:
    """
    One way of tuning, at the rate that was chosen for it.

    Parameters
    ----------
    name : str
    rate : float
    tried : mapping of float to float
        Mean score of each rate in points of 100; rates at which a run failed have none.
    target : float
        Score that was wanted, in points; NaN where no rate has one.
    done : tuple of Done
        Sound runs at the chosen rate, one a seed.
    """

    name: str
    rate: float
    tried: Mapping[float, float]
    target: float
    done: tuple[Done, ...] = ()


def rate_runs(
    ways: str | Sequence[str] = WAYS,
    *,
    rates: Mapping[str, Sequence[float]] | None = None,
    seeds: int | Sequence[int] = (1,),
    recipe: str | Recipe = "wu2020",
    train_size: int | None = None,
    **values: Any,
) -> list[Run]:
    """
    List the fine-tunings that a rate is chosen by.

    Parameters
    ----------
    ways, rates, recipe, train_size
        As in `tuning_ways`.
    seeds : int or sequence of int
        That every rate is tried with.
    **values
        Values of the recipe; others are passed over.

    Returns
    -------
    list of Run
    """
    named = several(ways)
    for way in named:
        if way not in METHODS:
            raise unknown("way of tuning", way, METHODS)
    if not named or len(set(named)) < len(named):
        raise must("ways", "one or more, each once", list(named))
    for way in rates or ():
        if way not in named:
            raise unknown("way of rates", way, named)
    tried = check_seeds(seeds)
    plain = find_recipe(recipe, **{name: each for name, each in values.items() if name in Recipe.__slots__})
    out = []
    for way in named:
        given = (rates or {}).get(way, [plain.rate * times for times in MULTIPLES[way]])
        for rate in several(given):
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not rate > 0:
                raise must(f"rates of {way}", "numbers above 0", rate)
            out += [way_run(way, float(rate), seed, train_size) for seed in tried]
    return out


def way_run(way: str, rate: float, seed: int, train_size: int | None) -> Run:
    """One fine-tuning of a way at a rate."""
    shared = {} if train_size is None else {"train_size": train_size}
    return Run(arm=way, x=rate, seed=seed, options={"method": way, "rate": rate, **shared})


def check_match(match: Any) -> str | float:
    """Take what scores are to be matched to."""
    number_ = isinstance(match, int | float) and not isinstance(match, bool) and math.isfinite(match)
    if match in (WEAKEST, BEST) or number_:
        return match
    raise must("match", "'weakest', 'best' or a score in points", match)


def choose_rates(tried: Sequence[Done], task: Task, match: str | float = WEAKEST) -> dict[str, Way]:
    """
    Choose for each way the rate whose score is nearest to the one that is wanted.

    A rate above the best one scores less because it spoils the training, not because it trains less: of
    those none is chosen, nor one at which a run diverged, nor, unless all do, one at which a run gave one
    answer to everything.

    Parameters
    ----------
    tried : sequence of Done
    task : Task
    match : "weakest", "best" or float
        As in `tuning_ways`.

    Returns
    -------
    dict of str to Way
        Without runs yet. Of rates that are equally near the smallest is taken.
    """
    score = find_score(task.main)
    sign = 1.0 if score.higher_is_better else -1.0
    every: dict[str, dict[float, list[Done]]] = {}
    for one in tried:
        every.setdefault(one.run.arm, {}).setdefault(float(one.run.x), []).append(one)
    scores = {way: _sound(some, score.points) for way, some in every.items()}
    best = {way: max(some.values(), key=lambda v: sign * v) for way, some in scores.items() if some}
    least = min(best.values(), key=lambda v: sign * v) if best else math.nan
    out = {}
    for way, some in scores.items():
        wanted = best.get(way, math.nan) if match == BEST else least if match == WEAKEST else float(match)
        stable = [rate for rate in some if rate <= max(r for r in some if some[r] == best[way])]
        rate = min(stable, key=lambda r: (abs(some[r] - wanted), r), default=math.nan)
        out[way] = Way(name=way, rate=rate, tried=some, target=wanted)
    return out


def _sound(some: Mapping[float, Sequence[Done]], points: float) -> dict[float, float]:
    """Mean scores of the rates at which no run failed or, where there is none, at which none diverged."""
    for fine in (lambda one: one.failure is None, counts):
        found = {
            rate: points * float(np.mean([one.score for one in done]))
            for rate, done in some.items()
            if all(fine(one) and math.isfinite(one.score) for one in done)
        }
        if found:
            return found
    return {}


def told_scores(task: Task, ways: Mapping[str, Way], level: float) -> dict[str, dict[str, Any]]:
    """
    Say what each way scored, and how far it is from the first of them.

    Parameters
    ----------
    task : Task
    ways : mapping of str to Way
        With runs.
    level : float

    Returns
    -------
    dict of str to dict
        Plain data, scores in points of 100.
    """
    score, split = find_score(task.main), task.split(task.validation)
    answers = {
        name: as_answers(split, [one.answers for one in way.done], [one.run.seed for one in way.done])
        for name, way in ways.items()
        if way.done
    }
    reference = next(iter(answers), None)
    out: dict[str, dict[str, Any]] = {}
    for name, way in ways.items():
        values = [score.points * one.score for one in way.done]
        told: dict[str, Any] = {
            "rate": way.rate,
            "tried": {f"{rate:g}": value for rate, value in way.tried.items()},
            "target": way.target,
            "scores": {str(one.run.seed): value for one, value in zip(way.done, values, strict=True)},
            "score": float(np.mean(values)) if values else math.nan,
            "low": None,
            "high": None,
            "n": len(split),
            "apart": None,
        }
        if name in answers:
            alone = score_bands(score, [answers[name]], task.labels, level=level)
            for end, value in (("low", alone.low[0]), ("high", alone.high[0])):
                told[end] = score.points * float(value) if math.isfinite(value) else None
        if name in answers and reference is not None and name != reference:
            found = compare_scores(score, answers[name], answers[reference], task.labels, level=level)
            ends = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
            told["apart"] = {
                "from": reference,
                "value": score.points * found.difference,
                "low": None if ends[0] is None else score.points * ends[0],
                "high": None if ends[1] is None else score.points * ends[1],
                "p": found.p,
            }
        out[name] = told
    return out


def _between(one: Mapping[str, Any]) -> str:
    return "" if one["low"] is None else f" {between(one['low'], one['high'], 1)}"


def said_scores(task: Task, told: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say how well scores are matched."""
    known = {name: one for name, one in told.items() if math.isfinite(one["score"])}
    score, guess = find_score(task.main), guess_line(task, task.split(task.validation))
    shown = ", ".join(
        f"{name} {number(one['score'], 1)}{_between(one)} (rate {one['rate']:g})"
        for name, one in known.items()
    )
    told_guess = "".join(f"; {name}: {number(score.points * value, 1)}" for name, value in guess.items())
    count = len(task.split(task.validation))
    said = [f"{score.name} on {task.name}, in points, n = {count:,}: {shown}{told_guess}."]
    sign = 1.0 if score.higher_is_better else -1.0
    best = max((sign * one["score"] for one in known.values()), default=math.nan)
    floor = max((sign * score.points * value for value in guess.values()), default=-math.inf)
    if best <= floor:
        said.append(
            "No way scores above what needs no reading: nothing was learned, and the changes are of that."
        )
    if len(known) > 1:
        values = [one["score"] for one in known.values()]
        gap = max(values) - min(values)
        said.append(
            f"Scores are matched to within {number(gap, 1)} points."
            if gap <= MATCHED
            else f"Scores are not matched, they lie {number(gap, 1)} points apart: other rates may bring "
            "them closer."
        )
    for name, one in known.items():
        apart = one["apart"]
        if apart is not None and apart["low"] is not None and (apart["low"] > 0 or apart["high"] < 0):
            side = "above" if apart["value"] > 0 else "below"
            said.append(
                f"{name} stays {number(abs(apart['value']), 1)} points {side} {apart['from']} "
                f"{between(apart['low'], apart['high'], 1)}: what differs between them may be "
                "the score's doing."
            )
    return said
