"""A model that is trained with others by vmap learns what it learns alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import microtome as mt
import tiny
from microtome.cli import main
from microtome.errors import InputError
from microtome.tasks.generated.table import GENERATED
from microtome.training.multi_seed import finetune_vectorized

SIZES = {"train": 50, "validation": 40, "test": 8, "held_out": 8}
STILL: dict[str, Any] = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.0,
}


def polarity() -> Any:
    return GENERATED["polarity"](sizes=SIZES)


def encoder(place: Path, family: str, seed: int = 0, **more: Any) -> Any:
    folder = place / f"{family}-{seed}-{len(more)}"
    return mt.load(tiny.save_checkpoint(folder, family, seed=seed, **STILL, **more))


def weights(run: Any) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in run.model.parameters()])


@pytest.mark.parametrize(
    ("family", "recipe"),
    [("bert", "devlin2019"), ("roberta", "phang2021"), ("electra", "devlin2019"), ("albert", "phang2021")],
)
def test_models_learn_what_they_learn_alone(family: str, recipe: str, tmp_path: Path) -> None:
    base, task = encoder(tmp_path, family), polarity()
    # Some gradients are nothing but rounding, such as those of the keys' biases; a large epsilon keeps
    # AdamW from making steps of them.
    given = {"steps": 9, "batch": 16, "store": tmp_path / "store", "epsilon": 1e-4}
    given["bucket"] = family == "bert"
    found = finetune_vectorized([base], task, recipe, seeds=[1, 2], rates=[1e-3, 3e-3], device="cpu", **given)
    begun = torch.cat([weight.detach().flatten() for weight in base.base.parameters()])
    assert len(found) == 4
    for run, (rate, seed) in zip(found, [(1e-3, 1), (1e-3, 2), (3e-3, 1), (3e-3, 2)], strict=True):
        alone = mt.finetune(base, task, recipe, seed=seed, rate=rate, **given)
        assert run.address != alone.address
        assert run.course["losses"] == [
            [update, pytest.approx(loss, rel=1e-3)] for update, loss in alone.course["losses"]
        ]
        moved = (weights(alone) - weights(found[3 if run is not found[3] else 0])).norm()
        assert (weights(run) - weights(alone)).norm() < 0.02 * moved
    assert begun.equal(torch.cat([weight.detach().flatten() for weight in base.base.parameters()]))


def test_encoders_are_batched_and_are_found_again(tmp_path: Path) -> None:
    both, task = [encoder(tmp_path, "roberta", seed) for seed in (0, 1)], polarity()
    given = {"steps": 4, "batch": 16, "store": tmp_path / "store", "device": "cpu"}
    found = finetune_vectorized(both, task, seeds=[3], **given)
    again = finetune_vectorized(both[::-1], task, seeds=[3], **given)
    assert [run.address for run in found] == [run.address for run in again][::-1]
    assert found[0].course["finished"] == again[1].course["finished"]
    assert found[0].score.value == pytest.approx(found[0].evaluation.score.value)


def test_seeds_of_the_command_line_are_batched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "electra")
    tiny.save_checkpoint(Path(place), "electra")
    asked = ["finetune", place, "--task", "polarity", "--seeds", "1,2", "--set", "steps=2", "--vectorized"]
    asked += ["--store", str(tmp_path / "store"), "--json"]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["seeds"]["order"] for run in told["runs"]] == [1, 2]
    assert main([*asked, "--method", "head"]) == 2
    assert (
        "method must be left at its default for vectorized training, but got 'head'."
        in capsys.readouterr().err
    )


def test_causal_models_see_no_later_token(tmp_path: Path) -> None:
    base, task = encoder(tmp_path, "roberta-decoder"), polarity()
    head, given = mt.Head(reads="last"), {"steps": 5, "batch": 16, "store": tmp_path / "store", "rate": 1e-3}
    (run,) = finetune_vectorized([base], task, seeds=[1], head=head, device="cpu", **given)
    alone = mt.finetune(base, task, seed=1, head=head, **given)
    assert run.course["losses"][-1][1] == pytest.approx(alone.course["losses"][-1][1], rel=1e-3)


def test_models_that_differ_are_refused(tmp_path: Path) -> None:
    pair = [encoder(tmp_path, "roberta"), encoder(tmp_path, "roberta", num_hidden_layers=2)]
    task = polarity()
    with pytest.raises(InputError, match="vectorized training must have one shape, but these differ"):
        finetune_vectorized(pair, task, seeds=[1], device="cpu", store=tmp_path / "store")
    with pytest.raises(InputError, match="must make each update at once"):
        finetune_vectorized(
            pair[:1], task, seeds=[1], device="cpu", store=tmp_path / "store", accumulate=2, steps=2
        )
    with pytest.raises(InputError, match="each there once"):
        finetune_vectorized(pair[:1], task, seeds=[1, 1], device="cpu", store=tmp_path / "store")
