"""A card holds what was measured, says what was not, and knows its own weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from safetensors.numpy import save_file
from zoo_cards import check_card, write_card

from microtome.errors import InputError, MicrotomeError
from microtome.zoo.designs import DESIGNS, find_design
from microtome.zoo.shipped import read_card

SCORES = {
    "stsb": {
        "rates": [1e-4, 3e-4],
        "epochs": [3, 10],
        "model": {"mean": 0.5812, "low": 0.55, "high": 0.61, "n": 5, "best": {"rate": 3e-4, "epochs": 10}},
        "random": {"mean": 0.1466, "low": 0.13, "high": 0.16, "n": 5, "best": "rate 0.0001"},
        "difference": {"mean": 0.4346, "low": 0.4, "high": 0.47},
    },
    "mrpc": {"model": {"mean": 0.7}},
}
FACTS: dict[str, Any] = {
    "license": "cc-by-sa-4.0",
    "corpus": {"name": "Some | texts", "license": "CC BY-SA 4.0", "digest": "abc"},
    "tokens": 516_096_000,
    "loss": 3.72,
    "seconds": 155.4,
    "device": "cuda",
    "torch": "2.13.0",
    "command": "microtome pretrain masked --corpus text.xz --out masked",
    "held_out": {"accuracy": 0.352, "n": 12_345, "interval": [0.344, 0.36], "unigram": 0.041},
    "scores": SCORES,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    tensors = {"a": np.ones((3, 4), np.float16), "b": np.ones(5, np.float16), "c": np.array(1, np.float16)}
    save_file(tensors, place / "model.safetensors")
    (place / "tokenizer.json").write_text("{}")
    return place


def test_everything_is_written_and_read_back(folder: Path) -> None:
    card = write_card(folder, design=DESIGNS["masked"], seed=3, **FACTS)
    assert card == read_card(folder) == check_card(folder)
    assert card["format"] == "microtome/zoo-card/1"
    assert (card["name"], card["objective"], card["seed"]) == ("mine", "masked", 3)
    assert card["parameters"] == 3 * 4 + 5 + 1
    assert card["bytes"] == (folder / "model.safetensors").stat().st_size
    assert card["scores"] == SCORES
    assert card["steps"] == DESIGNS["masked"].steps
    text = (folder / "card.json").read_text()
    assert text == json.dumps(card, indent=1, sort_keys=True) + "\n"
    assert str(folder) not in text + (folder / "README.md").read_text()


def test_the_page_says_it_in_words_and_the_hub_reads_its_head(folder: Path) -> None:
    write_card(folder, design=DESIGNS["masked"], seed=3, **FACTS)
    page = ModelCard.load(folder / "README.md")
    assert page.data.to_dict()["license"] == "cc-by-sa-4.0"
    assert page.data.to_dict()["language"] == ["en"]
    assert page.data.to_dict()["tags"] == ["microtome", "masked"]
    for words in (
        "| Tokens read | 516,096,000 |",
        "| Text | Some \\| texts |",
        "35.2 % of hidden tokens guessed (34.4 % to 36.0 %), n = 12,345; most frequent token: 4.1 %",
        "| stsb | 0.581 (0.550 to 0.610), 5 seeds, best at epochs 10, rate 0.0003 | 0.147 (0.130 to 0.160), "
        "5 seeds, best at rate 0.0001 | 0.435 (0.400 to 0.470) | 0.0001, 0.0003 | 3, 10 |",
        "| mrpc | 0.700 | not measured | not measured | not measured | not measured |",
        "microtome pretrain masked --corpus text.xz",
        'microtome.load("zoo:mine")',
    ):
        assert words in page.text


@pytest.mark.parametrize("name", DESIGNS)
def test_what_is_not_known_is_called_not_measured(folder: Path, name: str) -> None:
    card = write_card(folder, design=DESIGNS[name], seed=0)
    assert card["held_out"] is card["loss"] is card["license"] is None
    assert card["scores"] == {}
    page = (folder / "README.md").read_text()
    assert "| Held-out text | not measured |" in page
    assert "| Loss at the end | not measured |" in page
    assert "Tasks: not measured." in page
    assert "None" not in page
    assert ModelCard(page).data.to_dict()["license"] == "other"
    assert (DESIGNS[name].differs or "nothing") in page


def test_a_design_may_come_as_it_was_recorded(folder: Path) -> None:
    design = find_design("replaced", steps=7, generator=(1, 32))
    recorded = json.loads(json.dumps(design.specification()))
    by_value = write_card(folder, design=design, seed=0)
    assert write_card(folder, design=recorded, seed=0) == by_value
    assert by_value["steps"] == 7


def test_other_files_than_those_of_the_card_are_noticed(folder: Path) -> None:
    write_card(folder, design=DESIGNS["masked"], seed=0)
    (folder / "tokenizer.json").write_text("{} ")
    with pytest.raises(InputError, match=r"tokenizer.json must have the SHA-256 .* of its card, but it has"):
        check_card(folder)
    write_card(folder, design=DESIGNS["masked"], seed=0)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"model.safetensors must have the SHA-256 .* of its card"):
        check_card(folder)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"loss": float("nan")}, "facts of a card must be plain data and finite numbers"),
        ({"command": Path("x")}, "facts of a card must be plain data"),
        ({"held_out": {"acuracy": 1.0}}, "a fact of held_out must be one of .* Did you mean accuracy"),
        ({"scores": {"rte": {"mdel": {}}}}, "a fact of scores of rte must be one of .* Did you mean model"),
        ({"corpus": {"licence": "x"}}, "a fact of a corpus must be one of .* Did you mean license"),
        ({"design": {"name": "maskd"}}, "design must be one of .* Did you mean masked"),
    ],
)
def test_facts_that_cannot_be_are_refused(folder: Path, facts: dict[str, Any], said: str) -> None:
    with pytest.raises(MicrotomeError, match=said):
        write_card(folder, **{"design": DESIGNS["masked"], "seed": 0, **facts})
    assert not (folder / "card.json").exists()


def test_folders_without_what_a_card_is_of_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"card.json must be a readable JSON file"):
        read_card(folder)
    (folder / "card.json").write_text('{"format": "microtome/zoo-card/9"}')
    with pytest.raises(InputError, match=r"must be microtome/zoo-card/1, but got 'microtome/zoo-card/9'"):
        read_card(folder)
    (folder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(InputError, match="must be a file of safetensors"):
        write_card(folder, design=DESIGNS["masked"], seed=0)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"must hold model.safetensors"):
        write_card(folder, design=DESIGNS["masked"], seed=0)
