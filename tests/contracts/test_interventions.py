"""Does every intervention keep its word on every family?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
import transformers

import microtome as mt
import tiny
from microtome.encoders.loading import load
from microtome.testing.families import SENTENCES, check_encoder, states

DEPTH = 4
# Interventions, and how many blocks they leave.
CASES: Mapping[str, tuple[tuple[Any, ...], int]] = MappingProxyType(
    {
        "truncate": ((mt.Truncate(keep=2),), 2),
        "skip": ((mt.Skip(blocks=(2, 3)),), 2),
        "freeze": ((mt.Freeze(bottom=2),), 4),
        "reinit": ((mt.Reinit(past=2),), 4),
        "permute": ((mt.Permute(order=(1, 4, 2, 3)),), 4),
        "composed": (
            (
                mt.Freeze(embeddings=True),
                mt.Skip(blocks=(3,)),
                mt.Reinit(past=0, seed=1),
                mt.Truncate(keep=2),
            ),
            2,
        ),
    }
)
# What a family cannot do, and why.
REFUSED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("albert", "freeze"): "share their weights must be frozen together",
        ("albert", "reinit"): "share their weights must be drawn together",
        ("albert", "permute"): "must have weights of their own to be permuted",
    }
)


def stock_of(model_type: str) -> tuple[str, Any]:
    """The head that the tiny model has, and the library's way to open it."""
    config = getattr(transformers, {**tiny.CONFIGS, **tiny.DECODERS}[model_type][0])
    known = transformers.models.auto.modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if config in known:
        return "SequenceClassification", transformers.AutoModelForSequenceClassification
    return "", transformers.AutoModel


@pytest.fixture(scope="module")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    @cache
    def loaded(model_type: str) -> Any:
        folder = tmp_path_factory.mktemp(model_type)
        sizes = {"num_hidden_layers": DEPTH, "pad_token_id": 0}
        head, _ = stock_of(model_type)
        return load(tiny.save_checkpoint(folder, model_type, head=head, **sizes), name=model_type)

    return loaded


def answers(encoder: Any, model: Any, **options: Any) -> torch.Tensor:
    inputs = encoder.tokenizer.collate(encoder.words(SENTENCES))
    with torch.inference_mode():
        return model(**inputs, **{**encoder.family.arguments, **options})[0]


def by_hooks(encoder: Any, skipped: set[int]) -> torch.Tensor:
    """The answers of the whole model, in which some blocks hand on what they read."""
    model = copy.deepcopy(encoder.model)
    steps = [0]

    def bypass(_: Any, given: Any, result: Any) -> Any:
        steps[0] += 1
        if steps[0] not in skipped:
            return result
        return type(result)([given[0], *result[1:]]) if isinstance(result, (tuple, list)) else given[0]

    for block in dict.fromkeys(encoder.family.blocks_of(model.base_model)):
        block.register_forward_hook(bypass)
    return answers(encoder, model)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_contract(model_type: str, case: str, encoder_of: Any, tmp_path: Path) -> None:
    encoder, (interventions, depth) = encoder_of(model_type), CASES[case]
    digest = encoder.digest
    if (model_type, case) in REFUSED:
        with pytest.raises(mt.MicrotomeError, match=REFUSED[model_type, case]):
            mt.apply(encoder, *interventions)
        assert encoder.digest == digest
        return
    found = mt.apply(encoder, *interventions)

    assert encoder.digest == digest
    assert len(found.source.changes) == len(interventions)
    normed = ("norm",) if encoder.family.final_norm else ()
    assert found.layers == (*map(str, range(depth + 1)), *normed)
    # Every layer is seen once, as the library has it; padding does not matter; attention is there.
    check_encoder(found)

    model: Any = found.model
    model.save_pretrained(tmp_path)
    _, stock = stock_of(model_type)
    plain, report = stock.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    logits = answers(found, model)
    torch.testing.assert_close(answers(found, plain.eval()), logits, atol=1e-5, rtol=0)
    if encoder.family.causal and "use_cache" in encoder.family.arguments:
        torch.testing.assert_close(answers(found, model, use_cache=True), logits, atol=1e-5, rtol=0)

    if case == "truncate":
        whole, part = (states(each, encoder.words(SENTENCES)) for each in (encoder, found))
        for layer in range(depth + 1):
            torch.testing.assert_close(part[layer], whole[layer], atol=1e-6, rtol=0)
        torch.testing.assert_close(logits, by_hooks(encoder, {3, 4}), atol=1e-5, rtol=0)
    elif case == "skip":
        torch.testing.assert_close(logits, by_hooks(encoder, {2, 3}), atol=1e-5, rtol=0)
    elif case == "freeze":
        assert torch.equal(logits, answers(encoder, encoder.model))
    else:
        assert not torch.allclose(logits, answers(encoder, encoder.model), atol=1e-4)
