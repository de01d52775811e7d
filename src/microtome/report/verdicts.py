"""What may be said of trained and of pruned models? Scores over seeds, and what a cut surely loses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..findings.words import at_most, between, number, p_value
from ..inference.baselines import Standing
from .sentences import Said, amount, counted, doubt, percent

# A p-value is only told where the verdict rests on it.
_LEVEL = 0.95


def value_of(read: Any) -> float:
    """A number of a file; NaN for null."""
    return math.nan if read is None else float(read)


def tuned(document: Mapping[str, Any], name: str, task: str) -> list[Said]:
    """
    Say what fine-tuning reached, over seeds or on the examples of one.

    Parameters
    ----------
    document : mapping
        Of the format microtome/finetune/1.
    name, task : str

    Returns
    -------
    list of Said
    """
    runs, mean = document["runs"], document["mean"]
    sound = [run for run in runs if run.get("failure") is None]
    guess = _guess(runs)
    said = []
    if len(sound) > 1 and value_of(mean.get("value")) == value_of(mean.get("value")):
        low, high = value_of(mean.get("low")), value_of(mean.get("high"))
        text = (
            f"{name} fine-tuned on {task}: {mean['measure']} {number(mean['value'], 3)} in the mean over "
            f"{mean['n']} seeds"
        )
        if low == high:
            # Seeds that agree to the last digit tell no spread, and an interval without width no doubt.
            text, low, high = f"{text}, all of them with the same score", math.nan, math.nan
        text, sure = _against(text, low, high, mean.get("level"), "t over seeds", "seed", guess)
        said.append(Said(text=text, sure=sure, headline=True))
    elif len(sound) == 1:
        score = sound[0]["evaluation"]["score"]
        low, high = value_of(score.get("low")), value_of(score.get("high"))
        value = value_of(score.get("value"))
        if math.isfinite(value):
            text = f"{name} fine-tuned on {task}: {score['measure']} {number(value, 3)} with one seed"
            unit = str(score.get("unit") or "example")
            text, sure = _against(text, low, high, score.get("level"), "", unit, guess)
            more = " Other seeds are not covered."
            said.append(Said(text=f"{text}{more}", sure=sure, headline=True))
    if len(sound) < len(runs):
        told = [f"seed {run['seed']}: {run['failure']}" for run in runs if run.get("failure") is not None]
        some = "The only run" if len(runs) == 1 else f"{len(told)} of {len(runs)} runs"
        text = f"{some} of {name} on {task} failed ({'; '.join(told)})."
        said.insert(0, Said(text=text, sure=True, headline=not sound))
    return said


def _guess(runs: Sequence[Mapping[str, Any]]) -> float:
    """What the most frequent answer gets in the task's score; NaN where that is not known."""
    for run in runs:
        found = run["evaluation"]
        known = [value_of(found["baseline"].get(name)) for name in found.get("main", [])]
        if known and all(math.isfinite(one) for one in known):
            return sum(known) / len(known)
    return math.nan


def _against(
    text: str, low: float, high: float, level: Any, what: str, unit: str, guess: float
) -> tuple[str, bool]:
    """Add the interval, and on which side of it a guess lies."""
    known = math.isfinite(low) and math.isfinite(high)
    if known:
        text += f" {between(low, high, 3)} {doubt(value_of(level or _LEVEL), what, unit)}"
    else:
        text += ", without an interval"
    if not math.isfinite(guess):
        return f"{text}.", known
    told = number(guess, 3)
    if not known:
        return f"{text}; the most frequent answer gets {told}.", False
    if low <= guess <= high:
        return f"{text}, which is not told from the {told} of the most frequent answer.", False
    side = "above" if guess < low else "below"
    return f"{text}, {side} the {told} of the most frequent answer.", True


def pruned(document: Mapping[str, Any], name: str) -> list[Said]:
    """
    Say which blocks can go, and what is surely lost at most; or that none can.

    Parameters
    ----------
    document : mapping
        Of the format microtome/prune/1.
    name : str

    Returns
    -------
    list of Said
    """
    points = 100.0 if document["unit"] == "points" else 1.0
    found, task = document.get("comparison"), document["task"]
    if found is not None and not found["safe"]:
        found = None
    margin = amount(f"{document['max_drop']:g}", points, document["score"])
    weak = _weak(document)
    if weak is not None:
        return [Said(text=weak.sentence(f"{name} on {task}"), headline=True)]
    said = []
    if found is not None:
        upper = value_of(found["upper"])
        loss = f"at most {amount(at_most(upper), points, found['score'])}"
        loss = loss if math.isfinite(upper) else f"less than {margin}"
        text = (
            f"{_blocks(document['removed'])} of {document['depth']} can go from {name}: on {task} it loses "
            f"{loss} ({percent(found['level'])}, one-sided, {found['n']:,} examples that had no part in "
            f"choosing, unit: {found['unit']}); "
            f"{number(value_of(found['drop']))} were measured.{_beside_guess(document, found)}"
        )
        said.append(Said(text=text, sure=True, headline=True))
    failed = [one for one in document["sequence"] if not one["safe"]]
    if failed:
        one = failed[0]
        start = (
            f"More cannot be called safe for {name}"
            if found is not None
            else f"Nothing can be cut safely from {name} on {task}"
        )
        text = (
            f"{start}: without {_blocks(one['removed']).lower()} a loss of {margin} is not ruled out "
            f"({number(value_of(one['drop']))} were measured, {_limit(one)}{p_value(value_of(one['p']))}, "
            f"one-sided, {one['n']:,} examples)."
        )
        said.append(Said(text=text, headline=found is None))
    if found is None and not failed:
        text = (
            f"Nothing can be cut safely from {name} on {task}: no cut was cheap enough on the examples that "
            f"choose to be put to the test (margin {margin})."
        )
        said.append(Said(text=text, headline=True))
    look = document.get("look")
    if look is not None and look["number"] > 1:
        margins = ", ".join(f"{margin:g}" for margin in look["earlier"])
        text = (
            f"It was look {look['number']} of {name} at the examples that certify (earlier margins: "
            f"{margins}), tested at {percent(look['level'])} so that all looks together keep "
            f"{percent(look['promised'])}."
        )
        said.append(Said(text=text, sure=True))
    again = document.get("confirmed")
    if again is not None:
        verb = "confirmed" if again["safe"] else "not confirmed"
        text = (
            f"On {again['n']:,} further examples the margin of {margin} is {verb}: "
            f"{number(value_of(again['drop']))} were lost there, {_limit(again)}"
            f"{p_value(value_of(again['p']))}, one-sided."
        )
        said.append(Said(text=text, sure=bool(again["safe"])))
    return said


def _weak(document: Mapping[str, Any]) -> Standing | None:
    """The whole model beside the majority baseline, where it does not beat it."""
    tested = [document.get("comparison"), *document["sequence"]]
    full = next((value_of(one["full"]) for one in tested if one is not None and "full" in one), math.nan)
    guess = value_of(document.get("guess"))
    gap = full - guess if document.get("higher_is_better", document["unit"] == "points") else guess - full
    if not math.isfinite(gap) or gap > 0:
        return None
    return Standing(score=document["score"], value=full, baseline=guess, beats=False, ahead=False)


def _beside_guess(document: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Set the score that is left beside that of the most frequent answer, where it is known."""
    guess = value_of(document.get("guess"))
    if not math.isfinite(guess):
        return ""
    return (
        f" It is left with {found['score']} {number(value_of(found['cut']), 3)}; the most frequent answer "
        f"gets {number(guess, 3)}."
    )


def _limit(found: Mapping[str, Any]) -> str:
    upper = value_of(found["upper"])
    if not math.isfinite(upper):
        return "no limit can be given, "
    return f"at most {at_most(upper)} at {percent(found['level'])}, "


def _blocks(removed: Sequence[int]) -> str:
    return counted(removed, "block").capitalize()
