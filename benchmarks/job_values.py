"""What is to be compared of a tuned model? A few numbers, from its maps, its blocks and its cuts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from paired_settings import LEAST_ROOM, THIRD, Setting, encoder_parts, flat_from, lost_points

from microtome.findings.blocks import block_structure
from microtome.findings.squares import LEAST_LAYERS, layer_runs, run_pairs, usable_layers

# Rows of the token that stands for the input: the first, or the last of a model that reads left to right.
_ROWS = "cls"


def settings_of(documents: Iterable[Mapping[str, Any]]) -> tuple[list[Setting], list[str]]:
    """
    Take the numbers of every tuned model.

    Parameters
    ----------
    documents : iterable of mapping
        What `benchmarks/zoo_job.py` writes, a job each.

    Returns
    -------
    settings : list of Setting
        One a seed whose training went well.
    left_out : list of str
        The others, and why.

    Notes
    -----
    What a cut costs is undefined where a model is hardly better than the most frequent answer: nothing is
    there to be lost.
    """
    found, bad = [], {}
    for one in documents:
        for run in one["runs"]:
            if run["failure"] is not None:
                bad.setdefault((_named(one["job"]), run["failure"]), []).append(str(run["seed"]))
                continue
            values = _of_map(one, str(run["seed"])) | _of_cuts(one, str(run["seed"]))
            values["score"] = one["score"]["points"] * _number(run["score"])
            found.append(_setting(one["job"], run["seed"], values))
    return found, [f"{name}, seed {', '.join(seeds)}: {why}" for (name, why), seeds in bad.items()]


def seed_pairs_of(documents: Iterable[Mapping[str, Any]]) -> list[Setting]:
    """
    Take the blocks of maps of two seeds, one setting for each two whose trainings went well.

    Parameters
    ----------
    documents : iterable of mapping

    Returns
    -------
    list of Setting
        `repeated` is whether the map of two seeds has a block, defined where each seed has one of its own.
    """
    found = []
    for one in documents:
        sound = {str(run["seed"]) for run in one["runs"] if run["failure"] is None}
        maps = one["maps"][_ROWS]
        for pair, joint in maps.get("ft-ft2", {}).items():
            first, second = pair.split("|")
            if {first, second} <= sound:
                values = block_values(_array(joint["values"]), two_stacks=True)
                own = [
                    block_values(_array(maps["ft-ft"][seed]["values"]))["block"] for seed in (first, second)
                ]
                values["repeated"] = values["block"] if min(own) > 0 else math.nan
                found.append(_setting(one["job"], pair, values))
    return found


def encoder_pairs_of(documents: Iterable[Mapping[str, Any]], sound: Sequence[Setting]) -> list[Setting]:
    """
    Take the blocks of maps of two encoders that were tuned alike.

    Parameters
    ----------
    documents : iterable of mapping
        What `benchmarks/zoo_job.py` writes of encoders side by side; those without maps are left out.
    sound : sequence of Setting
        Models whose trainings went well.

    Returns
    -------
    list of Setting
        The design is both names with a bar between them. Two pretrainings of one design are no pair.
    """
    known = {(s.design, s.draw, s.head, s.task, s.rate, str(s.seed)) for s in sound}
    found = []
    for one in documents:
        told = one["across"]
        for seed, maps in one.get("maps", {}).items():
            for pair, joint in maps.items():
                (left, first), (right, second) = (encoder_parts(name) for name in pair.split("|"))
                rest = (told["head"], told["task"], told["rate"], seed)
                if left == right or not {(left, first, *rest), (right, second, *rest)} <= known:
                    continue
                job = {**told, "encoder": "|".join(sorted((left, right)))}
                values = block_values(_array(joint["values"]), two_stacks=True)
                found.append(_setting(job, f"{first}{second}/{seed}", values))
    return found


def originals_of(documents: Iterable[Mapping[str, Any]]) -> list[Setting]:
    """Take the maps of encoders before tuning, once a task: heads, rates and seeds do not change them."""
    found: dict[tuple[str, str], Setting] = {}
    for one in documents:
        job = one["job"]
        key = (job["encoder"], job["task"])
        if key in found:
            continue
        square = _array(one["maps"][_ROWS]["orig-orig"]["orig"]["values"])
        i, j = np.triu_indices(len(square), 1)
        values = {
            "adjacent": _mean(np.diagonal(square, 1)),
            "decay": _falls(j - i, square[i, j]),
            **block_values(square),
        }
        found[key] = _setting({**job, "head": "", "rate": 0.0}, 0, values)
    return list(found.values())


def block_values(square: np.ndarray, *, two_stacks: bool = False) -> dict[str, float]:
    """
    The blocks of a map in numbers, by point estimates.

    Parameters
    ----------
    square : ndarray of shape (layers, layers)
        Its first layer is layer 1.
    two_stacks : bool
        As in `block_structure`.

    Returns
    -------
    dict of str to float
        See `VALUES`; all NaN where blocks are undefined.
    """
    names = ("margin", "second_margin", "block", "two_blocks", "sharpness", "top_block")
    used, _ = usable_layers(square)
    if len(used) <= LEAST_LAYERS or (two_stacks and not np.isfinite(np.diagonal(square)).all()):
        return dict.fromkeys(names, math.nan)
    margins = _run_margins(square[np.ix_(used, used)], two_stacks)
    two = (min(margins[a], margins[b]) for a in margins for b in margins if a[1] < b[0])
    second = max(two, default=math.nan)
    largest = max(margins.values())
    finding = block_structure(square, two_stacks=two_stacks)
    holding = [block for block in finding.blocks if block.last == used[-1]]
    return {
        "margin": largest,
        "second_margin": second,
        "block": float(bool(finding.blocks)),
        "two_blocks": float(second > 0),
        "sharpness": largest if finding.blocks else math.nan,
        "top_block": holding[0].first + 1.0 if holding else math.nan,
    }


def _of_map(one: Mapping[str, Any], seed: str) -> dict[str, float]:
    maps, depth = one["maps"][_ROWS], one["layers"]
    own, before = (_array(maps[what][seed]["values"]) for what in ("ft-ft", "ft-orig"))
    third = max(2, depth // THIRD)
    i, j = np.triu_indices(third, 1)
    best = _best(before)
    return {
        **block_values(own),
        "top": _mean(own[depth - third :, depth - third :][i, j]),
        "penultimate": float(own[-2, -1]),
        "early_match": _mean(best[: depth // THIRD]),
        "late_match": _mean(best[depth - depth // THIRD :]),
    }


def _of_cuts(one: Mapping[str, Any], seed: str) -> dict[str, float]:
    scores, depth = one["truncation"]["scores"], one["layers"]
    how = {"points": one["score"]["points"], "higher_is_better": one["score"]["higher_is_better"]}
    sign = how["points"] * (1.0 if how["higher_is_better"] else -1.0)

    def curve(name: str, run: str) -> list[float]:
        return [_number(value) for value in scores[name][run]]

    untuned, tuned = curve("UNTUNED", seed), curve("TUNED", seed)
    room = sign * (untuned[-1] - _number(one["guess"]))
    if not room >= LEAST_ROOM:
        return {}
    third = depth - 1 - max(1, depth // THIRD)
    lost, lost_tuned = lost_points(untuned, **how), lost_points(tuned, **how)
    before = next(iter(scores["TUNEDORIG converged"]))
    gains = sign * (np.array(curve("TUNED converged", seed)) - curve("TUNEDORIG converged", before))
    return {
        "cost_third": float(lost[third]),
        "share_2": float(lost[-3] / room),
        "flat_from": flat_from(untuned, **how),
        "tuned_2": float(lost_tuned[-3]),
        "gain_third": sign * (tuned[third] - untuned[third]),
        "readout_least": float(gains.min()) if np.isfinite(gains).all() else math.nan,
    }


def _setting(job: Mapping[str, Any], seed: int | str, values: Mapping[str, float]) -> Setting:
    design, draw = encoder_parts(job["encoder"])
    return Setting(
        design=design,
        draw=draw,
        head=job["head"],
        task=job["task"],
        rate=job["rate"],
        seed=seed,
        values=values,
    )


def _named(job: Mapping[str, Any]) -> str:
    return f"{job['encoder']}, {job['head']}, {job['task']}, rate {job['rate']:g}"


def _best(square: np.ndarray) -> np.ndarray:
    """The largest similarity of each layer; NaN where it has none."""
    there = np.isfinite(square)
    return np.where(there.any(1), np.where(there, square, -np.inf).max(1), np.nan)


def _falls(distance: np.ndarray, similarity: np.ndarray) -> float:
    from span_validity import rank_correlation

    there = np.isfinite(similarity)
    return rank_correlation(distance[there].astype(float), similarity[there])


def _mean(values: np.ndarray) -> float:
    there = np.isfinite(values)
    return float(values[there].mean()) if there.any() else math.nan


def _array(values: Sequence[Sequence[float | None]]) -> np.ndarray:
    return np.array([[_number(one) for one in row] for row in values])


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _run_margins(values: np.ndarray, two_stacks: bool) -> dict[tuple[int, int], float]:
    """Margin of every run of at least three layers over the layers around it, by its first and last layer."""
    cells, margins = values.ravel(), {}
    for members, run in layer_runs(len(values), 0):
        inside, outside = run_pairs(len(values), members, run, two_stacks)
        margins[run] = float(cells[inside].min() - cells[outside].max())
    return margins
