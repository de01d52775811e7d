"""The numbers of a tuned model are those that its maps, blocks and cuts show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from microtome.experiments.matched_values import (
    block_values,
    encoder_pairs_of,
    originals_of,
    seed_pairs_of,
    settings_of,
)

DEPTH = 6
# Early layers unlike late ones; within each half all are alike.
BLOCKS = np.where(np.arange(6)[:, None] // 3 == np.arange(6) // 3, 0.9, 0.1)


def block(**values: Any) -> dict[str, Any]:
    return {"verdict": "two blocks", "border": 3, "contrast": 1.5, "sharpness": 1.6, **values}


def document(**changes: Any) -> dict[str, Any]:
    """What a job writes, with seed 2 collapsed."""
    square = {"values": BLOCKS.tolist()}
    decaying = 1 - 0.1 * np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    before = {"values": np.tile([[0.2] * 5 + [0.7]], (6, 1)).tolist()}
    maps = {
        "orig-orig": {"orig": {"values": decaying.tolist()}},
        "ft-ft": dict.fromkeys("123", square),
        "ft-orig": dict.fromkeys("123", before),
    }
    seeds = dict.fromkeys("123", block())
    found = {
        "job": {"encoder": "masked-1", "head": "cls1", "task": "t", "rate": 1e-4},
        "score": {"points": 100.0, "higher_is_better": True},
        "guess": 0.5,
        "layers": DEPTH,
        "runs": [
            {"seed": seed, "score": 0.9, "failure": "collapsed: so it is" if seed == 2 else None}
            for seed in (1, 2, 3)
        ],
        "maps": {"cls": maps},
        "blocks": {"cls": {"orig-orig": {"orig": block()}, "ft-ft": seeds, "ft-ft2": {"1|2": block()}}},
        "truncation": {
            "scores": {
                "UNTUNED": {seed: [0.5, 0.5, 0.6, 0.7, 0.895, 0.9] for seed in "123"},
                "TUNED": {seed: [0.5, 0.6, 0.7, 0.8, 0.88, 0.9] for seed in "123"},
                "TUNED converged": {seed: [0.6, 0.6, 0.7, 0.8, 0.9, 0.9] for seed in "123"},
                "TUNEDORIG converged": {"0": [0.58, 0.6, 0.6, 0.6, 0.6, 0.6]},
            }
        },
    }
    return found | changes


def test_numbers_of_a_model() -> None:
    settings, left_out = settings_of([document()])
    assert left_out == ["masked-1, cls1, t, rate 0.0001, seed 2: collapsed: so it is"]
    assert [(one.design, one.draw, one.seed) for one in settings] == [("masked", 1, 1), ("masked", 1, 3)]
    assert settings[0].values == pytest.approx(
        {
            "contrast": 1.5,
            "fires": 1.0,
            "border": 3.0,
            "sharpness": 1.6,
            "top": 0.9,
            "penultimate": 0.9,
            "early_match": 0.7,
            "late_match": 0.7,
            "cost_third": 20.0,
            "share_2": 0.5,
            "flat_from": 5.0,
            "tuned_2": 10.0,
            "gain_third": 10.0,
            "readout_least": 0.0,
            "score": 90.0,
        }
    )


def test_what_is_no_better_than_a_guess_has_nothing_to_lose() -> None:
    (one, _), _ = settings_of([document(guess=0.89)])
    assert "cost_third" not in one.values
    assert one.values["contrast"] == 1.5


def test_undefined_blocks_are_no_absence_of_blocks() -> None:
    values = block_values({"verdict": "undefined", "reason": "too few layers"})
    assert all(math.isnan(one) for one in values.values())
    assert block_values(block(verdict="none"))["fires"] == 0.0


def test_originals_are_counted_once_a_task() -> None:
    other = {"encoder": "masked-1", "head": "cls2", "task": "t", "rate": 1e-3}
    (one,) = originals_of([document(), document(job=other)])
    assert one.values["adjacent"] == pytest.approx(0.9)
    assert one.values["decay"] == pytest.approx(-1.0)


def test_pairs_of_seeds_need_two_sound_trainings() -> None:
    blocks = document()["blocks"]["cls"] | {"ft-ft2": {"1|2": block(), "1|3": block(border=5)}}
    (one,) = seed_pairs_of([document(blocks={"cls": blocks})])
    assert (one.seed, one.values["apart"]) == ("1|3", 2.0)


def test_pairs_of_encoders_are_of_different_designs() -> None:
    masked = document()
    replaced = document(job=masked["job"] | {"encoder": "replaced"})
    settings, _ = settings_of([masked, replaced])
    told = {
        "across": {"head": "cls1", "task": "t", "rate": 1e-4},
        "blocks": {
            "1": {"masked-1|replaced": block(contrast=0.7), "masked|masked-1": block()},
            "2": {"masked-1|replaced": block()},
        },
    }
    (one,) = encoder_pairs_of([told], settings)
    assert (one.design, one.values["contrast"]) == ("masked|replaced", 0.7)
