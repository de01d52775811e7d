"""Table of scores, each equal to the definition published with its task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must, unknown
from .classes import ACCURACY, F1, MACRO_F1, MCC, SEMEVAL_F1
from .declare import Labels, Score
from .numbers import PEARSON, SPEARMAN
from .spans import EXACT_MATCH, SPAN_F1
from .words import ENTITY_F1, LAS, PERPLEXITY, TAG_ACCURACY, UAS

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        score.name: score
        for score in (
            ACCURACY,
            F1,
            MACRO_F1,
            MCC,
            SEMEVAL_F1,
            PEARSON,
            SPEARMAN,
            EXACT_MATCH,
            SPAN_F1,
            TAG_ACCURACY,
            ENTITY_F1,
            UAS,
            LAS,
            PERPLEXITY,
        )
    }
)


def find_score(score: str | Score | Iterable[str | Score]) -> Score:
    """
    Look up a score, or the mean of several.

    Parameters
    ----------
    score : str, Score, or several of them
        Such as "mcc", or ("pearson", "spearman") for their mean.

    Returns
    -------
    Score

    Examples
    --------
    >>> find_score(("accuracy", "f1")).name
    'mean of accuracy and f1'
    """
    if isinstance(score, Score):
        return score
    if isinstance(score, str):
        if score not in SCORES:
            raise unknown("score", score, SCORES)
        return SCORES[score]
    scores = tuple(find_score(entry) for entry in score)
    if not scores:
        raise must("scores", "at least one", ())
    return scores[0] if len(scores) == 1 else mean_of(*scores)


def mean_of(*scores: Score) -> Score:
    """
    Declare the mean of several scores of the same examples, such as accuracy and F1.

    It has no parts of its own; `of` holds the averaged scores.

    Parameters
    ----------
    *scores : Score
        Scores with the same direction and the same scale of points.

    Returns
    -------
    Score
    """
    if len({(score.higher_is_better, score.points) for score in scores}) > 1:
        raise InputError(
            "scores that are averaged must have one direction and one scale, but got "
            f"{' and '.join(score.name for score in scores)}."
        )
    kinds = tuple(kind for kind in scores[0].kinds if all(kind in score.kinds for score in scores))
    if not kinds:
        raise InputError(
            "scores that are averaged must be of one kind of task, but got "
            f"{' and '.join(score.name for score in scores)}."
        )
    names = [score.name for score in scores]
    declared: dict[str, Any] = {
        "name": f"mean of {', '.join(names[:-1])} and {names[-1]}",
        "title": f"Mean of {', '.join(names[:-1])} and {names[-1]}",
        "kinds": kinds,
        "range": tuple(float(np.mean(ends)) for ends in zip(*(s.range for s in scores), strict=True)),
        "higher_is_better": scores[0].higher_is_better,
        "points": scores[0].points,
        "of": scores,
    }

    def undefined(predictions: Any, targets: Any, labels: Labels = ()) -> str | None:
        reasons = [s.undefined(predictions, targets, labels) for s in scores]
        named = [f"{s.name}: {reason}" for s, reason in zip(scores, reasons, strict=True) if reason]
        return "; ".join(named) or None

    def compute(predictions: Any, targets: Any, labels: Labels = ()) -> float:
        return float(np.mean([s.compute(predictions, targets, labels) for s in scores]))

    return Score(compute=compute, undefined=undefined, **declared)
