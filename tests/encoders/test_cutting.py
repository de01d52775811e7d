"""Is a model that was cut one that the library could have built?"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from microtome.encoders.cutting import keep_blocks, refusal
from microtome.encoders.families.elmo import ELMO
from microtome.encoders.loading import load
from microtome.encoders.table import FAMILIES
from microtome.errors import InputError
from microtome.testing.families import SENTENCES

SUBSETS = st.permutations(range(1, 5)).flatmap(
    lambda order: st.integers(0, 4).map(lambda count: tuple(order[:count]))
)


@pytest.fixture(scope="module")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    def loaded(model_type: str, head: str = "", **values: Any) -> Any:
        folder = tmp_path_factory.mktemp(model_type)
        return load(tiny.save_checkpoint(folder, model_type, head=head, **{"num_hidden_layers": 4, **values}))

    return loaded


def cut(encoder: Any, kept: tuple[int, ...]) -> Any:
    model = copy.deepcopy(encoder.model)
    keep_blocks(model, encoder.family, kept)
    return model


def answers(encoder: Any, model: Any) -> torch.Tensor:
    inputs = encoder.tokenizer.collate(encoder.words(SENTENCES))
    with torch.inference_mode():
        return model(**inputs, **encoder.family.arguments)[0]


def reloaded(model: Any, folder: Path) -> Any:
    """Through the files, with the library alone, which may neither miss nor find surplus weights."""
    model.save_pretrained(folder)
    found, report = type(model).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return found.eval()


@pytest.fixture(scope="module")
def llama(encoder_of: Any) -> Any:
    return encoder_of("smollm3", no_rope_layers=[1, 0, 1, 0])


@settings(max_examples=15, deadline=None)
@given(SUBSETS)
def test_any_blocks_in_any_order(llama: Any, kept: tuple[int, ...]) -> None:
    model = cut(llama, kept)
    assert model.config.num_hidden_layers == len(kept) == len(model.layers)
    assert model.config.no_rope_layers == [[1, 0, 1, 0][block - 1] for block in kept]
    assert len(model.config.layer_types) == len(kept)
    for place, block in enumerate(kept):
        own, old = model.layers[place], llama.blocks[block - 1]
        assert own.self_attn.layer_idx == place
        assert own.self_attn.use_rope == old.self_attn.use_rope
        assert all(torch.equal(own.state_dict()[n], t) for n, t in old.state_dict().items())
    assert llama.config.num_hidden_layers == 4


@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_what_is_saved_computes_the_same(model_type: str, encoder_of: Any, tmp_path: Path) -> None:
    values: dict[str, Any] = {}
    if model_type == "smollm3":
        values["no_rope_layers"] = [1, 0, 1, 0]
    if model_type in ("qwen2", "qwen3", "gemma2"):
        # A window that the sentences exceed.
        values |= {"sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"] * 2}
        values |= {} if model_type == "gemma2" else {"use_sliding_window": True}
    encoder = encoder_of(model_type, **values)
    for number, kept in enumerate(((1, 4, 2), (3, 2), ())):
        if refusal(encoder.model, encoder.family, kept) is not None:
            assert model_type in ("modernbert", "deberta-v2")
            continue
        model = cut(encoder, kept)
        found = answers(encoder, model)
        assert found.isfinite().all()
        assert torch.equal(found, answers(encoder, reloaded(model, tmp_path / str(number))))


def test_local_attention_goes_with_its_block(encoder_of: Any, tmp_path: Path) -> None:
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    for model_type in ("gemma2", "modernbert"):
        values = {"sliding_window": 4} if model_type == "gemma2" else {"local_attention": 4}
        encoder = encoder_of(model_type, layer_types=kinds, **values)
        model = cut(encoder, (1, 3))
        assert model.config.layer_types == ["full_attention", "sliding_attention"]
        known = answers(encoder, model)
        wrong = copy.deepcopy(encoder.model)
        keep_blocks(wrong, encoder.family, (1, 3))
        wrong.config.layer_types = ["full_attention", "full_attention"]
        assert torch.equal(known, answers(encoder, reloaded(model, tmp_path / f"{model_type}-right")))
        assert not torch.equal(known, answers(encoder, reloaded(wrong, tmp_path / f"{model_type}-wrong")))


def test_the_first_block_of_modernbert_stays(encoder_of: Any) -> None:
    encoder = encoder_of("modernbert")
    said = refusal(encoder.model, encoder.family, (2, 3))
    assert said is not None
    assert said.startswith("block 1 of ModernBERT must stay the first, since the library builds it without")
    with pytest.raises(InputError, match="but the blocks 2, 1 would run"):
        keep_blocks(encoder.model, encoder.family, (2, 1))
    assert refusal(encoder.model, encoder.family, (1, 4, 3)) is None
    assert encoder.config.num_hidden_layers == 4


def test_attention_that_is_scaled_by_the_number_of_the_block(encoder_of: Any, tmp_path: Path) -> None:
    encoder = encoder_of("gpt2", scale_attn_by_inverse_layer_idx=True)
    for kept in ((2,), (1, 3), (2, 1)):
        with pytest.raises(InputError, match="scale_attn_by_inverse_layer_idx must keep their numbers"):
            cut(encoder, kept)
    model = cut(encoder, (1, 2, 3))
    assert torch.equal(answers(encoder, model), answers(encoder, reloaded(model, tmp_path / "cut")))
    plain = encoder_of("gpt2")
    assert refusal(plain.model, plain.family, (2, 1)) is None


def test_groups_of_albert(encoder_of: Any, tmp_path: Path) -> None:
    encoder = encoder_of("albert", num_hidden_groups=2)  # runs 1, 1, 2, 2
    for number, kept in enumerate([(1, 2), (1, 2, 3), (3, 1)]):
        model = cut(encoder, kept)
        groups = [(block - 1) // 2 for block in kept]
        assert [encoder.blocks.index(encoder.blocks[block - 1]) // 2 for block in kept] == groups
        assert model.config.num_hidden_groups == len(set(groups))
        # Driven by hand, with the weights of the original.
        base = encoder.base
        inputs = encoder.tokenizer.collate([encoder.words(SENTENCES)[1]])
        with torch.inference_mode():
            hidden = base.encoder.embedding_hidden_mapping_in(
                base.embeddings(inputs["input_ids"], token_type_ids=inputs["token_type_ids"])
            )
            for group in groups:
                hidden = base.encoder.albert_layer_groups[group](hidden, None)
            torch.testing.assert_close(model(**inputs)[0], hidden, atol=1e-6, rtol=0)
        assert torch.equal(answers(encoder, model), answers(encoder, reloaded(model, tmp_path / str(number))))
    for kept in ((1, 3, 4), (1, 3, 2)):
        with pytest.raises(
            InputError, match="the groups of ALBERT must run as the library spreads them over"
        ):
            cut(encoder, kept)
    assert encoder.config.num_hidden_groups == 2
    assert cut(encoder, ()).config.num_hidden_layers == 0


def test_the_convolution_of_deberta_follows_the_block_that_is_first(encoder_of: Any, tmp_path: Path) -> None:
    encoder = encoder_of("deberta-v2")
    seen: list[int] = []
    model = cut(encoder, (3, 2))
    for number, block in enumerate(model.encoder.layer, 1):
        block.register_forward_hook(lambda *_, number=number: seen.append(number))
    model.encoder.conv.register_forward_hook(lambda *_: seen.append(0))
    answers(encoder, model)
    assert seen == [1, 0, 2]
    with pytest.raises(InputError, match="at least one block of DeBERTa v2, v3 must stay, but none would"):
        cut(encoder, ())


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "gemma2", "qwen3"])
def test_a_cache_can_be_used(model_type: str, encoder_of: Any) -> None:
    encoder = encoder_of(model_type, "CausalLM")
    model = cut(encoder, (1, 4, 3))
    inputs = encoder.tokenizer.collate([encoder.words(SENTENCES)[1]])
    ids = inputs["input_ids"]
    with torch.inference_mode():
        whole = model(input_ids=ids, use_cache=False).logits
        first = model(input_ids=ids[:, :5], use_cache=True)
        rest = model(input_ids=ids[:, 5:], past_key_values=first.past_key_values, use_cache=True).logits
    torch.testing.assert_close(rest, whole[:, 5:], atol=1e-5, rtol=0)


def test_a_head_stays(encoder_of: Any, tmp_path: Path) -> None:
    encoder = encoder_of("distilbert", "SequenceClassification")
    model = cut(encoder, (2, 4))
    assert model.distilbert.transformer.n_layers == 2
    assert model.distilbert.config is model.config
    assert torch.equal(model.classifier.weight, encoder.model.classifier.weight)
    assert torch.equal(answers(encoder, model), answers(encoder, reloaded(model, tmp_path / "cut")))


def test_numbers_that_are_no_blocks(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    for wrong in ((0,), (5,), (True,), (1.0,), ("1",)):
        with pytest.raises(InputError, match="kept blocks must be whole numbers between 1 and 4, the depth"):
            refusal(encoder.model, encoder.family, wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="kept blocks must name each block once, but block 2 comes twice"):
        keep_blocks(encoder.model, encoder.family, (2, 2))
    said = refusal(torch.nn.Linear(2, 2), ELMO, (1,))
    assert said is not None
    assert "must be those of a model of transformers to be cut, but ELMo" in said


def test_every_family_of_the_library_says_what_writes_into_its_residual_path() -> None:
    assert all(len(family.outputs) >= 2 for family in FAMILIES.values() if family.model_types)
