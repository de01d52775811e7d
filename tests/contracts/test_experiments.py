"""Every experiment of the table is a function, a command and a line of `microtome ls experiments`."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Any

import pytest

import microtome as mt
from microtome.cli import main
from microtome.cli.app import command
from microtome.context import Context
from microtome.experiments import table
from microtome.experiments.base import Experiment, Plan, as_function, option
from microtome.experiments.base import options_of as declared
from microtome.experiments.table import EXPERIMENTS, Entry
from microtome.findings.results import Result

SHARED = {"--out", "--json", "--quiet", "--device", "--threads", "--dry-run"}


def options_of(verb: str) -> dict[str, Any]:
    params = command(verb).commands[verb].params
    return {name: parameter for parameter in params for name in parameter.opts}


@pytest.mark.parametrize("verb", EXPERIMENTS)
def test_an_entry_has_the_name_of_its_results(verb: str) -> None:
    assert EXPERIMENTS[verb].load().name == EXPERIMENTS[verb].name


@pytest.mark.parametrize("verb", EXPERIMENTS)
def test_an_experiment_is_a_public_function_and_a_command(verb: str) -> None:
    kind = EXPERIMENTS[verb].load()
    function = getattr(mt, verb.replace("-", "_"), None)
    if verb != "pretrain":
        assert callable(function)
        assert "Parameters" in (function.__doc__ or "")
        assert "device" in inspect.signature(function).parameters
    assert issubclass(kind, Experiment)
    assert kind.name
    assert options_of(verb).keys() >= SHARED


@pytest.mark.parametrize("verb", EXPERIMENTS)
def test_every_option_has_a_help_sentence_and_a_panel(verb: str) -> None:
    for name, parameter in options_of(verb).items():
        if name.startswith("--") and name != "--help":
            assert parameter.help, name
            assert parameter.help[:1].isupper() or parameter.help.startswith(("auto", "in:")), name
            assert parameter.help.partition(" [")[0].endswith("."), name
            assert parameter.rich_help_panel in ("Input", "Rows", "Model", "Statistics", "Output"), name


def test_an_option_means_the_same_everywhere() -> None:
    types: dict[str, set[str]] = {}
    for entry in EXPERIMENTS.values():
        for option_field, facts in declared(entry.load()):
            # Values that Python takes in other forms too, such as open models, are of any type.
            kind = str(option_field.type).removesuffix(" | None")
            types.setdefault(facts.name or option_field.name, set()).update({kind} - {"Any"})
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_the_table_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "experiments", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/experiments/1"
    assert [entry["verb"] for entry in document["experiments"]] == list(EXPERIMENTS)
    assert main(["ls", "experiments"]) == 0
    printed = capsys.readouterr().out
    assert all(verb in printed for verb in EXPERIMENTS)


@dataclass(frozen=True, kw_only=True)
class Doubling(Experiment):
    """Double a number."""

    name = "doubling"

    number: int = option("The number.", argument=True, panel="Input", metavar="N")
    times: int = option("How often.", 1, least=1)

    def plan(self, context: Context) -> Plan:
        return Plan(name="number", summary={"times": self.times}, sentence=f"{self.times} times", inputs=None)

    def run(self, plan: Plan, context: Context) -> Result:
        value = self.number * 2**self.times
        return Result(
            experiment=self.name,
            model="none",
            task="number",
            split="",
            score="value",
            findings=(f"The result is {value}.",),
            provenance={"command": context.command},
        )


@pytest.fixture
def doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class and one entry of the table: all that an experiment needs."""
    entry = Entry(
        verb="double",
        name="doubling",
        title="Doubling",
        path="x.Doubling",
        group=table.CHANGE,
        summary="Double.",
        takes="text",
    )
    monkeypatch.setattr(Entry, "load", lambda _: Doubling)
    monkeypatch.setattr("microtome.cli.app.EXPERIMENTS", {"double": entry})


@pytest.mark.usefixtures("doubling")
def test_a_new_experiment_needs_one_class_and_one_entry(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    double = as_function(Doubling, "double")
    assert double(4, times=2).findings == ("The result is 16.",)
    with pytest.raises(mt.MicrotomeError, match="times must be at least 1, but got 0"):
        double(4, times=0)
    with pytest.raises(mt.MicrotomeError, match="context must be a context or None, but got 3"):
        double(4, context=3)
    assert main(["double", "4", "--times", "3", "--out", str(tmp_path / "out")]) == 0
    assert "The result is 32." in capsys.readouterr().out
    assert mt.open(tmp_path / "out").findings == ("The result is 32.",)
    assert main(["double", "4", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["times"] == 1
    assert main(["double", "4", "--tmes", "3"]) == 2
    assert "--times" in capsys.readouterr().err
    assert main(["double", "--help"]) == 0
    assert "How often." in capsys.readouterr().out
