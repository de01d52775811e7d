"""A layer that was not compared has its place: empty, with the reason, and every other number as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.findings.cells import SAME_TOKEN, empty_places, with_places
from microtome.findings.maps import Map
from microtome.findings.record import Maps, from_json, to_json

RNG = np.random.default_rng(3)
NAMES = [f"{model}/{layer}" for model in "ab" for layer in range(3)]
LAYERS = {name: RNG.normal(size=(60, 4)) + 2 * RNG.normal(size=(60, 1)) for name in NAMES}
EMPTY = {"a/0": 4, "b/0": 4}
AT = [1, 2, 4, 5]
TABLES = ("values", "null_mean", "z", "p", "low", "high", "p_map")


def compared(measure: str, **options: Any) -> tuple[Map, Map]:
    """A map without two layers, and with their places."""
    names = [name for name in NAMES if name not in EMPTY]
    found = mt.similarity_matrix([LAYERS[name] for name in names], None, measure, names=names, **options)
    return found[measure], with_places(found[measure], NAMES, EMPTY)


@pytest.mark.parametrize("options", [{}, {"certainty": True, "halves": 4}, {"permutations": 5}])
@pytest.mark.parametrize("measure", ["debiased_cka", "svcca", "rsa"])
def test_other_numbers_stay_as_they_are(measure: str, options: dict[str, Any]) -> None:
    before, found = compared(measure, spectra=True, **options)
    assert found.left == found.right == tuple(NAMES)
    for name in TABLES:
        one, two = getattr(before, name), getattr(found, name)
        if one is None:
            assert two is None
            continue
        np.testing.assert_array_equal(two[np.ix_(AT, AT)], one)
        assert np.isnan(two[[0, 3]]).all()
        assert np.isnan(two[:, [0, 3]]).all()
    assert [found.reasons[i][j] for i in AT for j in AT] == [None] * 16
    assert {found.reasons[i][j] for i, j in np.ndindex(6, 6) if {i, j} & {0, 3}} == {SAME_TOKEN}
    for name, table in before.details.items():
        np.testing.assert_array_equal(found.details[name][np.ix_(AT, AT)], table)
    for name, facts in before.layers.left.items():
        np.testing.assert_array_equal(found.layers.left[name][AT], facts)
        assert found.layers.left[name].dtype == facts.dtype


@pytest.mark.parametrize("measure", ["debiased_cka", "svcca", "linear_cka"])
def test_a_place_is_told_of_as_a_constant_layer_is(measure: str) -> None:
    _, found = compared(measure, spectra=True)
    flat = [np.ones((60, 4)) if name in EMPTY else x for name, x in LAYERS.items()]
    seen = mt.similarity_matrix(flat, None, measure, names=NAMES, spectra=True)[measure]
    np.testing.assert_allclose(found.values, seen.values, atol=1e-6)
    for name, facts in seen.layers.left.items():
        np.testing.assert_allclose(found.layers.left[name], facts, rtol=1e-5, err_msg=name)
    if seen.kept.left is not None:
        assert found.kept.left.tolist() == seen.kept.left.tolist()
        assert np.isnan(found.lost.left[[0, 3]]).all()
    assert {r is None for row in seen.reasons for r in row} == {True, False}


@pytest.mark.parametrize("measure", ["debiased_cka", "svcca"])
def test_differences_are_paired_as_before(measure: str) -> None:
    before, found = compared(measure, certainty=True, halves=4)
    pair = ("a/1", "a/2"), ("b/1", "b/2")
    one, two = before.difference(*pair), found.difference(*pair)
    assert (one.value, one.low, one.high) == (two.value, two.low, two.high)
    lost = found.difference(("a/0", "a/2"), pair[1])
    assert lost.reason == SAME_TOKEN
    assert lost.low is not None
    assert np.isnan([lost.value, lost.low]).all()


def test_places_are_found_again_also_in_a_file() -> None:
    before, found = compared("debiased_cka")
    assert empty_places(before) == frozenset()
    assert empty_places(found) == empty_places(found, "right") == {0, 3}
    read = from_json(to_json(Maps([found])))["debiased_cka"]
    assert empty_places(read) == {0, 3}
    assert read["a/0", "b/2"].reason == SAME_TOKEN
    np.testing.assert_array_equal(read.values, found.values)
    flat = mt.similarity_matrix([np.ones((60, 4)), *LAYERS.values()])["debiased_cka"]
    assert empty_places(flat) == frozenset(), "a layer that turned out to be constant is told of"


def test_without_empty_layers_a_map_stays_what_it_is() -> None:
    before, _ = compared("debiased_cka")
    assert with_places(before, before.left, {}) is before
