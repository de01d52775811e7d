"""Does what is frozen stay as it is, to the bit, and is nothing computed for it?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cats
import samples
import tiny
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.interventions.applying import apply
from microtome.interventions.blocks import Freeze, Truncate, frozen_names
from microtome.training.finetuning import finetune
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import trainable
from microtome.training.models.modeling import build
from microtome.training.optimization.frozen_features import FILE
from microtome.training.request import ask

Encoders = Callable[..., Any]
FEW: dict[str, Any] = {**cats.QUICK, "steps": 4, "decay": 0.1}
STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def changed(before: torch.nn.Module, after: torch.nn.Module) -> set[str]:
    """Names of the tensors of two base models that differ by a bit."""
    old, new = before.state_dict(), after.state_dict()
    return {name for name in old if name in new and not torch.equal(old[name], new[name])}


@pytest.mark.parametrize("model_type", ["bert", "deberta-v2", "xlnet", "gpt2"])
@pytest.mark.parametrize("freeze", [Freeze(bottom=2), Freeze(top=1)])
def test_frozen_weights_are_the_same_to_the_bit(
    model_type: str, freeze: Freeze, encoder_of: Encoders, tmp_path: Path
) -> None:
    encoder = encoder_of(model_type)
    held = apply(encoder, freeze)
    run = finetune(held, cats.cats_task(), "wu2020", store=tmp_path, **FEW)
    moved = changed(encoder.base, run.encoder.base)
    kept = frozen_names(held)
    assert kept
    assert not moved & kept
    blocks = {str(number) for number in range(3)} - {
        n for n in "012" if any(f".{n}." in f".{k}" for k in kept)
    }
    assert blocks
    assert all(any(f".{number}." in f".{name}" for name in moved) for number in blocks)
    assert encoder.digest == held.digest


def test_no_way_back_is_kept_below(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    seen: list[bool] = []
    for freeze in (Freeze(bottom=2), Freeze(bottom=2, embeddings=False)):
        model = build(encoder, task)
        trainable(model, "full", frozen=frozen_names(apply(encoder, freeze)))
        model.base.encoder.layer[2].register_forward_pre_hook(
            lambda _, given: seen.append(given[0].requires_grad)
        )
        model.train()
        model(collate(encode(samples.items_of("classification"), task, encoder.tokenizer)))
    assert seen == [False, True]


@pytest.mark.parametrize("method", ["bitfit", "lora", "head"])
def test_other_methods_leave_frozen_weights_alone(method: str, encoder_of: Encoders, tmp_path: Path) -> None:
    encoder = encoder_of("bert")
    held = apply(encoder, Freeze(bottom=1))
    given: dict[str, Any] = {"method": method, "cached": True, "checkpoints": [2], **FEW}
    run = finetune(held, cats.cats_task(), "wu2020", store=tmp_path, **given)
    assert len(run.checkpoints) == 1
    moved = {name for name in changed(encoder.base, run.encoder.base) if not name.startswith("pooler")}
    assert not moved & frozen_names(held)
    assert bool(moved) == (method != "head")


def test_a_head_that_shares_frozen_embeddings_does_not_learn(encoder_of: Encoders) -> None:
    encoder = encoder_of("gpt2")
    model = build(encoder, samples.task_of("language_modeling"))
    found = trainable(model, "full", frozen=frozen_names(apply(encoder, Freeze(bottom=3))))
    assert not model.net.get_parameter("lm_head.weight").requires_grad
    assert model.base.ln_f.weight.requires_grad
    assert "are frozen" in found.said
    everything = {name for name, _ in model.base.named_parameters()}
    with pytest.raises(InputError, match="some weights must be left to learn"):
        trainable(model, "full", frozen=everything)


def test_addresses_say_what_is_frozen_and_nothing_new_otherwise(encoder_of: Encoders) -> None:
    task, encoder = cats.cats_task(), encoder_of("bert")

    def place(changed: Any, **options: Any) -> str:
        return ask(changed, task, "wu2020", **options).address

    plain = ask(encoder, task, "wu2020").specification
    assert not {"frozen", "cached", "blocks"} & set(plain)
    assert place(apply(encoder, Freeze(bottom=0))) == place(encoder)
    assert place(apply(encoder, Truncate(keep=3))) == place(encoder)
    others = {place(apply(encoder, Freeze(bottom=k)), cached=c) for k in (1, 2) for c in (False, True)}
    assert len(others | {place(encoder)}) == 5
    # One block run fewer times has the same weights.
    albert = encoder_of("albert")
    assert place(apply(albert, Truncate(keep=2))) != place(albert)


def test_cached_states_train_the_same_model_where_nothing_drops_out(tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "still", "bert", **STILL))
    held = apply(encoder, Freeze(bottom=2))
    given = {**FEW, "epsilon": 1e-3}
    plain, kept = (
        finetune(held, cats.cats_task(), "wu2020", store=tmp_path / "s", cached=c, **given)
        for c in (False, True)
    )
    one, two = (run.model.state_dict() for run in (plain, kept))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-5
    assert plain.address != kept.address
    assert not changed(encoder.base, kept.encoder.base) & frozen_names(held)


class Stop(Exception):  # noqa: N818 - it is no error
    """Stands for whatever interrupts a training."""


def test_a_cached_training_is_taken_up_again(encoder_of: Encoders, tmp_path: Path) -> None:
    held = apply(encoder_of("bert"), Freeze(bottom=2))
    given: dict[str, Any] = {**FEW, "steps": 12, "cached": True}
    whole = finetune(held, cats.cats_task(), "wu2020", store=tmp_path / "whole", **given)

    def stop(what: str, done: int, total: int) -> None:
        if what.startswith("training") and done == 7:
            raise Stop

    given["store"] = tmp_path / "parts"
    with pytest.raises(Stop):
        finetune(held, cats.cats_task(), "wu2020", state_seconds=0, progress=stop, **given)
    rest = finetune(held, cats.cats_task(), "wu2020", **given)
    assert rest.course["resumed"] > 0
    assert not changed(whole.model, rest.model)
    assert not list(rest.folder.glob(f"{FILE}*"))


def test_cached_needs_a_frozen_bottom(encoder_of: Encoders, tmp_path: Path) -> None:
    given: dict[str, Any] = {"cached": True, "store": tmp_path, **FEW}
    needed = "cached must be asked where the embeddings and the first block are frozen, but"
    for encoder in (encoder_of("bert"), apply(encoder_of("bert"), Freeze(top=2))):
        with pytest.raises(InputError, match=needed):
            finetune(encoder, cats.cats_task(), "wu2020", **given)
    with pytest.raises(InputError, match="cached must be true or false, but got 1"):
        finetune(encoder_of("bert"), cats.cats_task(), "wu2020", **{**given, "cached": 1})
