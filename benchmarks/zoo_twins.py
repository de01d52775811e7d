"""Encoders beside their random baselines: tables, sentences and cards, for zoo_scores.py."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo_job import once

MAIN = "stsb"
GRID_SEED = 0


def grid_of(results: Sequence[Mapping[str, Any]], plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of the results of one encoder and task, those that choose its cell."""
    cells = [(rate, epochs, GRID_SEED) for rate in plan["rates"] for epochs in plan["epochs"]]
    return [one for one in results if (one["rate"], one["epochs"], one["seed"]) in cells]


def best(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The best cell of a grid: of those that did not fail, or of all where all did."""
    known = [one for one in results if one.get("score") is not None]
    sound = [one for one in known if one["failure"] is None] or known
    # Of equals the shorter and slower training.
    return max(sound, key=lambda one: (one["score"], -one["epochs"], -one["rate"])) if sound else None


def estimate(values: Sequence[float], level: float = 0.95) -> dict[str, Any]:
    """Mean with Student's interval over seeds."""
    from microtome.inference.scoring import quantile

    found: dict[str, Any] = {"mean": statistics.fmean(values), "low": None, "high": None, "n": len(values)}
    if len(values) > 1:
        arm = quantile(level, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        found |= {"low": found["mean"] - arm, "high": found["mean"] + arm}
    return found


def difference(one: Sequence[float], other: Sequence[float], level: float = 0.95) -> dict[str, Any]:
    """Difference of two means with Welch's interval: seeds of two models are no pairs."""
    from microtome.inference.scoring import quantile

    found: dict[str, Any] = {
        "mean": statistics.fmean(one) - statistics.fmean(other),
        "low": None,
        "high": None,
        "n": min(len(one), len(other)),
    }
    if found["n"] < 2:
        return found
    parts = [(statistics.variance(each) / len(each), len(each) - 1) for each in (one, other)]
    total = sum(part for part, _ in parts)
    shared = sum(part**2 / dof for part, dof in parts)
    freedom = total**2 / shared if shared else min(dof for _, dof in parts)
    arm = quantile(level, freedom) * math.sqrt(total)
    return found | {"low": found["mean"] - arm, "high": found["mean"] + arm}


def scores_of(document: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """
    Set every encoder beside its twin.

    Parameters
    ----------
    document : mapping

    Returns
    -------
    dict
        By encoder and task, what a card takes: `rates` and `epochs` that were tried, `model`, `random` and
        `difference`. Runs that diverged are not averaged; one answer to everything is a score like others.
    """
    plan, found = document["plan"], {}
    for encoder in plan["encoders"]:
        for task in plan["tasks"]:
            sides = [(encoder, False), (plan["twins"][encoder], True)]
            values, cells = [], []
            for name, twin in sides:
                mine = [
                    one
                    for one in document["results"]
                    if (one["encoder"], one["twin"], one["task"]) == (name, twin, task) and "error" not in one
                ]
                grid = grid_of(mine, plan)
                top = best(grid) if len(grid) == len(plan["rates"]) * len(plan["epochs"]) else None
                values.append(
                    [
                        one["score"]
                        for one in mine
                        if top is not None
                        and one["seed"] in plan["seeds"]
                        and (one["rate"], one["epochs"]) == (top["rate"], top["epochs"])
                        and one["score"] is not None
                    ]
                )
                cells.append(None if top is None else {"rate": top["rate"], "epochs": top["epochs"]})
            if not all(values):
                continue
            model, random = (
                estimate(each) | {"best": cell} for each, cell in zip(values, cells, strict=True)
            )
            found.setdefault(encoder, {})[task] = {
                "rates": list(plan["rates"]),
                "epochs": list(plan["epochs"]),
                "model": model,
                "random": random,
                "difference": difference(*values) | {"best": None},
            }
    return found


def clearly(scores: Mapping[str, Mapping[str, Any]]) -> tuple[bool, list[str]]:
    """Whether an encoder clearly beats its twin on the main task and one more, and on which it does."""
    won = [task for task, one in scores.items() if (one["difference"]["low"] or 0.0) > 0]
    return MAIN in won and len(won) > 1, won


def markdown(document: Mapping[str, Any]) -> str:
    """The table, and which encoders clearly beat their twins."""
    found = scores_of(document)
    lines = [
        "| encoder | task | encoder's score | random baseline's | difference "
        "| best rate, epochs | baseline's |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    said = []
    for encoder, scores in found.items():
        for task, one in scores.items():
            cells = [shown(one[name]) for name in ("model", "random", "difference")]
            cells += ["{rate:g}, {epochs:g}".format(**one[name]["best"]) for name in ("model", "random")]
            lines.append(f"| {encoder} | {task} | {' | '.join(cells)} |")
        beats, won = clearly(scores)
        verb = "clearly beats" if beats else "does not clearly beat"
        where = f": the interval lies above 0 on {', '.join(won)}" if won else ": it does on no task"
        said.append(f"- {encoder} {verb} its random baseline{where} ({len(scores)} tasks).")
    plan = document["plan"]
    same = sum(
        str(one.get("failure") or "").startswith("collapsed")
        for one in document["results"]
        if one["seed"] in plan["seeds"]
    )
    machines = ", ".join(dict.fromkeys(one["machine"] for one in document["results"] if "machine" in one))
    note = (
        f"Mean [95 %, t over {len(plan['seeds'])} seeds; Welch's for differences], on the validation split. "
        f"Rates tried: {', '.join(f'{rate:g}' for rate in plan['rates'])}; epochs: "
        f"{', '.join(f'{each:g}' for each in plan['epochs'])}, at most {plan['updates']:,} updates; the best "
        f"cell was chosen with seed {GRID_SEED} on the same split, for encoders and baselines alike. {same} "
        f"of the runs with other seeds gave one answer to everything, and count. {machines}."
    )
    return "\n".join([*lines, "", *said, "", note])


def shown(one: Mapping[str, Any]) -> str:
    """A mean with its interval."""
    if one["low"] is None:
        return f"{one['mean']:.3f}"
    return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def fill_cards(document: Mapping[str, Any], corpus: Path | None, device: str) -> list[str]:
    """
    Write scores, and guesses of held-out text where the corpus is given, into the cards of the encoders.

    Parameters
    ----------
    document : mapping
    corpus : Path, optional
    device : str

    Returns
    -------
    list of str
        What was done.
    """
    from zoo_cards import write_card
    from zoo_judging import judge_guesses

    from microtome.encoders.locations import find_folder
    from microtome.errors import InputError
    from microtome.zoo.shipped import read_card
    from microtome.zoo.text import TOKENIZER, read_text

    scores, said = scores_of(document), []
    kept = (
        "design",
        "seed",
        "license",
        "corpus",
        "steps",
        "tokens",
        "loss",
        "seconds",
        "device",
        "torch",
        "command",
    )
    for name in document["plan"]["encoders"]:
        folder = find_folder(f"zoo:{name}")
        assert folder is not None
        card = read_card(folder)
        held_out = card["held_out"]
        if corpus is not None:
            try:
                tokenizer = (folder / TOKENIZER).read_text(encoding="utf-8")
                text = once(
                    ("text", tokenizer), lambda tokenizer=tokenizer: read_text(corpus, tokenizer=tokenizer)
                )
                found = judge_guesses(folder, text, device=device)
                held_out = {
                    "accuracy": found.accuracy,
                    "n": found.n,
                    "interval": [found.low, found.high],
                    "unigram": found.unigram,
                }
            except InputError as error:
                said.append(f"{name}: held-out text was not judged: {error}")
        told = {each: card[each] for each in kept}
        write_card(folder, **told, held_out=held_out, scores={**card["scores"], **scores.get(name, {})})
        said.append(f"{name}: card filled with {len(scores.get(name, {}))} tasks")
    return said
