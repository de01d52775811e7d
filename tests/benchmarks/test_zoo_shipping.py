"""What is given away is the run, in half the bytes, with its card; what failed is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from zoo_cards import check_card
from zoo_shipping import halve, ship

from microtome.context import Context
from microtome.errors import InputError
from microtome.zoo.pretraining import pretrain
from microtome.zoo.text import Text, read_text
from zoo.test_pretraining import small
from zoo.test_text import written


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return read_text(written(tmp_path_factory.mktemp("text")), vocabulary=60)


def test_a_run_becomes_a_small_folder(text: Text, tmp_path: Path) -> None:
    run = pretrain(
        small("masked"), text, tmp_path / "run", seed=3, context=Context(command="microtome pretrain masked")
    )
    folder = ship(run.folder, tmp_path / "given", license="cc0-1.0", corpus={"name": "cats"}, device="a box")
    assert {one.name for one in folder.iterdir()} == {
        *("README.md", "card.json", "config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    card = check_card(folder)
    assert (card["seed"], card["steps"], card["tokens"]) == (3, 6, run.tokens)
    assert card["loss"] == pytest.approx(run.losses[-1][1], abs=1e-4)
    assert card["corpus"] == {"name": "cats", "digest": text.digest}
    assert (card["device"], card["command"]) == ("a box", "microtome pretrain masked")
    whole, half = (load_file(one / "model.safetensors") for one in (run.folder, folder))
    assert {one.dtype for one in half.values()} == {torch.float16}
    assert all(torch.equal(half[name], whole[name].half()) for name in whole)
    net = transformers.AutoModel.from_pretrained(folder)
    assert net.dtype == torch.float32, "the library computes in float32 all the same"


def test_what_failed_or_is_no_run_is_refused(text: Text, tmp_path: Path) -> None:
    pretrain(small("masked", rate=1e9, clip=1e9), text, tmp_path / "part")
    with pytest.raises(InputError, match=r"must hold a run that succeeded, .* the loss was no number"):
        ship(tmp_path / "part", tmp_path / "given")
    assert not (tmp_path / "given").exists()
    with pytest.raises(InputError, match="must be the folder of a pretraining"):
        ship(tmp_path, tmp_path / "given")
    save_file({"large": torch.tensor([1e6])}, tmp_path / "large.safetensors")
    with pytest.raises(InputError, match="within the range of float16, but large of"):
        halve(tmp_path / "large.safetensors", tmp_path / "half.safetensors")
