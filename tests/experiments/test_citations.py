"""Whoever is built on is cited, once, also for the measures that were computed."""

from __future__ import annotations

import pytest

from microtome.errors import UnknownNameError
from microtome.experiments.citations import CITATIONS, cited
from microtome.experiments.table import EXPERIMENTS


def test_every_entry_is_named_by_its_key_and_is_closed() -> None:
    for key, entry in CITATIONS.items():
        assert entry.partition("{")[2].startswith(f"{key},")
        assert entry.count("{") == entry.count("}")
        assert "year = {" in entry
        assert cited(key) == (entry,)


def test_the_table_of_experiments_names_sources_as_they_are_cited() -> None:
    sources = {one for each in EXPERIMENTS.values() for one in each.source.split(", ")} - {"microtome"}
    for source in sources:
        name, year = source.replace("Ben Zaken", "BenZaken").partition(" ")[0], source[-4:]
        assert any(key.startswith(f"{name.lower()}{year}") for key in CITATIONS), source


def test_measures_bring_their_own() -> None:
    found = cited("merchant2020", "merchant2020", measures="rsa,debiased_cka")
    keys = [entry.partition("{")[2].partition(",")[0] for entry in found]
    assert keys == ["merchant2020", "kriegeskorte2008", "song2012", "kornblith2019"]
    with pytest.raises(UnknownNameError, match="Did you mean hu2022"):
        cited("hu2021")
