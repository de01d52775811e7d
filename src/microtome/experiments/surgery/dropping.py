"""Which blocks can be left out? Drop them by different strategies, and hold each against chance."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arguments import checked
from ...checks import check_level, check_seeds, several, whole_number
from ...encoders.encoder import Encoder
from ...errors import must, unknown
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.baselines import Standing
from ...interventions.skip import Skip
from ...runtime import using_threads
from ...scores.declare import Score
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..baselines import below_baseline
from ..models import cut_answers
from ..models import opened as open_models
from ..run_curves import curves_of, gathered, rows_of
from ..runs import Done, Run, open_encoder, open_task, run_all
from .drop_strategies import (
    RANDOM,
    STRATEGIES,
    Blocks,
    chosen_blocks,
    random_blocks,
    read_layers,
    said_strategies,
)
from .random_choice import DRAWN, curves_over_draws, score_by_draw
from .result import grid_result as concluded

COUNTS = (2, 4, 6)  # where none is asked for, those below the depth
THEN = ("full", "head", "none")
NAMES = ("top", "bottom", "alternate", "symmetric", "contribution", "similarity", RANDOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    Blocks that are dropped together.

    Parameters
    ----------
    strategy : str
    count : int
    draw : int
        Which of several random ones; 0 for the others.
    blocks : tuple of int
        Numbered from 1.
    """

    strategy: str
    count: int
    draw: int
    blocks: Blocks


def choices(
    encoder: Any,
    task: Task,
    *,
    count: int | Sequence[int] | None = None,
    strategies: str | Sequence[str] = NAMES,
    measure: str = "debiased_cka",
    random_draws: int = 5,
    store: Any = None,
    progress: Any = None,
) -> tuple[list[Choice], list[str]]:
    """
    Choose the blocks that are dropped.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    count, strategies, measure, random_draws
        As in `dropping`.
    store, progress
        For the layers that some strategies read.

    Returns
    -------
    choices : list of Choice
    warnings : list of str
        Which strategies have none.
    """
    numbers = counts_for(encoder.depth, count)
    named = several(strategies)
    for name in named:
        if name not in (*STRATEGIES, RANDOM):
            raise unknown("strategy", name, (*STRATEGIES, RANDOM))
    random_draws = whole_number("random_draws", random_draws, 1)
    scores: dict[str, np.ndarray] = {}
    if any(name != RANDOM and STRATEGIES[name].reads for name in named):
        scores = read_layers(encoder, task, measure=measure, store=store, progress=progress)
    found, said = [], []
    for name in named:
        for one in numbers:
            if name == RANDOM:
                sets = random_blocks(encoder, one, random_draws)
                found += [Choice(strategy=name, count=one, draw=i, blocks=b) for i, b in enumerate(sets, 1)]
                continue
            blocks, reason = chosen_blocks(encoder, name, one, scores)
            if blocks is None:
                said.append(f"{name}, {one} blocks was left out: {reason}")
            else:
                found.append(Choice(strategy=name, count=one, draw=0, blocks=blocks))
    return found, said


def counts_for(depth: int, count: Any = None, name: str = "count") -> tuple[int, ...]:
    """Take how many blocks are dropped; where it is not said, those of `COUNTS` that the depth allows."""
    if count is None:
        return tuple(one for one in COUNTS if one < depth) or (1,)
    found = tuple(dict.fromkeys(whole_number(name, one) for one in several(count)))
    for one in found:
        if not 1 <= one < depth:
            raise must(name, f"numbers of blocks between 1 and {depth - 1}", one)
    return found


def planned(
    chosen: Sequence[Choice],
    *,
    then: str | Sequence[str] = "full",
    seeds: int | Sequence[int] = (1, 2, 3),
    train_size: int | None = None,
) -> list[Run]:
    """
    List the fine-tunings that `dropping` needs.

    Parameters
    ----------
    chosen : sequence of Choice
    then, seeds, train_size
        As in `dropping`.

    Returns
    -------
    list of Run
        Where nothing is trained after dropping, only the whole model is.
    """
    ways = several(then)
    for way in ways:
        if way not in THEN:
            raise unknown("then", way, THEN)
    shared = {} if train_size is None else {"train_size": train_size}
    runs = []
    for way in ways:
        options = {**shared, **({"method": "head"} if way == "head" else {})}
        for arm in dict.fromkeys(one.strategy for one in chosen):
            cuts = [one for one in chosen if one.strategy == arm and way != "none"]
            points: list[tuple[int, int, tuple[Any, ...]]] = [(0, 0, ())]
            points += [(one.count, one.draw, (Skip(blocks=one.blocks),)) for one in cuts]
            runs += [
                Run(arm=_arm(arm, way, ways), x=x, seed=seed, draw=draw, interventions=done, options=options)
                for x, draw, done in points
                for seed in check_seeds(seeds)
            ]
    return runs


def _arm(strategy: str, way: str, ways: Sequence[str]) -> str:
    told = {"full": "all tuned", "head": "head tuned", "none": "not tuned again"}
    return strategy if len(ways) == 1 else f"{strategy}, {told[way]}"


@checked
def dropping(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    *,
    count: int | Sequence[int] | None = None,
    strategies: str | Sequence[str] = NAMES,
    measure: str = "debiased_cka",
    random_draws: int = 5,
    then: str | Sequence[str] = "full",
    seeds: int | Sequence[int] = (1, 2, 3),
    train_size: int | None = None,
    recipe: str | Recipe = "wu2020",
    level: float = 0.95,
    **options: Any,
) -> Result:
    """
    Drop blocks by several strategies, and hold each against blocks drawn at random.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which `at_once` needs.
    task : Task or mapping
    count : int or sequence of int, optional
        How many blocks go; when absent, those of 2, 4 and 6 that are below the depth, or 1.
    strategies : str or sequence of str
        Of `STRATEGIES`, and "random".
    measure : str
        The similarity of layers that the strategy "similarity" goes by.
    random_draws : int
        Sets of blocks drawn for each count.
    then : {"full", "head", "none"} or several
        After dropping, tune all weights or the head alone; or drop blocks of a model that was tuned
        whole, and tune nothing.
    seeds : int or sequence of int
    train_size : int, optional
    recipe : str or Recipe
    level : float
    **options
        Of `run_all` (at_once, threads, device, dtype, store, keep_models, progress, command), of
        `finetune`, and values of the recipe.

    Returns
    -------
    Result
        A curve for each strategy over the number of blocks dropped, and one of its differences from the
        whole model. `more["choices"]` says which blocks were dropped.
    """
    started = time.monotonic()
    level, seeds = check_level(level), check_seeds(seeds)
    opened, asked = open_encoder(encoder), open_task(task)
    with using_threads(options.get("threads")):
        chosen, warned = choices(
            opened,
            asked,
            count=count,
            strategies=strategies,
            measure=measure,
            random_draws=random_draws,
            store=options.get("store"),
            progress=options.get("progress"),
        )
    ways = several(then)
    runs = planned(chosen, then=ways, seeds=seeds, train_size=train_size)
    apart = options.get("at_once", 1) != 1
    # Models that are cut after their training must be kept for it.
    later = [run for run in runs if "none" in ways and not run.interventions and "method" not in run.options]
    given: tuple[Any, Any] = (encoder, task) if apart else (opened, asked)
    whole = run_all(*given, later, recipe=recipe, **{**options, "keep_models": True}) if later else []
    done = run_all(*given, runs, recipe=recipe, **options)
    if later:
        done += _cut_later(whole, chosen, asked, ways, options)
    score, split = find_score(asked.main), asked.split(asked.validation)
    curves: list[Curve] = []
    said: list[str] = []
    weak: dict[str, Standing] = {}
    for way in ways:
        standing = None
        for strategy in dict.fromkeys(one.strategy for one in chosen):
            points = gathered(done, split, _arm(strategy, way, ways))
            found = curves_of(
                points,
                asked,
                points.at(0),
                axis="blocks dropped",
                level=level,
                against="the whole model",
                # One tuned model is cut everywhere; draws cannot be told apart by their seeds alone.
                pair_seeds=way == "none" and strategy != RANDOM,
                note=_note(way) if strategy == RANDOM else "",
            )
            standing = below_baseline(asked, points.at(0), done, level=level)
            if standing is not None and len(found) > 1:
                weak[found[1].name] = standing
            drawn = strategy == RANDOM and any(points.x)
            curves += curves_over_draws(found, done, asked, points.arm, 0) if drawn else found
        if standing is None:
            said += _said(done, score, way, ways)
        else:
            said.append(standing.sentence("the whole model"))
    return concluded(
        "dropping",
        opened,
        asked,
        done,
        curves=curves,
        findings=said,
        how=said_strategies(opened, chosen, ways, measure),
        references=("sajjad2023",),
        recipe=recipe,
        options=options,
        level=level,
        started=started,
        rows=_rows(done, chosen, asked, ways),
        warnings=warned,
        weak=weak,
        more={
            "choices": [
                {"strategy": c.strategy, "count": c.count, "draw": c.draw, "blocks": list(c.blocks)}
                for c in chosen
            ]
        },
    )


def _cut_later(
    whole: Sequence[Done],
    chosen: Sequence[Choice],
    task: Task,
    ways: Sequence[str],
    options: Mapping[str, Any],
) -> list[Done]:
    """Answer with models that were tuned whole and are cut now."""
    score, split = find_score(task.main), task.split(task.validation)
    depth: int | None = None
    found: list[Done] = []
    for one in {each.address: each for each in whole}.values():
        model = open_models(one.folder, task, device=options.get("device", "cpu"))[0]
        depth = depth or len(model.model.family.blocks_of(model.model.base))
        cuts = [tuple(b for b in range(1, depth + 1) if b not in choice.blocks) for choice in chosen]
        answers = cut_answers(
            model,
            task,
            split,
            cuts,
            store=options.get("store"),
            progress=options.get("progress"),
            command=options.get("command", ""),
        )
        targets = [item.target for item in split]
        for choice, said in zip(chosen, answers, strict=True):
            run = Run(
                arm=_arm(choice.strategy, "none", ways),
                x=choice.count,
                seed=one.run.seed,
                draw=choice.draw,
                interventions=(Skip(blocks=choice.blocks),),
                options={"then": "none"},
            )
            found.append(
                Done(
                    run=run,
                    address=one.address,
                    folder=one.folder,
                    answers=tuple(said),
                    score=float(score.compute(said, targets, task.labels)),
                    baseline=one.baseline,
                    failure=one.failure,
                    course=one.course,
                )
            )
    return found


def _rows(
    done: Sequence[Done], chosen: Sequence[Choice], task: Task, ways: Sequence[str]
) -> list[dict[str, Any]]:
    known: dict[Any, str] = {
        (_arm(c.strategy, way, ways), c.count, c.draw): " ".join(map(str, c.blocks))
        for c in chosen
        for way in ways
    }
    return [
        {**row, "blocks": known.get((one.run.arm, one.run.x, one.run.draw), "")}
        for one, row in zip(done, rows_of(done, task=task.name), strict=True)
    ]


def _note(way: str) -> str:
    return f"{DRAWN}; all cut the same trainings, so other seeds are not covered" if way == "none" else DRAWN


def _said(done: Sequence[Done], score: Score, way: str, ways: Sequence[str]) -> list[str]:
    """How each strategy does against blocks drawn at random."""
    sign = score.points if score.higher_is_better else -score.points
    null = _arm(RANDOM, way, ways)
    said = []
    for strategy in STRATEGIES:
        arm = _arm(strategy, way, ways)
        for x in dict.fromkeys(one.run.x for one in done if one.run.arm == arm and one.run.x):
            mine = score_by_draw(done, arm, x)
            theirs = score_by_draw(done, null, x)
            if not mine or not theirs:
                continue
            better = sum(sign * mine[0] > sign * each for each in theirs)
            p = (1 + len(theirs) - better) / (1 + len(theirs))
            gain = number(sign * (mine[0] - float(np.mean(theirs))))
            said.append(
                f"{arm}, {x} {'block' if x == 1 else 'blocks'}: {gain} points against the mean of random "
                f"choices, above {better} of {len(theirs)} of them ({p_value(p)}, one-sided, by rank, "
                "unit: draw)."
            )
    return said
