"""Are heads that are trained together those that would have been trained apart, as the recipe says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from microtome.context import Context
from microtome.encoders.encoder import digest_weights
from microtome.errors import InputError
from microtome.tasks.generated.table import GENERATED
from microtome.tasks.task import Kind
from microtome.training.heads.decoding import decode
from microtome.training.heads.head_inputs import HeadRows, head_rows
from microtome.training.heads.layer_heads import apply_heads, failures, head_weights, train_heads
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import set_head_dropout, trainable
from microtome.training.models.modeling import build
from microtome.training.models.taskmodel import TaskModel
from microtome.training.optimization.loop import train
from microtome.training.precision import make_accelerator
from microtome.training.recipe import Recipe, find_recipe
from samples import task_of

SIZES = {"train": 48, "validation": 24, "test": 4, "held_out": 4}
READ: tuple[Kind, ...] = ("classification", "regression", "multiple_choice", "tagging")


@pytest.fixture(scope="module")
def task() -> Any:
    return GENERATED["polarity"](sizes=SIZES)


def recipe_of(**values: Any) -> Recipe:
    return find_recipe("devlin2019", **{"steps": 7, "batch": 4, "rate": 1e-2, **values})


def still(model: TaskModel) -> TaskModel:
    """A model without any dropout."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def rows_of(encoder: Any, model: TaskModel, task: Any, **options: Any) -> tuple[HeadRows, list[Any]]:
    features = encode(task.split("train").items, task, encoder.tokenizer, longest=32)
    return head_rows(model, features, **options), features


@pytest.mark.parametrize(
    "values",
    [{}, {"bias_correction": True, "schedule": "constant", "clip": None}, {"clip": 0.05, "bucket": True}],
)
@pytest.mark.parametrize("model_type", ["bert", "roberta", "distilbert", "xlnet", "gpt2", "modernbert"])
def test_it_is_the_head_that_the_loop_trains_with_the_encoder_frozen(
    encoder_of: Callable[..., Any], task: Any, model_type: str, values: dict[str, Any]
) -> None:
    encoder, recipe = encoder_of(model_type), recipe_of(**values)
    model = still(build(encoder, task, seed=3))
    rows, features = rows_of(encoder, model, task)
    (heads,) = train_heads(model, rows, recipe, seeds=[5])
    looped = still(build(encoder, task, seed=3))
    trainable(looped, "head")
    train(looped, features, collate, recipe, seed=5, accelerator=make_accelerator("cpu", "float32"))
    start, trained = head_weights(model), head_weights(looped)
    # Large rates take heads far from where they began; biases of balanced classes need not go with them.
    assert max(float((wanted - start[name]).abs().max()) for name, wanted in trained.items()) > 1e-3
    for name, wanted in trained.items():
        torch.testing.assert_close(heads.weights[name][-1], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", READ)
def test_every_kind_learns_as_in_the_loop(encoder_of: Callable[..., Any], kind: Kind) -> None:
    encoder, task, recipe = encoder_of("bert"), task_of(kind), recipe_of(batch=3)
    model, looped = (still(build(encoder, task, seed=3)) for _ in range(2))
    features = encode(task.split("train").items, task, encoder.tokenizer)
    (heads,) = train_heads(model, head_rows(model, features), recipe, seeds=[1])
    trainable(looped, "head")
    train(looped, features, collate, recipe, seed=1, accelerator=make_accelerator("cpu", "float32"))
    for name, wanted in head_weights(looped).items():
        if kind == "multiple_choice" and wanted.numel() == 1:
            # What is added to all choices alike has no gradient but rounding, which Adam makes large.
            continue
        torch.testing.assert_close(heads.weights[name][-1], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("model_type", ["bert", "electra", "xlnet", "llama"])
def test_a_head_does_not_depend_on_those_beside_it(
    encoder_of: Callable[..., Any], task: Any, model_type: str
) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, task, seed=3)
    set_head_dropout(model, 0.3)
    together = train_heads(model, rows_of(encoder, model, task)[0], recipe_of(), seeds=(0, 1))
    alone = train_heads(model, rows_of(encoder, model, task, cuts=[(1, 2)])[0], recipe_of(), seeds=(1,))
    for name, found in alone[0].weights.items():
        torch.testing.assert_close(together[1].weights[name][1], found[0], atol=1e-5, rtol=1e-5)
        assert float((together[0].weights[name] - together[1].weights[name]).abs().max()) > 1e-4


def test_heads_by_turns_are_the_same(
    encoder_of: Callable[..., Any], task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of("roberta")
    model = still(build(encoder, task, seed=3))
    rows = rows_of(encoder, model, task)[0]
    (together,) = train_heads(model, rows, recipe_of(), seeds=[2])

    def refused(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no batching rule")

    monkeypatch.setattr(torch.func, "vmap", lambda *_, **__: refused)
    (by_turns,) = train_heads(model, rows, recipe_of(), seeds=[2])
    for name, found in by_turns.weights.items():
        torch.testing.assert_close(together.weights[name], found, atol=1e-5, rtol=1e-5)
    for one, two in zip(apply_heads(model, together, rows), apply_heads(model, by_turns, rows), strict=True):
        np.testing.assert_allclose(np.stack(one), np.stack(two), atol=1e-4)


def test_dropout_is_the_recipes_and_the_model_stays_as_it_is(
    encoder_of: Callable[..., Any], task: Any
) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, task, seed=3)
    before, shares = digest_weights(model), [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)]
    rows, state = rows_of(encoder, model, task)[0], torch.get_rng_state()
    plain, dropped = (train_heads(model, rows, recipe_of(dropout=p), seeds=[0])[0] for p in (0.0, 0.5))
    assert any(not torch.equal(plain.weights[n], dropped.weights[n]) for n in plain.weights)
    assert digest_weights(model) == before
    assert not model.training
    assert [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)] == shares
    assert torch.equal(torch.get_rng_state(), state)


def test_heads_begin_where_they_are_told(encoder_of: Callable[..., Any], task: Any) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, task, seed=3)
    rows = rows_of(encoder, model, task)[0]
    starts = [head_weights(build(encoder, task, seed=seed)) for seed in (7, 8)]
    # So small a rate leaves them nearly there.
    found = train_heads(model, rows, recipe_of(rate=1e-12, decay=0.0), seeds=(0, 1), starts=starts)
    for one, start in zip(found, starts, strict=True):
        for name, tensor in start.items():
            torch.testing.assert_close(one.weights[name][0], tensor, atol=1e-6, rtol=1e-5)


def test_the_layer_that_knows_the_answer_gives_it(encoder_of: Callable[..., Any], task: Any) -> None:
    encoder = encoder_of("bert")
    model = still(build(encoder, task, seed=3))
    rows, features = rows_of(encoder, model, task)
    assert rows.targets is not None
    rows.vectors.copy_(torch.randn(rows.vectors.shape, generator=torch.Generator().manual_seed(0)))
    rows.vectors[1, :, :4] += 6.0 * rows.targets[:, None] - 3.0
    (heads,) = train_heads(model, rows, recipe_of(steps=40, batch=16), seeds=[0])
    split, shares = task.split("train"), []
    for outputs in apply_heads(model, heads, rows):
        answers = decode(outputs, features, split.items, task)
        shares.append(np.mean([a == item.target for a, item in zip(answers, split, strict=True)]))
    assert shares[1] == 1.0
    assert heads.losses[1] < min(heads.losses[0], heads.losses[2])


def test_a_training_that_diverges_is_named(encoder_of: Callable[..., Any], task: Any) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, task, seed=3)
    rows = rows_of(encoder, model, task)[0]
    rows.vectors[1, 0] = float("nan")
    found = train_heads(model, rows, recipe_of(steps=40), seeds=[4])
    assert [(layer, seed) for layer, seed, _ in failures(found)] == [(1, 4)]


def test_bad_input_gets_a_sentence(encoder_of: Callable[..., Any], task: Any) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, task, seed=3)
    rows = rows_of(encoder, model, task)[0]
    with pytest.raises(InputError, match="head seeds must be at least one, each there once"):
        train_heads(model, rows, recipe_of(), seeds=(1, 1))
    with pytest.raises(InputError, match="starts must be one for each of 2 seeds"):
        train_heads(model, rows, recipe_of(), seeds=(0, 1), starts=[head_weights(model)])
    with pytest.raises(InputError, match="names of the weights of a head must be"):
        train_heads(model, rows, recipe_of(), seeds=(0,), starts=[{}])
    asking = build(encoder, task_of("span"))
    with pytest.raises(InputError, match="but a head for span compares all tokens"):
        train_heads(asking, rows, recipe_of(), seeds=(0,))


def test_progress_counts_all_seeds(encoder_of: Callable[..., Any], task: Any) -> None:
    encoder, told = encoder_of("bert"), []
    model = build(encoder, task, seed=3)
    train_heads(
        model,
        rows_of(encoder, model, task)[0],
        recipe_of(),
        seeds=(0, 1),
        context=Context(progress=lambda *each: told.append(each)),
    )
    assert told[-1] == ("heads of all layers", 14, 14)
    assert [done for _, done, _ in told] == list(range(1, 15))
