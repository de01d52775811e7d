"""Along a training, change, border and score are found when they came, and in the order in which they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments import layer_heads as headarms
from microtome.experiments.change.trajectory import trajectory
from microtome.figures.trajectories import save_trajectory
from microtome.findings.claims.render import headline
from microtome.findings.results import open_result
from microtome.tasks.subset import subset
from microtome.tasks.task import Split
from microtome.training.evaluating import evaluate
from microtome.training.finetuning import finetune
from moving import collapsed, moved, parted, saved, sentences

TEXT = sentences(70, seed=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"), depth=8)


def test_where_nothing_changes_there_is_no_change_and_no_block(place: Path, tmp_path: Path) -> None:
    flat = parted(place, 1.0)
    found = trajectory({0: flat, 10: flat, 100: flat}, TEXT, store=tmp_path)
    np.testing.assert_array_equal(found.more["change"]["first"]["values"], 1)
    np.testing.assert_array_equal(found.more["change"]["last"]["band_low"], 1)
    assert found.more["change"]["first"]["center"] == [None] * 3
    assert found.more["certain"] == [False] * 3
    assert len(set(found.more["margins"])) == 1
    assert found.findings == (
        "No layer changed from step 0 to step 100.",
        "At none of 3 checkpoints is a block of layers certain.",
    )
    assert [one.name for one in found.curves[:2]] == ["similarity to the first", "similarity to the last"]
    # Layer by layer too, at some of the steps.
    for one in found.curves[2:]:
        assert one.name.endswith("to the first")
        assert one.axis == "layer"
        assert one.x == tuple(found.more["layers"])
        np.testing.assert_array_equal(one.values, 1)
    assert len(found.curves) == 4
    assert found.more["order"] is None
    assert found.more["score"] is None


def test_only_the_layers_that_move_change(place: Path, tmp_path: Path) -> None:
    steps = {0: load(place), 5: moved(place, 8, by=0.2), 10: moved(place, 7, 8, by=0.5)}
    found = trajectory(steps, TEXT, store=tmp_path)
    similar = np.array(found.more["change"]["first"]["values"])
    assert similar.shape == (3, 9)
    np.testing.assert_array_equal(similar[1, :8], 1)
    np.testing.assert_array_equal(similar[2, :7], 1)
    assert 1 > similar[1, 8] > similar[2, 8]
    centers = found.more["change"]["first"]["center"]
    assert centers[0] is None
    assert centers[1]["value"] == pytest.approx(8)
    assert 7 < centers[2]["value"] < 8
    np.testing.assert_allclose(found.more["change"]["last"]["values"][0], similar[2], atol=1e-9)
    np.testing.assert_allclose(found.curves[0].values, similar.mean(1))
    assert (found.claims[0].kind, found.claims[0].layers) == ("course change", (8,))
    maps = np.array(found.more["maps"])
    assert maps.shape == (3, 9, 9)
    np.testing.assert_allclose(maps[0][:7, :7], maps[2][:7, :7])


def test_a_collapsed_checkpoint_is_undefined_and_leaves_the_others(place: Path, tmp_path: Path) -> None:
    end, why = collapsed(place), "a layer is constant over the rows"
    found = trajectory({0: load(place), 5: moved(place, 8), 10: end}, TEXT, store=tmp_path / "s")
    assert found.findings[0] == f"How far step 10 is from step 0 is undefined: {why}."
    curve = found.curves[0]
    assert (curve.values[0], np.isfinite(curve.values).tolist()) == (1, [True, True, False])
    assert curve.values[1] < 1
    assert curve.reasons == (None, None, why)
    assert np.isnan(found.curves[1].values).all()
    assert found.more["blocks"][2]["finding"]["blocks"] == ()
    assert any(said.startswith("At step 10 blocks could not be tested: they need") for said in found.warnings)
    found.save(tmp_path / "out")
    save_trajectory(found, tmp_path / "figures", ["svg"])
    shallow = saved(tmp_path / "shallow")
    found = trajectory({0: load(shallow), 5: collapsed(shallow)}, TEXT, store=tmp_path / "s")
    assert found.findings[0] == f"How far step 5 is from step 0 is undefined: {why}."


@pytest.mark.parametrize(("block", "score", "verdict"), [(80, 20, "after"), (20, 80, "before")])
def test_the_order_in_which_blocks_and_score_came(
    block: int, score: int, verdict: str, place: Path, tmp_path: Path
) -> None:
    steps = {
        step: parted(place, 40.0 if step >= block else 1.0, alike=step < score)
        for step in (5, 10, 20, 40, 80)
    }
    task = cats.cats_task(100, 60)
    found = trajectory(steps, TEXT, task=task, store=tmp_path / "s", command="microtome trajectory")
    assert found.more["certain"] == [step >= block for step in steps]
    assert found.curves[0].name == "best linear probe"
    # Linear probes of every layer, at a few steps with the last among them.
    layered = found.curves[1:]
    assert {one.axis for one in layered} == {"layers kept"}
    assert layered[-1].name == f"linear probe, step {max(steps)}"
    assert len(layered) <= 5
    assert found.curves[0].axis == "step"
    assert found.curves[0].x == tuple(steps)
    values = dict(zip(steps, found.curves[0].values, strict=True))
    assert all((value > 0.9) == (step >= score) for step, value in values.items())
    assert found.more["order"]["verdict"] == verdict
    assert (found.claims[-1].kind, found.claims[-1].facts["order"]) == ("onset", verdict)
    blocks = found.claims[1]
    assert [step for step, _ in blocks.facts["certain"]] == [step for step in steps if step >= block]
    assert headline(blocks).endswith("at step 80 layers 5-8 form a block.")
    assert len(found.more["probes"]) == 5
    assert len(found.more["probes"][0]["values"]) == 8
    assert found.more["heads"] == []
    last = found.more["read_layer"][-1]
    assert found.more["probes"][-1]["values"][last - 1] == pytest.approx(values[80])
    json.dumps(found.document(), allow_nan=False)
    found.save(tmp_path / "out")
    again = open_result(tmp_path / "out")
    assert again.more["blocks"][-1]["finding"]["layers"] == 9
    assert {row["quantity"] for row in again.rows} == {
        "similarity to the first",
        "similarity to the last",
        "margin",
        "probes",
    }


def test_a_fine_tuning_is_scored_by_its_own_head(tmp_path: Path) -> None:
    base, task = load(saved(tmp_path / "m")), cats.cats_task()
    tuned = finetune(base, task, "wu2020", seed=1, checkpoints=[10, 25], store=tmp_path / "s", **cats.QUICK)
    given: dict[str, Any] = {"task": task, "start": base, "store": tmp_path / "s"}
    found = trajectory(tuned, TEXT, linear_probes=False, **given)
    assert found.more["steps"] == [0, 10, 25, 40]
    curve = found.curves[0]
    assert curve.name == "own head"
    # Before the first update the head does no better than the majority baseline.
    assert curve.values[0] == pytest.approx(0.5, abs=0.1)
    assert curve.reasons == ("before the first update: the majority baseline", None, None, None)
    assert any("at step 0 (the majority baseline) to" in sentence for sentence in found.findings)
    assert curve.values[-1] == pytest.approx(tuned.score.value)
    assert curve.values[1] == pytest.approx(evaluate(tuned.checkpoints[0], task).score.value)
    heads = found.more["heads"]
    assert [one["name"] for one in heads] == ["step 10", "step 25", "step 40"]
    assert [one["values"][-1] for one in heads] == pytest.approx(list(curve.values[1:]))
    assert found.more["probes"] == []
    assert found.model == "m-cats"
    assert found.more["order"]["reason"] == "no block is certain at the last checkpoint"
    by_folder = trajectory(tuned.folder, TEXT, **given)
    assert by_folder.model == "m-cats"
    assert [one["name"] for one in by_folder.more["probes"]] == [f"step {s}" for s in (0, 10, 25, 40)]
    np.testing.assert_array_equal(by_folder.curves[0].values, curve.values)


def test_what_probes_learned_from_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shallow, task = saved(tmp_path / "m"), cats.cats_task(40, 20)
    steps = {0: load(shallow), 1: moved(shallow, 3)}
    few, every = (
        trajectory(steps, TEXT, task=task, train_size=size, store=tmp_path / "s") for size in (10, None)
    )
    assert "to convergence on 10 training examples" in few.methods
    assert "to convergence on 40 training examples" in every.methods
    for found, size in ((few, 10), (every, 40)):
        (learned,) = found.provenance["train"]
        assert learned == {"examples": size, "digest": subset(task.split("train"), size).digest}
    assert few.provenance["options"]["train_size"] == 10
    monkeypatch.setattr(headarms, "MOST", {"cpu": 3 * 32 * 4 * 20})
    fitting = trajectory(steps, TEXT, task=task, store=tmp_path / "s")
    (said,) = [one for one in fitting.warnings if "would not fit into memory" in one]
    assert said.startswith("Linear probes were fitted on a random sample of 20 of 40 examples")
    alone = trajectory(steps, TEXT, store=tmp_path / "s")
    assert alone.provenance["train"] == []
    assert "Linear probes" not in alone.methods


def test_bad_input_is_told_before_the_work(place: Path, tmp_path: Path) -> None:
    steps = {0: load(place), 1: moved(place, 8)}
    with pytest.raises(InputError, match="level must be between 0 and 1, but got 2"):
        trajectory(steps, TEXT, level=2, store=tmp_path)
    task = cats.cats_task(20, 20)
    with pytest.raises(InputError, match="train_size must be a whole number between 1 and 20"):
        trajectory(steps, TEXT, task=task, train_size=21, store=tmp_path)
    spans = Split(name="train", items=task.split("train").items)
    other = type(task)(
        name="spans",
        title="Spans",
        kind="span",
        scores=("exact_match",),
        main=("exact_match",),
        readers={"train": lambda: spans, "validation": lambda: task.split("validation")},
        source="memory",
    )
    with pytest.raises(InputError, match="Converged probes must be of tasks with a label"):
        trajectory(steps, TEXT, task=other, store=tmp_path)
    assert not [*tmp_path.iterdir()]
