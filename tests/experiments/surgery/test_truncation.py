"""Does a truncation say what cut models and separately trained heads would say, and say it once?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cats
import microtome as mt
import tiny
from microtome.context import Context
from microtome.encoders.cutting import keep_blocks
from microtome.errors import InputError, UnknownNameError
from microtome.experiments import layer_heads as headarms
from microtome.experiments.surgery.claims import head_claims
from microtome.experiments.surgery.truncation import truncate
from microtome.experiments.truncation_curves import HeadAnswers, gain_of
from microtome.findings.claims.render import render
from microtome.findings.results import Result, open_result
from microtome.scores.table import find_score
from microtome.store.shelf import Shelf
from microtome.tasks.subset import subset
from microtome.tasks.task import Kind
from microtome.training.cuts import predict
from microtome.training.models.modeling import build
from microtome.training.models.saving import save
from microtome.training.opening import open_model
from samples import task_of

QUICK: dict[str, Any] = dict(cats.QUICK)
CURVES = ("UNTUNED", "TUNED", "TUNEDORIG", "TUNED converged", "TUNEDORIG converged")
GAIN, CONVERGED_GAIN = "difference TUNED", "difference TUNED converged"
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
    return truncate(runs[0], task, base=folder, store=store, command="microtome truncate")


def scores(task: Any, answers: list[Any]) -> float:
    split = task.split("validation")
    return float(find_score(task.main).compute(answers, [item.target for item in split], task.labels))


def test_untuned_scores_are_those_of_really_cut_models(
    found: Result, runs: list[Any], task: Any, tmp_path: Path
) -> None:
    curve: Any = found["UNTUNED"]
    assert curve.x == (1, 2, 3)
    for kept in (1, 2, 3):
        model = open_model(runs[0].folder, task, context=Context()).task_model
        keep_blocks(model.net, model.family, range(1, kept + 1))
        answers = predict(model, task.split("validation"), task, runs[0].encoder.tokenizer, longest=16)
        assert curve.values[kept - 1] == pytest.approx(scores(task, answers))
    assert curve.values[-1] == pytest.approx(runs[0].score.value)


def test_all_curves_are_there_with_bands_and_the_line(found: Result, task: Any) -> None:
    assert tuple(one.name for one in found.curves) == (*CURVES, GAIN, CONVERGED_GAIN)
    for curve in found.curves:
        assert curve.axis == "layers kept"
        assert (curve.band_low <= curve.low + 1e-9).all()
        assert (curve.high <= curve.band_high + 1e-9).all()
        assert curve.n == 40
    assert {one.name: one.seeds for one in found.curves} == {
        name: (3, 3, 3) if name in ("TUNED", "TUNEDORIG", GAIN) else (1, 1, 1)
        for name in (*CURVES, GAIN, CONVERGED_GAIN)
    }
    assert {one.unit for one in found.curves if one.seeds == (3, 3, 3)} == {"example and head seed"}
    assert {one.unit for one in found.curves if one.seeds == (1, 1, 1)} == {"example"}
    targets = [item.target for item in task.split("train")]
    most = max(set(targets), key=targets.count)
    assert found.lines["majority baseline"] == pytest.approx(scores(task, [most] * 40))
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

    from microtome.training.heads.head_inputs import head_rows
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
    assert any(said.startswith("Training the head further ") for said in found.findings)
    assert any(said.startswith("A linear probe trained to convergence ") for said in found.findings)
    assert "(UNTUNED)" in found.findings[0]
    assert any(said.startswith("Before fine-tuning the best layer is") for said in found.findings)
    assert "UNTUNED; Phang et al. 2021" in found.methods
    assert "head seeds 0, 1, 2" in found.methods
    assert "phang2021" in found.references[0]
    assert found.provenance["command"] == "microtome truncate"
    assert found.provenance["recipe"]["steps"] == 40


def test_training_the_head_helps_only_where_the_band_of_the_paired_difference_says_so(
    found: Result, runs: list[Any], task: Any
) -> None:
    gain: Any = found[GAIN]
    for name, arm in ((GAIN, "TUNED"), (CONVERGED_GAIN, "TUNED converged")):
        differences = found[arm].values - found["UNTUNED"].values
        np.testing.assert_allclose(found[name].values, differences, atol=1e-12)
    score = find_score(task.main)

    def said(low: float) -> str:
        width = {"band_low": np.array([-0.1, low, -0.1]), "band_high": np.full(3, 0.3)}
        drawn = {"tuned": found["TUNED"], "untuned": found["UNTUNED"], "gain": replace(gain, **width)}
        return render(head_claims(drawn, score)[0])

    assert said(0.02).startswith("Training the head further helps at 1 of 3 layers, most with 2 layers kept")
    assert said(0.0).startswith("Training the head further is not shown to help at any layer;")
    assert "undefined" not in said(np.nan)


def test_a_head_that_is_the_tuned_one_gains_nothing(runs: list[Any], task: Any, store: Path) -> None:
    for given in (runs[0], runs):
        found = truncate(given, task, store=store, arms=["tuned"], head_seeds=(0, 1), rate=1e-12, steps=1)
        np.testing.assert_array_equal(found[GAIN].values, np.zeros(3))
        assert "is not shown to help at any layer" in " ".join(found.findings)


def test_heads_learn_from_what_their_model_was_trained_on(
    folder: Path, task: Any, store: Path, tmp_path: Path
) -> None:
    few = [
        mt.finetune(mt.load(folder), task, "wu2020", seed=seed, train_size=24, store=store, **QUICK)
        for seed in (1, 2)
    ]
    own = [subset(task.split("train"), 24, seed=seed) for seed in (1, 2)]
    told: dict[str, Any] = {"arms": ["converged"], "store": store}
    for given in (few, [one.folder for one in few]):
        found = truncate(given, task, base=folder, **told)
        assert [one["digest"] for one in found.provenance["train"]] == [one.digest for one in own]
        assert not any("not known" in said for said in found.warnings)
        assert "24 examples of cats/train, that each model was trained on" in found.methods
    guesses = [one.evaluation.baseline["accuracy"] for one in few]
    assert found.lines["majority baseline"] == pytest.approx(np.mean(guesses))
    # Fewer of them are drawn among them; more are refused.
    fewer = truncate(few[1], task, train_size=10, **told).provenance["train"]
    assert fewer == [{"examples": 10, "digest": subset(own[1], 10, seed=2).digest}]
    with pytest.raises(InputError, match="train_size must be at most 24, what bert-cats was trained on"):
        truncate(few[0], task, train_size=25, **told)
    # Without a record, or with other data under the same names, nobody knows.
    bare = tmp_path / "bare"
    shutil.copytree(few[0].folder, bare)
    (bare / "run.json").unlink()
    found = truncate(bare, task, **told)
    assert found.provenance["train"][0]["examples"] == 64
    assert any("was trained on is not known" in said for said in found.warnings)
    found = truncate(few[0], cats.cats_task(train=60, validation=40), **told)
    assert found.provenance["train"][0]["examples"] == 60
    assert any("was trained on is not known" in said for said in found.warnings)


def test_the_whole_model_is_scored_in_the_precision_of_its_run(folder: Path, task: Any, store: Path) -> None:

    run = mt.finetune(mt.load(folder), task, "wu2020", seed=1, store=store, dtype="bfloat16", **QUICK)
    found = truncate(run.folder, task, store=store, arms=["untuned"])
    assert found.provenance["precision"] == "bfloat16"
    assert open_model(run, task, context=Context()).precision == "bfloat16"
    assert found["UNTUNED"].values[-1] == run.score.value
    specifications = [e.specification for e in Shelf(store).entries() if e.kind == "cuts"]
    assert {(each["device"], each["precision"]) for each in specifications} >= {("cpu", "bfloat16")}


def test_asked_again_it_is_read(
    found: Result, runs: list[Any], folder: Path, task: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("this was done before")

    monkeypatch.setattr(headarms.Vectors, "_rows", never)
    monkeypatch.setattr("microtome.training.cut_store.predict_cuts", never)
    again = truncate(runs[0].folder, task, base=folder, store=store, command="microtome truncate")
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
    both = truncate(runs, task, base=folder, store=store)
    singles = [found, truncate(runs[1], task, base=folder, store=store)]
    for name in CURVES:
        wanted = np.mean([one[name].values for one in singles], axis=0)
        np.testing.assert_allclose(both[name].values, wanted, atol=1e-12)
    assert both["UNTUNED"].seeds == (2, 2, 2)
    assert both["TUNED"].seeds == (6, 6, 6)
    assert both["TUNEDORIG"].seeds == (3, 3, 3)
    assert "head seeds of curves over 2 tuned models" in getattr(both["TUNED"], "note")  # noqa: B009
    assert {row["seed"] for row in both.rows if row["arm"] == "TUNED"} == {1, 2}
    # What each seed gave alone is kept, for where two are too few for a band.
    costs = [one["UNTUNED"].values - one["UNTUNED"].values[-1] for one in singles]
    np.testing.assert_allclose(both.more["cost"]["each"], costs, atol=1e-12)
    gains = [one["TUNED"].values - one["UNTUNED"].values for one in singles]
    np.testing.assert_allclose(both.more["gain"]["each"], gains, atol=1e-12)


def test_the_band_of_a_gain_does_not_trust_models_that_agree_by_luck(task: Any) -> None:
    split, rng = task.split("validation"), np.random.default_rng(1)
    shares = np.array([[0.5, 0.3], [0.7, 0.32], [0.9, 0.31]])  # three models, two layers

    def said(shares: np.ndarray) -> HeadAnswers:
        arms = []
        for model in shares:
            answers = [
                [item.target if rng.random() < share else 1 - item.target for item in split]
                for share in model
            ]
            arms.append(headarms.Arm(runs=("fit",), answers=[answers], failed=(), details={}))
        return HeadAnswers(name="TUNED", split=split, arms=tuple(arms), seeds=(1, 2, 3))

    one, other = said(shares), said(np.full((3, 2), 0.3))
    band = gain_of(one, other, task, Context())
    gains = one.scores(task)[:, 0] - other.scores(task)[:, 0]
    least = stats.t.ppf(1 - 0.0125, 2) * stats.sem(gains, axis=0)
    assert (band.band_high >= np.minimum(1, gains.mean(0) + least) - 1e-12).all()
    assert (band.high >= np.minimum(1, gains.mean(0) + stats.t.ppf(0.975, 2) * stats.sem(gains))).all()


def test_a_run_that_failed_is_not_averaged(runs: list[Any], task: Any, store: Path) -> None:
    bad = replace(runs[1], failure="diverged: the loss was no number")
    both = truncate([runs[0], bad], task, arms=["untuned", "converged"], store=store)
    alone = truncate(runs[0], task, arms=["untuned", "converged"], store=store)
    for name in ("UNTUNED", "TUNED converged"):
        np.testing.assert_allclose(both[name].values, alone[name].values)
    assert both.warnings[0].endswith("seed 2 was left out: diverged: the loss was no number.")
    only = truncate(bad, task, arms=["untuned"], store=store)
    assert "is looked at although its training failed: diverged" in only.warnings[0]
    assert np.isfinite(only["UNTUNED"].values).all()


def test_without_the_encoder_before_there_is_a_note(runs: list[Any], task: Any, store: Path) -> None:
    found = truncate(runs[0], task, store=store, head_seeds=(0,), steps=2)
    assert [one.name for one in found.curves] == ["UNTUNED", "TUNED", "TUNED converged", GAIN, CONVERGED_GAIN]
    assert any("TUNEDORIG was left out" in said and "(base)" in said for said in found.warnings)


def test_fewer_examples_are_drawn_and_said(
    runs: list[Any], task: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = truncate(runs[0], task, store=store, arms=["converged"], train_size=24, train_seed=3)
    assert [one["examples"] for one in found.provenance["train"]] == [24]
    # Three layers of 32 numbers of 4 bytes: room for 10 examples.
    monkeypatch.setattr(headarms, "MOST", {"cpu": 3 * 32 * 4 * 10})
    found = truncate(runs[0], task, store=store, arms=["converged"])
    assert any(
        "Heads were trained on a random sample of 10 of 64 examples" in said for said in found.warnings
    )


@pytest.mark.parametrize("kind", list(SCORES))
def test_every_kind_of_task_is_truncated(encoder_of: Callable[..., Any], tmp_path: Path, kind: Kind) -> None:
    given = task_of(kind)
    main = SCORES[kind]
    task = replace(given, scores=main, main=main, validation="train")
    encoder = encoder_of("bert" if kind != "language_modeling" else "gpt2")
    model = build(encoder, task, seed=1)
    save(model, tmp_path / "tuned", encoder.tokenizer)
    found = truncate(
        tmp_path / "tuned", task, base=encoder, store=tmp_path / "store", head_seeds=(0,), steps=2
    )
    expected = {"UNTUNED"}
    if kind in ("classification", "regression", "multiple_choice", "tagging"):
        expected |= {"TUNED", "TUNEDORIG", GAIN}
    if kind in ("classification", "regression", "tagging"):
        expected |= {"TUNED converged", "TUNEDORIG converged", CONVERGED_GAIN}
    assert {one.name for one in found.curves} == expected
    left_out = [said for said in found.warnings if "left out" in said]
    assert bool(left_out) == (len(expected) < 7)
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
    found = truncate(
        tmp_path / "tuned", task, base=encoder, store=tmp_path / "store", head_seeds=(0,), steps=2
    )
    assert tuple(one.name for one in found.curves) == (*CURVES, GAIN, CONVERGED_GAIN)
    answers = predict(model, task.split("validation"), task, encoder.tokenizer)
    assert found["UNTUNED"].values[-1] == pytest.approx(scores(task, answers))


def test_bad_input_gets_a_sentence(runs: list[Any], task: Any, store: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="arms must be one of"):
        truncate(runs[0], task, arms=["tunned"], store=store)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        truncate(runs[0], task, level=95, store=store)
    deeper = tiny.save_checkpoint(tmp_path / "deeper", "bert", num_hidden_layers=4)
    with pytest.raises(InputError, match="base must have 3 blocks, as bert-cats has, but deeper has 4"):
        truncate(runs[0], task, base=deeper, store=store)


def test_one_head_seed_may_be_a_number(runs: list[Any], task: Any, store: Path) -> None:
    found = truncate(runs[0], task, store=store, arms=["tuned"], head_seeds=3, steps=2)
    assert found.provenance["head_seeds"] == [3]
    for wrong in ((), "0,1", (0, 0), (0, -1), 1.5, True):
        with pytest.raises(InputError, match=r"head_seeds must be (one or more, each once|.*whole number)"):
            truncate(runs[0], task, store=store, head_seeds=wrong)  # pyright: ignore[reportArgumentType]


def test_a_base_that_cannot_be_opened_is_told_before_the_work(
    runs: list[Any], task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("work was begun")

    monkeypatch.setattr("microtome.experiments.surgery.truncation.cut_answers", never)
    with pytest.raises(InputError, match="none"):
        truncate(runs[0], task, base=tmp_path / "none", store=tmp_path)


def test_no_arm_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="arms must be one or more of untuned"):
        truncate(["a"], "polarity", arms=())
