"""Are exactly the weights redrawn that should be, and how?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import microtome as mt
import tiny
from microtome.errors import InputError, UnknownNameError
from microtome.interventions.reinit import SCHEMES, parts_of
from microtome.randomness import generator
from microtome.testing.families import SENTENCES, states


def tensors(encoder: Any, block: int, part: str) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p, kind in parts_of(encoder.blocks[block - 1]) if kind == part}


def same(one: Any, two: Any, block: int, part: str) -> bool:
    left, right = tensors(one, block, part), tensors(two, block, part)
    return all(torch.equal(left[name], right[name]) for name in left)


def test_parts_are_told_apart(encoder_of: Any) -> None:
    bert = encoder_of("bert")
    assert set(tensors(bert, 1, "norm")) == {
        f"{place}.LayerNorm.{name}" for place in ("attention.output", "output") for name in ("weight", "bias")
    }
    assert len(tensors(bert, 1, "matrix")) == len(tensors(bert, 1, "bias")) == 6
    # XLNet keeps bare tensors, GPT-2 turned matrices, Qwen norms inside the attention.
    assert "rel_attn.q" in tensors(encoder_of("xlnet"), 1, "matrix")
    assert "attn.c_attn.weight" in tensors(encoder_of("gpt2"), 1, "matrix")
    assert "self_attn.q_norm.weight" in tensors(encoder_of("qwen3"), 1, "norm")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_blocks_past_and_keep(scheme: str, encoder_of: Any) -> None:
    encoder = encoder_of("bert", "SequenceClassification")
    found = mt.apply(encoder, mt.Reinit(past=2, scheme=scheme, seed=3))
    for asked in (
        mt.Reinit(blocks=(4, 3), scheme=scheme, seed=3),
        mt.Reinit(keep=(1, 2), scheme=scheme, seed=3),
    ):
        assert mt.apply(encoder, asked).digest == found.digest
    assert mt.apply(encoder, mt.Reinit(past=2, scheme=scheme, seed=4)).digest != found.digest
    before, after = encoder.model.state_dict(), found.model.state_dict()
    for name, tensor in after.items():
        inside = any(f".layer.{k}." in name for k in (2, 3))
        if not inside:
            assert torch.equal(tensor, before[name])
    assert not any(same(encoder, found, k, "matrix") for k in (3, 4))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nested_sets_share_their_draws(scheme: str, encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    all_, some = (mt.apply(encoder, mt.Reinit(past=k, scheme=scheme, seed=1)) for k in (0, 3))
    assert all(same(all_, some, 4, part) for part in ("matrix", "bias", "norm"))
    blocks = [tensors(all_, k, "matrix")["intermediate.dense.weight"] for k in (1, 2)]
    assert not torch.equal(*blocks)


def test_biases_and_norms(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    for scheme, bias in (("library", "zero"), ("trunc_normal", "zero"), ("tamkin_code", "keep")):
        found = mt.apply(encoder, mt.Reinit(blocks=(2,), scheme=scheme))
        values = torch.cat(list(tensors(found, 2, "bias").values()))
        assert same(encoder, found, 2, "bias") if bias == "keep" else not values.any()
        gains = tensors(found, 2, "norm")
        assert (gains["output.LayerNorm.weight"] == 1).all()
        assert not gains["output.LayerNorm.bias"].any()
    kept = mt.apply(encoder, mt.Reinit(blocks=(2,), bias="keep", layernorm="keep"))
    assert same(encoder, kept, 2, "bias")
    assert same(encoder, kept, 2, "norm")
    assert not same(encoder, kept, 2, "matrix")
    assert "(library, seed 0, biases kept, norms kept): 6 of 71 tensors changed" in kept.source.changes[0]
    zero = mt.apply(encoder, mt.Reinit(blocks=(2,), scheme="tamkin_code", bias="zero"))
    assert not torch.cat(list(tensors(zero, 2, "bias").values())).any()


def test_norms_are_reset_to_what_the_family_begins_with(encoder_of: Any) -> None:
    # Gemma adds 1 to its gains, so that they begin at 0.
    for model_type, gain in (("gemma2", 0.0), ("llama", 1.0)):
        found = mt.apply(encoder_of(model_type), mt.Reinit(past=0, scheme="shuffled"))
        values = [v for k in (1, 4) for v in tensors(found, k, "norm").values()]
        assert all((value == gain).all() for value in values)


@pytest.mark.parametrize(
    ("scheme", "sd"), [("library", 0.02), ("trunc_normal", 0.0176), ("tamkin_code", 0.00046)]
)
def test_spread_of_the_draws(scheme: str, sd: float, encoder_of: Any) -> None:
    found = mt.apply(encoder_of("bert", hidden_size=64), mt.Reinit(past=0, scheme=scheme))
    values = torch.cat([v.reshape(-1) for k in (1, 2, 3, 4) for v in tensors(found, k, "matrix").values()])
    assert values.std() == pytest.approx(sd, rel=0.02)
    wide = mt.apply(encoder_of("bert", initializer_range=0.1), mt.Reinit(past=0, scheme="trunc_normal"))
    values = torch.cat([v.reshape(-1) for k in (1, 2, 3, 4) for v in tensors(wide, k, "matrix").values()])
    assert values.std() == pytest.approx(0.088, rel=0.02)


def test_moments_and_entries_of_each_matrix(encoder_of: Any) -> None:
    encoder = encoder_of("xlnet")
    shuffled = mt.apply(encoder, mt.Reinit(blocks=(1,), scheme="shuffled"))
    matched = mt.apply(encoder, mt.Reinit(blocks=(1,), scheme="moment_matched"))
    for name, old in tensors(encoder, 1, "matrix").items():
        new = tensors(shuffled, 1, "matrix")[name]
        assert torch.equal(new.reshape(-1).sort().values, old.reshape(-1).sort().values)
        new = tensors(matched, 1, "matrix")[name]
        assert new.std() == pytest.approx(float(old.std()), rel=0.35 if old.numel() < 200 else 0.1)


@pytest.mark.parametrize("model_type", tiny.CONFIGS)
def test_near_identity_leaves_the_residual_path(model_type: str, encoder_of: Any) -> None:
    encoder = encoder_of(model_type)
    found = mt.apply(encoder, mt.Reinit(past=0, scheme="near_identity"))
    seen = states(found, encoder.words(SENTENCES))
    normed = encoder.family.final_norm is None  # blocks that norm what they give
    for layer in range(1, encoder.depth + 1):
        if layer == 1 and model_type == "deberta-v2":
            continue  # the convolution is not of the block
        below = seen[layer - 1]
        for _ in range(2 * normed):
            below = torch.nn.functional.layer_norm(below, below.shape[-1:])
        # Families add a little to the variance, each its own.
        torch.testing.assert_close(seen[layer], below, atol=1e-4, rtol=0)
    # Only what writes is silent; the rest is drawn.
    silent = [name for name, v in tensors(found, 1, "matrix").items() if not v.any()]
    assert 2 <= len(silent) < len(tensors(found, 1, "matrix"))


def test_what_is_drawn_twice(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    for scheme in ("library", "near_identity", "trunc_normal"):
        once = mt.apply(encoder, mt.Reinit(past=0, scheme=scheme))
        twice = mt.apply(encoder, mt.Reinit(past=2, scheme=scheme), mt.Reinit(past=0, scheme=scheme))
        assert twice.digest == once.digest
    mt.apply(encoder, mt.Reinit(past=0, scheme="near_identity"), mt.Reinit(past=0, scheme="shuffled"))


def test_half_precision(encoder_of: Any) -> None:
    encoder = mt.apply(encoder_of("bert"))
    encoder.model.to(torch.bfloat16)
    for scheme in SCHEMES:
        found = mt.apply(encoder, mt.Reinit(past=2, scheme=scheme))
        assert {p.dtype for p in found.model.parameters()} == {torch.bfloat16}


def test_the_random_numbers_of_others_are_left_alone(encoder_of: Any) -> None:
    before = torch.get_rng_state()
    for scheme in ("library", "tamkin_code"):
        mt.apply(encoder_of("bert"), mt.Reinit(past=0, scheme=scheme))
    assert torch.equal(before, torch.get_rng_state())


def test_layers_that_share_their_weights(encoder_of: Any) -> None:
    albert = encoder_of("albert")
    with pytest.raises(InputError, match="share their weights must be drawn together, but blocks 3 and 4 of"):
        mt.apply(albert, mt.Reinit(past=2))
    whole = mt.apply(albert, mt.Reinit(past=0))
    assert "re-initialized blocks 1 to 4 (library" in whole.source.changes[0]
    grouped = encoder_of("albert", num_hidden_groups=2)
    half = mt.apply(grouped, mt.Reinit(past=2))
    assert [same(grouped, half, k, "matrix") for k in (1, 2, 3, 4)] == [True, True, False, False]


def test_what_cannot_be_drawn(encoder_of: Any) -> None:
    with pytest.raises(
        InputError, match="Reinit must be given exactly one of blocks, past, keep, but got noth"
    ):
        mt.Reinit()
    with pytest.raises(
        InputError, match=r"exactly one of blocks, past, keep, but got past=1 and keep=\(2,\)"
    ):
        mt.Reinit(past=1, keep=(2,))
    with pytest.raises(UnknownNameError, match=r"scheme must be one of .*Did you mean shuffled"):
        mt.Reinit(past=1, scheme="shufled")
    with pytest.raises(InputError, match="bias must be 'keep', 'zero' or None, but got 'reset'"):
        mt.Reinit(past=1, bias="reset")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="layernorm must be 'reset' or 'keep', but got 'zero'"):
        mt.Reinit(past=1, layernorm="zero")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, but got -1"):
        mt.Reinit(past=1, seed=-1)
    encoder = encoder_of("bert")
    with pytest.raises(InputError, match="past must be at most 4, the depth of bert, but got 5"):
        mt.apply(encoder, mt.Reinit(past=5))
    for wrong in (mt.Reinit(blocks=(5,)), mt.Reinit(keep=(9,))):
        with pytest.raises(InputError, match="must be whole numbers between 1 and 4"):
            mt.apply(encoder, wrong)


def drawn(scheme: str, old: np.ndarray, sd: float = 0.02) -> np.ndarray:
    draw = SCHEMES[scheme].draw
    assert draw is not None
    return draw(old, sd, generator(0, "test", scheme))


@pytest.mark.parametrize(
    ("scheme", "bound", "sd"), [("trunc_normal", 2.0, 0.0176), ("tamkin_code", 0.04, 0.00046)]
)
def test_truncated_normals(scheme: str, bound: float, sd: float) -> None:
    found = drawn(scheme, np.zeros((300, 200))).reshape(-1)
    # The published code calls scipy in this way, with 2 * 0.02 for the bounds.
    oracle = stats.truncnorm(-bound, bound, loc=0.0, scale=0.02)
    assert found.std() == pytest.approx(sd, rel=0.01)
    assert oracle.std() == pytest.approx(sd, rel=0.01)
    assert np.abs(found).max() <= bound * 0.02
    assert stats.kstest(found, oracle.cdf).pvalue > 0.01


def test_moments() -> None:
    old = generator(1, "test").normal(0.5, 3.0, size=(400, 300))
    found = drawn("moment_matched", old)
    assert found.mean() == pytest.approx(old.mean(), abs=0.04)
    assert found.std() == pytest.approx(old.std(), rel=0.01)
    assert abs(np.corrcoef(found.reshape(-1), old.reshape(-1))[0, 1]) < 0.02


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_shuffling_keeps_every_entry(rows: int, columns: int, depth: int) -> None:
    old = np.arange(rows * columns * depth, dtype=np.float32).reshape(rows, columns, depth)
    found = drawn("shuffled", old)
    assert found.shape == old.shape
    assert sorted(found.reshape(-1)) == sorted(old.reshape(-1))


def test_shuffling_mixes_rows_and_columns() -> None:
    old = np.repeat(np.arange(100.0)[:, None], 80, axis=1)
    found = drawn("shuffled", old)
    assert found.std(axis=1).min() > 15
