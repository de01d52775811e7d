"""Published heads are the plain loop's, converged ones scikit-learn's, and both say what they read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import microtome as mt
import tiny
from cats import cats_task
from microtome.encoders.loading import load
from microtome.errors import InputError, MicrotomeError
from microtome.experiments.probing.inputs import RANDOM_BASELINE
from microtome.tasks.task import Item, Split, Task
from microtome.training.heads.head_inputs import head_rows
from microtome.training.heads.layer_heads import apply_heads, head_weights, pooler_names, train_heads
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import trainable
from microtome.training.models.modeling import build
from microtome.training.optimization.loop import train
from microtome.training.optimization.updates import example_batches
from microtome.training.precision import make_accelerator
from microtome.training.recipe import find_recipe
from samples import task_of

LONGEST = 128


@pytest.fixture(scope="module")
def task() -> Task:
    return cats_task(96, 80)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def cls_of(encoder: Any, task: Task, split: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    """What the library's own model gives for the first token after every block, and what is right."""
    features = encode(task.split(split).items, task, encoder.tokenizer, longest=LONGEST)
    batch = collate(features)
    with torch.inference_mode():
        states = encoder.base(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            token_type_ids=batch["token_type_ids"],
            output_hidden_states=True,
        ).hidden_states
    return [each[:, 0].clone() for each in states[1:]], batch["labels"]


def with_targets(task: Task, change: Callable[[Item], Any]) -> Task:
    """The same texts with other answers."""
    splits = {
        name: Split(
            name=name, items=tuple(replace(item, target=change(item)) for item in task.split(name).items)
        )
        for name in task.splits
    }
    return replace(task, readers={name: partial(splits.__getitem__, name) for name in splits})


def test_a_published_head_is_that_of_a_plain_loop(task: Task, tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "still", "bert", hidden_dropout_prob=0.0)
    encoder: Any = load(folder)
    found = mt.probe(
        encoder,
        target=task,
        random_baselines=0,
        solvers=["published"],
        epochs=2,
        seeds=(4,),
        store=tmp_path / "store",
    )
    states, right = cls_of(encoder, task, "train")
    judged, answers = cls_of(encoder, task, "validation")
    pooler = encoder.base.pooler
    for place, (train_states, judged_states) in enumerate(zip(states, judged, strict=True)):
        linear: Any = build(encoder, task, "stock", seed=4).net.classifier
        with torch.no_grad():
            pooled, held = (
                pooler.activation(pooler.dense(each)).clone() for each in (train_states, judged_states)
            )
        optimizer = torch.optim.AdamW(linear.parameters(), lr=2e-5, weight_decay=0.0)
        order, losses = example_batches([1] * len(right), batch=8, seed=4), []
        for update in range(24):
            for group in optimizer.param_groups:
                group["lr"] = 2e-5 * (24 - update) / 24
            chosen = torch.from_numpy(next(order))
            loss = torch.nn.functional.cross_entropy(linear(pooled[chosen]), right[chosen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(linear.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        told = found.more["heads"][f"{encoder.name} (published)"]
        assert told["updates"] == 24
        assert told["losses"][0][place] == pytest.approx(np.mean(losses[-10:]), rel=1e-5)
        accuracy = float((linear(held).argmax(1) == answers).float().mean())
        assert found[f"{encoder.name} (published)"].values[place] == pytest.approx(accuracy)


@pytest.mark.parametrize("model_type", ["bert", "albert", "roberta"])
def test_a_pooler_that_stays_is_that_of_a_loop_with_it_frozen(
    encoder_of: Callable[..., Any], task: Task, model_type: str
) -> None:
    encoder, recipe = encoder_of(model_type), find_recipe("tamkin2020", rate=1e-2, steps=9)
    head = mt.Head(reads="pooler", dense=0, pooler="pretrained")
    model, looped = (build(encoder, task, head, seed=3) for _ in range(2))
    for one in (model, looped):
        for module in one.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    features = encode(task.split("train").items, task, encoder.tokenizer, longest=LONGEST)
    rows, names = head_rows(model, features), pooler_names(model)
    assert len(names) == 2
    before = {name: head_weights(model)[name].clone() for name in names}
    (heads,) = train_heads(model, rows, recipe, seeds=[5], still=names)
    below = [name for name, _ in looped.base.named_parameters() if name.startswith("pooler.")]
    trainable(looped, "head", frozen=below)
    train(looped, features, collate, recipe, seed=5, accelerator=make_accelerator("cpu", "float32"))
    assert set(heads.weights) == set(head_weights(model)) - names
    for name, found in heads.weights.items():
        wanted = head_weights(looped)[name]
        assert float((wanted - head_weights(model)[name]).abs().max()) > 1e-3
        torch.testing.assert_close(found[-1], wanted, atol=1e-4, rtol=1e-4)
    for name, weight in before.items():
        assert torch.equal(head_weights(model)[name], weight)
        assert torch.equal(head_weights(looped)[name], weight)
        assert model.get_parameter(name).grad is None
    said = apply_heads(model, heads, rows)[-1]
    with torch.inference_mode():
        whole = looped.eval()(collate(features))
    np.testing.assert_allclose(np.stack(said), whole.numpy(), atol=1e-4)


def test_something_of_a_head_must_learn(encoder_of: Callable[..., Any], task: Task) -> None:
    model = build(encoder_of("bert"), task)
    features = encode(task.split("train").items[:4], task, encoder_of("bert").tokenizer)
    with pytest.raises(InputError, match="some weights of a head must be left to learn"):
        train_heads(
            model, head_rows(model, features), find_recipe("tamkin2020"), still=set(head_weights(model))
        )


def test_a_converged_readout_is_scikit_learns_and_planted_labels_are_read(
    encoder_of: Callable[..., Any], task: Task, store: Path
) -> None:
    encoder = encoder_of("bert")
    found = mt.probe(encoder, target=task, solvers=["converged"], store=store)
    name = f"{encoder.name} (converged)"
    curve: Any = found[name]
    assert curve.x == (1, 2, 3)
    assert curve.axis == "layer"
    told = found.more["heads"][name]
    states, right = cls_of(encoder, task, "train")
    judged, answers = cls_of(encoder, task, "validation")
    for place, (rows, held) in enumerate(zip(states, judged, strict=True)):
        scaler = StandardScaler().fit(rows.numpy())
        model = LogisticRegression(C=1 / told["penalty"][place], tol=1e-8, max_iter=20_000)
        model.fit(scaler.transform(rows.numpy()), right.numpy())
        said = model.predict(scaler.transform(held.numpy()))
        # Where the two are on the border of a decision they may differ.
        assert curve.values[place] == pytest.approx(np.mean(said == answers.numpy()), abs=1.5 / len(answers))
    assert max(curve.values) > 0.85
    assert max(curve.band_low) > found.lines["majority baseline"]
    best = int(np.argmax(curve.values)) + 1
    assert any(
        said.startswith(f"{name}: from which layer cats is read best is not shown: layer")
        and str(best) in said
        and "the band is better at layer" in said
        for said in found.findings
    )
    assert {row["model"] for row in found.rows} == {encoder.name, RANDOM_BASELINE}


def test_random_labels_give_chance(encoder_of: Callable[..., Any], task: Task, store: Path) -> None:
    draw = np.random.default_rng(5)
    shuffled = with_targets(task, lambda _: int(draw.integers(2)))
    found = mt.probe(
        encoder_of("bert"), target=shuffled, random_baselines=0, seeds=(0,), epochs=1, store=store
    )
    for solver in ("published", "converged"):
        curve = found[f"{encoder_of('bert').name} ({solver})"]
        assert (np.abs(curve.values - 0.5) < 0.2).all()
        assert (curve.band_low < 0.5).all()
    assert all("cats is not shown to be read at any layer" in said for said in found.findings[:2])


def test_models_and_solvers_are_compared_on_the_same_examples(
    encoder_of: Callable[..., Any], task: Task, store: Path, tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    same = load(encoder.source.given, name="same")
    found = mt.probe([encoder, same], target=task, seeds=(0, 1), epochs=1, store=store)
    first = encoder.name
    assert [one.name for one in found.curves] == [
        f"{name} ({solver})"
        for name in (first, "same", RANDOM_BASELINE)
        for solver in ("published", "converged")
    ] + [
        f"difference, {name} from {first} ({solver})"
        for name in ("same", RANDOM_BASELINE)
        for solver in ("published", "converged")
    ] + [f"difference, {first} (converged) from {first} (published)"]
    for solver in ("published", "converged"):
        difference: Any = found[f"difference, same from {first} ({solver})"]
        assert (difference.values == 0).all()
        assert difference.x == (1, 2, 3)
        twin = found[f"{RANDOM_BASELINE} ({solver})"].values - found[f"{first} ({solver})"].values
        np.testing.assert_allclose(
            found[f"difference, {RANDOM_BASELINE} from {first} ({solver})"].values, twin
        )
    gain = found[f"difference, {first} (converged) from {first} (published)"]
    assert gain.unit == "example and head seed"
    # A few updates at a small rate leave a head where it began.
    assert gain.band_low.max() > 0
    assert any(
        said.startswith(f"{first} (converged) against {first} (published): more") for said in found.findings
    )
    assert found.experiment == "probing"
    assert found.more["target"] == "task:cats"
    assert "10 epochs" not in found.methods
    assert "the pooler of the checkpoint" in found.methods
    assert found.references[0].startswith("@inproceedings{tamkin2020")
    assert not found.warnings
    found.save(tmp_path / "out")
    again = mt.open(tmp_path / "out")
    assert again[f"{first} (published)"].values.tolist() == found[f"{first} (published)"].values.tolist()
    # What is in the store is read, and is the same.
    once_more = mt.probe([encoder, same], target=task, seeds=(0, 1), epochs=1, store=store)
    assert once_more.rows == found.rows


@pytest.mark.parametrize(
    ("model_type", "head", "note"),
    [
        ("roberta", "", "was never trained: no pre-training loss read it."),
        ("electra", "", "published heads read the vector of the first token as it is."),
        ("xlnet", "", "published heads read the vector of the last token as it is."),
        ("bert", "MaskedLM", "has no pooler in its checkpoint"),
    ],
)
def test_a_model_without_a_trained_pooler_is_told(
    encoder_of: Callable[..., Any], task: Task, store: Path, model_type: str, head: str, note: str
) -> None:
    encoder = encoder_of(model_type, head)
    found = mt.probe(encoder, target=task, solvers=["published"], epochs=1, seeds=(0,), store=store)
    assert len(found.warnings) == 1
    assert note in found.warnings[0]
    assert found.warnings[0].replace("The pooler of ", "").startswith(encoder.name)
    # The twin is read as the model is.
    assert {"pooler" in told for told in found.more["reads"].values()} == {model_type == "roberta"}


def test_the_twin_of_a_model_whose_pooler_lies_in_its_file_has_one_too(task: Task, tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "pretrained", "bert", head="PreTraining")
    config = json.loads((folder / "config.json").read_text())
    # As BERT's own checkpoints say, though their files have a pooler.
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    asked = {"solvers": ["published"], "epochs": 1, "seeds": (0,), "store": tmp_path / "store"}
    found = mt.probe(folder, target=task, **asked)
    assert found.more["reads"] == {
        "pretrained": "the pooler of the checkpoint (dense layer and tanh)",
        RANDOM_BASELINE: "a randomly initialized pooler (dense layer and tanh)",
    }
    assert not found.warnings
    # The whole checkpoint has the same encoder and pooler.
    (folder / "config.json").write_text(json.dumps(config))
    whole = mt.probe(folder, target=task, random_baselines=0, **{**asked, "store": tmp_path / "other"})
    name = "pretrained (published)"
    assert whole.more["heads"][name] == found.more["heads"][name]


def test_numbers_are_read_by_ridge_and_choices_by_heads_alone(
    encoder_of: Callable[..., Any], task: Task, store: Path
) -> None:
    numbers = replace(
        with_targets(task, lambda item: float(item.target) + len(item.texts[0]) / 100),
        kind="regression",
        labels=(),
        scores=("pearson",),
        main=("pearson",),
    )
    found = mt.probe(encoder_of("bert"), target=numbers, random_baselines=0, solvers="converged", store=store)
    assert max(found[f"{encoder_of('bert').name} (converged)"].values) > 0.6
    assert "ridge regression" in found.methods
    choices = replace(
        task,
        kind="multiple_choice",
        labels=(),
        main=("accuracy",),
        readers={
            name: partial(
                Split,
                name=name,
                items=tuple(
                    Item(
                        id=item.id,
                        choices=(("tea", item.texts[0]), ("cat", item.texts[0])),
                        target=item.target,
                    )
                    for item in task.split(name).items
                ),
            )
            for name in task.splits
        },
    )
    found = mt.probe(
        encoder_of("bert"), target=choices, random_baselines=0, epochs=1, seeds=(0,), store=store
    )
    assert [one.name for one in found.curves] == [f"{encoder_of('bert').name} (published)"]
    assert any(said.startswith("converged was left out: ") for said in found.warnings)
    with pytest.raises(InputError, match="Converged probes must be of tasks"):
        mt.probe(encoder_of("bert"), target=choices, solvers=["converged"])


def test_other_depths_are_not_subtracted(
    encoder_of: Callable[..., Any], task: Task, store: Path, tmp_path: Path
) -> None:
    flat = load(tiny.save_checkpoint(tmp_path / "flat", "bert", num_hidden_layers=2), name="flat")
    found = mt.probe(
        [encoder_of("bert"), flat],
        target=task,
        random_baselines=0,
        solvers=["converged"],
        store=store,
        train_size=40,
    )
    curve: Any = found["flat (converged)"]
    assert curve.x == (1, 2)
    assert not [one for one in found.curves if one.name.startswith("difference")]
    assert any("different numbers of layers" in said for said in found.warnings)
    assert found.more["examples"] == {"train": 40, "judged": 80}


def test_models_may_be_called_by_any_words(encoder_of: Callable[..., Any], task: Task, store: Path) -> None:
    encoder = encoder_of("bert")
    first, other = (load(encoder.source.given, name=name) for name in ("a from b", "c from d"))
    found = mt.probe(
        [first, other], target=task, random_baselines=0, solvers=["converged"], store=store, train_size=40
    )
    assert sum(said.startswith(f"{other.name} against {first.name} (converged): ") for said in found.findings)


def test_wrong_requests_are_refused(encoder_of: Callable[..., Any], task: Task) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(MicrotomeError, match="solvers must be one of converged, published"):
        mt.probe(encoder, target=task, solvers=["exact"])
    with pytest.raises(MicrotomeError, match="solvers must be one or more"):
        mt.probe(encoder, target=task, solvers=[])
    with pytest.raises(MicrotomeError, match="models must be named differently"):
        mt.probe([encoder, encoder], target=task)
    with pytest.raises(MicrotomeError, match="seeds must be one or more, each once"):
        mt.probe(encoder, target=task, seeds=(1, 1))
    with pytest.raises(MicrotomeError, match="level must be between 0 and 1"):
        mt.probe(encoder, target=task, level=0)
    with pytest.raises(MicrotomeError, match="train_size must be at most 96, the size of cats/train"):
        mt.probe(encoder, target=task, random_baselines=0, train_size=97)
    with pytest.raises(MicrotomeError, match="epochs must be a number above 0"):
        mt.probe(encoder, target=task, epochs=0)
    with pytest.raises(InputError, match=r"must have one label per input .* but tagging is tagging"):
        mt.probe(encoder, target=task_of("tagging"))
