"""What can a probe learn by heart? Labels drawn at random, once or several times, and what is right of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...inference.answers import Answers
from ...probes.dataset import Asked, Probed
from ...probes.edge.counts import EDGE_F1


def control_questions(asked: Asked, draws: int) -> list[Asked]:
    """
    Ask for control labels instead of the true ones.

    Parameters
    ----------
    asked : Asked
    draws : int
        How often labels are drawn.

    Returns
    -------
    list of Asked
        Of a single draw, with all seeds of the probe. Of several, each with one: probes of one draw do not
        differ independently of each other, and the spread over draws has that of seeds in it.
    """
    first = asked.seeds[0]
    if draws == 1:
        return [replace(asked, control=first)]
    seeds = [asked.seeds[draw % len(asked.seeds)] for draw in range(draws)]
    return [replace(asked, control=first + draw, seeds=(seed,)) for draw, seed in enumerate(seeds)]


def over_draws(found: Sequence[Probed]) -> Probed:
    """
    Put the answers of several draws together, each as if it were a seed.

    Parameters
    ----------
    found : sequence of Probed
        One a draw, of the same layers and examples.

    Returns
    -------
    Probed
        Of several draws, whether each answer is right: they are answers to different questions.
    """
    if len(found) == 1:
        return found[0]
    right = [rightness(one) for one in found]
    seeds = tuple(one.answers[0].seeds[0] for one in found)
    return replace(
        right[0],
        answers=tuple(
            replace(
                each[0],
                predictions=[one for answers in each for one in answers.predictions],
                # Names that no seed of a probe has: a draw belongs to none of them.
                seeds=tuple(f"draw {number}" for number in range(len(found))),
            )
            for each in zip(*(one.answers for one in right), strict=True)
        ),
        rows=tuple(
            {**_together(told), "draw": tuple(range(len(found))), "seed": seeds}
            for told in zip(*(one.rows or ({},) * len(one.answers) for one in found), strict=True)
        ),
        note="",
    )


def beside_draws(one: Probed, drawn: Probed) -> Probed:
    """
    Repeat the answers of a single probe for every draw of control labels, to which they belong alike.

    Parameters
    ----------
    one : Probed
        Of the true labels.
    drawn : Probed
        From `over_draws`.

    Returns
    -------
    Probed
        As it is, where it has several seeds: they are drawn apart from the labels. A single probe is no
        draw of several, and must not count as one whose spread is unknown.
    """
    draws = drawn.answers[0].seeds
    if len(one.answers[0].predictions) > 1 or len(draws) == 1:
        return one
    return replace(
        one,
        answers=tuple(
            replace(each, predictions=[each.predictions[0]] * len(draws), seeds=draws) for each in one.answers
        ),
    )


def rightness(one: Probed) -> Probed:
    """Whether each answer is right, so that answers to different questions can be compared."""

    def right(each: Answers) -> list[Any]:
        if one.score is EDGE_F1:
            return list(each.predictions)  # counts of what is right and wrong already
        return [np.asarray(p) == np.asarray(each.targets) for p in each.predictions]

    return replace(
        one,
        labels=(),
        answers=tuple(
            replace(each, targets=np.ones(len(each.ids), dtype=int), predictions=right(each))
            for each in one.answers
        ),
    )


def _together(told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is told of a layer, a value for each draw."""
    names = list(told[0])
    return {
        name: tuple(one[name][0] if isinstance(one[name], tuple) else one[name] for one in told)
        for name in names
    }
