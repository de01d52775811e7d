"""Does each strategy drop the blocks it says, and is it held against chance?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.surgery.drop_strategies import (
    STRATEGIES,
    chosen_blocks,
    random_blocks,
    read_layers,
)
from microtome.experiments.surgery.dropping import choices, counts_for, dropping, planned
from microtome.training.request import ask

Encoders = Callable[..., Any]


@pytest.mark.parametrize(
    ("name", "count", "blocks"),
    [
        ("top", 4, (9, 10, 11, 12)),
        ("bottom", 4, (1, 2, 3, 4)),
        ("alternate", 2, (10, 12)),
        ("alternate", 6, (2, 4, 6, 8, 10, 12)),
        ("alternate_even", 4, (5, 7, 9, 11)),
        ("symmetric", 2, (6, 7)),
        ("symmetric", 6, (4, 5, 6, 7, 8, 9)),
        ("symmetric", 5, (5, 6, 7, 8, 9)),
        ("alternate", 7, None),
    ],
)
def test_blocks_by_place(name: str, count: int, blocks: Any) -> None:
    assert STRATEGIES[name].choose(12, count, {}) == blocks


def test_blocks_by_what_they_do() -> None:
    similarity = np.full((5, 5), 0.1)
    similarity[1, 3], similarity[0, 2] = 0.9, np.nan
    scores = {"contribution": np.array([0.2, 0.9, 0.1, 0.8]), "similarity": similarity}
    assert STRATEGIES["contribution"].choose(4, 2, scores) == (2, 4)
    assert STRATEGIES["similarity"].choose(4, 2, scores) == (2, 3)
    nothing = {**scores, "similarity": np.full((5, 5), np.nan)}
    assert STRATEGIES["similarity"].choose(4, 2, nothing) is None


@pytest.mark.parametrize("model_type", ["bert", "xlnet", "gpt2"])
def test_a_block_that_does_nothing_is_found(model_type: str, encoder_of: Encoders, tmp_path: Path) -> None:
    from microtome.interventions.applying import apply
    from microtome.interventions.reinit import Reinit

    encoder = apply(encoder_of(model_type), Reinit(blocks=(2,), scheme="near_identity"))
    found = read_layers(encoder, cats.cats_task(), measure="debiased_cka", store=tmp_path)
    assert found["contribution"].shape == (3,)
    assert found["contribution"].argmax() == 1
    assert found["similarity"].shape == (4, 4)
    again = read_layers(encoder, cats.cats_task(), measure="debiased_cka", store=tmp_path)
    np.testing.assert_array_equal(again["similarity"], found["similarity"])


def test_random_blocks_are_different_and_the_same_each_time(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    drawn = random_blocks(encoder, 1, 5)
    assert sorted(drawn) == [(1,), (2,), (3,)]
    assert random_blocks(encoder, 2, 2) == random_blocks(encoder, 2, 2)
    # Block 1 of ModernBERT cannot go.
    assert all(1 not in blocks for blocks in random_blocks(encoder_of("modernbert"), 1, 5))
    blocks, reason = chosen_blocks(encoder_of("modernbert"), "bottom", 1, {})
    assert blocks is None
    assert "block 1 of ModernBERT must stay the first" in reason


def test_strategies_against_chance(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    given: dict[str, Any] = {
        "count": 2,
        "strategies": ("top", "contribution", "random"),
        "random_draws": 2,
        "then": ("full", "none"),
        "seeds": (1, 2),
        "store": tmp_path,
        **cats.QUICK,
    }
    found = dropping(encoder, task, **given)
    names = [curve.name for curve in found.curves if not curve.name.startswith("difference")]
    assert names == [
        f"{name}, {way}"
        for way in ("all tuned", "not tuned again")
        for name in ("top", "contribution", "random")
    ]
    plain = ask(encoder, task, "wu2020", seed=1, **cats.QUICK).address
    whole = {row["address"] for row in found.rows if row["x"] == 0 and row["seed"] == 1}
    assert whole == {plain}
    cut = [row for row in found.rows if row["arm"] == "top, not tuned again" and row["x"] == 2]
    assert [row["blocks"] for row in cut] == ["2 3", "2 3"]
    assert found["random, all tuned"].seeds == (2, 4)
    assert found["random, all tuned"].unit == found["difference random, all tuned"].unit == "example and draw"
    assert found["top, all tuned"].unit == "example and seed"
    assert any("against the mean of random choices" in said for said in found.findings)
    assert len(found.more["choices"]) == 4
    heard: list[str] = []
    again = dropping(encoder, task, progress=lambda what, *_: heard.append(what), **given)
    assert not heard
    assert again.rows == found.rows


def test_the_plan(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    chosen, said = choices(
        encoder,
        task,
        count=(1, 2),
        strategies=("top", "alternate_even", "random"),
        random_draws=2,
        store=tmp_path,
    )
    assert said == ["alternate_even, 2 blocks was left out: alternate_even has no choice of 2 of 3 blocks."]
    runs = planned(chosen, then=("full", "head", "none"), seeds=(1, 2))
    assert sum(run.options.get("method") == "head" for run in runs) == 2 * (3 + 2 + 5)
    assert all(not run.interventions for run in runs if run.arm.endswith("not tuned again"))


def test_how_many_blocks_when_it_is_not_said(encoder_of: Encoders) -> None:
    chosen, _ = choices(encoder_of("bert"), cats.cats_task(), strategies="top")
    assert [one.count for one in chosen] == [2]
    assert [counts_for(depth) for depth in (2, 6, 12)] == [(1,), (2, 4), (2, 4, 6)]
    assert counts_for(12, np.array([3, 5])) == (3, 5)


def test_what_cannot_be_asked(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    with pytest.raises(InputError, match="count must be numbers of blocks between 1 and 2, but got 3"):
        choices(encoder, task, count=3)
    with pytest.raises(UnknownNameError, match="strategy must be one of"):
        choices(encoder, task, count=1, strategies="middle")
    with pytest.raises(InputError, match="random_draws must be a whole number above 0"):
        choices(encoder, task, count=1, strategies="random", random_draws=0)
    with pytest.raises(UnknownNameError, match="then must be one of full, head, none, but got 'half'"):
        planned([], then="half")
