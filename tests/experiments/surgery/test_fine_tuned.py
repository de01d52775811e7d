"""Are models opened however they are given, and their answers kept and found again?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import samples
import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.result import guess_line
from microtome.experiments.surgery.fine_tuned import named_seeds, sound
from microtome.store.shelf import Shelf
from microtome.tasks.task import Item, Split, Task
from microtome.training.cut_store import as_answers, cut_answers
from microtome.training.cuts import predict
from microtome.training.evaluating import write_windows
from microtome.training.heads.head import Head
from microtome.training.models.modeling import build
from microtome.training.models.saving import save
from microtome.training.opening import Model, open_models

Encoders = Callable[..., Any]


def opened(references: Any, task: Task) -> list[Model]:
    return open_models(references, task, context=Context())


def saved(encoder: Any, task: Task, folder: Path, *, seed: int = 0, **more: Any) -> Path:
    """A checkpoint as `finetune` writes it, without a training."""
    model = build(encoder, task, more.pop("head", "stock"), seed=seed)
    save(model, folder, encoder.tokenizer)
    write_windows(folder, 24, None)
    told = {"model": "tiny", "task": task.name, "seeds": {"init": seed, "order": seed}, "failure": None}
    (folder / "run.json").write_text(json.dumps({**told, **more}))
    return folder


def test_folders_say_their_seed_windows_and_failure(encoder_of: Encoders, tmp_path: Path) -> None:
    task = samples.task_of("classification")
    places = [
        saved(encoder_of("bert"), task, tmp_path / "1", seed=3),
        saved(encoder_of("bert"), task, tmp_path / "2", seed=5, failure="diverged: loss is NaN"),
    ]
    found = opened([str(places[0]), places[1]], task)
    assert [one.seed for one in found] == [3, 5]
    assert [one.longest for one in found] == [24, 24]
    assert found[0].name == "tiny-classification"
    kept, said = sound(found)
    assert [one.seed for one in kept] == [3]
    assert said == ("tiny-classification, seed 5 was left out: diverged: loss is NaN.",)
    alone, told = sound(found[1:])
    assert len(alone) == 1, "with nothing sound, it is looked at all the same"
    assert "although its training failed: diverged" in told[0]
    assert opened(found, task) == found


def test_a_loaded_checkpoint_with_a_head_can_be_given(tmp_path: Path) -> None:
    place = tiny.save_checkpoint(tmp_path, "bert", head="SequenceClassification", num_labels=3)
    task = samples.task_of("classification", labels=("LABEL_0", "LABEL_1", "LABEL_2"))
    (one,) = opened(load(place, name="mine"), task)
    (other,) = opened(place, task)
    assert one.name == "mine"
    assert one.digest == other.digest
    assert one.seed == 0


@pytest.mark.parametrize("specification", [3, "train", [], True])
def test_a_damaged_record_of_the_store_is_refused(
    specification: Any, encoder_of: Encoders, tmp_path: Path
) -> None:
    task = samples.task_of("classification")
    place = saved(encoder_of("bert"), task, tmp_path / "1")
    (place / "entry.json").write_text(json.dumps({"specification": specification}))
    with pytest.raises(InputError, match=r"entry\.json must be as microtome wrote it, but got"):
        opened(place, task)


def test_the_digest_tells_heads_apart_that_the_encoder_does_not_hold(
    encoder_of: Encoders, tmp_path: Path
) -> None:
    task = samples.task_of("classification")
    head = Head(reads="mean", dense=0)
    places = [saved(encoder_of("bert"), task, tmp_path / str(seed), seed=seed, head=head) for seed in (1, 2)]
    found = opened(places, task)
    assert found[0].digest != found[1].digest
    assert opened(places[0], task)[0].digest == found[0].digest


def test_what_cannot_be_opened_is_refused(encoder_of: Encoders, tmp_path: Path) -> None:
    task = samples.task_of("classification")
    with pytest.raises(InputError, match="tuned models must be at least one, but got 0"):
        opened([], task)
    with pytest.raises(InputError, match="a fine-tuned model must be a folder that exists, but got"):
        opened(tmp_path / "none", task)
    with pytest.raises(InputError, match="a model must be what finetune returned"):
        opened(3, task)
    place = saved(encoder_of("bert"), task, tmp_path / "1")
    with pytest.raises(InputError, match="must be different ones, but one of them is there twice"):
        opened([place, place], task)
    small = load(tiny.save_checkpoint(tmp_path / "small", "bert", num_hidden_layers=2))
    with pytest.raises(InputError, match="must have as many blocks each, but they have 2, 3"):
        opened([place, saved(small, task, tmp_path / "2")], task)


@pytest.mark.parametrize("kind", ["classification", "regression", "span", "parsing", "language_modeling"])
def test_answers_are_computed_once_and_read_from_then_on(
    encoder_of: Encoders, tmp_path: Path, kind: Any
) -> None:
    task, encoder = samples.task_of(kind), encoder_of("bert")
    split = task.split("train")
    (one,) = opened(saved(encoder, task, tmp_path / "model"), task)
    told: list[Any] = []

    def ask(cuts: Any, given: Any = one) -> Any:
        told.clear()
        context = Context(store=tmp_path / "store", progress=lambda *a: told.append(a))
        return cut_answers(given, task, split, cuts, context=context)

    cuts = [(1, 2, 3), (1, 3), ()]
    first = ask(cuts)
    assert told
    assert ask(cuts) == first
    assert not told
    right = predict(one.task_model, split, task, one.tokenizer, longest=24)
    if kind in ("regression", "language_modeling"):
        np.testing.assert_allclose(first[0], right, rtol=1e-5)
    else:
        assert first[0] == right
    # Any other request is another one.
    assert ask([(1, 3)]) == [first[1]]
    assert told
    ask(cuts, replace(one, longest=20))
    assert told
    ask(cuts, replace(one, precision="bfloat16"))
    assert told
    (entry, *_) = [e for e in Shelf(tmp_path / "store").entries() if len(e.specification["cuts"]) == 3]
    assert entry.kind == "cuts"
    assert entry.provenance["task"] == task.name


def test_seeds_are_named_by_their_place_where_they_are_equal(encoder_of: Encoders, tmp_path: Path) -> None:
    task = samples.task_of("classification")
    (one,) = opened(saved(encoder_of("bert"), task, tmp_path / "1", seed=4), task)
    assert named_seeds([one, replace(one, seed=2)]) == (4, 2)
    assert named_seeds([one, one]) == (0, 1)


def test_answers_carry_targets_groups_and_seeds() -> None:
    items = tuple(Item(id=str(n), texts=("a",), target=n % 2, group="ab"[n % 2]) for n in range(4))
    found = as_answers(Split(name="v", items=items), [[0, 0, 1, 1], [1, 1, 1, 1]], [7, 8])
    assert list(found.targets) == [0, 1, 0, 1]
    assert list(found.groups) == ["a", "b", "a", "b"]
    assert list(found.seeds) == [7, 8]
    assert len(found.predictions) == 2


def test_the_most_frequent_answer_is_scored_where_there_is_one() -> None:
    items = tuple(Item(id=str(n), texts=("a",), target=int(n > 2)) for n in range(4))
    split = Split(name="train", items=items)
    task = Task(
        name="t",
        title="t",
        kind="classification",
        labels=("no", "yes"),
        scores=("accuracy",),
        main=("accuracy",),
        readers=MappingProxyType({"train": lambda: split}),
        source="tests",
    )
    assert guess_line(task, split) == {"majority baseline": 0.75}
    assert guess_line(replace(task, train="none"), split) == {}
    assert guess_line(replace(task, kind="language_modeling"), split) == {}
