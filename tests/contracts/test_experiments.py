"""Every experiment of the table is a function, a verb and a line of `microtome ls experiments`."""

from __future__ import annotations

import inspect
import json

import pytest

import microtome as mt
from microtome.cli import main
from microtome.cli.app import command
from microtome.experiments.table import EXPERIMENTS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_public_and_takes_what_it_says(name: str) -> None:
    one = EXPERIMENTS[name]
    function = one.function()
    assert getattr(mt, name) is function
    first = next(iter(inspect.signature(function).parameters))
    named = {"layers": "encoder", "changed": "base", "results": "cases"}
    assert first == named.get(one.takes, one.takes)
    assert function.__doc__


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if one.verb])
def test_an_experiment_has_a_verb_with_the_shared_options(name: str) -> None:
    verb = command().commands[EXPERIMENTS[name].verb]
    options = {option for parameter in verb.params for option in parameter.opts}
    # What a verb reads, a corpus or a task; and what is drawn: models or probes with seeds, or rows with one.
    reads, drawn = {
        "files": ({"--measures", "--sample"}, "--seed"),
        "tuned": ({"--task", "--data"}, "--seeds"),
        "encoder": ({"--task", "--data"}, "--seeds"),
        "layers": ({"--on", "--target"}, "--seeds"),
        "changed": ({"--measures", "--sample"}, "--seed"),
        "models": ({"--on", "--sample"}, "--seed"),
        "checkpoints": ({"--on", "--task", "--sample"}, "--seed"),
    }[EXPERIMENTS[name].takes]
    assert {*reads, drawn, "--out", "--json", "--quiet", "--device", "--threads"} <= options
    assert ("--store" in options) == (EXPERIMENTS[name].takes != "files")
    assert "--dry-run" in options


def test_the_table_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "experiments", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/experiments/1"
    assert [one["name"] for one in document["experiments"]] == list(EXPERIMENTS)
    assert main(["ls", "experiments"]) == 0
    shown = capsys.readouterr().out
    for one in EXPERIMENTS.values():
        assert one.name in shown
