"""Tiny models of which some blocks do nothing, and tasks that they solve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.encoders.loading import load
from microtome.tasks.task import Item, Task
from microtome.training.cuts import predict
from microtome.training.models.modeling import build
from pruning.idle import balance, still, task_with, texts
from samples import task_of


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 5 blocks of which 4 and 5 do nothing."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    label = {0: "no", 1: "yes", 2: "maybe"}
    tiny.save_checkpoint(
        folder,
        "bert",
        head="SequenceClassification",
        num_hidden_layers=5,
        id2label=label,
        label2id={name: number for number, name in label.items()},
    )
    encoder: Any = load(folder)
    still(encoder.model, encoder.family, (4, 5))
    items = tuple(Item(id=str(i), texts=(text,), target=0) for i, text in enumerate(texts(200)))
    balance(encoder, task_with("classification", {"all": items}, tuple(label.values())), "all")
    encoder.model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def solved(classifier: Path) -> Callable[..., Task]:
    """A task to which the whole model's answers are right, but for one in ten."""

    def make(count: int = 400, splits: tuple[str, ...] = ("validation", "train"), wrong: int = 10) -> Task:
        encoder: Any = load(classifier)
        labels = ("no", "yes", "maybe")
        made = {}
        for number, name in enumerate(splits):
            items = tuple(
                Item(id=str(place), texts=(text,), target=0)
                for place, text in enumerate(texts(count, number))
            )
            blank = task_with("classification", {name: items}, labels)
            said = predict(
                build(encoder, blank, "own"), blank.split(name), blank, encoder.tokenizer, longest=32
            )
            made[name] = tuple(
                Item(id=item.id, texts=item.texts, target=(answer + (place % wrong == 0)) % 3)
                for place, (item, answer) in enumerate(zip(items, said, strict=True))
            )
        return task_with("classification", made, labels)

    return make


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A tiny checkpoint."""

    def make(model_type: str, head: str = "", **settings: Any) -> Path:
        folder = tmp_path_factory.mktemp("models") / model_type
        return tiny.save_checkpoint(folder, model_type, head=head, **settings)

    return make


@pytest.fixture(scope="session")
def three_labels() -> Task:
    return task_of("classification")
