"""Which blocks need to learn, and what does it save if they do not? Freeze more and more of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...arguments import checked
from ...checks import check_level, check_seeds, several, whole_number
from ...encoders.encoder import Encoder
from ...errors import InputError, must, unknown
from ...findings.results import Curve, Result
from ...findings.words import number, p_value
from ...inference.baselines import Standing
from ...inference.holm import holm
from ...interventions.freeze import Freeze
from ...runtime import using_threads
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..baselines import below_baseline
from ..run_curves import (
    MARGIN,
    Points,
    beyond_margin,
    compared,
    curves_of,
    gathered,
    rows_of,
    said_loss,
    tested_unit,
    within_margin,
)
from ..runs import Run, open_encoder, open_task, run_all
from .result import concluded, trained_with
from .timing import freezing_costs

PARTS = ("bottom", "top")


def planned(
    encoder: Any,
    *,
    ks: int | Sequence[int] | None = None,
    parts: str | Sequence[str] = PARTS,
    embeddings: bool = True,
    seeds: int | Sequence[int] = (1, 2, 3),
    train_size: int | None = None,
    cached: bool = False,
) -> list[Run]:
    """
    List the fine-tunings that `freezing` needs.

    Parameters
    ----------
    encoder : TransformerEncoder
    ks, parts, embeddings, seeds, train_size, cached
        As in `freezing`.

    Returns
    -------
    list of Run
    """
    depth = encoder.depth
    given = range(depth + 1) if ks is None else [whole_number("ks", k) for k in several(ks)]
    asked = tuple(dict.fromkeys((0, *given)))
    for k in asked:
        if not 0 <= k <= depth:
            raise must("ks", f"numbers of blocks between 0 and {depth}", k)
    if encoder.family.shared and set(asked) - {0, depth}:
        raise InputError(
            f"ks must be 0 or {depth} for {encoder.family.title}, whose layers share their weights, but got "
            f"{sorted(set(asked) - {0, depth})}."
        )
    named = several(parts)
    for part in named:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    shared = {} if train_size is None else {"train_size": train_size}
    runs = []
    for part in named:
        for k in sorted(asked):
            done = () if k == 0 else (_freeze(part, k, embeddings),)
            # Only a bottom that nothing learns below has states to keep.
            once = {"cached": True} if cached and part == "bottom" and k and embeddings else {}
            runs += [
                Run(arm=part, x=k, seed=seed, interventions=done, options={**shared, **once})
                for seed in check_seeds(seeds)
            ]
    return runs


def _freeze(part: str, k: int, embeddings: bool) -> Freeze:
    return Freeze(bottom=k, embeddings=embeddings) if part == "bottom" else Freeze(top=k)


@checked
def freezing(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    *,
    ks: int | Sequence[int] | None = None,
    parts: str | Sequence[str] = PARTS,
    embeddings: bool = True,
    seeds: int | Sequence[int] = (1, 2, 3),
    recipe: str | Recipe = "wu2020",
    train_size: int | None = None,
    cached: bool = False,
    measure_time: bool = True,
    repeats: int = 5,
    level: float = 0.95,
    **options: Any,
) -> Result:
    """
    Fine-tune with more and more blocks frozen, from the bottom or from the top.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which `at_once` needs.
    task : Task or mapping
    ks : int or sequence of int, optional
        How many blocks are frozen; all numbers when absent. Nothing frozen is always among them: it is
        the plain fine-tuning, to the same address.
    parts : {"bottom", "top"} or both
    embeddings : bool
        Whether the embeddings, and what lies beside the blocks, are frozen with the bottom. Without that
        the way back still goes through all blocks, and little is saved.
    seeds : int or sequence of int
    recipe : str or Recipe
    train_size : int, optional
    cached : bool
        Whether a frozen bottom is run once, without dropout, and its states are read by every update.
        Frozen blocks drop out otherwise, as in the papers.
    measure_time : bool
        Whether time and memory of an update are measured for every number of blocks, without the cache.
    repeats : int
        How often.
    level : float
        Of intervals and bands.
    **options
        Of `run_all` (at_once, threads, device, precision, store, keep_models, progress, command), of
        `finetune`, and values of the recipe.

    Returns
    -------
    Result
        A curve for each part over the number of frozen blocks, and one of its differences from nothing
        frozen. `more["cost"]` has the measured time and memory.
    """
    started = time.monotonic()
    level, seeds, repeats = check_level(level), check_seeds(seeds), whole_number("repeats", repeats, 1)
    opened, asked = open_encoder(encoder), open_task(task)
    runs = planned(
        opened,
        ks=ks,
        parts=parts,
        embeddings=embeddings,
        seeds=seeds,
        train_size=train_size,
        cached=cached,
    )
    several_at_once = options.get("at_once", 1) != 1
    done = run_all(
        encoder if several_at_once else opened,
        task if several_at_once else asked,
        runs,
        recipe=recipe,
        **options,
    )
    score, split = find_score(asked.main), asked.split(asked.validation)
    arms = {part: gathered(done, split, part) for part in several(parts)}
    curves: list[Curve] = []
    said: list[str] = []
    weak: dict[str, Standing] = {}
    for part, points in arms.items():
        found = curves_of(
            points, asked, points.at(0), axis="blocks frozen", level=level, against="nothing frozen"
        )
        curves += found
        standing = below_baseline(asked, points.at(0), done, level=level)
        if standing is not None:
            weak[found[1].name] = standing
            said.append(standing.sentence("the model with nothing frozen"))
            continue
        said += _said_part(part, found[1] if len(found) > 1 else None, score, opened.depth)
    if not weak:
        said += _said_sides(arms, asked, level)
    cost: list[dict[str, Any]] = []
    if measure_time:
        cases: dict[str, Freeze | None] = {"none": None}
        for run in runs:
            if run.x:
                cases[f"{run.arm} {run.x}"] = run.interventions[0]
        with using_threads(options.get("threads")):
            cost = freezing_costs(
                opened,
                asked,
                cases,
                recipe=recipe,
                repeats=repeats,
                store=options.get("store"),
                command=options.get("command", ""),
                train_size=train_size,
                **trained_with(options),
            )
        said += _said_cost(cost)
    return concluded(
        "freezing",
        opened,
        asked,
        done,
        curves=curves,
        findings=said,
        how=_methods(opened, embeddings, cached),
        references=("wu2020", "merchant2020"),
        recipe=recipe,
        options=options,
        level=level,
        started=started,
        rows=_with_cost(rows_of(done, task=asked.name), cost),
        more={"cost": cost, "embeddings": embeddings, "cached": cached},
        weak=weak,
    )


def _with_cost(rows: Sequence[Mapping[str, Any]], cost: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    names = ("backward_ratio", "update_ratio", "memory_ratio")
    known = {one["case"]: one for one in cost}
    out = []
    for row in rows:
        case = known.get("none" if row["x"] == 0 else f"{row['arm']} {row['x']}", {})
        out.append({**row, **{name: case.get(name) for name in names}})
    return tuple(out)


def _methods(encoder: Any, embeddings: bool, cached: bool) -> str:
    below = "embeddings were frozen with the bottom" if embeddings else "embeddings were never frozen"
    dropout = "ran once an example without dropout" if cached else "kept its dropout"
    return (
        f"Of the {encoder.depth} blocks of {encoder.name}, more and more were frozen for the whole of the "
        f"fine-tuning, from the bottom up or from the top down; {below}, and a frozen bottom {dropout}."
    )


def _said_part(part: str, curve: Curve | None, score: Any, depth: int) -> list[str]:
    if curve is None:
        return [f"Nothing can be said of a frozen {part}: no run with nothing frozen is sound."]
    safe = [place for place in within_margin(curve, score) if curve.x[place] != 0]
    bad = beyond_margin(curve, score)
    said = []
    if safe:
        place = max(safe, key=lambda at: int(curve.x[at]))
        said.append(
            f"With the {part} {curve.x[place]} of {depth} blocks frozen, a loss of more than {MARGIN:g} "
            f"point is ruled out: {said_loss(curve, place, score, bound='most')}."
        )
    else:
        said.append(
            f"For no number of {part} blocks frozen is a loss of more than {MARGIN:g} point ruled out."
        )
    if bad:
        place = min(bad, key=lambda at: int(curve.x[at]))
        larger = [at for at, k in enumerate(curve.x) if int(k) >= int(curve.x[place])]
        # "On" is a claim about every larger number that is shown.
        where = (
            f"From the {part} {curve.x[place]} blocks on"
            if len(larger) > 1 and set(larger) <= set(bad)
            else f"With the {part} {curve.x[place]} blocks"
        )
        loss = said_loss(curve, place, score, bound="least")
        said.append(f"{where}, freezing costs more than {MARGIN:g} point: {loss}.")
    return said


def _said_sides(arms: Mapping[str, Points], task: Task, level: float) -> list[str]:
    """Whether a frozen bottom costs less than a frozen top of as many blocks."""
    if set(arms) != set(PARTS):
        return []
    ks = [k for k in arms["bottom"].x if k and k in arms["top"].x]
    found = [compared(task, arms["bottom"].at(k), arms["top"].at(k), level=level) for k in ks]
    tested = [(k, one) for k, one in zip(ks, found, strict=True) if one is not None]
    if not tested:
        return []
    p = holm([one.p for _, one in tested])
    sure = [(k, one, p[i]) for i, (k, one) in enumerate(tested) if p[i] < 1 - level]
    ahead = sum(one.difference * one.points > 0 for _, one in tested)
    said = [
        f"A frozen bottom scores above a frozen top of as many blocks at {ahead} of {len(tested)} numbers."
    ]
    for k, one, adjusted in sure:
        side = "bottom" if one.difference * one.points > 0 else "top"
        points = number(abs(one.difference * one.points))
        said.append(
            f"With {k} blocks, freezing the {side} is better by {points} points ({p_value(adjusted)}, "
            f"unit: {tested_unit(one)}, adjusted for {len(tested)} tests)."
        )
    if not sure:
        said.append(f"None of these {len(tested)} differences is sure.")
    return said


def _said_cost(cost: Sequence[Mapping[str, Any]]) -> list[str]:
    rest = [one for one in cost if one["case"] != "none"]
    if not rest:
        return []
    best = min(rest, key=lambda one: one["backward_ratio"])
    half = [one for one in rest if one["backward_ratio"] <= 0.5]
    said = [
        f"Freezing the {best['case']} blocks takes {number(best['backward_ratio'])} of the time of the way "
        f"back and {number(best['memory_ratio'])} of the memory for activations."
    ]
    if half:
        for part in PARTS:
            mine = {int(one["case"].split()[1]): one for one in rest if one["case"].startswith(part)}
            least = min((k for k, one in mine.items() if one in half), default=None)
            if least is None:
                continue
            all_on = sum(k >= least for k in mine) > 1 and all(mine[k] in half for k in mine if k >= least)
            where = f"from the {part} {least} blocks on" if all_on else f"with the {part} {least} blocks"
            said.append(f"The way back takes half of its time or less {where}.")
    return said
