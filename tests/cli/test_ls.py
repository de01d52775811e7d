"""`microtome ls` says of every measure, family and reader what its declaration says."""

from __future__ import annotations

import json
import math
import re

import pytest

from microtome.cli import main
from microtome.cli.ls import TRANSFORMED
from microtome.corpora.table import CORPORA
from microtome.encoders.table import FAMILIES
from microtome.measures.declare import TRANSFORMATIONS
from microtome.measures.table import ALIASES, MEASURES


@pytest.fixture
def table(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["ls", "measures"]) == 0
    return capsys.readouterr().out


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:
    assert main(["ls", "measures", "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=lambda c: pytest.fail(c))
    assert document["format"] == "microtome/measures/1"
    return {one["name"]: one for one in document["measures"]}


def test_every_measure_has_a_line_with_its_properties(table: str) -> None:
    for measure in MEASURES.values():
        line = next(line for line in table.splitlines() if line.startswith(f"{measure.name} "))
        assert ("  yes  " in line) == measure.symmetric
        found = re.search(rf"((?:[+LR.] ){{5}}[+LR.]) +{measure.needs} ", line)
        assert found is not None
        marks = found[1].split()
        for mark, name in zip(marks, TRANSFORMED.values(), strict=True):
            sides = name in measure.invariances.left, name in measure.invariances.right
            assert mark == {(1, 1): "+", (1, 0): "L", (0, 1): "R", (0, 0): "."}[sides]


def test_the_legend_covers_every_transformation_and_every_name(table: str) -> None:
    assert sorted(TRANSFORMED.values()) == sorted(TRANSFORMATIONS)
    for name in TRANSFORMATIONS:
        assert name.replace("_", " ") in table
    for alias, name in ALIASES.items():
        assert f"{alias} = {name}" in table
    assert "Higher is more similar." in table
    assert "Kornblith et al. 2019; Gretton et al. 2005" in table


def test_every_option_is_explained(table: str) -> None:
    for measure in MEASURES.values():
        for name, option in measure.options.items():
            assert any(
                line.split()[:2] == [measure.name, name] and option.meaning in line
                for line in table.splitlines()
            )


def test_the_json_holds_the_declarations(read: dict[str, dict]) -> None:
    assert list(read)[: len(MEASURES)] == list(MEASURES)
    for name, measure in MEASURES.items():
        one = read[name]
        assert one["symmetric"] is measure.symmetric
        assert set(one["invariances"]["left"]) == measure.invariances.left
        assert set(one["invariances"]["right"]) == measure.invariances.right
        assert one["range"] == [end if math.isfinite(end) else None for end in measure.range]
        assert one["direction"] == "higher is more similar"
        assert one["citations"] == list(measure.citations)
        assert all(f"{{{key}," in one["bibtex"] for key in measure.citations)
        assert {k: o["default"] for k, o in one["options"].items()} == {
            k: o.default for k, o in measure.options.items()
        }
    assert read["svcca"]["aliases"] == ["svsim"]
    assert "range" in read["linear_regression"]["changed_by_options"]


def test_every_family_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "families"]) == 0
    table = capsys.readouterr().out
    for family in FAMILIES.values():
        line = next(line for line in table.splitlines() if line.startswith(f"{family.name} "))
        assert family.title in line
        assert ", ".join(family.model_types) in line
        reads = "none" if family.reads == "none" else f"{family.reads} token"
        flags = ["yes" if flag else "no" for flag in (family.causal, family.final_norm is not None)]
        assert re.search(rf"  {reads} +{flags[0]} +{flags[1]} ", line)
    assert "Layer 0 is what the first block reads, layer l what block l gives" in table


def test_families_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "families", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/families/1"
    assert [one["name"] for one in document["families"]] == list(FAMILIES)
    for one, family in zip(document["families"], FAMILIES.values(), strict=True):
        assert one["model_types"] == list(family.model_types)
        assert (one["reads"], one["causal"], one["shared"]) == (family.reads, family.causal, family.shared)
        assert one["final_norm"] is (family.final_norm is not None)
        assert one["source"] == family.source


def test_every_reader_and_its_options_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "corpora"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for reader in CORPORA.values():
        assert any(line.startswith(f"{reader.name} ") and reader.summary in line for line in lines)
        for name, option in reader.options.items():
            assert any(
                line.split()[:2] == [reader.name, name] and option.meaning in line for line in lines
            ), (reader.name, name)
    assert "Given as --read name=value." in lines
    assert "Files may also end in .gz, .xz or .bz2." in lines


def test_readers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "corpora", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/corpora/1"
    assert [one["name"] for one in document["corpora"]] == list(CORPORA)
    for one, reader in zip(document["corpora"], CORPORA.values(), strict=True):
        assert (one["suffixes"], one["summary"]) == (list(reader.suffixes), reader.summary)
        assert {n: o["default"] for n, o in one["options"].items()} == {
            n: o.default for n, o in reader.options.items()
        }


def test_a_table_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "familys"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "but got 'familys'. Did you mean families?" in said.err
