"""A map: what a cell, a name and a notebook get from it."""

from __future__ import annotations

import warnings
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microtome as mt
from microtome.errors import MicrotomeError
from microtome.findings.maps import Map
from microtome.findings.record import Maps
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
        (3, r"^a cell must be a left and a right layer, but got 3\.$"),
        (
            (slice(0, 2), 0),
            r"^a cell must be a left and a right layer, each by its number or its name, but got "
            r"slice\(0, 2, None\); `values` has all cells as an array\.$",
        ),
        ((0, 1.5), r"^a cell must be a left and a right layer, each by .*, but got 1\.5;"),
    ],
)
def test_a_cell_that_is_not_there(one: Map, cell: tuple, words: str) -> None:
    with pytest.raises(MicrotomeError, match=words):
        one[cell]


def test_a_cell_of_several_models_is_found_by_model_and_layer() -> None:
    layers = generator(2, "joint").standard_normal((5, 30, 3))
    names = ["base/0", "base/1", "base/norm", "tuned/0", "tuned/1"]
    joint = mt.similarity_matrix(layers, None, "linear_cka", names=names)["linear_cka"]
    assert joint.at("base", 1, "tuned", 0).value == joint.values[1, 3]
    assert joint.at("base", "norm", "tuned", 1).value == joint["base/norm", "tuned/1"].value
    # 4 would be the place of tuned/1, and 1 is a layer of both models.
    for cell in ((1, 4), (1, 1), (-1, 0)):
        with pytest.raises(
            MicrotomeError,
            match=r"^the left layer must be named by its model too, since there are several models, but got "
            rf"{cell[0]}; write at\(model, layer, model, layer\), or a name between 'base/0' and 'tuned/1'",
        ):
            joint[cell]
    with pytest.raises(MicrotomeError, match=r"^right layer must be one of .* but got 'tuned/7'"):
        joint.at("base", 1, "tuned", 7)


def test_a_number_is_that_of_the_layer_and_not_its_place() -> None:
    layers = generator(3, "attended").standard_normal((3, 30, 3))
    attended = mt.similarity_matrix(layers, None, "linear_cka", names=["a/1", "a/2", "a/4"])["linear_cka"]
    assert attended[1, 4].value == attended.values[0, 2] == attended[1, -1].value
    with pytest.raises(MicrotomeError, match=r"^the right layer must be one of 1, 2, 4, but got 3\.$"):
        attended[1, 3]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=5, unique=True))
def test_the_table_has_models_and_numbers_of_layers(names: list[str]) -> None:
    layers = generator(4, "named").standard_normal((len(names), 6, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = mt.similarity_matrix(layers, None, "linear_cka", names=names)["linear_cka"]
    table = one.to_arrow().to_pylist()
    assert len(table) == len(names) ** 2
    tails = [name.split("/")[-1] for name in names]
    numbered = any(tail.isdecimal() for tail in tails)
    for place, row in enumerate(table):
        k = place % len(names)
        number = (int(tails[k]) if tails[k].isdecimal() else None) if numbered else k
        assert (row["right"], row["right_layer"]) == (names[k], number)
        model = "/".join(names[k].split("/")[:-1])
        assert row["right_model"] == (model or None)
        assert row["value"] == one.values.flat[place]


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
    assert repr(one) == "<Map linear_cka: 3 x 2 layers, n = 40, 95 % intervals over rows by half-sampling>"


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
