"""Statements on trained and on pruned models: scores over seeds, and what a cut loses at most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..findings.words import amount, at_most, between, number, numbered, p_value
from ..inference.baselines import Standing
from .sentences import Statement, doubt, percent

# A p-value is only printed where the verdict rests on it.
_LEVEL = 0.95


def value_of(entry: Any) -> float:
    """A number of a file; NaN for null."""
    return math.nan if entry is None else float(entry)


def tuned(document: Mapping[str, Any], name: str, task: str) -> list[Statement]:
    """
    Say what fine-tuning reached, over seeds or on the examples of one.

    Parameters
    ----------
    document : mapping
        Of the format microtome/finetune/1.
    name, task : str

    Returns
    -------
    list of Statement
    """
    runs, mean = document["runs"], document["mean"]
    sound = [run for run in runs if run.get("failure") is None]
    guess = _guess(runs)
    statements = []
    if len(sound) > 1 and value_of(mean.get("value")) == value_of(mean.get("value")):
        low, high = value_of(mean.get("low")), value_of(mean.get("high"))
        text = (
            f"{name} fine-tuned on {task}: {mean['measure']} {number(mean['value'], 3)} (mean of "
            f"{mean['n']} seeds)"
        )
        if low == high:
            # Seeds that agree to the last digit tell no spread, and an interval without width no doubt.
            text, low, high = f"{text}, all of them with the same score", math.nan, math.nan
        text, sure = _against(text, low, high, mean.get("level"), "t over seeds", "seed", guess)
        statements.append(Statement(text=text, sure=sure, headline=True))
    elif len(sound) == 1:
        score = sound[0]["evaluation"]["score"]
        low, high = value_of(score.get("low")), value_of(score.get("high"))
        value = value_of(score.get("value"))
        if math.isfinite(value):
            text = f"{name} fine-tuned on {task}: {score['measure']} {number(value, 3)} with one seed"
            unit = str(score.get("unit") or "example")
            text, sure = _against(text, low, high, score.get("level"), "", unit, guess)
            note = " Other seeds are not covered."
            statements.append(Statement(text=f"{text}{note}", sure=sure, headline=True))
    if len(sound) < len(runs):
        failures = [f"seed {run['seed']}: {run['failure']}" for run in runs if run.get("failure") is not None]
        subject = "The only run" if len(runs) == 1 else f"{len(failures)} of {len(runs)} runs"
        text = f"{subject} of {name} on {task} failed ({'; '.join(failures)})."
        statements.insert(0, Statement(text=text, sure=True, headline=not sound))
    return statements


def _guess(runs: Sequence[Mapping[str, Any]]) -> float:
    """The majority baseline in the task's score; NaN where it is not known."""
    for run in runs:
        evaluation = run["evaluation"]
        baselines = [value_of(evaluation["baseline"].get(name)) for name in evaluation.get("main", [])]
        if baselines and all(math.isfinite(baseline) for baseline in baselines):
            return sum(baselines) / len(baselines)
    return math.nan


def _against(
    text: str, low: float, high: float, level: Any, what: str, unit: str, guess: float
) -> tuple[str, bool]:
    """Add the interval, and on which side of it a guess lies."""
    has_interval = math.isfinite(low) and math.isfinite(high)
    if has_interval:
        text += f" {between(low, high, 3)} {doubt(value_of(level or _LEVEL), what, unit)}"
    else:
        text += ", without an interval"
    if not math.isfinite(guess):
        return f"{text}.", has_interval
    baseline = number(guess, 3)
    if not has_interval:
        return f"{text}; the majority baseline is {baseline}.", False
    if low <= guess <= high:
        return f"{text}, not significantly different from the majority baseline, {baseline}.", False
    side = "above" if guess < low else "below"
    return f"{text}, {side} the majority baseline, {baseline}.", True


def pruned(document: Mapping[str, Any], name: str) -> list[Statement]:
    """
    Say which blocks can be removed, and what is lost at most; or that none can.

    Parameters
    ----------
    document : mapping
        Of the format microtome/prune/1.
    name : str

    Returns
    -------
    list of Statement
    """
    points = 100.0 if document["unit"] == "points" else 1.0
    comparison, task = document.get("comparison"), document["task"]
    if comparison is not None and not comparison["safe"]:
        comparison = None
    margin = amount(f"{document['max_drop']:g}", points, document["score"])
    weak = _weak(document)
    if weak is not None:
        return [Statement(text=weak.sentence(f"{name} on {task}"), headline=True)]
    statements = []
    if comparison is not None:
        upper = value_of(comparison["upper"])
        loss = f"at most {amount(at_most(upper), points, comparison['score'])}"
        loss = loss if math.isfinite(upper) else f"less than {margin}"
        text = (
            f"{_blocks(document['removed'])} of {document['depth']} can be removed from {name}: on {task} it "
            f"loses {loss} ({percent(comparison['level'])}, one-sided, {comparison['n']:,} examples that had "
            f"no part in choosing, unit: {comparison['unit']}); "
            f"{number(value_of(comparison['drop']))} were measured.{_beside_guess(document, comparison)}"
        )
        statements.append(Statement(text=text, sure=True, headline=True))
    failed = [test for test in document["sequence"] if not test["safe"]]
    if failed:
        failure = failed[0]
        start = (
            f"More cannot be called safe for {name}"
            if comparison is not None
            else f"Nothing can be cut safely from {name} on {task}"
        )
        text = (
            f"{start}: without {_blocks(failure['removed']).lower()} a loss of {margin} is not excluded "
            f"({number(value_of(failure['drop']))} were measured, {_limit(failure)}"
            f"{p_value(value_of(failure['p']))}, one-sided, {failure['n']:,} examples)."
        )
        statements.append(Statement(text=text, headline=comparison is None))
    if comparison is None and not failed:
        text = (
            f"Nothing can be cut safely from {name} on {task}: no cut was cheap enough on the examples that "
            f"choose to be put to the test (margin {margin})."
        )
        statements.append(Statement(text=text, headline=True))
    look = document.get("look")
    if look is not None and look["number"] > 1:
        margins = ", ".join(f"{margin:g}" for margin in look["earlier"])
        text = (
            f"It was look {look['number']} of {name} at the examples that certify (earlier margins: "
            f"{margins}), tested at {percent(look['level'])} so that all looks together keep "
            f"{percent(look['promised'])}."
        )
        statements.append(Statement(text=text, sure=True))
    again = document.get("confirmed")
    if again is not None:
        verb = "confirmed" if again["safe"] else "not confirmed"
        text = (
            f"On {again['n']:,} further examples the margin of {margin} is {verb}: "
            f"{number(value_of(again['drop']))} were lost there, {_limit(again)}"
            f"{p_value(value_of(again['p']))}, one-sided."
        )
        statements.append(Statement(text=text, sure=bool(again["safe"])))
    return statements


def _weak(document: Mapping[str, Any]) -> Standing | None:
    """The whole model beside the majority baseline, where it does not beat it."""
    tested = [document.get("comparison"), *document["sequence"]]
    full = next((value_of(test["full"]) for test in tested if test is not None and "full" in test), math.nan)
    guess = value_of(document.get("guess"))
    gap = full - guess if document.get("higher_is_better", document["unit"] == "points") else guess - full
    if not math.isfinite(gap) or gap > 0:
        return None
    return Standing(score=document["score"], value=full, baseline=guess, beats=False, ahead=False)


def _beside_guess(document: Mapping[str, Any], comparison: Mapping[str, Any]) -> str:
    """Set the score that is left beside the majority baseline, where it is known."""
    guess = value_of(document.get("guess"))
    if not math.isfinite(guess):
        return ""
    return (
        f" It is left with {comparison['score']} {number(value_of(comparison['cut']), 3)}; "
        f"the majority baseline is {number(guess, 3)}."
    )


def _limit(test: Mapping[str, Any]) -> str:
    upper = value_of(test["upper"])
    if not math.isfinite(upper):
        return "no limit can be given, "
    return f"at most {at_most(upper)} at {percent(test['level'])}, "


def _blocks(removed: Sequence[int]) -> str:
    return numbered(removed, "block").capitalize()
