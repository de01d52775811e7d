"""What do all jobs of zoo_question.py say together? Tables and sentences, composed from the numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from job_files import fill_marks, read_jobs
from job_values import (
    block_values,
    encoder_pairs_of,
    originals_of,
    seed_pairs_of,
    settings_of,
)
from paired_settings import VALUES, Effect, Setting, block_and_cut, encoder_parts, mean_effect
from phang_claims import COMPARED, answer, claims, effects, pick, said

from microtome.findings.blocks import block_structure
from microtome.findings.words import number

FORMAT = "microtome/zoo-question/1"
MARKS = ("answers", "learned", "claims", "effects", "scores", "blocks", "profiles", "truncation", "runs")
LEARNED = 2.0  # points above the most frequent answer
SHOWN = ("margin", "second_margin", "block", "top", "penultimate", "cost_third", "flat_from", "score")
# Encoders and heads as the published ones had them, and the one that tells head from objective.
PUBLISHED = (("masked", "cls2"), ("shared", "cls2"), ("replaced", "cls1"), ("replaced", "cls2"))
QUESTIONS = (
    ("Do blocks depend on the objective?", "objective: replaced tokens minus masked"),
    ("Does scoring every token make the difference?", "objective: masked scored on every token minus masked"),
    ("Do blocks depend on the head?", "head: 2 dense stages minus 1"),
    ("Do blocks depend on what the head reads?", "head: mean minus first token"),
    ("Do blocks depend on the sharing of layers?", "sharing: one block minus twelve"),
    ("Is there a difference between the encoders as published?", COMPARED[8][0]),
    ("Is there one of the objective alone, under equal heads?", COMPARED[9][0]),
    ("Is there one of the head alone, on the same encoder?", COMPARED[10][0]),
)


def read(place: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read all jobs of a folder or a file, and what was compared across encoders."""
    # A page says the same of a run and of what is kept of it, to the last digit.
    found = [slim(one) for one in read_jobs(place, FORMAT).values()]
    return [one for one in found if "job" in one], [one for one in found if "across" in one]


def slim(document: Mapping[str, Any]) -> dict[str, Any]:
    """
    What is kept of a job for good.

    Of its maps the values, and how far intervals of cells reach, in the median and at most; blocks follow
    from them.
    """

    def without(value: Any) -> Any:
        if isinstance(value, Mapping):
            found = {name: without(each) for name, each in value.items() if name not in ("low", "high")}
            if "low" in value:
                reach = (_array(value["high"]) - _array(value["low"])) / 2
                found["reach"] = [round(float(v), 3) for v in (np.nanmedian(reach), np.nanmax(reach))]
            return found
        if isinstance(value, list):
            return [without(each) for each in value]
        return round(value, 3) if isinstance(value, float) else value

    kept = {name: value for name, value in document.items() if name not in ("maps", "blocks")}
    return kept | {"maps": without(document.get("maps", {}))}


def fill(folder: Path, page: Path | None = None) -> str:
    """
    Make all tables of a run, and put them between the marks of a page.

    Parameters
    ----------
    folder : Path
        With the files of the jobs.
    page : Path, optional

    Returns
    -------
    str
        All of them.
    """
    from microtome.errors import InputError

    documents, crossed = read(folder)
    if not documents:
        raise InputError(f"{folder} must hold finished jobs, but it has none.")
    found = tables(documents, crossed)
    if page is not None:
        fill_marks(page, found)
    return "\n\n".join(found.values())


def tables(documents: Sequence[Mapping[str, Any]], crossed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """All tables by the name of their mark."""
    settings, left_out = settings_of(documents)
    checked = claims(
        settings,
        originals=originals_of(documents),
        seed_pairs=seed_pairs_of(documents),
        encoder_pairs=encoder_pairs_of(crossed, settings),
    )
    found = effects(settings, SHOWN)
    return {
        "answers": "\n".join(f"- {one}" for one in answers(settings, found)),
        "learned": learned_answers(documents),
        "claims": claims_table(checked),
        "effects": effects_table(found),
        "scores": scores_table(documents, settings),
        "blocks": blocks_table(documents),
        "profiles": profiles_table(documents),
        "truncation": truncation_table(documents),
        "runs": runs_text(documents, left_out),
    }


def learned_answers(documents: Sequence[Mapping[str, Any]]) -> str:
    """The same questions, asked of the tasks alone that were learned."""
    names = sorted({one["job"]["task"] for one in documents})
    # Among many settings one is above a guess by chance, so half of them have to be.
    shares = {
        name: np.mean([_learned(one) for one in documents if one["job"]["task"] == name]) for name in names
    }
    tasks = [name for name in names if shares[name] >= 0.5]
    if not tasks or tasks == names:
        return f"Tasks that were learned: {'all' if tasks else 'none'}."
    settings, _ = settings_of([one for one in documents if one["job"]["task"] in tasks])
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    return "\n".join(
        [
            f"Settings at least {LEARNED:g} points above the majority baseline: {told}. Where it is half "
            f"of them, a task counts as learned: {', '.join(tasks)}.",
            "",
            *(f"- {one}" for one in answers(settings, effects(settings, SHOWN))),
        ]
    )


def _learned(document: Mapping[str, Any]) -> bool:
    """Whether the models of a job are on average above the most frequent answer, as cuts ask it of them."""
    mean = np.mean([run["score"] for run in document["runs"]])
    return bool(document["score"]["points"] * (mean - document["guess"]) >= LEARNED)


def answers(settings: Sequence[Setting], found: Mapping[str, Mapping[str, Effect]]) -> list[str]:
    """The questions, each with its answer in numbers."""
    out = []
    for question, name in QUESTIONS:
        if name in found:
            out.append(answer(question, name, found[name]["margin"], "largest margin"))
    for name in found:
        if name.startswith("rate"):
            question = "Do blocks depend on the learning rate?"
            out.append(answer(question, name, found[name]["margin"], "largest margin"))
    for design in dict.fromkeys(one.design for one in settings):
        mine = pick(settings, (design,))
        shares = [mean_effect(mine, value, scale=100.0) for value in ("block", "two_blocks")]
        if shares[0].n:
            out.append(
                f"{design}: {number(shares[0].value, 0)} % of the models have a block of layers, "
                f"{number(shares[1].value, 0)} % two or more separate ones, mean of {shares[0].tasks} tasks "
                f"({shares[0].n} models); largest margin {said(mean_effect(mine, 'margin'))}, on these tasks "
                f"alone {said(mean_effect(mine, 'margin'), here=True)}."
            )
    follows = block_and_cut(settings)
    if math.isfinite(follows.value):
        band = f" [{number(follows.low)}, {number(follows.high)}]" if math.isfinite(follows.low) else ""
        out.append(
            f"Does truncation follow the blocks? Over {follows.n} settings of {follows.tasks} tasks in which "
            "a block holds the last layer, the rank correlation of its first layer and the layer from which "
            f"UNTUNED loses less than 1 point is {number(follows.value)}{band}; the latter lies "
            f"{said(follows.distance, 1)} layers above."
        )
    return out


def claims_table(checked: Sequence[Any]) -> str:
    """One line a claim and number."""
    lines = [
        "| claim | what is claimed | over tasks | on these tasks | number | bound | over tasks, 95 % | "
        "on these tasks, 95 % | n | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in checked:
        for place, part in enumerate(one.parts):
            head = [one.name, one.text, one.verdict, one.verdict_here] if place == 0 else ["", "", "", ""]
            bound = f"{part.side} {part.bound:g}"
            shown = [said(part.effect, part.digits), said(part.effect, part.digits, here=True)]
            counts = [str(part.effect.n), str(part.effect.tasks)]
            lines.append(f"| {' | '.join([*head, part.what, bound, *shown, *counts])} |")
    return "\n".join(lines)


def effects_table(found: Mapping[str, Mapping[str, Effect]]) -> str:
    """One line a comparison, a column a value; first over tasks, then on these tasks alone."""
    parts = []
    for here, title in ((False, "Over tasks"), (True, "On these tasks alone")):
        lines = [
            f"**{title}**",
            "",
            f"| comparison | pairs | {' | '.join(VALUES[name] for name in SHOWN)} |",
            f"| --- | --- |{' --- |' * len(SHOWN)}",
        ]
        for name, told in found.items():
            cells = [
                said(told[value], 1 if value in ("score", "cost_third") else 2, here=here) for value in SHOWN
            ]
            pairs = max(effect.n for effect in told.values())
            lines.append(f"| {name} | {pairs} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def scores_table(documents: Sequence[Mapping[str, Any]], settings: Sequence[Setting]) -> str:
    """Mean score of each encoder and head, a column a task; over rates, pretrainings and seeds."""
    tasks = list(dict.fromkeys(one["job"]["task"] for one in documents))
    guesses = {one["job"]["task"]: one["score"]["points"] * (one["guess"] or 0.0) for one in documents}
    lines = [
        f"| encoder | head | rate | {' | '.join(tasks)} |",
        f"| --- | --- | --- |{' --- |' * len(tasks)}",
    ]
    lines.append(f"| majority baseline | | | {' | '.join(number(guesses[task], 1) for task in tasks)} |")
    for design, head, rate in dict.fromkeys((s.design, s.head, s.rate) for s in settings):
        cells = []
        for task in tasks:
            mine = [s for s in settings if (s.design, s.head, s.rate, s.task) == (design, head, rate, task)]
            effect = mean_effect(mine, "score")
            cells.append(said(effect, 1, here=True))
        lines.append(f"| {design} | {head} | {rate:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def blocks_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Blocks of each encoder, head and rate: one line each, a column a task."""
    tasks = list(dict.fromkeys(one["job"]["task"] for one in documents))
    cells: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for one in documents:
        job = one["job"]
        for kind, maps in one["maps"].items():
            design = encoder_parts(job["encoder"])[0]
            place = cells.setdefault((design, job["head"], kind, job["rate"]), {})
            sound = {str(run["seed"]) for run in one["runs"] if run["failure"] is None}
            squares = [_array(each["values"]) for seed, each in maps["ft-ft"].items() if seed in sound]
            place.setdefault(job["task"], []).extend(squares)
    lines = [
        f"| encoder | head | rows | rate | {' | '.join(tasks)} |",
        f"| --- | --- | --- | --- |{' --- |' * len(tasks)}",
    ]
    for (design, head, kind, rate), by_task in cells.items():
        shown = " | ".join(_blocks_of(by_task.get(task, [])) for task in tasks)
        lines.append(f"| {design} | {head} | {kind} | {rate:g} | {shown} |")
    return "\n".join(lines)


def _blocks_of(squares: Sequence[np.ndarray]) -> str:
    """Mean of the largest margins over seeds, and the largest blocks with how many seeds have them."""
    if not squares:
        return ""
    margin = float(np.mean([block_values(square)["margin"] for square in squares]))
    counts: Counter[str] = Counter(
        f"{block.first + 1}-{block.last + 1}"
        for square in squares
        for block in block_structure(square).blocks
    )
    listed = ", ".join(
        f"{name} ({count} of {len(squares)})" for name, count in sorted(counts.items(), key=_by_layer)
    )
    return f"{number(margin)}; {listed}" if listed else number(margin)


def _by_layer(item: tuple[str, int]) -> list[int]:
    return [int(layer) for layer in item[0].split("-")]


def profiles_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Similarity of the last layer with each layer, and of each tuned layer with itself before tuning."""
    depth = max(one["layers"] for one in documents)
    rows: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for one in documents:
        design = encoder_parts(one["job"]["encoder"])[0]
        for run in one["runs"]:
            if run["failure"] is None and one["layers"] == depth:
                maps, seed = one["maps"]["cls"], str(run["seed"])
                own, before = (_array(maps[name][seed]["values"]) for name in ("ft-ft", "ft-orig"))
                key = design, one["job"]["head"]
                rows.setdefault((*key, "with the last"), []).append(own[-1])
                rows.setdefault((*key, "with itself before"), []).append(np.diagonal(before))
    head = " | ".join(str(layer) for layer in range(1, depth + 1))
    lines = [f"| encoder | head | layer | {head} |", f"| --- | --- | --- |{' --- |' * depth}"]
    for (design, name, what), values in rows.items():
        table = np.array(values)
        there = np.isfinite(table)
        means = np.where(there.any(0), np.where(there, table, 0).sum(0) / np.maximum(there.sum(0), 1), np.nan)
        lines.append(f"| {design} | {name} | {what} | {' | '.join(number(float(v)) for v in means)} |")
    return "\n".join(lines)


def truncation_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Scores of every cut of the first pretraining at the first rate, with intervals, a table a task."""
    parts = []
    rates = list(dict.fromkeys(one["job"]["rate"] for one in documents))
    for task in dict.fromkeys(one["job"]["task"] for one in documents):
        mine = {
            (one["job"]["encoder"], one["job"]["head"]): one
            for one in documents
            if one["job"]["task"] == task and one["job"]["rate"] == max(rates)
        }
        shown = [mine[key] for key in PUBLISHED if key in mine]
        if not shown:
            continue
        x = shown[0]["truncation"]["x"]
        lines = [
            f"**{task}** ({shown[0]['score']['name']}, {shown[0]['n']:,} examples, rate {max(rates):g})",
            "",
            f"| encoder | head | arm | {' | '.join(map(str, x))} |",
            f"| --- | --- | --- |{' --- |' * len(x)}",
        ]
        for one in shown:
            for arm in ("UNTUNED", "TUNED", "TUNED converged", "TUNEDORIG converged"):
                curve = one["truncation"]["curves"].get(arm)
                if curve is not None:
                    cells = " | ".join(_score_of_cut(curve, place) for place in range(len(x)))
                    lines.append(f"| {one['job']['encoder']} | {one['job']['head']} | {arm} | {cells} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _score_of_cut(curve: Mapping[str, Any], place: int) -> str:
    value, low, high = (curve[name][place] for name in ("values", "low", "high"))
    if value is None:
        return ""
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def runs_text(documents: Sequence[Mapping[str, Any]], left_out: Iterable[str]) -> str:
    """How much was run, where, and what failed."""
    runs = sum(len(one["runs"]) for one in documents)
    updates = sum(run["updates"] for one in documents for run in one["runs"])
    machines = ", ".join(dict.fromkeys(one["machine"] for one in documents))
    told = documents[0]["options"]
    alike = ", examples of like length together" if told.get("bucket") else ""
    lines = [
        f"{len(documents)} jobs, {runs} fine-tunings of {updates:,} updates in all: recipe devlin2019 in "
        f"{told['precision']}, batches of {told['batch']}, {told['epochs']:g} epochs and at most "
        f"{told['updates']:,} updates{alike}; heads learned from at most {told['train_size']:,} examples. "
        f"{machines}."
    ]
    bad = sum(run["failure"] is not None for one in documents for run in one["runs"])
    if bad:
        lines += ["", f"Left out, {bad} of {runs} models:", "", *(f"- {one}" for one in left_out)]
    return "\n".join(lines)


def _array(values: Sequence[Sequence[float | None]]) -> np.ndarray:
    return np.array([[math.nan if one is None else one for one in row] for row in values])
