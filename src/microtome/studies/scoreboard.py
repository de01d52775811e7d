"""The scoreboard of a study: its claims, judged by its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import must
from ..findings.words import counted, listed
from ..store.files import as_written
from ..store.outfolder import RESULT
from .board import ALL, Row, Scoreboard, Verdict
from .board import open_scoreboard as open_scoreboard
from .claims import ClaimSet, StudyClaim, read_claims, shipped_claims
from .results import StudyResult, StudyResults
from .statistics.table import STATISTICS
from .statistics.values import BASELINE, Coverage, Measured, Value, difference

LEAST_MODELS = 3


def scoreboard(results: StudyResults, level: float = 0.95) -> Scoreboard:
    """
    Hold the results of a study against its claims.

    Parameters
    ----------
    results : StudyResults
        Claims are those of the study, or of its paper.
    level : float
        Coverage of intervals.

    Returns
    -------
    Scoreboard
    """
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    source = results.claims or (results.paper if results.paper in shipped_claims() else ())
    about = {"name": results.name, "title": results.title, "level": level}
    if not source:
        return Scoreboard(**about)
    claims = read_claims(source)
    refused = _refusal(results)
    rows = [row for claim in claims.claims for row in _rows(claim, claims, results, Coverage(level), refused)]
    return Scoreboard(
        source=claims.name, version=claims.version, digest=claims.digest, rows=tuple(rows), **about
    )


def judge(low: float, high: float, least: float, most: float) -> Verdict:
    """
    Decide a claim by an interval: the whole of it must lie between the bounds, or outside of them.

    Examples
    --------
    >>> judge(0.6, 0.9, 0.5, math.inf), judge(0.1, 0.4, 0.5, math.inf), judge(0.4, 0.6, 0.5, math.inf)
    ('holds', 'does not hold', 'inconclusive')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return "inconclusive"
    if least > most:
        # Outside of both.
        verdict = judge(low, high, most, least)
        return "holds" if verdict == "does not hold" else "does not hold" if verdict == "holds" else verdict
    if least <= low and high <= most:
        return "holds"
    return "does not hold" if high < least or low > most else "inconclusive"


def _rows(
    claim: StudyClaim,
    claims: ClaimSet,
    results: StudyResults,
    over: Coverage,
    refused: Callable[[StudyResult], str],
) -> list[Row]:
    """A row for each model that the claim is about, and one over models."""
    tables = _of(results, claims.expand([claim.experiment]))
    at_once = len(tables) and not any(result.model for result in tables)
    models = ("",) if at_once else results.models
    if claim.models and not at_once:
        models = [name for name in models if name in claims.expand(claim.models)]
    rivals = [name for name in claims.expand(claim.against) if name in results.models]
    tasks = tuple(name for name in claims.expand(claim.tasks) if name in results.tasks)
    absent = {
        f"model that stands for {', '.join(claim.models)}": not models,
        f"model that stands for {', '.join(claim.against)}": claim.against and not rivals,
        f"task that stands for {', '.join(claim.tasks)}": claim.tasks and results.tasks and not tasks,
    }
    for what, is_absent in absent.items():
        if is_absent:
            missing = Measured(note=f"the study has no {what}")
            return [_row(claim, model, missing) for model in models or ("",)]
    tables = tables.select(task=(*tasks, "")) if tasks else tables
    beside = _of(results, claims.expand([claim.beside]))
    statistic = STATISTICS[claim.statistic]

    def values(model: str) -> tuple[list[Value], list[str]]:
        refuse = (lambda _: "") if claim.untrained else refused
        return statistic.values(tables.select(model=model), claim.arguments, refuse, beside)

    rows = []
    for model in models:
        measured, reasons = values(model)
        if rivals:
            others, further = values(rivals[0])
            by_task, reasons = {value.task: value for value in others}, [*reasons, *further]
            measured = [difference(v, by_task[v.task]) for v in measured if v.task in by_task]
        if not measured and not reasons:
            reasons = [_absence(results, claims.expand([claim.experiment]), [model, *rivals[:1]], tasks)]
        note = "; ".join(dict.fromkeys(reasons))
        rows.append(_row(claim, model, over.over_tasks(measured, share=statistic.share, note=note)))
    return [*rows, _over_models(claim, rows, over)] if len(rows) > 1 else rows


def _absence(results: StudyResults, names: Sequence[str], models: Sequence[str], tasks: Sequence[str]) -> str:
    """Why there is no result: no such table, one that leaves models or tasks out, or nothing run yet."""
    tables = {n: t for n, t in results.experiments.items() if n in names or t["verb"] in names}
    if results.experiments and not tables:
        return f"the study has no experiment {' or '.join(names)}"
    for name, table in tables.items():
        absent = [model for model in models if model and model not in table["models"]]
        absent += [] if set(tasks or table["tasks"]) & set(table["tasks"]) else tasks
        if absent:
            place = name if name == "finetune" else f"experiments.{name}"
            quoted = listed([f'"{name}"' for name in absent])
            return f"the study's table [{place}] leaves out {quoted}"
    return f"there is no result of {' or '.join(names)}"


def _of(results: StudyResults, names: Sequence[str]) -> StudyResults:
    """The results of the first of some tables that has any, or of the verbs of these names."""
    tables = (results.select(table=name) for name in names)
    return next(filter(len, tables), results.select(verb=tuple(names)))


def _row(claim: StudyClaim, model: str, measured: Measured) -> Row:
    if not math.isfinite(measured.value):
        return Row(claim=claim, model=model, measured=measured, verdict="not run")
    verdict = judge(measured.low, measured.high, claim.least, claim.most)
    return Row(claim=claim, model=model, measured=measured, verdict=verdict)


def _over_models(claim: StudyClaim, rows: Sequence[Row], over: Coverage) -> Row:
    """The mean over models with its interval; of fewer than three, what their verdicts have in common."""
    run = [row for row in rows if row.verdict != "not run"]
    verdicts: list[Verdict] = [row.verdict for row in run]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
    note = f"of {counted(len(run), 'model')}: {', '.join(counts)}" if run else "no model was run"
    shared: dict[str, Any] = {
        "n": min((row.measured.n for row in run), default=0),
        "seeds": min((row.measured.seeds for row in run), default=0),
        "tasks": tuple(dict.fromkeys(task for row in run for task in row.measured.tasks)),
        "note": note,
    }
    if len(run) >= LEAST_MODELS:
        values = [row.measured.value for row in run]
        low, high = over.mean(values)
        return _row(
            claim, ALL, Measured(value=float(np.mean(values)), low=low, high=high, unit="model", **shared)
        )
    verdict: Verdict = "inconclusive" if run else "not run"
    if len(set(verdicts)) == 1:
        verdict = verdicts[0]
    return Row(claim=claim, model=ALL, measured=Measured(**shared), verdict=verdict)


def _refusal(results: StudyResults) -> Callable[[StudyResult], str]:
    """Why nothing is concluded from a result: its models do not beat the majority baseline."""
    margins: dict[tuple[str, str], list[float]] = {}
    for result in results.select(verb="finetune"):
        with as_written(result.folder / RESULT):
            for run in result.document.get("runs", ()):
                margin = _above_baseline(run.get("evaluation") or {})
                if math.isfinite(margin):
                    margins.setdefault((result.model, result.task), []).append(margin)

    def refused(result: StudyResult) -> str:
        # A result of several models or tasks rests on all of them.
        weak = any(
            np.mean(some) <= 0
            for (model, task), some in margins.items()
            if result.model in ("", model) and result.task in ("", task)
        )
        return BASELINE if weak and result.verb != "finetune" else ""

    return refused


def _above_baseline(evaluation: Mapping[str, Any]) -> float:
    """How far the worse end of a score is above the majority baseline; NaN where one is not known."""
    from ..scores.table import find_score

    score, baseline = evaluation.get("score"), evaluation.get("baseline") or {}
    if not score or score["measure"] not in baseline:
        return math.nan
    higher = find_score(score["measure"]).higher_is_better
    end = score.get("low" if higher else "high")
    end = score["value"] if end is None else end
    margin = end - baseline[score["measure"]]
    return float(margin if higher else -margin)
