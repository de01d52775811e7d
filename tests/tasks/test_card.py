from __future__ import annotations

from importlib.resources import files

import pytest

from microtome.errors import InputError
from microtome.tasks.card import read_card

RTE = files("microtome.tasks").joinpath("cards", "rte.toml").read_text(encoding="utf-8")


def test_a_card() -> None:
    card = read_card(RTE, "rte.toml")
    assert (card.name, card.kind, card.shape) == ("rte", "classification", "texts")
    assert card.labels == ("entailment", "not_entailment")
    assert card.local.columns["pair"] == ("sentence2",)
    assert card.hub is not None
    assert (card.hub.id, card.hub.config, card.pinned) == ("nyu-mll/glue", "rte", False)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('title = "RTE"', 'title = "RTE"\nage = 1', "no key that cards do not know, but it has age"),
        ('title = "RTE"\n', "", "mine.toml must have the key title, a text, but it is missing"),
        ('title = "RTE"', "title = 3", "title in mine.toml must be a text, but got 3"),
        ('"classification"', '"sorting"', "kind in mine.toml must be one of classification, regression"),
        ('main = ["accuracy"]', 'main = ["f1"]', r"must be among scores \(accuracy, mcc\), but got 'f1'"),
        ("train = 2490", 'train = "many"', "sizes in mine.toml must be a table of counts"),
        ('format = "tsv"', 'format = "xls"', "local.format in mine.toml must be one of tsv, csv, jsonl"),
        ('text = "sentence1"', 'texts = "sentence1"', "columns in mine.toml must be made of text, pair"),
        ('["entailment", "not_entailment"]', '["a", "a"]', "must be a list of different names"),
        ('["entailment", "not_entailment"]', '["entailment"]', "labels in mine.toml must be at least two"),
        ('id = "nyu-mll/glue"\n', "", "mine.toml must have the key hub.id, a text, but it is missing"),
        ('title = "RTE"', 'title = "RTE', "mine.toml must be TOML, but got: "),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, words: str) -> None:
    assert old in RTE
    with pytest.raises(InputError, match=words):
        read_card(RTE.replace(old, new), "mine.toml")


def test_numbers_need_a_range() -> None:
    content = files("microtome.tasks").joinpath("cards", "stsb.toml").read_text(encoding="utf-8")
    assert read_card(content, "stsb.toml").range == (0.0, 5.0)
    with pytest.raises(InputError, match=r"range in stsb.toml must be two numbers, the lower first"):
        read_card(content.replace("[0.0, 5.0]", "[5.0, 0.0]"), "stsb.toml")
