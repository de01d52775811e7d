"""Do the blocks above a frozen bottom give the same from kept states as the whole model does?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import samples
import tiny
from microtome.encoders.table import family_of
from microtome.errors import InputError
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import trainable
from microtome.training.models.modeling import build
from microtome.training.models.taskmodel import TaskModel
from microtome.training.optimization.frozen_features import FILE, GIVEN, Bottom, still_blocks

Encoders = Callable[..., Any]
OWN = [name for name in tiny.CONFIGS if not family_of(name).shared]


def bottom_names(encoder: Any, blocks: int) -> set[str]:
    """All that the first blocks read, and they themselves."""
    kept = {id(p) for block in encoder.blocks[blocks:] for p in block.parameters()}
    above = [encoder.family.final_norm, "pooler"]
    return {
        name
        for name, p in encoder.base.named_parameters()
        if id(p) not in kept and not any(path and name.startswith(f"{path}.") for path in above)
    }


def frozen_model(encoder: Any, kind: Any, blocks: int, head: str = "stock") -> tuple[TaskModel, list[Any]]:
    task = samples.task_of(kind)
    model = build(encoder, task, head)
    trainable(model, "full", frozen=bottom_names(encoder, blocks))
    features = encode(samples.items_of(kind), task, encoder.tokenizer, longest=24, mask=model.mask)
    return model, features


def outputs(model: TaskModel, batch: dict[str, Any]) -> list[torch.Tensor]:
    """What is answered for real tokens and words: what padding says is never looked at."""
    found = model(batch)
    if model.kind in ("span", "language_modeling"):
        return [found[batch["attention_mask"].bool()]]
    if isinstance(found, tuple):
        return [each[batch["words"] >= 0] for each in found]
    return [found[batch["words"] >= 0] if model.kind == "tagging" else found]


def difference(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    pairs = [(a[torch.isfinite(a)], b[torch.isfinite(b)]) for a, b in zip(one, two, strict=True)]
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("model_type", OWN)
def test_answers_and_gradients_are_those_of_the_whole_model(model_type: str, encoder_of: Encoders) -> None:
    model, features = frozen_model(encoder_of(model_type), "classification", 2)
    assert still_blocks(model) == 2
    batch = collate(features)
    whole = outputs(model, batch)
    model.loss(whole[0], batch).backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with Bottom(model, features) as bottom:
        # Other neighbors, and so another padding, than those the states were computed among.
        for chosen in (features, features[::-1][:2]):
            parts = outputs(model, bottom.add(collate(chosen), chosen))
            assert difference(parts, outputs(model, collate(chosen))) < 1e-5
        given = bottom.add(batch, features)
        model.loss(model(given), given).backward()
        assert given[GIVEN].shape == (sum(len(f) for f in features), 32)
    assert gradients
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-4)
    assert difference(outputs(model, batch), whole) == 0


@pytest.mark.parametrize("kind", samples.KINDS)
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_kind_of_task_and_all_blocks(kind: Any, blocks: int, encoder_of: Encoders) -> None:
    model, features = frozen_model(encoder_of("deberta-v2"), kind, blocks)
    with Bottom(model, features) as bottom:
        parts = outputs(model, bottom.add(collate(features), features))
    assert difference(parts, outputs(model, collate(features))) < 1e-5


@pytest.mark.parametrize("model_type", ["bert", "xlnet"])
def test_examples_with_fewer_choices(model_type: str, encoder_of: Encoders) -> None:
    encoder, task = encoder_of(model_type), samples.task_of("multiple_choice")
    items = samples.items_of("multiple_choice")
    fewer = [type(i)(id=i.id, choices=i.choices[: 2 + n % 2], target=1) for n, i in enumerate(items)]
    model = build(encoder, task)
    trainable(model, "full", frozen=bottom_names(encoder, 2))
    features = encode(fewer, task, encoder.tokenizer)
    with Bottom(model, features) as bottom:
        parts = outputs(model, bottom.add(collate(features), features))
    assert difference(parts, outputs(model, collate(features))) < 1e-5


def test_the_bottom_does_not_run_and_drops_nothing_out(encoder_of: Encoders) -> None:
    model, features = frozen_model(encoder_of("bert"), "classification", 2)
    ran: list[int] = []
    for number, block in enumerate(model.base.encoder.layer):
        block.attention.register_forward_hook(lambda *_, number=number: ran.append(number))
    with Bottom(model, features) as bottom:
        assert set(ran) == {0, 1}
        ran.clear()
        given = bottom.add(collate(features), features)
        model.train()
        for module in model.base.encoder.layer[2].modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        first, second = (model(given) for _ in range(2))
        assert ran == [2, 2]
        assert not torch.equal(first, second)  # the head's own dropout is on
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout) and module is model.net.dropout:
                module.p = 0.0
        assert torch.equal(model(given), model(given))


def test_many_states_lie_in_a_file_that_goes(encoder_of: Encoders, tmp_path: Path) -> None:
    model, features = frozen_model(encoder_of("bert"), "classification", 2)
    with Bottom(model, features, folder=tmp_path, most=100) as bottom:
        assert (tmp_path / FILE).stat().st_size == 4 * 32 * sum(len(f) for f in features)
        parts = outputs(model, bottom.add(collate(features), features))
    assert difference(parts, outputs(model, collate(features))) < 1e-5
    assert not list(tmp_path.iterdir())
    with Bottom(model, features, folder=tmp_path):
        assert not list(tmp_path.iterdir())


def test_head_alone_needs_no_block(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("gpt2"), samples.task_of("classification")
    model = build(encoder, task)
    trainable(model, "head")
    features = encode(samples.items_of("classification"), task, encoder.tokenizer)
    with Bottom(model, features) as bottom:
        assert bottom.still == 3
        parts = outputs(model, bottom.add(collate(features), features))
    assert difference(parts, outputs(model, collate(features))) < 1e-5


def test_what_learns_cannot_be_kept(encoder_of: Encoders) -> None:
    task = samples.task_of("classification")
    with pytest.raises(
        InputError, match=r"cached must be asked of blocks with weights of their own, but .*ALBERT"
    ):
        still_blocks(build(encoder_of("albert"), task))
    encoder = encoder_of("deberta-v2")
    model = build(encoder, task)
    with pytest.raises(InputError, match="embeddings and the first block are frozen, but embeddings"):
        still_blocks(model)
    # Relative positions are read by every block, so they count with the embeddings.
    frozen = {name for name in bottom_names(encoder, 2) if "rel_embeddings" not in name}
    trainable(model, "full", frozen=frozen)
    with pytest.raises(InputError, match=r"but encoder\.rel_embeddings\.weight learns"):
        still_blocks(model)
    trainable(model, "full", frozen=bottom_names(encoder, 0))
    with pytest.raises(InputError, match="but block 1 learns"):
        still_blocks(model)
