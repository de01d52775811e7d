"""Is an update that is played again the same as one that is made?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import microtome as mt
import tiny
from microtome.encoders.encoder import digest_weights
from microtome.encoders.table import FAMILIES
from microtome.tasks.generated.table import GENERATED
from microtome.training.optimization import cuda_graphs, loop
from microtome.training.optimization.cuda_graphs import can_capture

SIZES = {"train": 200, "validation": 40, "test": 8, "held_out": 8}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if family.cuda_graphs])
def test_played_updates_give_the_same_bits_with_dropout(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "model", family))
    task = GENERATED["polarity"](sizes=SIZES)
    recorded = []
    monkeypatch.setattr(
        cuda_graphs.TrainingStep, "_capture", _counting(cuda_graphs.TrainingStep._capture, recorded)
    )

    def tuned(place: str) -> Any:
        store = tmp_path / place
        return mt.finetune(encoder, task, "wu2020", device="cuda", store=store, steps=40, batch=8, rate=1e-3)

    played = tuned("played")
    assert recorded, "shapes come again, so some must have been recorded"
    monkeypatch.setattr(loop, "can_capture", lambda *_: False)
    made = tuned("made")
    assert played.course["losses"] == made.course["losses"]
    assert digest_weights(played.model) == digest_weights(made.model)


def _counting(record: Any, seen: list[Any]) -> Any:
    def counted(self: Any, batch: Any) -> Any:
        seen.append(batch)
        return record(self, batch)

    return counted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"device": "cpu"}, False),
        ({"mixed_precision": "bf16"}, False),
        ({"num_processes": 2}, False),
        ({"accumulate": 2}, False),
        ({"family": FAMILIES["deberta"]}, False),
        ({"rows": 500_001}, False),
    ],
)
def test_only_small_models_alone_on_a_gpu_are_recorded(change: dict[str, Any], wanted: bool) -> None:
    given = {"device": "cuda", "mixed_precision": "no", "num_processes": 1, "accumulate": 1}
    given |= {"family": FAMILIES["bert"], "rows": 1_000} | change
    model = torch.nn.Embedding(given["rows"], 100, device="meta")
    model.family = given["family"]
    accelerator = SimpleNamespace(
        device=torch.device(given["device"]),
        mixed_precision=given["mixed_precision"],
        num_processes=given["num_processes"],
    )
    assert can_capture(model, accelerator, given["accumulate"]) is wanted
