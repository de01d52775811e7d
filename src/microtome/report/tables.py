"""Sections of scores, certificates and costs: small tables, and training losses as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..findings.results import Result
from ..findings.words import at_most, between, number, numbered
from .sections import Section, section, tuned_name
from .sentences import Statement, doubt, percent
from .verdicts import pruned, tuned, value_of


def finetune_parts(document: Mapping[str, Any], file: str, label: str) -> list[Section]:
    """
    Make the sections of fine-tuning: scores of each seed, and how the losses went.

    Parameters
    ----------
    document : mapping
        Of the format microtome/finetune/1.
    file, label : str
        As in `result_parts`.

    Returns
    -------
    list of Section
    """
    runs = document["runs"]
    first = runs[0]
    model, task = str(first["model"]), str(first["task"])
    evaluation = first["evaluation"]
    names = list(evaluation["scores"])
    failed = any(run.get("failure") for run in runs)
    rows = [
        [
            str(run["seed"]),
            *(_with_interval(run["evaluation"]["scores"].get(name)) for name in names),
            run["course"]["updates"],
            round(value_of(run["course"]["seconds"])),
            *([run.get("failure") or ""] if failed else []),
        ]
        for run in runs
    ]
    interval = evaluation["score"]
    basis = (
        f"{', '.join(names)} on {evaluation['task']}/{evaluation['split']}; "
        f"n = {evaluation['n']:,} examples; intervals of a seed: {percent(interval.get('level') or 0.95)} "
        f"(unit: {interval.get('unit') or 'example'}); "
        f"recipe {first['recipe']}, {first['train']['examples']:,} training examples"
    )
    shared: dict[str, Any] = {"task": task, "model": model, "file": file}
    parts = [
        section(
            "scores",
            title=f"Fine-tuning: {model} on {task}{label}",
            basis=basis,
            statements=tuned(document, f"{model}{label}", task),
            columns=["seed", *names, "updates", "seconds", *(["what happened"] if failed else [])],
            rows=rows,
            **shared,
        )
    ]
    series = [
        {
            "name": f"seed {run['seed']}",
            "x": [update for update, _ in run["course"]["losses"]],
            "y": [loss for _, loss in run["course"]["losses"]],
        }
        for run in runs
        if run["course"].get("losses")
    ]
    if series:
        parts.append(
            section(
                "lines",
                title=f"Training loss: {model} on {task}{label}",
                basis=f"loss along {first['course']['updates']:,} updates, recipe {first['recipe']}",
                statements=[],
                series=series,
                x_label="update",
                y_label="loss",
                **shared,
            )
        )
    return parts


def evaluate_parts(document: Mapping[str, Any], file: str, label: str) -> list[Section]:
    """
    Make the section of an evaluation, with what it was held against.

    Parameters
    ----------
    document : mapping
        Of the format microtome/evaluate/1.
    file, label : str
        As in `result_parts`.

    Returns
    -------
    list of Section
    """
    model, task = str(document["model"]), str(document["task"])
    against = document.get("against")
    columns = ["score", "value", "majority baseline"]
    rows = [
        [name, _with_interval(score), _plain(document["baseline"].get(name), 3)]
        for name, score in document["scores"].items()
    ]
    statements = []
    main = document["score"]
    if math.isfinite(value_of(main.get("value"))):
        text = (
            f"{model}{label} has {number(main['value'], 3)} {main['measure']} on {task}/{document['split']}"
        )
        low, high = value_of(main.get("low")), value_of(main.get("high"))
        sure = math.isfinite(low) and math.isfinite(high)
        if sure:
            unit = str(main.get("unit") or "example")
            text += f" {between(low, high, 3)} {doubt(main.get('level') or 0.95, '', unit)}"
        statements.append(Statement(text=f"{text}.", sure=sure, headline=against is None))
    if against is not None:
        columns.append(f"{against['model']}")
        for row, name in zip(rows, document["scores"], strict=True):
            row.append(_with_interval(against["scores"].get(name)))
        statements += _difference(document, against, f"{model}{label}", task)
    return [
        section(
            "scores",
            title=f"Evaluation: {model} on {task}{label}",
            task=task,
            model=model,
            basis=f"n = {document['n']:,} examples of {task}/{document['split']}; intervals over examples",
            file=file,
            statements=statements,
            columns=columns,
            rows=rows,
        )
    ]


def _difference(
    document: Mapping[str, Any], against: Mapping[str, Any], name: str, task: str
) -> list[Statement]:
    value, low, high = (value_of(against.get(key)) for key in ("difference", "low", "high"))
    if not math.isfinite(value):
        return []
    text = (
        f"On the same {document['n']:,} examples of {task}, {document['score']['measure']} of {name} minus "
        f"that of {against['model']} is {number(value, 3)}"
    )
    if not (math.isfinite(low) and math.isfinite(high)):
        return [Statement(text=f"{text}, without an interval.", headline=True)]
    level = document["score"].get("level") or 0.95
    sure = low > 0 or high < 0
    tail = "" if sure else "; which of the two is higher is not shown"
    text += f" {between(low, high, 3)} {doubt(level, '', 'example')}{tail}."
    return [Statement(text=text, sure=sure, headline=True)]


def prune_parts(document: Mapping[str, Any], file: str, label: str) -> list[Section]:
    """
    Make the section of a pruned model: what was tested in turn, and what it saves.

    Parameters
    ----------
    document : mapping
        Of the format microtome/prune/1.
    file, label : str
        As in `result_parts`.

    Returns
    -------
    list of Section
    """
    model = tuned_name(str(document["name"]), str(document["task"]))
    name = f"{model}{label}"
    rows = [
        [
            numbered(test["removed"], "block"),
            _plain(test["cost"]),
            _plain(test["drop"]),
            "" if test["upper"] is None else at_most(value_of(test["upper"])),
            _plain(test["p"], 4),
            "safe" if test["safe"] else "not shown to be safe",
        ]
        for test in document["sequence"]
    ]
    return [
        section(
            "scores",
            title=f"Pruning: {model} on {document['task']}{label}",
            task=document["task"],
            model=model,
            basis=f"{document['score']}, in {document['unit']}; margin {document['max_drop']:g} at "
            f"{percent(document['level'])}, one-sided; {document['scored']:,} cuts scored "
            f"({document['tried']}). {document['chosen_on']}. {document['certified_on']}.",
            file=file,
            statements=pruned(document, name),
            columns=["without", "cost (choosing)", "drop (certifying)", "at most", "p", "verdict"],
            rows=rows,
        )
    ]


def more_parts(result: Result, file: str, label: str) -> list[Section]:
    """
    Make sections of the small tables that an experiment has beside its curves.

    Parameters
    ----------
    result : Result
    file, label : str
        As in `result_parts`.

    Returns
    -------
    list of Section
        What freezing saves; how tasks agree on orders of blocks; correlations of trees by length.
    """
    shared: dict[str, Any] = {"task": result.task, "model": result.model, "file": file}
    parts = []
    cost = result.more.get("cost")
    if result.experiment == "freezing" and cost:
        ratios = ("backward_ratio", "update_ratio", "memory_ratio")
        parts.append(
            section(
                "scores",
                title=f"What freezing saves: {result.model} on {result.task}{label}",
                basis="measured time, and memory of activations, of an update, relative to nothing frozen",
                statements=[],
                columns=["frozen", "backward pass", "whole update", "memory"],
                rows=[[case["case"], *(_plain(case.get(name)) for name in ratios)] for case in cost],
                **shared,
            )
        )
    correlations = result.more.get("correlations")
    if correlations:
        parts.append(
            section(
                "scores",
                title=f"Do tasks agree on orders of blocks? {result.model}{label}",
                basis="correlation of the scores of the same orders between two tasks; unit: order",
                statements=[],
                columns=["tasks", "orders", "Pearson", "Spearman"],
                rows=[
                    [
                        " and ".join(pair["tasks"]),
                        f"{pair['n']} {pair['over']}",
                        *(
                            _effect({**pair[name], "mean": pair[name]["value"]})
                            for name in ("pearson", "spearman")
                        ),
                    ]
                    for pair in correlations
                ],
                **shared,
            )
        )
    for noun, name in (("distances", "distance_spearman"), ("depths", "depth_spearman")):
        by_length = result.more.get(name)
        if by_length:
            lengths = sorted(
                {length for curve_record in by_length.values() for length in curve_record["lengths"]}
            )
            parts.append(
                section(
                    "lines",
                    title=f"Correlation of {noun} by length: {result.model} on {result.task}{label}",
                    basis=f"Spearman correlation, mean over {len(lengths)} lengths from {lengths[0]} to "
                    f"{lengths[-1]} words that occur; no intervals",
                    statements=[],
                    series=[
                        {
                            "name": curve,
                            "x": list(range(len(curve_record["mean"]))),
                            "y": curve_record["mean"],
                        }
                        for curve, curve_record in by_length.items()
                    ],
                    x_label="layer",
                    y_label="Spearman correlation",
                    **shared,
                )
            )
    return parts


def _with_interval(score: Mapping[str, Any] | None) -> str:
    if score is None or not math.isfinite(value_of(score.get("value"))):
        return "undefined"
    low, high = value_of(score.get("low")), value_of(score.get("high"))
    # As many digits as sentences have: a second rounding of the same bounds would look like other numbers.
    text = number(score["value"], 3)
    return f"{text} {between(low, high, 3)}" if math.isfinite(low) and math.isfinite(high) else text


def _plain(value: Any, digits: int = 2) -> str:
    return "" if value is None else number(value_of(value), digits)


def _effect(effect: Mapping[str, Any]) -> str:
    value, low, high = (value_of(effect.get(key)) for key in ("mean", "low", "high"))
    if not math.isfinite(value):
        return "undefined"
    has_interval = math.isfinite(low) and math.isfinite(high)
    return f"{number(value)} {between(low, high)}" if has_interval else number(value)
