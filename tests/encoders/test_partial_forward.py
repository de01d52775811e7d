"""Do blocks that are driven by hand give what really cut models give, each prefix run once?"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import tiny
from microtome.encoders.family import submodule
from microtome.encoders.loading import load
from microtome.encoders.partial_forward import Cut, walk
from microtome.errors import InputError

CUTS: tuple[Cut, ...] = ((1, 2, 3), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (3, 1, 2), (2, 2), (1, 3))
TWELVE = tuple(range(1, 13))
SPANS = [TWELVE[:first] + TWELVE[last:] for first in range(12) for last in range(first + 1, 13)]


@pytest.fixture(scope="module")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    def loaded(model_type: str, **settings: Any) -> Any:
        return load(tiny.save_checkpoint(tmp_path_factory.mktemp(model_type), model_type, **settings))

    return loaded


def inputs_of(encoder: Any) -> dict[str, torch.Tensor]:
    """Examples of different lengths, so that some are padded."""
    return encoder.tokenizer.collate(encoder.texts([(text, None) for text in tiny.TEXT[:3]]), "cpu")


def walked(encoder: Any, cuts: Sequence[Cut]) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}

    def visit(numbers: Sequence[int], states: torch.Tensor) -> None:
        assert not set(numbers) & set(found)
        found.update(dict.fromkeys(numbers, states.clone()))

    walk(encoder.base, encoder.family, inputs_of(encoder), cuts, visit)
    return [found[number] for number in range(len(cuts))]


def really_cut(encoder: Any, cut: Cut) -> torch.Tensor:
    """The last states of a copy whose list of blocks was cut."""
    base = copy.deepcopy(encoder.base)
    types = getattr(base.config, "layer_types", None)
    base.config.num_hidden_layers = len(cut)
    if not encoder.family.shared:
        blocks: Any = submodule(base, encoder.family.blocks)
        if types is not None:
            base.config.layer_types = [types[number - 1] for number in cut]
        path, _, name = encoder.family.blocks.rpartition(".")
        kept = torch.nn.ModuleList([copy.deepcopy(blocks[number - 1]) for number in cut])
        setattr(base.get_submodule(path), name, kept)
    with torch.inference_mode():
        return base(**inputs_of(encoder), **encoder.family.arguments).last_hidden_state


def own_layers(encoder: Any) -> dict[int, torch.Tensor]:
    """The layers of the whole model, as they are read without any cut."""
    found: dict[int, torch.Tensor] = {}
    tokens = encoder.texts([(text, None) for text in tiny.TEXT[:3]])
    encoder.run(tokens, lambda layer, states: found.__setitem__(layer, states.clone()))
    return found


def calls_of(encoder: Any, cuts: Sequence[Cut]) -> int:
    """How often a block runs."""
    count = 0

    def counting(*_: Any) -> None:
        nonlocal count
        count += 1

    hooks = [block.register_forward_hook(counting) for block in dict.fromkeys(encoder.blocks)]
    walked(encoder, cuts)
    for hook in hooks:
        hook.remove()
    return count


@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_every_cut_has_the_states_of_a_really_cut_model(
    encoder_of: Callable[..., Any], model_type: str
) -> None:
    encoder = encoder_of(model_type)
    *found, bare = walked(encoder, (*CUTS, ()))
    for states, cut in zip(found, CUTS, strict=True):
        torch.testing.assert_close(states, really_cut(encoder, cut), atol=2e-6, rtol=1e-5)
    first = own_layers(encoder)[0]
    if encoder.family.final_norm is not None:
        with torch.inference_mode():
            first = submodule(encoder.base, encoder.family.final_norm)(first)
    torch.testing.assert_close(bare, first)


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
        ("deberta-v2", {"conv_kernel_size": 0}),
    ],
)
def test_blocks_keep_what_sets_them_apart(
    encoder_of: Callable[..., Any], model_type: str, settings: dict[str, Any]
) -> None:
    encoder = encoder_of(model_type, **settings)
    for states, cut in zip(walked(encoder, CUTS), CUTS, strict=True):
        torch.testing.assert_close(states, really_cut(encoder, cut), atol=2e-6, rtol=1e-5)


def test_a_convolution_follows_the_only_block(encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("deberta-v2", num_hidden_layers=1)
    (found,) = walked(encoder, [(1,)])
    torch.testing.assert_close(found, really_cut(encoder, (1,)))


def test_groups_of_blocks_run_in_their_own_places(encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("albert", num_hidden_layers=4, num_hidden_groups=2)
    layers, found = own_layers(encoder), walked(encoder, [(1, 2, 3), (2, 1, 4), (1, 2, 3, 4), (1,)])
    for states, layer in zip(found, (3, 3, 4, 1), strict=True):
        torch.testing.assert_close(states, layers[layer])


def test_each_prefix_runs_once(encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("bert", num_hidden_layers=12)
    assert len(SPANS) == 78
    assert sum(map(len, SPANS)) == 572
    assert calls_of(encoder, SPANS) == 298
    assert calls_of(encoder, [TWELVE[:kept] for kept in range(13)]) == 12
    # Nothing that was asked for twice runs twice.
    assert calls_of(encoder, [(3, 4), (3, 4), (3,)]) == 12 + 2


def test_a_block_that_all_layers_share_is_left_out_by_length(encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("albert", num_hidden_layers=12)
    assert calls_of(encoder, SPANS) == 12
    found = walked(encoder, [(2, 3), (7, 12), (1, 2)])
    assert found[0].equal(found[1])
    assert found[0].equal(found[2])


def test_the_model_is_left_as_it_was_also_when_reading_fails(encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("deberta-v2")
    before = encoder.digest

    def fail(*_: Any) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        walk(encoder.base, encoder.family, inputs_of(encoder), CUTS, fail)
    for module in encoder.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert encoder.digest == before


@pytest.mark.parametrize(
    ("cuts", "sentence"),
    [
        ([], "cuts must be at least one, but got 0"),
        ([(1, 4)], "a block of a cut must be a whole number between 1 and 3, but got 4"),
        ([(0,)], "a block of a cut must be a whole number between 1 and 3, but got 0"),
        ([(1.0,)], "a block of a cut must be a whole number between 1 and 3, but got 1.0"),
    ],
)
def test_blocks_that_are_not_there_are_refused(
    encoder_of: Callable[..., Any], cuts: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        walked(encoder_of("bert"), cuts)
