"""Skipping experiment (Phang et al. 2021): the cost of leaving out every span of blocks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...context import Context
from ...findings.claims.claim import MARGIN, Claim, verdict_of
from ...findings.claims.render import few_seeds
from ...findings.results import Result, SpanMap, plain
from ...findings.scorecurves import span_map
from ...findings.words import counted, coverage
from ...scores.declare import Score
from ...scores.table import find_score
from ...tasks.task import Split, Task
from ...training.cut_store import as_answers, cut_answers
from ...training.cuts import every_span
from ...training.opening import Model
from ..base import Plan, as_function
from ..citations import cited
from ..result import GUESS, guess_line, make_result
from .claims import Costs, baseline_claim, below_baseline, extreme_claims
from .fine_tuned import FineTunedExperiment, named_seeds, sound

MEAN = "cost of skipping"


@dataclass(frozen=True, kw_only=True)
class Skipping(FineTunedExperiment):
    """
    Skip every span of blocks of fine-tuned models, and score what is left (Phang et al. 2021).

    Nothing is trained. The result has a map of costs, the score of the whole model minus the score without
    the blocks first..last, as the mean of the seeds; with several seeds also a map for each. With all blocks
    skipped the head reads the embedding output. A language model is scored by its perplexity.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> mt.skip(tuned, task).spans[0].values.shape
    (2, 2)
    """

    name = "skipping"

    def plan(self, context: Context) -> Plan:
        """Open models and task, and count the spans."""
        inputs = self.open(context, trained=("recipe", "changes", "train_size"))
        spans = inputs.depth * (inputs.depth + 1) // 2
        return self.as_plan(inputs, f"{counted(spans, 'span')} of blocks", {"spans": spans})

    def run(self, plan: Plan, context: Context) -> Result:
        """Score all spans, and make the maps and findings."""
        started, (inputs, _) = time.monotonic(), plan.inputs
        models, failures = sound(self.fine_tuned(inputs, context))
        task, scored, depth, level = inputs.task, inputs.scored, inputs.depth, context.level
        seeds, spans, score = named_seeds(models), every_span(depth), find_score(task.main)
        cuts = [tuple(range(1, depth + 1)), *spans.values()]
        # predictions[seed][cut][example], the whole model first.
        predictions = [cut_answers(model, task, scored, cuts, context=context) for model in models]

        def span_costs(places: Sequence[int], arm: str = "") -> SpanMap:
            answers = [
                as_answers(scored, [predictions[p][cut] for p in places], [seeds[p] for p in places])
                for cut in range(len(cuts))
            ]
            by_span = dict(zip(spans, answers[1:], strict=True))
            name = f"{MEAN}, {arm}" if arm else MEAN
            return span_map(name, depth, by_span, answers[0], task.main, task.labels, level=level, arm=arm)

        costs = span_costs(range(len(models)))
        by_seed = [span_costs([place], f"seed {seed}") for place, seed in enumerate(seeds)]
        lines = guess_line(task, scored)
        full = as_answers(scored, [cuts_of_seed[0] for cuts_of_seed in predictions], seeds)
        standing = below_baseline(task, full, lines.get(GUESS, math.nan), context)
        if standing is None:
            claims = span_claims(costs, score, by_seed)
        else:
            claims = [baseline_claim(standing, self.name, "the whole model", MEAN)]
        return make_result(
            self.name,
            task,
            scored.name,
            started=started,
            model=models[0].name,
            spans=(costs, *by_seed) if len(models) > 1 else (costs,),
            lines=MappingProxyType({"whole model": costs.full, **lines}),
            rows=_rows(task, scored, seeds, spans, predictions, score),
            claims=[*claims, *few_seeds(claims)],
            methods=_methods(models, task, scored, score, depth, context),
            references=cited("phang2021"),
            warnings=(*failures, *scored.notes),
            more={"depth": depth},
            provenance={
                "models": [model.digest for model in models],
                "seeds": list(seeds),
                "device": models[0].device,
                "longest": models[0].longest,
            },
        )


skip = as_function(Skipping, "skip")


def _rows(
    task: Task,
    split: Split,
    seeds: Sequence[int],
    spans: Iterable[tuple[int, int]],
    predictions: Sequence[Sequence[Sequence[Any]]],
    score: Score,
) -> tuple[dict[str, Any], ...]:
    """Make the long table: one record per seed and span."""
    targets = [item.target for item in split]
    sign = 1.0 if score.higher_is_better else -1.0
    rows = []
    for seed, of_seed in zip(seeds, predictions, strict=True):
        full, *values = (float(score.compute(answers, targets, task.labels)) for answers in of_seed)
        for (first, last), value in zip(spans, values, strict=True):
            row = {"seed": seed, "first": first, "last": last, "blocks": last - first + 1}
            rows.append({**row, "score": value, "whole": full, "cost": sign * (full - value) + 0.0})
    return tuple(plain(rows))


def _methods(
    models: Sequence[Model], task: Task, split: Split, score: Score, depth: int, context: Context
) -> str:
    first = models[0].task_model
    several = "" if len(models) == 1 else f", trained with {len(models)} seeds,"
    spans = depth * (depth + 1) // 2
    parts = [
        f"Of the {depth} blocks of {models[0].name}{several} every span was left out, {spans} in all, and "
        f"what was left scored without training on the {len(split):,} examples of {task.title}, split "
        f"{split.name} (Phang et al. 2021).",
        "The remaining blocks ran as they are and the head read the last state"
        + (", behind the model's final norm" if first.family.final_norm is not None else "")
        + "; without any block it read the embedding output.",
        f"The cost of a span is the {score.name} of the whole model minus that without it"
        if score.higher_is_better
        else f"The cost of a span is the {score.name} without it minus that of the whole model",
    ]
    parts[-1] += ", example by example."
    if first.family.shared:
        parts.append("Blocks share their weights: to leave one out is to run it once less.")
    over = "examples" if len(models) == 1 else "examples and seeds"
    parts.append(
        f"Intervals of {coverage(context.level)} are over {over}; the band holds for all spans at once."
    )
    return " ".join(parts)


def span_claims(spans: SpanMap, score: Score, by_seed: Sequence[SpanMap] = ()) -> list[Claim]:
    """
    Claim which single blocks cost least and most, and which is the longest span that costs little.

    Parameters
    ----------
    spans : SpanMap
    score : Score
    by_seed : sequence of SpanMap
        The same of each seed.
    """
    places, costs = costs_of_spans(spans, score, by_seed)
    singles = {k: (first,) for k, (first, last) in enumerate(places) if first == last}
    claims = extreme_claims(costs, "one block", singles, depth=spans.depth)
    return [*claims, *_longest_span(spans, places, costs)]


def _longest_span(spans: SpanMap, places: Sequence[tuple[int, int]], costs: Costs) -> list[Claim]:
    if not places:
        return []
    safe, small = ([k for k in range(len(places)) if ends[k] <= MARGIN] for ends in (costs.most, costs.value))
    if not small:
        verdict, score = verdict_of(float(costs.least.min()), np.inf), costs.score
        return [Claim(kind="span", verdict=verdict, score=score.name, points=score.points, depth=spans.depth)]
    place = max(safe or small, key=lambda k: (places[k][1] - places[k][0], -costs.value[k]))
    first, last = places[place]
    layers, verdict = tuple(range(first, last + 1)), "holds" if safe else "inconclusive"
    return [costs.claim("span", place, side="most", verdict=verdict, layers=layers, depth=spans.depth)]


def costs_of_spans(
    spans: SpanMap, score: Score, by_seed: Sequence[SpanMap] = ()
) -> tuple[list[tuple[int, int]], Costs]:
    """The first and last block of every span that has a cost, and their costs."""
    places = np.argwhere(np.isfinite(spans.values))
    index = tuple(places.T)
    ends = {"value": "values", "low": "low", "high": "high", "least": "band_low", "most": "band_high"}
    costs = Costs(
        **{name: score.points * getattr(spans, end)[index] for name, end in ends.items()},
        score=score,
        level=spans.level,
        unit=spans.unit,
        n=spans.n,
        seeds=(spans.seeds,) * len(places),
        by_seed=np.array([score.points * seed_map.values[index] for seed_map in by_seed]).reshape(
            len(by_seed), len(places)
        ),
        family="all spans",
    )
    return [(int(first) + 1, int(last) + 1) for first, last in places], costs
