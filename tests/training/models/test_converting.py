"""Does a head of our own that the library can compute leave as the library's class, with the same answers?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import samples
from microtome.context import Context
from microtome.tasks.items import Kind
from microtome.training.heads.head import Head
from microtome.training.inputs import collate, encode
from microtome.training.models.converting import as_stock
from microtome.training.models.modeling import build
from microtome.training.models.saving import said_of_head, save
from microtome.training.opening import open_model

POOLED = Head(reads="pooler", dense=0, pooler="fresh", dropout=0.3)


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize(
    ("model_type", "head"),
    [
        ("bert", POOLED),
        ("albert", POOLED),
        ("roberta", POOLED),
        ("roberta", Head(reads="cls", dense=1, dropout=0.3)),
        ("mpnet", "jiant"),
        ("mpnet", POOLED),
        ("xlnet", "jiant"),
        ("deberta", "jiant"),
        ("deberta-v2", "jiant"),
        ("electra", Head(reads="cls", dense=1, activation="gelu", dropout=0.3)),
        ("distilbert", Head(reads="cls", dense=1, activation="relu")),
    ],
)
def test_stock_transformers_read_the_head(
    encoder_of: Callable[..., Any], model_type: str, head: Any, kind: Kind, tmp_path: Path
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model = build(encoder, task, head, seed=1)
    assert model.reader is not None
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    save(model, tmp_path, encoder.tokenizer)
    assert said_of_head(tmp_path) is None
    net, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    batch = collate(encode(samples.items_of(kind), task, encoder.tokenizer))
    again = open_model(tmp_path, task, context=Context()).task_model
    with torch.inference_mode():
        ours, theirs = model(batch), net.eval()(**again._inputs(batch)).logits
        torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(again(batch), ours, atol=1e-5, rtol=1e-4)
    assert float(ours.std()) > 1e-3


@pytest.mark.parametrize(
    ("model_type", "head"),
    [
        ("roberta", "jiant"),
        ("electra", "jiant"),
        ("distilbert", "jiant"),
        ("bert", Head(reads="cls", dense=1)),
        ("gpt2", Head(reads="last", dense=0)),
    ],
)
def test_what_the_library_cannot_compute_stays(
    encoder_of: Callable[..., Any], model_type: str, head: Any
) -> None:
    model = build(encoder_of(model_type), samples.task_of("classification"), head)
    assert as_stock(model) is model


def test_a_model_that_would_answer_otherwise_stays(
    encoder_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(encoder_of("distilbert"), samples.task_of("classification"), Head(activation="relu"))
    assert as_stock(model) is not model
    monkeypatch.setattr("microtome.training.models.converting._near", lambda one, two: False)
    assert as_stock(model) is model


def test_a_model_in_training_is_left_in_training(encoder_of: Callable[..., Any]) -> None:
    model = build(encoder_of("distilbert"), samples.task_of("classification"), Head(activation="relu"))
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not as_stock(model).training
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
