"""Do the cuts of a model answer as really cut models do, whatever the family and the kind of task?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samples
import tiny
from microtome.context import Context
from microtome.encoders.cutting import keep_blocks, refusal
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.tasks.task import Kind
from microtome.training import cuts as cutting
from microtome.training.cuts import (
    Cut,
    every_span,
    every_truncation,
    layer_states,
    outputs_of_cuts,
    predict,
    predict_cuts,
)
from microtome.training.heads.head import Head
from microtome.training.inputs import Features, encode
from microtome.training.models.modeling import build

Encoders = Callable[..., Any]
CUTS: tuple[Cut, ...] = ((1, 2, 3), (1, 2), (1,), (1, 3), (2, 3), (3,))
FEW = ("bert", "albert", "deberta-v2", "xlnet", "gpt2", "modernbert")
# Every family with two kinds; a few families with all of them.
PAIRS = [
    (model_type, kind)
    for place, model_type in enumerate(tiny.CONFIGS)
    for number, kind in enumerate(samples.KINDS)
    if model_type in FEW or (number - place) % 7 in (0, 3)
]


def features_of(encoder: Any, model: Any, kind: Kind) -> list[Features]:
    # Few enough tokens that the passages of questions have several windows.
    return encode(
        samples.items_of(kind), samples.task_of(kind), encoder.tokenizer, longest=30, mask=model.mask
    )


def outputs(model: Any, features: Sequence[Features], cuts: Sequence[Cut]) -> dict[int, tuple[Any, Any]]:
    found: dict[int, tuple[Any, Any]] = {}
    outputs_of_cuts(model, features, cuts, lambda cut, said, batch, _: found.update({cut: (said, batch)}))
    return found


def arrays(value: Any) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def check(model: Any, features: Sequence[Features]) -> None:
    """Compare with copies that are cut as a model of the library is."""
    cuts = [cut for cut in CUTS if refusal(model.net, model.family, cut) is None]
    assert len(cuts) >= 3
    for number, (said, batch) in outputs(model, features, cuts).items():
        cut = copy.deepcopy(model)
        keep_blocks(cut.net, cut.family, cuts[number])
        with torch.inference_mode():
            right = cut(batch)
        for one, other in zip(arrays(said), arrays(right), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("model_type", "kind"), PAIRS)
def test_every_cut_says_what_a_really_cut_model_says(
    encoder_of: Encoders, model_type: str, kind: Kind
) -> None:
    if (model_type, kind) == ("xlnet", "language_modeling"):
        pytest.skip("XLNet is no language model of these kinds")
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of(kind), seed=1)
    check(model, features_of(encoder, model, kind))


@pytest.mark.parametrize("head", ["jiant", Head(reads="mean", dense=0), Head(reads="last", dense=2)])
@pytest.mark.parametrize("model_type", ["roberta", "xlnet"])
def test_heads_of_our_own_read_cuts_too(encoder_of: Encoders, model_type: str, head: Any) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of("multiple_choice"), head, seed=1)
    check(model, features_of(encoder, model, "multiple_choice"))


def test_a_head_that_reads_the_table_of_words_finds_it(tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path, "deberta-v2", legacy=False))
    model = build(encoder, samples.task_of("language_modeling"), seed=1)
    check(model, features_of(encoder, model, "language_modeling"))


@pytest.mark.parametrize("kind", samples.KINDS)
@pytest.mark.parametrize("model_type", ["bert", "gpt2"])
def test_the_whole_model_answers_as_ever(encoder_of: Encoders, model_type: str, kind: Kind) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model, split = build(encoder, task, seed=1), task.split("train")
    right = predict(model, split, task, encoder.tokenizer, longest=30)
    found = predict_cuts(model, split, task, encoder.tokenizer, [(1, 2, 3), (2,), ()], longest=30)
    assert [len(each) for each in found] == [len(split)] * 3
    if kind in ("regression", "language_modeling"):
        np.testing.assert_allclose(found[0], right, rtol=1e-5)
    else:
        assert found[0] == right


def test_small_batches_change_nothing(encoder_of: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of("bert")
    model = build(encoder, samples.task_of("multiple_choice"), seed=1)
    features = features_of(encoder, model, "multiple_choice")
    sizes: list[int] = []

    def rows() -> np.ndarray:
        found = np.full((2, len(features), 3), np.nan)
        sizes.clear()

        def use(cut: int, said: torch.Tensor, batch: dict[str, torch.Tensor], places: Sequence[int]) -> None:
            found[cut, list(places)] = said.numpy()
            sizes.append(batch["input_ids"].numel())

        outputs_of_cuts(model, features, [(1, 3), ()], use)
        return found

    together = rows()
    assert len(sizes) == 2
    monkeypatch.setitem(cutting.LIVE, "cpu", 4 * 32 * 7 * 100)  # 100 tokens with all their layers
    np.testing.assert_allclose(rows(), together, atol=1e-6)
    assert len(sizes) > 2
    assert max(sizes) <= 100


@pytest.mark.parametrize("model_type", ["bert", "llama", "xlnet"])
def test_layers_are_read_in_one_pass_in_the_order_of_the_examples(
    encoder_of: Encoders, model_type: str
) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of("classification"), seed=1)
    features = features_of(encoder, model, "classification")

    def pick(states: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return (states * batch["attention_mask"][..., None]).sum(1)

    found = layer_states(model, features, pick)
    assert found.dtype == np.float32
    assert found.shape == (4, len(features), 32)
    for place, one in enumerate(features):
        layers: dict[int, torch.Tensor] = {}
        encoder.run(one.tokens, lambda layer, states, layers=layers: layers.update({layer: states.sum(1)[0]}))
        last = 4 if "norm" in encoder.layers else 3
        np.testing.assert_allclose(found[3, place], layers[last], atol=1e-4)
        if last == 3:
            np.testing.assert_allclose(found[1, place], layers[1], atol=1e-4)
    some = layer_states(model, features, pick, cuts=[(2,), (1, 2, 3)])
    np.testing.assert_allclose(some[1], found[3], atol=1e-5)


def test_another_head_and_mixed_precision_can_be_asked_for(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    model = build(encoder, task, seed=1)

    def read(states: torch.Tensor, _: Any) -> torch.Tensor:
        return torch.eye(3)[[2] * len(states)]

    features = features_of(encoder, model, "classification")
    predicted: list[int] = []
    outputs_of_cuts(
        model, features, [(1,)], lambda _, said, *__: predicted.extend(said.argmax(1).tolist()), read=read
    )
    assert predicted == [2] * len(features)
    kinds: list[torch.dtype] = []

    def mixed() -> Any:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    outputs_of_cuts(model, features, [(1, 3)], lambda _, said, *__: kinds.append(said.dtype), autocast=mixed)
    assert kinds == [torch.bfloat16]


def test_progress_counts_examples(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    told: list[tuple[str, int, int]] = []
    predict_cuts(
        build(encoder, task),
        task.split("train"),
        task,
        encoder.tokenizer,
        [(1,), (2,)],
        context=Context(progress=lambda *said: told.append(said)),
    )
    assert told == [("classification/train", 4, 4)]


def test_examples_are_needed(encoder_of: Encoders) -> None:
    model = build(encoder_of("bert"), samples.task_of("classification"))
    with pytest.raises(InputError, match="examples to run must be at least one, but got 0"):
        outputs_of_cuts(model, [], [(1,)], lambda *_: None)


@given(st.integers(1, 30))
def test_spans_leave_out_what_they_say(depth: int) -> None:
    spans = every_span(depth)
    assert len(spans) == depth * (depth + 1) // 2
    for (first, last), kept in spans.items():
        assert sorted({*kept, *range(first, last + 1)}) == list(range(1, depth + 1))
        assert len(kept) == depth - (last - first + 1)
        assert list(kept) == sorted(kept)
    assert {kept: spans[kept + 1, depth] for kept in range(1, depth)} | {
        depth: tuple(range(1, depth + 1))
    } == (every_truncation(depth))


@pytest.mark.parametrize("depth", [0, True, 1.5])
def test_models_have_blocks(depth: Any) -> None:
    with pytest.raises(InputError, match="depth must be a whole number above 0"):
        every_span(depth)
    with pytest.raises(InputError, match="depth must be a whole number above 0"):
        every_truncation(depth)
