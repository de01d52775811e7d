"""Are both models measured alike, and is what they hold counted right?"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
import torch

from microtome.encoders.loading import load
from microtome.pruning.speed import Speed, Timing, _peak_on_cpu, cut_model, measure_speed
from microtome.tasks.task import Item
from microtome.training.models.modeling import build
from microtome.training.opening import Model
from pruning.idle import task_with, texts


@pytest.mark.parametrize("model_type", ["bert", "albert", "gpt2", "xlnet"])
def test_a_smaller_model_is_measured_beside_the_whole(model_type: str, checkpoint_of: Any) -> None:
    name = "n_layer" if model_type in ("gpt2", "xlnet") else "num_hidden_layers"
    encoder: Any = load(checkpoint_of(model_type, "", **{name: 8}))
    items = tuple(Item(id=str(i), texts=(text,), target=0) for i, text in enumerate(texts(50)))
    task = task_with("classification", {"train": items}, ("no", "yes"))
    full = build(encoder, task, "stock")
    cut = cut_model(full, (1, 2))
    model = Model(name="m", encoder=encoder, task_model=full, longest=32)
    found = measure_speed(model, cut, task.split("train"), task, rounds=3)
    assert [(one.what, one.batch) for one in found.timings] == [
        ("whole model", 1),
        ("blocks", 1),
        ("whole model", 32),
        ("blocks", 32),
    ]
    assert all(one.low <= one.ratio <= one.high for one in found.timings)
    assert all(one.full > 0 for one in found.timings)
    counts = [sum(p.numel() for p in model.parameters()) for model in (full, cut)]
    assert list(found.parameters) == counts
    assert (counts[0] > counts[1]) == (model_type != "albert")
    assert found.bytes[1] == 4 * counts[1]
    assert found.peak[0] >= found.peak[1] > 0
    assert asdict(found)["timings"][0]["batch"] == 1
    assert len(full.family.blocks_of(full.base)) == 8  # the whole model stays whole
    assert len(found.table()) == 7


def test_intermediate_results_count_for_as_long_as_they_are_held() -> None:
    x = torch.zeros(1000)

    def one_after_the_other() -> None:
        for _ in range(5):
            (x + 1).sum()

    def together() -> None:
        held = [x + i for i in range(5)]
        held[0].view(10, 100)  # another look at the same memory
        x.view(10, 100)  # and one at what was there before

    assert 4000 <= _peak_on_cpu(one_after_the_other) < 2 * 4000 + 100
    assert _peak_on_cpu(together) == 5 * 4000


@pytest.mark.parametrize("low,high,told", [(0.5, 0.9, False), (0.5, 2.0, False), (0.03, 8.7, True)])
def test_times_that_tell_nothing_are_said_to(low: float, high: float, told: bool) -> None:
    calm = Timing(what="blocks", batch=1, full=9.0, cut=6.0, ratio=0.66, low=0.6, high=0.7)
    found = Speed(
        device="cpu",
        threads=1,
        rounds=15,
        timings=(calm, replace(calm, batch=32, low=low, high=high)),
        parameters=(2, 1),
        bytes=(8, 4),
        peak=(3, 2),
        tokens=(4, 4),
    )
    assert found.doubt.startswith("times of blocks, batch 32 differed so much" if told else "")
    assert bool(found.doubt) is told
