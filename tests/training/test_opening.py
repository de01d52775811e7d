"""Models in a store are named by their training, those in other folders by their folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cats
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.store.outfolder import deliver
from microtome.training.finetuning import finetune
from microtome.training.opening import open_encoders, open_model

Encoders = Callable[..., Any]
FEW: dict[str, Any] = {**cats.QUICK, "steps": 2}


def opened(*folders: Any) -> list[Any]:
    return open_encoders([{"source": str(folder)} for folder in folders], context=Context(device="cpu"))


def test_a_model_in_a_store_is_named_by_its_training(encoder_of: Encoders, tmp_path: Path) -> None:
    bert, task = encoder_of("bert"), cats.cats_task()
    runs = [finetune(bert, task, store=tmp_path / "s", seed=seed, **FEW) for seed in (1, 2)]
    base = load(bert.source.given, name=bert.name)
    names = [f"{bert.name} on {task.name} (seed {seed})" for seed in (1, 2)]
    encoders = opened(bert.source.given, *(run.folder for run in runs))
    assert [encoder.name for encoder in encoders] == [base.name, *names]
    assert open_model(runs[0].folder, context=Context(device="cpu")).name == names[0]
    # What addresses are made of is the same in a copy, whose folder has a name.
    copy = deliver(runs[0].folder, tmp_path / "runs" / "seed-1")
    (elsewhere,) = opened(copy)
    assert (elsewhere.name, elsewhere.digest) == ("seed-1", encoders[1].digest)
    with pytest.raises(InputError, match="stands twice"):
        opened(runs[0].folder, runs[0].folder)


def test_equal_names_are_told_apart_by_addresses(encoder_of: Encoders, tmp_path: Path) -> None:
    bert, task = encoder_of("bert"), replace(cats.cats_task(), name="cats")
    runs = [finetune(bert, task, store=tmp_path, seed=1, **{**FEW, "steps": steps}) for steps in (2, 3)]
    names = [encoder.name for encoder in opened(*(run.folder for run in runs))]
    assert names == [f"{run.folder.name}-{bert.name} on cats (seed 1)" for run in runs]
