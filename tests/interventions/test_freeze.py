"""Is what was frozen what was asked for?"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import microtome as mt
from microtome.errors import InputError
from microtome.interventions.freeze import frozen_names
from microtome.testing.families import SENTENCES


def parts(encoder: Any) -> set[str]:
    """Places of what is frozen, blocks by their numbers."""
    found = set()
    for name in frozen_names(encoder):
        inside = name.removeprefix(f"{encoder.family.blocks}.")
        found.add(str(int(inside.split(".")[0]) + 1) if inside != name else name.split(".")[0])
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (mt.Freeze(bottom=2), {"1", "2", "embeddings"}),
        (mt.Freeze(bottom=2, embeddings=False), {"1", "2"}),
        (mt.Freeze(bottom=0), set()),
        (mt.Freeze(bottom=0, embeddings=True), {"embeddings"}),
        (mt.Freeze(top=1), {"4"}),
        (mt.Freeze(top=4, embeddings=True), {"1", "2", "3", "4", "embeddings"}),
        (mt.Freeze(blocks=(4, 2)), {"2", "4"}),
        (mt.Freeze(embeddings=True), {"embeddings"}),
    ],
)
def test_bottom_top_and_blocks(asked: mt.Freeze, expected: set[str], encoder_of: Any) -> None:
    found = mt.apply(encoder_of("bert"), asked)
    assert parts(found) == expected
    inside = [p for k, block in enumerate(found.blocks, 1) for p in block.parameters() if str(k) in expected]
    assert not any(parameter.requires_grad for parameter in inside)
    assert frozen_names(mt.apply(encoder_of("bert"), asked, asked)) == frozen_names(found)


def test_only_the_rest_gets_a_gradient(encoder_of: Any) -> None:
    encoder = mt.apply(encoder_of("bert", "SequenceClassification"), mt.Freeze(bottom=2))
    inputs = encoder.tokenizer.collate(encoder.words(SENTENCES))
    encoder.model(**inputs).logits.sum().backward()
    frozen = frozen_names(encoder)
    for name, parameter in encoder.base.named_parameters():
        assert (parameter.grad is None) == (name in frozen)
    assert encoder.model.classifier.weight.grad is not None  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]


def test_what_lies_beside_the_blocks_goes_with_the_embeddings(encoder_of: Any) -> None:
    encoder = encoder_of("deberta-v2")
    found = mt.apply(encoder, mt.Freeze(bottom=1))
    assert {n for n in frozen_names(found) if not n.startswith(("encoder.layer.", "embeddings."))} == {
        *("encoder.rel_embeddings.weight", "encoder.LayerNorm.weight", "encoder.LayerNorm.bias"),
        *("encoder.conv.conv.weight", "encoder.conv.conv.bias"),
        *("encoder.conv.LayerNorm.weight", "encoder.conv.LayerNorm.bias"),
    }
    assert "and what lies beside the blocks (encoder.rel_embeddings, " in found.source.changes[0]
    top = mt.apply(encoder, mt.Freeze(top=1))
    assert all(name.startswith("encoder.layer.3.") for name in frozen_names(top))


def test_a_head_that_shares_the_embeddings_is_frozen_with_them(encoder_of: Any) -> None:
    found = mt.apply(encoder_of("gpt2", "CausalLM"), mt.Freeze(bottom=1))
    assert not found.model.get_output_embeddings().weight.requires_grad  # pyright: ignore[reportCallIssue]
    with torch.no_grad():
        assert frozen_names(found) >= {"wte.weight", "wpe.weight"}


def test_layers_that_share_their_weights(encoder_of: Any) -> None:
    albert = encoder_of("albert")
    for asked in (mt.Freeze(bottom=1), mt.Freeze(top=3), mt.Freeze(blocks=(2,))):
        with pytest.raises(
            InputError, match="layers of ALBERT that share their weights must be frozen together"
        ):
            mt.apply(albert, asked)
    whole = mt.apply(albert, mt.Freeze(bottom=4))
    assert {n.split(".")[0] for n, p in whole.base.named_parameters() if p.requires_grad} == {"pooler"}
    alone = mt.apply(albert, mt.Freeze(embeddings=True))
    assert "encoder.embedding_hidden_mapping_in.weight" in frozen_names(alone)
    grouped = encoder_of("albert", num_hidden_groups=2)
    half = mt.apply(grouped, mt.Freeze(bottom=2, embeddings=False))
    assert {name.split(".")[2] for name in frozen_names(half)} == {"0"}
    with pytest.raises(InputError, match="block 1 of albert shares them with block 2"):
        mt.apply(grouped, mt.Freeze(blocks=(1,)))


def test_what_cannot_be_frozen(encoder_of: Any) -> None:
    with pytest.raises(
        InputError, match="Freeze must be given one of bottom, top, blocks or embeddings=True"
    ):
        mt.Freeze()
    with pytest.raises(InputError, match="exactly one of bottom, top, blocks, but got bottom=1 and top=2"):
        mt.Freeze(bottom=1, top=2)
    with pytest.raises(InputError, match="embeddings must be True, False or None, but got 'yes'"):
        mt.Freeze(bottom=1, embeddings="yes")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="top must be a whole number of at least 0, but got -1"):
        mt.Freeze(top=-1)
    encoder = encoder_of("bert")
    with pytest.raises(InputError, match="bottom must be at most 4, the depth of bert, but got 5"):
        mt.apply(encoder, mt.Freeze(bottom=5))
    with pytest.raises(InputError, match="blocks must be whole numbers between 1 and 4"):
        mt.apply(encoder, mt.Freeze(blocks=(1, 7)))
