"""Dropping: the blocks of each strategy, and scores against random choices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.context import Context
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.surgery.drop_strategies import (
    STRATEGIES,
    chosen_blocks,
    random_blocks,
    read_layers,
)
from microtome.experiments.surgery.dropping import Dropping, drop
from microtome.training.request import ask

Encoders = Callable[..., Any]


def dropping(encoder: Any = "bert", **options: Any) -> Dropping:
    return Dropping(model=encoder, task=cats.cats_task(), **options)


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
    found = read_layers(encoder, cats.cats_task(), measure="debiased_cka", context=Context(store=tmp_path))
    assert found["contribution"].shape == (3,)
    assert found["contribution"].argmax() == 1
    assert found["similarity"].shape == (4, 4)
    again = read_layers(encoder, cats.cats_task(), measure="debiased_cka", context=Context(store=tmp_path))
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
    found = drop(encoder, task, **given)
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
    assert any("the mean of random choices of as many" in said for said in found.findings)
    assert len(found.more["choices"]) == 4
    heard: list[str] = []
    again = drop(encoder, task, progress=lambda what, *_: heard.append(what), **given)
    assert not heard
    assert again.rows == found.rows


def test_the_plan(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    experiment = dropping(
        count=(1, 2),
        strategies=("top", "alternate_even", "random"),
        random_draws=2,
        then=("full", "head", "none"),
        seeds=(1, 2),
    )
    choices, warnings = experiment.choose(encoder)
    assert warnings == [
        "alternate_even, 2 blocks is left out: alternate_even has no choice of 2 of 3 blocks."
    ]
    runs = experiment.runs(choices)
    assert sum(run.options.get("method") == "head" for run in runs) == 2 * (3 + 2 + 5)
    assert all(not run.interventions for run in runs if run.arm.endswith("not tuned again"))
    assert experiment.grid(encoder) == runs


def test_layers_are_read_once_and_not_for_a_plan(
    encoder_of: Encoders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from microtome.experiments.surgery import dropping as module

    calls: list[str] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(options["measure"])
        return read_layers(*arguments, **options)

    monkeypatch.setattr(module, "read_layers", counted)
    experiment = dropping(
        encoder_of("bert"),
        count=1,
        strategies=("contribution", "similarity"),
        seeds=1,
        changes={**cats.QUICK, "steps": 2},
    )
    context = Context(store=tmp_path / "store", device="cpu")
    plan = experiment.plan(context)
    assert plan.summary["runs"] == 3
    assert not calls
    assert not (tmp_path / "store").exists()
    result = experiment.run(plan, context)
    assert calls == ["debiased_cka"]
    assert all(1 <= block <= 3 for choice in result.more["choices"] for block in choice["blocks"])


def test_default_numbers_of_blocks(encoder_of: Encoders) -> None:
    choices, _ = dropping(strategies="top").choose(encoder_of("bert"))
    assert [choice.count for choice in choices] == [2]
    assert [dropping().counts(depth) for depth in (2, 6, 12)] == [(1,), (2, 4), (2, 4, 6)]
    assert dropping(count=np.array([3, 5])).counts(12) == (3, 5)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(InputError, match="count must be numbers of blocks between 1 and 2, but got 3"):
        dropping(count=3).counts(3)
    with pytest.raises(UnknownNameError, match="strategies must be one of"):
        dropping(strategies="middle")
    with pytest.raises(InputError, match="random_draws must be at least 1"):
        dropping(random_draws=0)
    with pytest.raises(UnknownNameError, match="then must be one of full, head, none, but got 'half'"):
        dropping(then="half")
    with pytest.raises(UnknownNameError, match="measure must be one of"):
        dropping(measure="nothing")
