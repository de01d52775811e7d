from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import microtome as mt
from microtome.errors import InputError, UnknownNameError
from microtome.measures import table
from microtome.measures.cca import pwcca_subspace, svcca_subspace
from microtome.measures.citations import CITATIONS, bibtex
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.declare import choose
from microtome.measures.table import ALIASES, MEASURES, chosen, chosen_all, find
from microtome.randomness import generator


def test_entries_are_found_by_their_names_and_cannot_be_changed() -> None:
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert find(name) is measure
    with pytest.raises(TypeError):
        MEASURES["mine"] = LINEAR_CKA  # type: ignore[index]


def test_names_of_the_papers() -> None:
    assert {alias: find(alias).name for alias in ALIASES} == {
        "neuronsim": "neuron_correlation",
        "mixedsim": "mixed_regression",
        "svsim": "svcca",
        "pwsim": "pwcca",
        "ckasim": "linear_cka",
        "attnsim": "attention_js",
        "attnsim_norm": "attention_norm",
        "attnsim_pearson": "attention_pearson",
        "attnsim_js": "attention_js",
        "attention_svsim": "attention_svcca",
        "attention_pwsim": "attention_pwcca",
        "attention_ckasim": "attention_cka",
    }
    # As the paper defines them: after a truncation at 99 % of the variance of centered neurons.
    paper = choose(MEASURES["pwcca"], {"variant": "svcca"})
    assert chosen("pwsim") == paper
    assert pwcca_subspace(paper.options) == svcca_subspace(chosen("svsim").options)
    assert chosen("svsim").label == "svcca"
    assert chosen("attention_pwsim").label == "attention_pwcca:variant=svcca"
    # What a user writes wins, as for the code of the paper.
    assert chosen("pwsim:variant=wu").label == "pwcca:variant=wu"
    assert chosen("pwsim", {"variant": "morcos"}).label == "pwcca"
    assert [c.label for c in chosen_all("pwsim,pwcca:variant=svcca")] == ["pwcca:variant=svcca"]


def test_maps_are_found_by_the_names_of_the_papers() -> None:
    x, y = (generator(0, name).standard_normal((60, 5)) for name in "xy")
    maps = mt.similarity_matrix([x], [y], "pwsim,pwcca,svsim")
    assert maps["pwsim"].measure == "pwcca:variant=svcca"
    assert maps["svsim"].measure == "svcca"


def test_an_unknown_name_is_answered_with_a_guess() -> None:
    with pytest.raises(
        UnknownNameError, match=r"^measure must be one of .*, but got 'svca'\. Did you mean svcca\?$"
    ):
        find("svca")
    with pytest.raises(UnknownNameError, match=r"but got 'zzz'\.$"):
        find("zzz")
    with pytest.raises(KeyError):
        chosen("svca:threshold=0.9")


def test_what_a_user_writes_becomes_a_choice() -> None:
    assert chosen("svsim:inclusive=no:threshold=0.9").label == "svcca:threshold=0.9:inclusive=False"
    assert chosen("svcca:threshold=0.99").label == "svcca"
    assert chosen("svcca:threshold=0.9", {"threshold": 0.8}).options["threshold"] == 0.8
    assert chosen(LINEAR_CKA).label == "linear_cka"
    again = chosen(choose(MEASURES["svcca"], {"threshold": 0.9}), {"scaling": "standardize"})
    assert again.label == "svcca:scaling=standardize:threshold=0.9"
    given: Any = 3
    with pytest.raises(InputError, match=r"^a measure must be a name or a Measure, but got 'int'\.$"):
        chosen(given)


def test_several_measures_each_once() -> None:
    assert [c.label for c in chosen_all("cca, svcca,cca")] == ["cca", "svcca"]
    assert [c.label for c in chosen_all(["cca", LINEAR_CKA, "ckasim"])] == ["cca", "linear_cka"]
    assert [c.label for c in chosen_all(LINEAR_CKA)] == ["linear_cka"]
    assert [c.label for c in chosen_all(choose(LINEAR_CKA))] == ["linear_cka"]
    for nothing in ([], "", " , "):
        with pytest.raises(InputError, match="measures must name at least one measure, but got none"):
            chosen_all(nothing)


class _Point:
    """An entry point of another package."""

    def __init__(self, loaded: object) -> None:
        self.name, self.value, self.loaded = "mine", "other.package:MINE", loaded

    def load(self) -> object:
        return self.loaded


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[_Point]]:
    """Entry points of other packages, to be filled."""
    points: list[_Point] = []
    asked: list[str] = []

    def entry_points(*, group: str) -> list[_Point]:
        asked.append(group)
        return points

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    table.plugged_in.cache_clear()
    yield points
    assert asked == ["microtome.measures"]
    table.plugged_in.cache_clear()


def test_measures_of_other_packages_are_found(plugged: list[_Point]) -> None:
    mine = replace(LINEAR_CKA, name="mine")
    plugged.append(_Point(mine))
    assert find("mine") is mine
    assert mt.MEASURES["mine"] is mine
    assert list(mt.MEASURES) == [*MEASURES, "mine"]
    assert len(mt.MEASURES) == len(MEASURES) + 1
    assert "mine" in mt.MEASURES
    assert "mine" in repr(mt.MEASURES)
    with pytest.raises(UnknownNameError, match="Did you mean mine"):
        find("minee")


def test_a_measure_of_another_package_must_have_its_own_name(plugged: list[_Point]) -> None:
    plugged.append(_Point(LINEAR_CKA))
    with pytest.raises(
        InputError, match=r"other\.package:MINE is called 'linear_cka', which the package has"
    ):
        find("another")


def test_a_measure_that_cannot_be_loaded_hides_none_of_the_packages(plugged: list[_Point]) -> None:
    plugged.append(_Point("linear_cka"))
    assert mt.MEASURES["svcca"] is MEASURES["svcca"]
    with pytest.raises(InputError, match="must be a microtome Measure"):
        list(mt.MEASURES)


def test_an_entry_point_must_be_a_measure(plugged: list[_Point]) -> None:
    plugged.append(_Point("linear_cka"))
    with pytest.raises(
        InputError, match=r"^the entry point mine must be a microtome Measure, but got 'str'\.$"
    ):
        find("another")


def test_citations_are_entries_under_their_own_keys() -> None:
    for key, entry in CITATIONS.items():
        assert entry.startswith("@")
        assert f"{{{key}," in entry.splitlines()[0]
        assert entry.count("{") == entry.count("}")
        for field in ("author", "title", "year"):
            assert f"  {field} = {{" in entry
    text = bibtex(["song2012", "kornblith2019", "song2012"])
    assert text.count("@") == 2
    assert text.index("song2012") < text.index("kornblith2019")
