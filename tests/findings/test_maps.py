"""A map: what a cell, a name and a notebook get from it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import microtome as mt
from microtome.errors import MicrotomeError
from microtome.findings.maps import Map, Maps
from microtome.randomness import generator


@pytest.fixture(scope="module")
def maps() -> Maps:
    """Three by two layers, of which the left one in the middle is constant."""
    left = generator(0, "maps").standard_normal((3, 40, 4))
    right = left[:2] + generator(1, "maps").standard_normal((2, 40, 4))
    left[1] = 2.0
    measures = ["linear_cka", "svcca:threshold=0.9", "svcca", "neuron_correlation"]
    return mt.similarity_matrix(left, right, measures, names=["a/0", "<a>/1", "a/2"], certainty=True)


@pytest.fixture(scope="module")
def one(maps: Maps) -> Map:
    return maps["linear_cka"]


def test_a_cell_is_found_by_numbers_and_by_names(one: Map) -> None:
    assert one[2, 1].value == one["a/2", "1"].value == one[-1, -1].value == one.values[2, 1]
    assert one[1, 0].reason == one.reasons[1][0]
    assert one[1, 0].reason


@pytest.mark.parametrize(
    "cell, words",
    [
        ((0, 1, 2), r"^a cell must be a left and a right layer, but got \(0, 1, 2\)\.$"),
        (("a/9", 0), r"^left layer must be one of <a>/1, a/0, a/2, but got 'a/9'\. Did you mean a/2\?$"),
        ((0, 2), r"^the right layer must be between 0 and 1, but got 2\.$"),
        ((-4, 0), r"^the left layer must be between 0 and 2, but got -4\.$"),
    ],
)
def test_a_cell_that_is_not_there(one: Map, cell: tuple, words: str) -> None:
    with pytest.raises(MicrotomeError, match=words):
        one[cell]


def test_a_measure_is_found_by_its_label_its_plain_name_and_a_papers_name(maps: Maps) -> None:
    assert list(maps) == ["linear_cka", "svcca:threshold=0.9", "svcca", "neuron_correlation"]
    assert maps["neuronsim"] is maps["neuron_correlation"]
    assert maps["svcca:threshold=0.9"] is not maps["svcca"]
    assert maps["svcca:threshold=0.90"] is maps["svcca:threshold=0.9"]
    assert Maps([maps["svcca:threshold=0.9"]])["svcca"] is maps["svcca:threshold=0.9"]
    for absent in ("procrustes", 7):
        with pytest.raises(MicrotomeError, match="measure must be one of linear_cka"):
            maps[absent]  # pyright: ignore[reportArgumentType]
    assert repr(maps) == "<Maps linear_cka, svcca:threshold=0.9, svcca, neuron_correlation>"


def test_it_says_what_it_is(one: Map) -> None:
    assert repr(one) == "<Map linear_cka: 3 x 2 layers, n = 40, 95% intervals by half-sampling (unit: row)>"


def test_a_notebook_shows_a_table_that_names_cannot_break(maps: Maps, one: Map) -> None:
    page = one._repr_html_()
    table = ElementTree.fromstring(page)
    cells = [[cell.text for cell in row] for row in table.findall("tr")]
    assert cells[0] == [None, "0", "1"]
    assert cells[1] == ["a/0", *(f"{value:.3f}" for value in one.values[0])]
    assert cells[2] == ["<a>/1", "–", "–"]
    assert "<a>/1" not in page
    assert f"title='{one.reasons[1][0]}'" in page
    assert maps._repr_html_().count("<table>") == 4


def test_records_go_to_arrow_and_pandas(one: Map) -> None:
    frame = one.to_pandas().set_index(["left", "right"])
    assert len(frame) == one.to_arrow().num_rows == 6
    assert frame.loc[("a/2", "1"), ["value", "low"]].to_list() == [one.values[2, 1], one[2, 1].low]
    assert int(frame["value"].isna().to_numpy().sum()) == 2
