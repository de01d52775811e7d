"""Does a fine-tuned model have one score, in the arithmetic that it was trained in, whoever asks?"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import samples
import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.encoders.table import FAMILIES
from microtome.errors import InputError
from microtome.experiments.surgery.skipping import skip
from microtome.store.shelf import Shelf
from microtome.tasks.task import Task
from microtome.training.cut_store import cut_answers
from microtome.training.evaluating import evaluate, write_windows
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.models.saving import save
from microtome.training.opening import open_model
from microtome.training.precision import choose_dtype, products_in, read_precision

FULL = (1, 2, 3)


@pytest.fixture(scope="module")
def task() -> Task:
    return replace(samples.task_of("regression"), scores=("pearson",), main=("pearson",))


@pytest.fixture(scope="module")
def folder_in(tmp_path_factory: pytest.TempPathFactory, task: Task) -> Any:
    """A model as `finetune` writes it, which says in which precision it was trained."""
    encoder: Any = load(tiny.save_checkpoint(tmp_path_factory.mktemp("plain"), "bert"))

    def make(precision: str) -> Path:
        folder = tmp_path_factory.mktemp(precision)
        save(build(encoder, task, "stock", seed=1), folder, encoder.tokenizer)
        write_windows(folder, 24, None)
        made = {"model": "tiny", "task": task.name, "seeds": {"init": 1, "order": 1, "subset": 1}}
        told = {**made, "failure": None, "precision": precision, "train": {"examples": 4}}
        (folder / "run.json").write_text(json.dumps(told))
        return folder

    return make


def test_pruning_and_truncation_have_the_same_answers(folder_in: Any, task: Task, tmp_path: Path) -> None:
    place, split = folder_in("bfloat16"), task.split("train")
    model = open_model(place, task, context=Context())
    truncated = cut_answers(model, task, split, [FULL], context=Context(store=tmp_path))
    whole = open_model(place, task, context=Context(), pooled=True)
    (pruned,) = cut_answers(whole, task, split, [FULL], context=Context(store=tmp_path))
    assert [pruned] == truncated
    # Found under one address: the second question was answered from the store.
    (entry,) = Shelf(tmp_path).entries()
    assert (entry.specification["device"], entry.specification["precision"]) == ("cpu", "bfloat16")
    plain = open_model(folder_in("float32"), task, context=Context())
    assert cut_answers(plain, task, split, [FULL], context=Context(store=tmp_path)) != [pruned]
    assert list(evaluate(place, task, split="train").predictions) == pytest.approx(pruned, abs=1e-2)
    assert evaluate(place, task, split="train").provenance["precision"] == "bfloat16"


def test_tf32_is_float32_where_the_device_has_no_other(folder_in: Any, task: Task, tmp_path: Path) -> None:
    split = task.split("train")
    answers = [
        cut_answers(
            open_model(folder_in(precision), task, context=Context()),
            task,
            split,
            [FULL, (1,)],
            context=Context(store=tmp_path),
        )
        for precision in ("tf32", "float32")
    ]
    assert answers[0] == answers[1]
    found = skip(folder_in("tf32"), task, split="train", store=tmp_path)
    assert found.findings
    assert products_in("tf32", "cpu") is contextlib.nullcontext


def test_tf32_products_are_for_the_time_of_an_answer() -> None:
    context = products_in("tf32", "cuda")
    assert context is not None
    before = torch.backends.cuda.matmul.allow_tf32
    with context():
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_what_says_nothing_is_float32(tmp_path: Path) -> None:
    assert read_precision(None) == read_precision(tmp_path) == "float32"
    (tmp_path / "microtome.json").write_text('{"provenance": {"precision": "bfloat16"}}')
    assert read_precision(tmp_path) == "bfloat16"


def test_auto_is_bfloat16_where_device_and_model_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bert, deberta = FAMILIES["bert"], FAMILIES["deberta"]
    assert choose_dtype("cpu", "auto", bert) == "float32"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert choose_dtype("cuda", "auto", bert) == "bfloat16"
    assert choose_dtype("cuda", "auto", bert, vectorized=True) == "float32"
    assert choose_dtype("cuda", "auto", deberta) == "float32"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    assert choose_dtype("cuda", "auto", bert) == "float32"


@pytest.mark.parametrize(
    ("device", "dtype", "family", "vectorized", "message"),
    [
        ("cuda:1", "auto", "bert", False, "device must be 'cpu' or 'cuda'"),
        ("cpu", "int8", "bert", False, "dtype must be"),
        ("cpu", "tf32", "bert", False, "float32, bfloat16 or float16 on a CPU"),
        ("cuda", "bfloat16", "deberta", False, "overflows in bfloat16"),
        ("cuda", "bfloat16", "bert", True, "float32 or tf32 for vectorized training"),
    ],
)
def test_arithmetic_that_is_not_there_is_refused(
    device: str, dtype: str, family: str, vectorized: bool, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose_dtype(device, dtype, FAMILIES[family], vectorized=vectorized)


@pytest.mark.parametrize("model_type", tiny.CONFIGS)
def test_families_are_listed_that_overflow_in_bfloat16(encoder_of: Any, model_type: str) -> None:
    encoder, classes = encoder_of(model_type), samples.task_of("classification")
    model = build(encoder, classes, seed=1)
    batch = collate(encode(samples.items_of("classification"), classes, encoder.tokenizer, longest=30))
    expected = contextlib.nullcontext() if encoder.family.bfloat16 else pytest.raises(RuntimeError)
    with expected, torch.autocast("cpu", dtype=torch.bfloat16):
        model.loss(model(batch), batch).backward()
