"""Is an update that is replayed the same as one that is launched?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import microtome as mt
import samples
import tiny
from microtome.encoders.encoder import digest_weights
from microtome.encoders.table import FAMILIES
from microtome.tasks.generated.table import GENERATED
from microtome.tasks.task import Kind
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.optimization import cuda_graphs, loop
from microtome.training.optimization.cuda_graphs import TrainingStep, computed_once, obstacle
from microtome.training.optimization.loop import TrainingRecords, train
from microtome.training.precision import choose_dtype, make_accelerator
from microtome.training.recipe import find_recipe

Encoders = Callable[..., Any]
CAPTURED = [name for name, family in FAMILIES.items() if family.cuda_graphs]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
SIZES = {"train": 200, "validation": 40, "test": 8, "held_out": 8}


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Batches that were captured."""
    seen, capture = [], TrainingStep._capture

    def recording(self: Any, batch: Any) -> Any:
        captured = capture(self, batch)
        seen.append(batch)
        return captured

    monkeypatch.setattr(TrainingStep, "_capture", recording)
    return seen


def without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainingStep, "_room", lambda _: False)


@on_gpu
@pytest.mark.parametrize("dtype", ["auto", "tf32", "float32"])
@pytest.mark.parametrize("model_type", CAPTURED)
def test_replayed_updates_give_the_same_bits_with_dropout(
    model_type: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captures: list[Any]
) -> None:
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "model", model_type))
    task = GENERATED["polarity"](sizes=SIZES)

    def tuned(name: str) -> Any:
        options: dict[str, Any] = {"steps": 40, "batch": 8, "rate": 1e-3, "dtype": dtype}
        return mt.finetune(encoder, task, "wu2020", device="cuda", store=tmp_path / name, **options)

    replayed = tuned("replayed")
    assert replayed.course["launches"] == "as CUDA graphs"
    assert captures
    without_graphs(monkeypatch)
    launched = tuned("launched")
    assert replayed.course["losses"] == launched.course["losses"]
    assert digest_weights(replayed.model) == digest_weights(launched.model)


@on_gpu
@pytest.mark.parametrize("kind", samples.KINDS)
@pytest.mark.parametrize("model_type", CAPTURED)
def test_all_kinds_of_tasks_are_captured(
    model_type: str, kind: Kind, encoder_of: Encoders, monkeypatch: pytest.MonkeyPatch, captures: list[Any]
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    recipe = find_recipe("devlin2019", steps=8, batch=4, rate=1e-3)
    dtype = choose_dtype("cuda", "auto", encoder.family)
    accelerator = make_accelerator("cuda", dtype)

    def weights() -> str:
        model = build(encoder, task, seed=1).to("cuda")
        features = encode(samples.items_of(kind), task, encoder.tokenizer, longest=30, mask=model.mask)
        course = train(model, features, collate, recipe, seed=0, accelerator=accelerator, dtype=dtype)
        assert course.launches == "as CUDA graphs"
        return digest_weights(model)

    replayed = weights()
    assert captures
    without_graphs(monkeypatch)
    assert weights() == replayed


@on_gpu
def test_a_resumed_training_replays_the_same_updates(tmp_path: Path) -> None:
    encoder: Any = mt.load(tiny.save_checkpoint(tmp_path / "model", "bert"))
    task = GENERATED["polarity"](sizes=SIZES)
    features = encode(task.split("train").items, task, encoder.tokenizer, longest=32)
    recipe = find_recipe("devlin2019", steps=60, batch=8, rate=1e-3)
    accelerator = make_accelerator("cuda", "bfloat16")

    class Killed(Exception):  # noqa: N818 - it is no error
        """Stands for whatever interrupts a training."""

    def trained(folder: Path, stop: int | None = None) -> tuple[str, int]:
        def save(update: int) -> None:
            if update == stop:
                raise Killed

        model = build(encoder, task, seed=1).to("cuda")
        folder.mkdir(exist_ok=True)
        records = TrainingRecords(folder=folder, save=save, save_at=frozenset({33}), state_seconds=0.0)
        course = train(
            model,
            features,
            lambda examples: collate(examples, multiple=16),
            recipe,
            seed=0,
            accelerator=accelerator,
            records=records,
            dtype="bfloat16",
        )
        return digest_weights(model), course.resumed

    whole, _ = trained(tmp_path / "whole")
    with pytest.raises(Killed):
        trained(tmp_path / "killed", stop=33)
    rest, resumed = trained(tmp_path / "killed")
    assert resumed == 32
    assert rest == whole


@on_gpu
def test_what_cannot_be_captured_is_launched_and_said(
    encoder_of: Encoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    recipe, accelerator = find_recipe("devlin2019", steps=8, batch=4), make_accelerator("cuda", "bfloat16")

    def trained(*, waiting: bool) -> tuple[str, str | None]:
        model = build(encoder, task, seed=1).to("cuda")
        if waiting:
            # Reading a value makes the host wait for the device, which no graph can hold.
            model.base.register_forward_pre_hook(lambda _, args: float(model.base.pooler.dense.bias[0]))
        features = encode(samples.items_of("classification"), task, encoder.tokenizer, longest=30)
        course = train(model, features, collate, recipe, seed=0, accelerator=accelerator, dtype="bfloat16")
        return digest_weights(model), course.launches

    weights, launches = trained(waiting=True)
    assert launches is not None
    assert launches.startswith("one kernel at a time: ")
    assert trained(waiting=False) == (weights, "as CUDA graphs")


@on_gpu
def test_memory_bounds_the_number_of_graphs(
    encoder_of: Encoders, monkeypatch: pytest.MonkeyPatch, captures: list[Any]
) -> None:
    monkeypatch.setattr(cuda_graphs, "FREE", 1.1)
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    model = build(encoder, task, seed=1).to("cuda")
    features = encode(samples.items_of("classification"), task, encoder.tokenizer, longest=30)
    recipe = find_recipe("devlin2019", steps=8, batch=4)
    train(model, features, collate, recipe, seed=0, accelerator=make_accelerator("cuda", "float32"))
    assert not captures


@pytest.mark.parametrize("model_type", [name for name, family in FAMILIES.items() if family.by_shape])
def test_what_depends_only_on_shapes_is_computed_once_for_each(model_type: str, encoder_of: Encoders) -> None:
    encoder, task = encoder_of(model_type), samples.task_of("classification")
    model = build(encoder, task, seed=1).eval()
    batches = [
        collate(encode(samples.items_of("classification"), task, encoder.tokenizer, longest=longest))
        for longest in (12, 20)
    ]
    plain = [model(batch) for batch in batches]
    owner, _, name = model.family.by_shape[0].rpartition(".")
    owner = model.base.get_submodule(owner)
    method, calls = getattr(owner, name), []
    owner.__dict__[name] = lambda *args, **kwargs: calls.append(1) or method(*args, **kwargs)
    with computed_once(model):
        with torch.inference_mode():
            model(batches[0])
        for batch, outputs in [*zip(batches, plain, strict=True)] * 2:
            # Tensors of an evaluation can be used in a backward pass.
            found = model(batch)
            assert torch.equal(found, outputs)
            found.sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"mixed_precision": "bf16"}, None),
        ({"device": "cpu"}, "there is no GPU"),
        ({"num_processes": 2}, "several processes"),
        ({"mixed_precision": "fp16"}, "float16"),
        ({"accumulate": 2}, "several parts"),
        ({"cached": True}, "frozen blocks"),
        ({"family": FAMILIES["xlnet"]}, "XLNet"),
    ],
)
def test_what_keeps_updates_from_being_captured_is_said(change: dict[str, Any], reason: str | None) -> None:
    given = {"device": "cuda", "mixed_precision": "no", "num_processes": 1, "accumulate": 1, "cached": False}
    given |= {"family": FAMILIES["bert"]} | change
    accelerator = SimpleNamespace(
        device=torch.device(given["device"]),
        mixed_precision=given["mixed_precision"],
        num_processes=given["num_processes"],
    )
    model = SimpleNamespace(family=given["family"])
    told = obstacle(model, accelerator, given["accumulate"], cached=given["cached"])
    assert told == reason if reason is None else reason in (told or "")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_updates_that_can_be_captured_are_those_of_accelerate(
    dtype: str, encoder_of: Encoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launched on a CPU, since a graph launches the same kernels: weights agree up to rounding."""
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    recipe, accelerator = (
        find_recipe("devlin2019", steps=6, batch=4, rate=1e-3),
        make_accelerator("cpu", dtype),
    )

    def trained() -> torch.Tensor:
        model = build(encoder, task, seed=1)
        features = encode(samples.items_of("classification"), task, encoder.tokenizer, longest=30)
        before = torch.cat([weight.detach().flatten() for weight in model.parameters()])
        train(model, features, collate, recipe, seed=0, accelerator=accelerator, dtype=dtype)
        return torch.cat([weight.detach().flatten() for weight in model.parameters()]) - before

    by_accelerate = trained()
    monkeypatch.setattr(loop, "obstacle", lambda *_, **__: None)
    monkeypatch.setattr(
        loop, "TrainingStep", lambda *args, capture, **options: TrainingStep(*args, capture=False, **options)
    )
    directly = trained()
    assert by_accelerate.norm() > 0.1
    assert (directly - by_accelerate).norm() < (0.2 if dtype == "bfloat16" else 1e-3) * by_accelerate.norm()
