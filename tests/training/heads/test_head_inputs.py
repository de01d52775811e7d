"""Is what is kept of an example all that its head reads, in every family and at every layer?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tiny
from microtome.tasks.task import Kind
from microtome.training.cuts import every_truncation, outputs_of_cuts
from microtome.training.heads.head import Head
from microtome.training.heads.head_inputs import head_rows, heads_refusal
from microtome.training.heads.layer_heads import Heads, apply_heads, head_weights
from microtome.training.inputs import Features, encode
from microtome.training.models.modeling import build
from microtome.training.models.taskmodel import TaskModel
from samples import KINDS, task_of

READ: tuple[Kind, ...] = ("classification", "regression", "multiple_choice", "tagging")


def features_of(encoder: Any, kind: Kind) -> list[Features]:
    task = task_of(kind)
    found = encode(task.split("train").items, task, encoder.tokenizer)
    if kind == "multiple_choice":
        # Some examples have fewer choices.
        found[1] = replace(found[1], tokens=found[1].tokens[:2])
    return found


def same_at_all_layers(model: TaskModel, features: list[Features]) -> None:
    """The head on kept vectors says what it says of whole states."""
    rows = head_rows(model, features)
    depth = rows.vectors.shape[0]
    own = {name: tensor.expand(depth, *tensor.shape) for name, tensor in head_weights(model).items()}
    found = apply_heads(model, Heads(seed=0, weights=own, losses=np.zeros(depth), updates=0), rows)
    wanted: list[list[Any]] = [[None] * len(features) for _ in range(depth)]

    def use(number: int, outputs: Any, _: Any, places: Any) -> None:
        for place, each in zip(places, outputs.numpy(), strict=True):
            wanted[number][place] = each

    outputs_of_cuts(model, features, list(every_truncation(depth).values()), use)
    for layer in range(depth):
        for ours, theirs, one in zip(found[layer], wanted[layer], features, strict=True):
            there = np.arange(len(ours)) if one.words is None else np.flatnonzero(one.words >= 0)
            np.testing.assert_allclose(ours[there], theirs[: len(ours)][there], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("model_type", list(tiny.CONFIGS))
def test_a_stock_head_reads_what_was_kept(
    encoder_of: Callable[..., Any], model_type: str, kind: Kind
) -> None:
    encoder = encoder_of(model_type)
    same_at_all_layers(build(encoder, task_of(kind), seed=1), features_of(encoder, kind))


@pytest.mark.parametrize("model_type", ["bert", "electra", "xlnet", "gpt2"])
@pytest.mark.parametrize(
    "head",
    [
        Head(reads="mean"),
        Head(reads="last", dense=0),
        Head(reads="cls", dense=2, activation="relu"),
        Head(reads="pooler", pooler="fresh"),
    ],
)
def test_a_head_with_stages_reads_what_was_kept(
    encoder_of: Callable[..., Any], model_type: str, head: Head
) -> None:
    encoder = encoder_of(model_type)
    for kind in ("classification", "multiple_choice"):
        same_at_all_layers(build(encoder, task_of(kind), head, seed=1), features_of(encoder, kind))


def test_modernberts_mean_is_kept(tmp_path: Any) -> None:
    from microtome.encoders.loading import load

    folder = tiny.save_checkpoint(tmp_path, "modernbert", classifier_pooling="mean")
    encoder: Any = load(folder)
    same_at_all_layers(
        build(encoder, task_of("classification"), seed=1), features_of(encoder, "classification")
    )


def test_a_text_that_ends_with_the_padding_token_is_read_as_the_library_reads_it(
    encoder_of: Callable[..., Any],
) -> None:
    encoder = encoder_of("llama")
    model = build(encoder, task_of("classification"), seed=1)
    features = features_of(encoder, "classification")
    tokens = features[0].tokens[0]
    tokens = replace(tokens, ids=np.where(np.arange(len(tokens)) == len(tokens) - 1, model.pad, tokens.ids))
    same_at_all_layers(model, [replace(features[0], tokens=(tokens,)), *features[1:]])


def test_words_without_a_token_have_no_row(encoder_of: Callable[..., Any]) -> None:
    encoder, task = encoder_of("bert"), task_of("tagging")
    features = encode(task.split("train").items, task, encoder.tokenizer, longest=8)
    assert sum((one.words < 0).sum() for one in features if one.words is not None) > 0
    model = build(encoder, task, seed=1)
    rows = head_rows(model, features)
    assert rows.vectors.shape[1] == sum(int((np.asarray(one.words) >= 0).sum()) for one in features)
    assert rows.targets is not None
    assert int(rows.targets.min()) >= 0
    same_at_all_layers(model, features)


def test_the_order_is_that_of_the_examples(encoder_of: Callable[..., Any]) -> None:
    encoder, task = encoder_of("bert"), task_of("regression")
    model = build(encoder, task, seed=1)
    features = features_of(encoder, "regression")
    rows = head_rows(model, features)
    alone = [head_rows(model, [one]).vectors for one in features]
    torch.testing.assert_close(rows.vectors, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-5)
    assert rows.targets is not None
    assert rows.targets.tolist() == [0.0, 0.5, 1.0, 1.5]


def test_other_kinds_are_refused_with_the_reason() -> None:
    refused = {kind: heads_refusal(kind) for kind in KINDS}
    assert [kind for kind, why in refused.items() if why is None] == list(READ)
    assert "compares all tokens of a passage" in str(refused["span"])
    assert "whole vocabulary" in str(refused["language_modeling"])
