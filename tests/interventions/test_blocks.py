"""Does a truncated model compute what the first blocks computed?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
from microtome.errors import InputError
from microtome.interventions.blocks import frozen_names
from microtome.testing.families import SENTENCES, states


@pytest.mark.parametrize("model_type", ["bert", "xlnet", "gpt2", "albert"])
def test_the_embeddings_alone_can_be_read(model_type: str, encoder_of: Any) -> None:
    encoder = encoder_of(model_type)
    found = mt.apply(encoder, mt.Truncate(keep=0))
    normed = ("norm",) if encoder.family.final_norm else ()
    assert found.layers == ("0", *normed)
    batch = encoder.words(SENTENCES)
    seen = states(found, batch)
    assert torch.equal(seen[0], states(encoder, batch)[0])
    assert sorted(seen) == list(range(len(found.layers)))
    assert found.attend(batch) == []


def test_albert_runs_its_block_fewer_times(encoder_of: Any) -> None:
    encoder = encoder_of("albert")
    found = mt.apply(encoder, mt.Truncate(keep=3))
    assert found.source.changes == ("truncated to the first 3 of 4 blocks: no tensor changed",)
    # The weights are the same, so the depth must be part of what identifies the model.
    assert found.digest != encoder.digest
    assert found.digest == mt.apply(encoder, mt.Skip(blocks=(2,))).digest


def test_numbers_of_numpy_will_do() -> None:
    assert mt.Truncate(keep=np.int64(3)) == mt.Truncate(keep=3)  # pyright: ignore[reportArgumentType]


def test_what_cannot_be_kept(encoder_of: Any) -> None:
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(InputError, match="keep must be a whole number of at least 0, but got"):
            mt.Truncate(keep=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="keep must be at most 4, the depth of bert, but got 5"):
        mt.apply(encoder_of("bert"), mt.Truncate(keep=5))
    with pytest.raises(InputError, match="at least one block of ModernBERT must stay, but none would"):
        mt.apply(encoder_of("modernbert"), mt.Truncate(keep=0))


def test_the_rest_is_numbered_anew(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    found = mt.apply(encoder, mt.Skip(blocks=(3, 1)))
    assert found.layers == ("0", "1", "2")
    assert found.source.changes == (
        "skipped blocks 1 and 3 of 4: 32 of 71 tensors left out, no tensor changed",
    )
    old, new = encoder.base.state_dict(), found.base.state_dict()
    for name, tensor in new.items():
        moved = name.replace("layer.1.", "layer.3.").replace("layer.0.", "layer.1.")
        assert (old[moved] == tensor).all()


def test_what_cannot_be_skipped(encoder_of: Any) -> None:
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="blocks must be a whole number above 0, but got"):
            mt.Skip(blocks=(wrong,))  # pyright: ignore[reportArgumentType]
    for wrong in (3, "3"):
        with pytest.raises(InputError, match="blocks must be numbers of blocks, counted from 1, but got"):
            mt.Skip(blocks=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="blocks must name each block once, but block 2 comes twice"):
        mt.Skip(blocks=(2, 3, 2))
    with pytest.raises(
        InputError, match="must be whole numbers between 1 and 4, the depth of the model, but got 5"
    ):
        mt.apply(encoder_of("bert"), mt.Skip(blocks=(5,)))
    with pytest.raises(InputError, match="block 1 of ModernBERT must stay the first"):
        mt.apply(encoder_of("modernbert"), mt.Skip(blocks=(1,)))


def blocks(encoder: Any) -> list[dict[str, Any]]:
    return [block.state_dict() for block in encoder.blocks]


def test_order_and_seed(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    before = blocks(encoder)
    drawn = [int(k) + 1 for k in np.random.RandomState(7).permutation(4)]
    for asked, order in ((mt.Permute(order=(2, 1, 4, 3)), [2, 1, 4, 3]), (mt.Permute(seed=7), drawn)):
        found = mt.apply(encoder, asked)
        for own, block in zip(blocks(found), order, strict=True):
            assert all((before[block - 1][name] == tensor).all() for name, tensor in own.items())
    told = mt.apply(encoder, mt.Permute(seed=7)).source.changes[0]
    assert told == f"blocks put in the order {', '.join(map(str, drawn))} (seed 7): no tensor changed"


def test_what_is_no_order(encoder_of: Any) -> None:
    with pytest.raises(InputError, match="Permute must be given exactly one of seed, order, but got nothing"):
        mt.Permute()
    with pytest.raises(InputError, match=r"exactly one of seed, order, but got seed=1 and order=\(1, 2\)"):
        mt.Permute(seed=1, order=(1, 2))
    with pytest.raises(InputError, match="seed must be a whole number between 0 and 4,294,967,295"):
        mt.Permute(seed=2**32)
    with pytest.raises(InputError, match="order must name each block once, but block 1 comes twice"):
        mt.Permute(order=(1, 1, 2, 3))
    encoder = encoder_of("bert")
    with pytest.raises(InputError, match="order must be all of the 4 blocks of bert in some order"):
        mt.apply(encoder, mt.Permute(order=(2, 1, 3)))
    with pytest.raises(InputError, match="order must be whole numbers between 1 and 4"):
        mt.apply(encoder, mt.Permute(order=(2, 1, 3, 5)))
    with pytest.raises(
        InputError, match=r"blocks must have weights of their own to be permuted, but .* ALBERT"
    ):
        mt.apply(encoder_of("albert"), mt.Permute(seed=0))
    with pytest.raises(InputError, match="block 1 of ModernBERT must stay the first"):
        mt.apply(encoder_of("modernbert"), mt.Permute(order=(2, 1, 3, 4)))


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
