"""Control tasks (Hewitt and Liang 2019): what a probe can memorize, over one draw of labels or several."""

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
    Replace the labels of a probing task by those of control tasks.

    Parameters
    ----------
    asked : Asked
    draws : int
        Number of control tasks.

    Returns
    -------
    list of Asked
        A single draw has all seeds of the probe; of several, each has one: probes of one draw do not vary
        independently of each other, and the variance over draws includes that of seeds.
    """
    first = asked.seeds[0]
    if draws == 1:
        return [replace(asked, control=first)]
    seeds = [asked.seeds[draw % len(asked.seeds)] for draw in range(draws)]
    return [replace(asked, control=first + draw, seeds=(seed,)) for draw, seed in enumerate(seeds)]


def over_draws(probed: Sequence[Probed]) -> Probed:
    """
    Join the predictions of several draws, each as if it were a seed.

    Parameters
    ----------
    probed : sequence of Probed
        One per draw, of the same layers and examples.

    Returns
    -------
    Probed
        Of several draws, whether each prediction is correct: they are predictions of different tasks.
    """
    if len(probed) == 1:
        return probed[0]
    correct = [rightness(result) for result in probed]
    seeds = tuple(result.answers[0].seeds[0] for result in probed)
    return replace(
        correct[0],
        answers=tuple(
            replace(
                layer[0],
                predictions=[predicted for answers in layer for predicted in answers.predictions],
                # Names that no seed of a probe has: a draw belongs to none of them.
                seeds=tuple(f"draw {number}" for number in range(len(probed))),
            )
            for layer in zip(*(result.answers for result in correct), strict=True)
        ),
        rows=tuple(
            {**_by_draw(records), "draw": tuple(range(len(probed))), "seed": seeds}
            for records in zip(
                *(result.rows or ({},) * len(result.answers) for result in probed), strict=True
            )
        ),
        note="",
    )


def beside_draws(true: Probed, control: Probed) -> Probed:
    """
    Repeat the predictions of a single probe for every draw of the control task.

    Parameters
    ----------
    true : Probed
        Of the true labels.
    control : Probed
        From `over_draws`.

    Returns
    -------
    Probed
        As it is, where it has several seeds: they are independent of the draws. A single probe must not
        count as one draw whose variance is unknown.
    """
    draws = control.answers[0].seeds
    if len(true.answers[0].predictions) > 1 or len(draws) == 1:
        return true
    return replace(
        true,
        answers=tuple(
            replace(answers, predictions=[answers.predictions[0]] * len(draws), seeds=draws)
            for answers in true.answers
        ),
    )


def rightness(probed: Probed) -> Probed:
    """Whether each prediction is correct, so that predictions of different tasks can be compared."""

    def correct(answers: Answers) -> list[Any]:
        if probed.score is EDGE_F1:
            return list(answers.predictions)  # counts of true and false predictions already
        return [np.asarray(predicted) == np.asarray(answers.targets) for predicted in answers.predictions]

    return replace(
        probed,
        labels=(),
        answers=tuple(
            replace(answers, targets=np.ones(len(answers.ids), dtype=int), predictions=correct(answers))
            for answers in probed.answers
        ),
    )


def _by_draw(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The values of a layer, one per draw."""
    return {
        name: tuple(
            record[name][0] if isinstance(record[name], tuple) else record[name] for record in records
        )
        for name in records[0]
    }
