"""Does only what should learn learn?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import samples
from microtome.encoders.encoder import digest_weights
from microtome.errors import InputError, UnknownNameError
from microtome.training.heads.head import Head
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import merged, trainable
from microtome.training.models.modeling import build
from microtome.training.models.taskmodel import TaskModel

Encoders = Callable[..., Any]
FAMILIES = [
    "bert",
    "distilbert",
    "deberta",
    "deberta-v2",
    "mpnet",
    "xlnet",
    "gpt2",
    "modernbert",
    "llama",
    "phi3",
]


def learn(model: TaskModel, encoder: Any, steps: int = 3) -> dict[str, torch.Tensor]:
    """Take a few steps, and give the batch."""
    assert model.kind == "classification"
    task = samples.task_of("classification")
    batch = collate(encode(samples.items_of("classification"), task, encoder.tokenizer))
    model.train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model.loss(model(batch), batch).backward()
        optimizer.step()
    model.eval()
    return batch


def changed(model: TaskModel, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}


def state(model: TaskModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_head_alone_learns_and_a_pooler_that_is_read_is_a_part_of_it(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, samples.task_of("classification"))
    before = state(model)
    said = trainable(model, "head")
    learn(model, encoder)
    parts = {"net.classifier.weight", "net.classifier.bias"}
    pooler = {"net.bert.pooler.dense.weight", "net.bert.pooler.dense.bias"}
    assert changed(model, before) == parts | pooler
    assert said.learning == 3 * 32 + 3 + 32 * 32 + 32
    assert said.said == f"head: 1,155 of {said.all:,} numbers learn"


def test_a_pooler_that_is_not_read_never_learns(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    for head in (Head(reads="cls", dense=1), Head(reads="mean", dense=0)):
        model = build(encoder, samples.task_of("classification"), head)
        trainable(model, "full")
        idle = {name for name, p in model.named_parameters() if not p.requires_grad}
        assert idle == {"net.pooler.dense.weight", "net.pooler.dense.bias"}
        learn(model, encoder)
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "electra"])
def test_bitfit_changes_biases_and_the_head(encoder_of: Encoders, model_type: str) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of("classification"))
    before = state(model)
    said = trainable(model, "bitfit")
    learn(model, encoder)
    base = {name for name in changed(model, before) if "classifier" not in name and "score" not in name}
    assert base
    assert all(name.endswith("bias") or "pooler" in name for name in base)
    assert said.learning < said.all / 4


def test_bitfit_is_refused_where_there_are_no_biases(encoder_of: Encoders) -> None:
    with pytest.raises(InputError, match="bitfit must find biases, but Llama"):
        trainable(build(encoder_of("llama"), samples.task_of("classification")), "bitfit")
    with pytest.raises(
        UnknownNameError, match="method must be one of bitfit, full, head, lora, but got 'lara'"
    ):
        trainable(build(encoder_of("bert"), samples.task_of("classification")), "lara")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_adapters_learn_alone_and_merge_into_the_weights(encoder_of: Encoders, model_type: str) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of("classification"), seed=1)
    plain = set(model.state_dict())
    said = trainable(model, "lora")
    again = build(encoder, samples.task_of("classification"), seed=1)
    trainable(again, "lora")
    assert digest_weights(model) == digest_weights(again)
    before = state(model)
    batch = learn(model, encoder)
    moved = changed(model, before)
    assert any("lora_B" in name for name in moved)
    heads = ("classifier", "score", "logits_proj", "sequence_summary", "pooler", "head.")
    assert all("lora_" in name or any(each in name for each in heads) for name in moved)
    assert 0 < said.learning < said.all
    one = merged(model)
    assert set(one.state_dict()) == plain
    with torch.inference_mode():
        assert torch.allclose(one(batch), model(batch), atol=1e-5)
    assert any("lora_" in name for name in model.state_dict()), "the model itself must keep its adapters"
    with pytest.raises(InputError, match="must learn with method='lora', but got 'full'"):
        trainable(model, "full")
