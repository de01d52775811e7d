"""The numbers of a tuned model are those that its maps, blocks and cuts show."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from job_values import (
    block_values,
    encoder_pairs_of,
    originals_of,
    seed_pairs_of,
    settings_of,
)

DEPTH = 6
# Early layers unlike late ones; within each half all are alike.
BLOCKS = np.where(np.arange(6)[:, None] // 3 == np.arange(6) // 3, 0.9, 0.1)


def document(**changes: Any) -> dict[str, Any]:
    """What a job writes, with seed 2 collapsed."""
    square = {"values": BLOCKS.tolist()}
    decaying = 1 - 0.1 * np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    before = {"values": np.tile([[0.2] * 5 + [0.7]], (6, 1)).tolist()}
    maps = {
        "orig-orig": {"orig": {"values": decaying.tolist()}},
        "ft-ft": dict.fromkeys("123", square),
        "ft-orig": dict.fromkeys("123", before),
        "ft-ft2": {"1|2": square, "1|3": {"values": (0.5 * BLOCKS).tolist()}},
    }
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
            "margin": 0.8,
            "second_margin": 0.8,
            "block": 1.0,
            "two_blocks": 1.0,
            "sharpness": 0.8,
            "top_block": 4.0,
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
    assert one.values["margin"] == pytest.approx(0.8)


def test_undefined_blocks_are_no_absence_of_blocks() -> None:
    values = block_values(np.full((6, 6), np.nan))
    assert all(math.isnan(one) for one in values.values())
    even = 0.9 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    assert block_values(even)["block"] == 0.0
    assert math.isnan(block_values(even)["sharpness"])


def test_originals_are_counted_once_a_task() -> None:
    other = {"encoder": "masked-1", "head": "cls2", "task": "t", "rate": 1e-3}
    (one,) = originals_of([document(), document(job=other)])
    assert one.values["adjacent"] == pytest.approx(0.9)
    assert one.values["decay"] == pytest.approx(-1.0)


def test_pairs_of_seeds_need_two_sound_trainings() -> None:
    (one,) = seed_pairs_of([document()])
    # A factor of one half between two models changes the margin, not the blocks.
    assert (one.seed, one.values["repeated"]) == ("1|3", 1.0)
    assert one.values["margin"] == pytest.approx(0.4)
    maps = document()["maps"]["cls"]
    even = {"values": (0.9 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))).tolist()}
    smooth = maps | {"ft-ft": maps["ft-ft"] | {"3": even}}
    (other,) = seed_pairs_of([document(maps={"cls": smooth})])
    assert math.isnan(other.values["repeated"]), "a seed without a block has none to be repeated"


def test_pairs_of_encoders_are_of_different_designs() -> None:
    masked = document()
    replaced = document(job=masked["job"] | {"encoder": "replaced"})
    settings, _ = settings_of([masked, replaced])
    square = {"values": (0.5 * BLOCKS).tolist()}
    told = {
        "across": {"head": "cls1", "task": "t", "rate": 1e-4},
        "maps": {
            "1": {"masked-1|replaced": square, "masked|masked-1": square},
            "2": {"masked-1|replaced": square},
        },
    }
    (one,) = encoder_pairs_of([told, {"across": told["across"]}], settings)
    assert one.design == "masked|replaced"
    assert one.values["second_margin"] == pytest.approx(0.4)
