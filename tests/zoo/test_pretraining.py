"""A run can be stopped and taken up, gives ordinary folders, and says when it failed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import microtome as mt
from microtome.errors import InputError
from microtome.zoo.designs import DESIGNS, Design, find_design
from microtome.zoo.pretraining import pretrain, scheduled, sequences
from microtome.zoo.text import CLS, SEP, Text, read_text
from zoo.test_text import written


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return read_text(written(tmp_path_factory.mktemp("text")), vocabulary=60)


def small(name: str, **values: float) -> Design:
    shape = {"layers": 2, "width": 32, "heads": 2, "inner": 64, "length": 24, "batch": 4, "steps": 6}
    return find_design(name, **{**shape, **values}, generator=(1, 32))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", DESIGNS)
def test_folders_load_with_the_library_and_with_ours(name: str, text: Text, tmp_path: Path) -> None:
    run = pretrain(small(name), text, tmp_path, seed=1, checkpoints=[3])
    encoder = mt.load(tmp_path)
    assert encoder.layers == ("0", "1", "2")
    net = transformers.AutoModel.from_pretrained(tmp_path).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    read = tokenizer(["the red cat runs", "never"], return_tensors="pt", padding=True)
    assert read["input_ids"][:, 0].eq(CLS).all()
    assert net(**read).last_hidden_state.shape[-1] == 32
    assert run.checkpoints == (tmp_path / "step-3",)
    assert mt.load(run.checkpoints[0]).layers == ("0", "1", "2")
    assert net.config.hidden_dropout_prob == 0, "so small a model hardly learns under dropout"


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(text: Text, tmp_path: Path) -> None:
    whole = pretrain(small("replaced"), text, tmp_path / "whole", seed=2)

    def stop(label: str, done: int, _: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    context = mt.Context(progress=stop)
    with pytest.raises(KeyboardInterrupt):
        pretrain(small("replaced"), text, tmp_path / "parts", seed=2, state_seconds=0, context=context)
    again = pretrain(small("replaced"), text, tmp_path / "parts", seed=2)
    assert again.losses == whole.losses
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_another_run_is_not_overwritten(text: Text, tmp_path: Path) -> None:
    pretrain(small("masked"), text, tmp_path, seed=1)
    with pytest.raises(InputError, match="must be empty or hold a run of the same design, text and seed"):
        pretrain(small("masked"), text, tmp_path, seed=2)


def test_a_run_that_learned_nothing_is_called_failed(text: Text, tmp_path: Path) -> None:
    run = pretrain(small("masked", rate=1e9, clip=1e9), text, tmp_path / "diverged", seed=1)
    assert run.failure == "the loss was no number at update 6 of 6"
    told = json.loads((tmp_path / "diverged" / "pretraining.json").read_text())
    assert told["failure"] == run.failure


def test_sequences_have_their_ends_and_cover_the_text(text: Text) -> None:
    tokens = torch.arange(100, 200)
    found = sequences(tokens, torch.tensor([0, 3]), 10)
    assert found.tolist() == [[CLS, *range(100, 110), SEP], [CLS, *range(103, 113), SEP]]


def test_the_rate_rises_and_falls() -> None:
    design = find_design("masked", steps=100, warmup=0.1)
    rates = np.array([scheduled(step, design) for step in range(100)])
    assert rates.argmax() in (9, 10)
    assert rates.max() == 1
    assert (np.diff(rates[:10]) > 0).all()
    assert (np.diff(rates[10:]) < 0).all()
    assert 0 < rates[-1] < 0.02
