"""Does every family describe models of each of its types rightly?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.encoders.encoder import TransformerEncoder
from microtome.encoders.families.gpt2 import GPT2
from microtome.encoders.loading import load
from microtome.encoders.table import FAMILIES
from microtome.testing import ContractError
from microtome.testing.families import check_encoder, states

TYPES = [kind for family in FAMILIES.values() for kind in family.model_types]


def test_there_is_a_tiny_model_of_every_type() -> None:
    assert set(tiny.CONFIGS) == set(TYPES)


@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_contract(model_type: str, tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / model_type, model_type))
    check_encoder(encoder)


@pytest.mark.parametrize("model_type", tiny.DECODERS)
def test_one_type_is_of_two_families_by_what_its_configuration_says(model_type: str, tmp_path: Path) -> None:
    decoder: Any = load(tiny.save_checkpoint(tmp_path / "decoder", model_type, head="CausalLM"))
    assert (decoder.family.name, decoder.family.causal, decoder.family.reads) == (
        "roberta-decoder",
        True,
        "last",
    )
    check_encoder(decoder)
    plain: Any = load(tiny.save_checkpoint(tmp_path / "plain", model_type, is_decoder=False))
    assert (plain.family.name, plain.family.causal, plain.family.reads) == ("roberta", False, "first")
    # What comes later must not change what a decoder says of a token, and changes what the other says.
    for encoder, sees in ((decoder, False), (plain, True)):
        short, long = encoder.words([["the", "cat"], ["the", "cat", "sleeps"]], special=False)
        first, second = states(encoder, [short])[3][0], states(encoder, [long])[3][0]
        gap = float((first - second[: len(short)]).abs().max())
        assert (gap > 1e-3) == sees


@pytest.mark.parametrize("settings", [{"num_hidden_groups": 2}, {"inner_group_num": 2}])
def test_blocks_that_are_shared_by_groups(settings: dict[str, Any], tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "albert", "albert", **settings))
    assert encoder.layers == ("0", "1", "2", "3")
    if "num_hidden_groups" in settings:
        check_encoder(encoder)
        assert [encoder.blocks.index(block) for block in encoder.blocks] == [0, 0, 2]


def broken(encoder: TransformerEncoder, **changes: Any) -> str:
    wrong = TransformerEncoder(
        name="wrong",
        family=replace(encoder.family, **changes),
        model=encoder.model,
        tokenizer=encoder.tokenizer,
        source=encoder.source,
    )
    with pytest.raises(ContractError) as caught:
        check_encoder(wrong)
    return str(caught.value)


def test_what_is_declared_wrongly_is_noticed(tmp_path: Path) -> None:
    gpt2: Any = load(tiny.save_checkpoint(tmp_path / "gpt2", "gpt2"))
    assert "layer 3 must be what the library gives" in broken(gpt2, final_norm=None)
    assert "every weight must be of a block" in broken(gpt2, embeddings=("wte",))
    bert: Any = load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    assert "must not look ahead" in broken(bert, causal=True)
    assert "layer 0 must be what the library gives" in broken(bert, time_major=True)
    deberta: Any = load(tiny.save_checkpoint(tmp_path / "deberta", "deberta-v2"))
    assert "every weight must be of a block" in broken(deberta, beside=())
    with pytest.raises(Exception, match="must have the submodule 'h' where its family has it"):
        broken(bert, blocks=GPT2.blocks)
