"""Does a truncation say what cut models and separately trained heads would say, and say it once?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
import microtome as mt
import tiny
from microtome.encoders.cutting import keep_blocks
from microtome.errors import InputError, UnknownNameError
from microtome.experiments import headarms
from microtome.experiments.truncation import truncation
from microtome.findings.results import Result, open_result
from microtome.tasks.items import Kind
from microtome.tasks.scores import find_score
from microtome.training.evaluating import predict
from microtome.training.modeling import build
from microtome.training.saving import load_task_model, save
from samples import task_of

QUICK: dict[str, Any] = dict(cats.QUICK)
CURVES = ("UNTUNED", "TUNED", "TUNEDORIG", "TUNED converged", "TUNEDORIG converged")
SCORES: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "regression": ("pearson", "spearman"),
    "multiple_choice": ("accuracy",),
    "span": ("span_f1",),
    "tagging": ("tag_accuracy",),
    "parsing": ("las",),
    "language_modeling": ("perplexity",),
}


@pytest.fixture(scope="module")
def task() -> Any:
    return cats.cats_task(train=64, validation=40)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny.save_checkpoint(tmp_path_factory.mktemp("model") / "bert", "bert"))


@pytest.fixture(scope="module")
def runs(folder: Path, task: Any, store: Path) -> list[Any]:
    return [mt.finetune(mt.load(folder), task, "wu2020", seed=seed, store=store, **QUICK) for seed in (1, 2)]


@pytest.fixture(scope="module")
def found(runs: list[Any], folder: Path, task: Any, store: Path) -> Result:
    return truncation(runs[0], task, base=folder, store=store, command="microtome truncate")


def scores(task: Any, answers: list[Any]) -> float:
    split = task.split("validation")
    return float(find_score(task.main).compute(answers, [item.target for item in split], task.labels))


def test_untuned_scores_are_those_of_really_cut_models(
    found: Result, runs: list[Any], task: Any, tmp_path: Path
) -> None:
    curve: Any = found["UNTUNED"]
    assert curve.x == (1, 2, 3)
    for kept in (1, 2, 3):
        model = load_task_model(runs[0].folder, task)
        keep_blocks(model.net, model.family, range(1, kept + 1))
        answers = predict(model, task.split("validation"), task, runs[0].encoder.tokenizer, longest=16)
        assert curve.values[kept - 1] == pytest.approx(scores(task, answers))
    assert curve.values[-1] == pytest.approx(runs[0].score.value)


def test_all_curves_are_there_with_bands_and_the_line(found: Result, task: Any) -> None:
    assert tuple(one.name for one in found.curves) == CURVES
    for curve in found.curves:
        assert curve.axis == "layers kept"
        assert (curve.band_low <= curve.low + 1e-9).all()
        assert (curve.high <= curve.band_high + 1e-9).all()
        assert curve.n == 40
    assert {one.name: one.seeds for one in found.curves} == {
        name: (3, 3, 3) if name in ("TUNED", "TUNEDORIG") else (1, 1, 1) for name in CURVES
    }
    targets = [item.target for item in task.split("train")]
    most = max(set(targets), key=targets.count)
    assert found.lines["most frequent answer"] == pytest.approx(scores(task, [most] * 40))
    assert found.warnings == ()


def test_the_table_has_every_head(found: Result) -> None:
    rows = [dict(row) for row in found.rows]
    assert len(rows) == 3 * (1 + 3 + 3 + 1 + 1)
    for name in ("TUNED", "TUNEDORIG"):
        curve: Any = found[name]
        for layer in (1, 2, 3):
            own = [row["score"] for row in rows if row["arm"] == name and row["layers_kept"] == layer]
            assert len(own) == 3
            assert np.mean(own) == pytest.approx(curve.values[layer - 1])


def test_a_converged_readout_is_scikit_learns(
    found: Result, runs: list[Any], folder: Path, task: Any
) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from microtome.training.headrows import head_rows
    from microtome.training.inputs import encode

    encoder: Any = mt.load(folder)
    for name, model in (
        ("TUNED converged", runs[0].model),
        ("TUNEDORIG converged", build(encoder, task)),
    ):
        told = found.more["heads"][name][0]
        assert all(told["converged"])
        known = {}
        for split in ("train", "validation"):
            items = task.split(split).items
            known[split] = head_rows(
                model, encode(items, task, runs[0].encoder.tokenizer, longest=16)
            ).vectors.numpy()
        for layer, penalty in enumerate(told["penalty"]):
            scaler = StandardScaler().fit(known["train"][layer])
            readout = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=10_000)
            targets = [item.target for item in task.split("train")]
            readout.fit(scaler.transform(known["train"][layer]), targets)
            answers: Any = readout.predict(scaler.transform(known["validation"][layer]))
            curve: Any = found[name]
            assert curve.values[layer] == pytest.approx(scores(task, answers.tolist()), abs=1 / 40 + 1e-9)


def test_sentences_say_what_was_found(found: Result) -> None:
    assert "top" in found.findings[0]
    assert "accuracy" in " ".join(found.findings)
    assert any(said.startswith("Training the head further helps most with") for said in found.findings)
    assert any(said.startswith("Before fine-tuning the best layer is") for said in found.findings)
    assert "UNTUNED; Phang et al. 2021" in found.methods
    assert "head seeds 0, 1, 2" in found.methods
    assert "phang2021" in found.references[0]
    assert found.provenance["command"] == "microtome truncate"
    assert found.provenance["recipe"]["steps"] == 40


def test_asked_again_it_is_read(
    found: Result, runs: list[Any], folder: Path, task: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("this was done before")

    monkeypatch.setattr(headarms.Vectors, "_rows", never)
    monkeypatch.setattr("microtome.experiments.models.predict_cuts", never)
    again = truncation(runs[0].folder, task, base=folder, store=store, command="microtome truncate")
    for name in CURVES:
        np.testing.assert_array_equal(again[name].values, found[name].values)
    assert again.findings == found.findings


def test_a_result_is_saved_and_opened(found: Result, tmp_path: Path) -> None:
    found.save(tmp_path)
    json.loads((tmp_path / "result.json").read_text())
    assert open_result(tmp_path).findings == found.findings


def test_several_seeds_make_one_curve(
    found: Result, runs: list[Any], folder: Path, task: Any, store: Path
) -> None:
    both = truncation(runs, task, base=folder, store=store)
    singles = [found, truncation(runs[1], task, base=folder, store=store)]
    for name in CURVES:
        wanted = np.mean([one[name].values for one in singles], axis=0)
        np.testing.assert_allclose(both[name].values, wanted, atol=1e-12)
    assert both["UNTUNED"].seeds == (2, 2, 2)
    assert both["TUNED"].seeds == (6, 6, 6)
    assert both["TUNEDORIG"].seeds == (3, 3, 3)
    assert "head seeds of curves over 2 tuned models" in getattr(both["TUNED"], "note")  # noqa: B009
    assert {row["seed"] for row in both.rows if row["arm"] == "TUNED"} == {1, 2}


def test_a_run_that_failed_is_not_averaged(runs: list[Any], task: Any, store: Path) -> None:
    bad = replace(runs[1], failure="diverged: the loss was no number")
    both = truncation([runs[0], bad], task, arms=["untuned", "converged"], store=store)
    alone = truncation(runs[0], task, arms=["untuned", "converged"], store=store)
    for name in ("UNTUNED", "TUNED converged"):
        np.testing.assert_allclose(both[name].values, alone[name].values)
    assert both.warnings[0].endswith("seed 2 was left out: diverged: the loss was no number.")
    only = truncation(bad, task, arms=["untuned"], store=store)
    assert "is looked at although its training failed: diverged" in only.warnings[0]
    assert np.isfinite(only["UNTUNED"].values).all()


def test_without_the_encoder_before_there_is_a_note(runs: list[Any], task: Any, store: Path) -> None:
    found = truncation(runs[0], task, store=store, head_seeds=(0,), steps=2)
    assert [one.name for one in found.curves] == ["UNTUNED", "TUNED", "TUNED converged"]
    assert any("TUNEDORIG was left out" in said and "(base)" in said for said in found.warnings)


def test_fewer_examples_are_drawn_and_said(
    runs: list[Any], task: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = truncation(runs[0], task, store=store, arms=["converged"], train_size=24, train_seed=3)
    assert found.provenance["train"]["examples"] == 24
    # Three layers of 32 numbers of 4 bytes: room for 10 examples.
    monkeypatch.setattr(headarms, "MOST", {"cpu": 3 * 32 * 4 * 10})
    found = truncation(runs[0], task, store=store, arms=["converged"])
    assert any("Heads were trained on 10 of 64 examples" in said for said in found.warnings)


@pytest.mark.parametrize("kind", list(SCORES))
def test_every_kind_of_task_is_truncated(encoder_of: Callable[..., Any], tmp_path: Path, kind: Kind) -> None:
    given = task_of(kind)
    main = SCORES[kind]
    task = replace(given, scores=main, main=main, validation="train")
    encoder = encoder_of("bert" if kind != "language_modeling" else "gpt2")
    model = build(encoder, task, seed=1)
    save(model, tmp_path / "tuned", encoder.tokenizer)
    found = truncation(
        tmp_path / "tuned", task, base=encoder, store=tmp_path / "store", head_seeds=(0,), steps=2
    )
    expected = {"UNTUNED"}
    if kind in ("classification", "regression", "multiple_choice", "tagging"):
        expected |= {"TUNED", "TUNEDORIG"}
    if kind in ("classification", "regression", "tagging"):
        expected |= {"TUNED converged", "TUNEDORIG converged"}
    assert {one.name for one in found.curves} == expected
    left_out = [said for said in found.warnings if "left out" in said]
    assert bool(left_out) == (len(expected) < 5)
    answers = predict(model, task.split("train"), task, encoder.tokenizer)
    targets = [item.target for item in task.split("train")]
    wanted = float(find_score(main).compute(answers, targets, task.labels))
    assert found["UNTUNED"].values[-1] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    "model_type", ["roberta", "albert", "xlnet", "deberta-v2", "gpt2", "modernbert", "llama"]
)
def test_families_are_truncated(
    encoder_of: Callable[..., Any], task: Any, tmp_path: Path, model_type: str
) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, task, seed=1)
    save(model, tmp_path / "tuned", encoder.tokenizer)
    found = truncation(
        tmp_path / "tuned", task, base=encoder, store=tmp_path / "store", head_seeds=(0,), steps=2
    )
    assert tuple(one.name for one in found.curves) == CURVES
    answers = predict(model, task.split("validation"), task, encoder.tokenizer)
    assert found["UNTUNED"].values[-1] == pytest.approx(scores(task, answers))


def test_bad_input_gets_a_sentence(runs: list[Any], task: Any, store: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="arm must be one of"):
        truncation(runs[0], task, arms=["tunned"], store=store)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        truncation(runs[0], task, level=95, store=store)
    deeper = tiny.save_checkpoint(tmp_path / "deeper", "bert", num_hidden_layers=4)
    with pytest.raises(InputError, match="base must have 3 blocks, as bert-cats has, but deeper has 4"):
        truncation(runs[0], task, base=deeper, store=store)
