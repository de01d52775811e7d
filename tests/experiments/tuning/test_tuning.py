"""Fine-tuning, evaluation and pruning as experiments: models are opened once, results have one protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cats
import microtome as mt
from microtome.context import Context
from microtome.encoders import loading
from microtome.experiments.tuning.evaluation import ModelEvaluation, _names
from microtome.experiments.tuning.finetuning import FineTuning
from microtome.experiments.tuning.pruning import Pruning
from microtome.training import opening

Encoders = Callable[..., Any]
RECIPE = cats.QUICK


def protocol(result: Any, folder: Path) -> None:
    document = result.document()
    assert document["format"] == f"microtome/{result.kind}/1"
    assert list(result.findings) == document["findings"]
    assert result.methods == document["methods"]
    assert list(result.warnings) == document["warnings"]
    result.save(folder)
    assert mt.open(folder).findings == result.findings


def test_results_have_one_protocol_and_models_are_opened_once(
    encoder_of: Encoders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    context = Context(store=tmp_path / "store", command="microtome finetune").resolved()
    tuning = FineTuning(model=encoder, task=task, recipe="wu2020", changes=RECIPE, seeds=(1,))
    plan = tuning.plan(context)
    assert plan.summary["seeds"] == [1]
    runs = tuning.run(plan, context)
    protocol(runs, tmp_path / "runs")
    assert (
        runs.runs[0].address
        == mt.finetune(encoder, task, "wu2020", seed=1, store=tmp_path / "store", **RECIPE).address
    )

    models = []
    original = opening.open_model
    monkeypatch.setattr(
        "microtome.experiments.tuning.evaluation.open_model",
        lambda *given, **more: models.append(given) or original(*given, **more),
    )
    folder = tmp_path / "runs" / "seed-1"
    evaluation = ModelEvaluation(model=str(folder), task=task, against=runs.runs[0])
    plan = evaluation.plan(context)
    monkeypatch.setattr(loading, "load", None)
    result = evaluation.run(plan, context)
    assert len(models) == 2
    assert result.comparison is not None
    assert result.comparison.difference == 0
    protocol(result, tmp_path / "evaluation")


def test_pruning_plans_what_it_runs(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    store = tmp_path / "store"
    run = mt.finetune(encoder, task, "wu2020", seed=1, store=store, **RECIPE)
    context = Context(store=store).resolved()
    pruning = Pruning(model=run, task=task, max_drop=99.0, speed=False)
    plan = pruning.plan(context)
    result = pruning.run(plan, context)
    assert plan.summary["cuts"] == result.scored
    assert plan.summary["certify"] == result.steps[0].found.n
    again = mt.prune(run, task, 99.0, speed=False, store=store)
    assert (again.kept, again.findings) == (result.kept, result.findings)
    protocol(result, tmp_path / "small")


def test_models_in_evaluations_have_the_shortest_names_that_tell_them_apart() -> None:
    assert _names(["/runs/a/seed-1", "/runs/a/seed-2"]) == ["seed-1", "seed-2"]
    assert _names(["/runs/a/rte/seed-1", Path("/runs/b/rte/seed-1")]) == ["a-seed-1", "b-seed-1"]
    assert _names(["/runs/a/seed-1"]) == ["seed-1"]
