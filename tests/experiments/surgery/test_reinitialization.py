"""Re-initialization: which blocks it changes, nested seeds, and the truncation control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cats
import tiny
from microtome.encoders.loading import load
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.runs import Run
from microtome.experiments.surgery.reinitialization import Reinitialization, read_sizes, reinit
from microtome.interventions.applying import apply
from microtome.training.request import ask

Encoders = Callable[..., Any]


def grid(encoder: Any, **options: Any) -> list[Run]:
    return Reinitialization(model=encoder, task=cats.cats_task(), **options).grid(encoder)


def changed_blocks(encoder: Any, run: Any) -> list[int]:
    """Blocks whose weights differ after the interventions of a run."""
    changed = apply(encoder, *run.interventions)
    if changed.depth != encoder.depth:
        return []
    pairs = zip(encoder.blocks, changed.blocks, strict=True)
    differ = [
        any(not torch.equal(a, b) for a, b in zip(old.parameters(), new.parameters(), strict=True))
        for old, new in pairs
    ]
    return [block for block, differs in enumerate(differ, start=1) if differs]


def test_every_plan_re_initializes_its_blocks(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    runs = grid(encoder, plans=("progressive", "blocks", "inverse", "single"), width=2, seeds=1)
    found: dict[str, dict[Any, list[int]]] = {}
    for run in runs:
        found.setdefault(run.arm, {})[run.x] = changed_blocks(encoder, run)
    assert found["progressive, library"] == {3: [], 2: [3], 1: [2, 3], 0: [1, 2, 3]}
    assert found["blocks, library"] == {1: [1, 2], 2: [2, 3]}
    assert found["inverse, library"] == {1: [3], 2: [1]}
    assert found["single, library"] == {1: [1], 2: [2], 3: [3]}
    assert found["full"] == {3: []}
    assert found["scratch, library"] == {0: [1, 2, 3]}
    cuts = {run.x: apply(encoder, *run.interventions).depth for run in runs if run.arm == "truncated"}
    assert cuts == {3: 3, 2: 2, 1: 1}


def test_draws_are_nested_and_follow_the_seed(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")

    def top(**options: Any) -> dict[tuple[Any, int], torch.Tensor]:
        runs = [run for run in grid(encoder, truncation_control=False, **options) if run.x in (1, 2)]
        blocks = {(run.x, run.seed): apply(encoder, *run.interventions).blocks[2] for run in runs}
        return {key: block.get_parameter("attention.self.query.weight") for key, block in blocks.items()}

    own = top(seeds=(1, 2))
    assert torch.equal(own[1, 1], own[2, 1])
    assert not torch.equal(own[1, 1], own[1, 2])
    same = top(seeds=(1, 2), reinit_seed=5)
    assert torch.equal(same[1, 1], same[1, 2])


def test_arms_of_the_factorial() -> None:
    def arms(**options: Any) -> list[str]:
        return [arm.name for arm in Reinitialization(model="bert", task="rte", **options).arms()]

    names = arms(schemes=("library", "tamkin_code"), sizes=(None, 50), fixed_updates=9)
    assert names == [
        "progressive, library",
        "progressive, tamkin_code",
        "truncated",
        "progressive, library, 9 updates",
        "progressive, tamkin_code, 9 updates",
        "truncated, 9 updates",
        "progressive, library, 50 examples",
        "progressive, tamkin_code, 50 examples",
        "truncated, 50 examples",
        "progressive, library, 50 examples, 9 updates",
        "progressive, tamkin_code, 50 examples, 9 updates",
        "truncated, 50 examples, 9 updates",
    ]
    assert arms(bias=(None, "keep"), layernorm=("reset", "keep"), truncation_control=False)[1:] == [
        "progressive, library, norms kept",
        "progressive, library, biases keep",
        "progressive, library, biases keep, norms kept",
    ]
    assert arms(train_size=50, truncation_control=False) == ["progressive, library, 50 examples"]


def test_the_full_model_is_the_plain_one_in_every_arm(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    given: dict[str, Any] = {
        "store": tmp_path,
        "plans": ("progressive", "single"),
        "seeds": 1,
        **cats.QUICK,
    }
    found = reinit(encoder, task, **given)
    plain = ask(encoder, task, "tamkin2020", seed=1, **cats.QUICK).address
    whole = [row for row in found.rows if row["x"] == 3 and row["arm"] != "single, library"]
    assert {row["address"] for row in whole if row["seed"] == 1} == {plain}
    assert {row["arm"] for row in whole} == {"progressive, library", "truncated", "full"}
    for name in ("progressive, library", "truncated"):
        curve: Any = found[f"difference {name}"]
        assert curve.x[0] == 3
        assert curve.values[0] == curve.band_low[0] == curve.band_high[0] == 0
    assert found.curves[0].axis == "blocks kept"
    assert set(found.lines) == {"majority baseline", "full", "scratch, library"}
    assert found.lines["full"] == found["progressive, library"].values[0]
    assert any("in their place" in said or "removing them" in said for said in found.findings)
    heard: list[str] = []
    again = reinit(encoder, task, progress=lambda what, *_: heard.append(what), **given)
    assert not any("training" in what for what in heard)
    assert again.rows == found.rows


def test_fewer_examples_and_a_fixed_number_of_updates(encoder_of: Encoders, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "batch": 16,
        "longest": 16,
        "store": tmp_path,
        "truncation_control": False,
        "seeds": 1,
    }
    found = reinit(
        encoder_of("bert"), cats.cats_task(), plans="single", sizes=(32,), fixed_updates=9, epochs=1, **given
    )
    updates = {row["arm"]: row["updates"] for row in found.rows}
    assert updates["single, library, 32 examples"] == 2
    assert updates["single, library, 32 examples, 9 updates"] == 9
    assert updates["full, 32 examples, 9 updates"] == 9


def test_wrong_options_are_refused(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(UnknownNameError, match="plans must be one of"):
        grid(encoder, plans="all")
    with pytest.raises(UnknownNameError, match="schemes must be one of"):
        grid(encoder, schemes="xavier")
    with pytest.raises(UnknownNameError, match="bias must be one of keep, zero"):
        grid(encoder, bias="none")
    with pytest.raises(InputError, match="width must be a number of blocks between 1 and 3, but got 4"):
        grid(encoder, plans=("single", "blocks"), width=4)
    # Plans without windows do not depend on the width.
    assert grid(encoder, plans=("progressive", "single"), width=4, seeds=1)
    with pytest.raises(InputError, match="blocks must have weights of their own to be re-initialized"):
        grid(encoder_of("albert"))
    with pytest.raises(InputError, match="sizes must be one number or more, each once"):
        grid(encoder, sizes=(8, 8))
    with pytest.raises(InputError, match="train_size must be left out where sizes are given"):
        grid(encoder, sizes=8, train_size=8)
    with pytest.raises(InputError, match="--sizes must be numbers above 0 or all"):
        read_sizes("0")


def test_a_model_whose_weights_are_no_numbers_is_refused(tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "m", "bert"))
    next(encoder.model.parameters()).data[0] = float("nan")
    with pytest.raises(InputError, match="weights of m must be finite numbers"):
        reinit(encoder, cats.cats_task(), seeds=1, store=tmp_path)
