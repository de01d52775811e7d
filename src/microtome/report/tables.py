"""Sections of scores, certificates and costs: small tables, and training losses as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..experiments.table import entry_of
from ..findings.claims.claim import read_claim, read_number
from ..findings.results import Result
from ..findings.words import at_most, between, coverage, number, numbered, over
from .sections import Section, Statement, claim_statement, section, tuned_name

Document = Mapping[str, Any]


def _document_section(
    document: Document,
    *,
    model: str,
    task: str,
    label: str,
    title: str = "",
    kind: str = "scores",
    **content: Any,
) -> Section:
    """A section of a result that is read as a document: its title, and its claims."""
    entry = entry_of(str(document["format"]).split("/")[1])
    name = title or ("" if entry is None else entry.title)
    about = f"{model}{label} on {task}"
    claims = [] if title else [read_claim(claim) for claim in document["claims"]]
    notes = [] if title else document["findings"][len(claims) :]
    return section(
        kind,
        title=f"{name}: {model} on {task}{label}",
        task=task,
        model=model,
        statements=[
            *(claim_statement(claim, about=about) for claim in claims),
            *(Statement(text=str(text)) for text in notes),
        ],
        **content,
    )


def finetune_parts(document: Document, file: str, label: str) -> list[Section]:
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
    evaluation = first["evaluation"]
    names = list(evaluation["scores"])
    failed = ["what happened"] if any(run.get("failure") for run in runs) else []
    rows = [
        [
            str(run["seed"]),
            *(_with_interval(run["evaluation"]["scores"].get(name)) for name in names),
            run["course"]["updates"],
            round(read_number(run["course"]["seconds"])),
            *[run.get("failure") or "" for _ in failed],
        ]
        for run in runs
    ]
    interval = evaluation["score"]
    shared: dict[str, Any] = {
        "model": str(first["model"]),
        "task": str(first["task"]),
        "label": label,
        "file": file,
    }
    scores = _document_section(
        document,
        basis=f"{', '.join(names)} on {evaluation['task']}/{evaluation['split']}; "
        f"n = {evaluation['n']:,} examples; intervals of single seeds: "
        f"{coverage(interval.get('level') or 0.95)} {over(interval.get('unit') or 'example')}; "
        f"recipe {first['recipe']}, {first['train']['examples']:,} training examples",
        columns=["seed", *names, "updates", "seconds", *failed],
        rows=rows,
        **shared,
    )
    losses = {run["seed"]: run["course"]["losses"] for run in runs if run["course"].get("losses")}
    if not losses:
        return [scores]
    course = _document_section(
        document,
        title="Training loss",
        kind="lines",
        basis=f"loss along {first['course']['updates']:,} updates, recipe {first['recipe']}",
        series=[
            {"name": f"seed {seed}", "x": [update for update, _ in line], "y": [loss for _, loss in line]}
            for seed, line in losses.items()
        ],
        x_label="update",
        y_label="loss",
        **shared,
    )
    return [scores, course]


def evaluate_parts(document: Document, file: str, label: str) -> list[Section]:
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
    task, against = str(document["task"]), document.get("against")
    columns = ["score", "value", "majority baseline"]
    rows = [
        [name, _with_interval(score), _plain(document["baseline"].get(name), 3)]
        for name, score in document["scores"].items()
    ]
    if against is not None:
        columns.append(f"{against['model']}")
        for row in rows:
            row.append(_with_interval(against["scores"].get(row[0])))
    return [
        _document_section(
            document,
            model=str(document["model"]),
            task=task,
            label=label,
            basis=f"n = {document['n']:,} examples of {task}/{document['split']}; intervals over examples",
            file=file,
            columns=columns,
            rows=rows,
        )
    ]


def prune_parts(document: Document, file: str, label: str) -> list[Section]:
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
    rows = [
        [
            numbered(test["removed"], "block"),
            _plain(test["cost"]),
            _plain(test["drop"]),
            "" if test["upper"] is None else at_most(read_number(test["upper"])),
            _plain(test["p"], 4),
            "safe" if test["safe"] else "not shown to be safe",
        ]
        for test in document["sequence"]
    ]
    return [
        _document_section(
            document,
            model=tuned_name(str(document["name"]), str(document["task"])),
            task=str(document["task"]),
            label=label,
            basis=f"{document['score']}, in {document['unit']}; margin {document['max_drop']:g} at "
            f"{coverage(document['level'])}, one-sided; {document['scored']:,} cuts scored "
            f"({document['tried']}). {document['chosen_on']}. {document['certified_on']}.",
            file=file,
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
                basis="correlation of the scores of the same orders between two tasks; intervals over orders",
                columns=["tasks", "orders", "Pearson", "Spearman"],
                rows=[
                    [
                        " and ".join(pair["tasks"]),
                        f"{pair['n']} {pair['over']}",
                        *(_with_interval(pair[name], 2) for name in ("pearson", "spearman")),
                    ]
                    for pair in correlations
                ],
                **shared,
            )
        )
    for noun, name in (("distances", "distance_spearman"), ("depths", "depth_spearman")):
        by_length = result.more.get(name)
        if not by_length:
            continue
        lengths = sorted({length for record in by_length.values() for length in record["lengths"]})
        parts.append(
            section(
                "lines",
                title=f"Correlation of {noun} by length: {result.model} on {result.task}{label}",
                basis=f"Spearman correlation, mean over {len(lengths)} lengths from {lengths[0]} to "
                f"{lengths[-1]} words that occur; no intervals",
                series=[
                    {"name": curve, "x": list(range(len(record["mean"]))), "y": record["mean"]}
                    for curve, record in by_length.items()
                ],
                x_label="layer",
                y_label="Spearman correlation",
                **shared,
            )
        )
    return parts


def _with_interval(score: Mapping[str, Any] | None, digits: int = 3) -> str:
    # As many digits as sentences have: a second rounding of the same bounds would look like other numbers.
    value, low, high = (read_number((score or {}).get(name)) for name in ("value", "low", "high"))
    if not math.isfinite(value):
        return "undefined"
    text = number(value, digits)
    return f"{text} {between(low, high, digits)}" if math.isfinite(low) and math.isfinite(high) else text


def _plain(value: Any, digits: int = 2) -> str:
    return "" if value is None else number(read_number(value), digits)
