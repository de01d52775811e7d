"""Table of scores, each equal to the definition published with its task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must, unknown
from .classes import CLASS_SCORES
from .declare import Kind, Labels, Score
from .numbers import NUMBER_SCORES
from .words import WORD_SCORES

_ALL = (*CLASS_SCORES, *NUMBER_SCORES, *WORD_SCORES)
SCORES: Mapping[str, Score] = MappingProxyType({score.name: score for score in _ALL})


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
    names = [score.name for score in scores]
    if len({(score.higher_is_better, score.points) for score in scores}) > 1:
        raise InputError(
            f"scores that are averaged must have one direction and one scale, but got {' and '.join(names)}."
        )
    kinds: tuple[Kind, ...] = tuple(
        kind for kind in scores[0].kinds if all(kind in score.kinds for score in scores)
    )
    if not kinds:
        raise InputError(
            f"scores that are averaged must be of one kind of task, but got {' and '.join(names)}."
        )

    def undefined(predictions: Any, targets: Any, labels: Labels = ()) -> str | None:
        reasons = {score.name: score.undefined(predictions, targets, labels) for score in scores}
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason) or None

    def compute(predictions: Any, targets: Any, labels: Labels = ()) -> float:
        return float(np.mean([score.compute(predictions, targets, labels) for score in scores]))

    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    low, high = (float(np.mean(ends)) for ends in zip(*(score.range for score in scores), strict=True))
    return Score(
        name=f"mean of {listed}",
        title=f"Mean of {listed}",
        kinds=kinds,
        range=(low, high),
        higher_is_better=scores[0].higher_is_better,
        points=scores[0].points,
        compute=compute,
        undefined=undefined,
        of=scores,
    )
