"""Blocks are the runs of layers that the definition says, and certain where their margin is."""

from __future__ import annotations

import json
import math
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError
from microtome.findings.blocks import Block, block_structure
from microtome.findings.squares import margin_errors
from microtome.randomness import generator

SHARED = Path(os.environ.get("MICROTOME_SHARED", Path(__file__).parents[3] / "shared"))
ORACLES = SHARED / "oracles" / "blocks"


def maps(layers: int, seed: int, *, two: bool = False) -> np.ndarray:
    """A random map, rounded so that ties occur."""
    values = generator(seed, "map").random((layers, layers)).round(1)
    if not two:
        values = np.maximum(values, values.T)
        np.fill_diagonal(values, 1.0)
    return values


def margin_by_hand(values: np.ndarray, first: int, last: int, *, two: bool, without: Any = ()) -> float:
    layers = range(len(values))
    members = [k for k in range(first, last + 1) if k not in without]
    outer = [k for k in layers if not first <= k <= last]
    inside = [values[i, j] for i in members for j in members if two or i != j]
    outside = [values[i, j] for i in members for j in outer] + [values[i, j] for i in outer for j in members]
    return min(inside) - max(outside)


def spans(finding: Any) -> set[tuple[int, int]]:
    return {(block.first, block.last) for top in finding.blocks for block in top.walk()}


@settings(deadline=None, max_examples=40)
@given(st.integers(4, 9), st.integers(0, 10_000), st.booleans())
def test_blocks_are_the_runs_of_the_definition(layers: int, seed: int, two: bool) -> None:
    values = maps(layers, seed, two=two)
    margins = {
        (a, b): margin_by_hand(values, a, b, two=two)
        for a, b in combinations(range(layers), 2)
        if b - a >= 2 and b - a < layers - 1
    }
    finding = block_structure(values, two_stacks=two)
    assert spans(finding) == {run for run, margin in margins.items() if margin > 1e-9}
    assert finding.runs == len(margins)
    assert finding.best is not None
    assert finding.best.margin == pytest.approx(max(margins.values()))
    # Two blocks are disjoint or one holds the other, and the largest ones do not overlap.
    for (a, b), (c, d) in combinations(sorted(spans(finding)), 2):
        assert b < c or (a <= c and d <= b) or (c <= a and b <= d)
    assert all(one.last < two.first for one, two in zip(finding.blocks, finding.blocks[1:], strict=False))
    assert not finding.certain, "without errors nothing is certain"


@settings(deadline=None, max_examples=30)
@given(st.integers(5, 8), st.integers(0, 1_000), st.floats(0.01, 1.0))
def test_a_factor_and_the_direction_change_nothing(layers: int, seed: int, factor: float) -> None:
    values = maps(layers, seed, two=True)
    plain = block_structure(values, two_stacks=True)
    assert spans(block_structure(values.T, two_stacks=True)) == spans(plain)
    scaled = block_structure(factor * values, two_stacks=True)
    assert spans(scaled) == spans(plain)
    assert scaled.best is not None
    assert plain.best is not None
    assert scaled.best.margin == pytest.approx(factor * plain.best.margin)
    turned = block_structure(values[::-1, ::-1], two_stacks=True)
    assert spans(turned) == {(layers - 1 - b, layers - 1 - a) for a, b in spans(plain)}


def smooth(steps: np.ndarray) -> np.ndarray:
    place = np.concatenate([[0.0], np.cumsum(steps)])
    return np.exp(-np.abs(place[:, None] - place[None]))


@pytest.mark.parametrize("layers", [6, 12, 24])
def test_a_stack_that_changes_smoothly_has_no_block(layers: int) -> None:
    even = np.full(layers - 1, 0.1)
    wave = 0.1 * (1 + 0.5 * np.sin(np.linspace(0, np.pi, layers - 1)))
    rising = 0.1 * np.linspace(1, 2, layers - 1)
    for steps in (even, wave, rising):
        assert block_structure(smooth(steps)).blocks == ()


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("mpnet-qqp", "seed-1", "seed-1", [(1, 3), (4, 8)]),
        ("mpnet-qqp", "seed-2", "seed-2", [(1, 3), (4, 8), (10, 12)]),
        ("mpnet-qqp", "seed-1", "seed-2", [(1, 3), (4, 8)]),
        ("mpnet-qqp", "model", "model", [(1, 3), (4, 8)]),
        ("mpnet-mrpc", "seed-1", "seed-1", [(1, 4), (8, 12)]),
        ("mpnet-mrpc", "seed-2", "seed-2", [(1, 4)]),
        ("mpnet-mrpc", "seed-1", "seed-2", [(1, 4)]),
    ],
)
def test_real_encoders_show_the_blocks_that_the_eye_sees(
    name: str, left: str, right: str, expected: list[tuple[int, int]]
) -> None:
    path = ORACLES / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there: set MICROTOME_SHARED")
    read = json.loads(path.read_text())
    values = np.array(read["values"], dtype=float)
    rows, columns = (
        [k for k, one in enumerate(read["layers"]) if one.startswith(f"{side}/")] for side in (left, right)
    )
    finding = block_structure(values[np.ix_(rows, columns)], two_stacks=left != right)
    assert [(block.first, block.last) for block in finding.blocks] == expected
    assert finding.left_out == (0,)
    if (name, left, right) == ("mpnet-qqp", "seed-1", "seed-1"):
        block = finding.blocks[1]
        assert (block.inside, block.outside) == (0.713, 0.56)
        assert [(core.first, core.last) for core in block.cores] == [(5, 8)]


def planted(margin: float = 0.2) -> np.ndarray:
    """Twelve layers, of which 3 to 7 form a block."""
    values = np.full((12, 12), 0.5)
    values[3:8, 3:8] = 0.5 + margin
    np.fill_diagonal(values, 1.0)
    return values


def unit_errors(layers: int, size: float, units: int = 400, seed: int = 0) -> np.ndarray:
    """Independent errors of cells with standard error `size`; symmetric, as those of one stack are."""
    errors = generator(seed, "errors").standard_normal((units, layers, layers))
    errors = np.where(np.tri(layers, dtype=bool), errors, errors.swapaxes(1, 2))
    return size * errors / np.sqrt((errors**2).sum(axis=0))


def test_the_interval_is_that_of_the_least_difference() -> None:
    values, errors = planted() + 0.01 * generator(1, "noise").random((12, 12)), unit_errors(12, 0.01)
    values = (values + values.T) / 2
    finding = block_structure(values, errors, dof=30, level=0.9, unit="sentence", method="m", target="t")
    (block,) = finding.blocks
    assert block.interval is not None
    low, high = math.inf, math.inf
    pairs = [(i, j) for i in range(3, 8) for j in range(3, 8) if i != j]
    across = [(i, j) for i in range(3, 8) for j in (*range(3), *range(8, 12))]
    across += [(j, i) for i, j in across]
    below = stats.t.isf(0.05 / finding.runs, 30)
    above = stats.t.isf(0.05 / (finding.runs * len(pairs) * len(across)), 30)
    for inside in pairs:
        for outside in across:
            se = np.linalg.norm(errors[:, *inside] - errors[:, *outside])
            low = min(low, values[inside] - values[outside] - below * se)
            high = min(high, values[inside] - values[outside] + above * se)
    assert (block.interval.low, block.interval.high) == pytest.approx((low, high))
    assert (block.interval.level, block.interval.unit) == (0.9, "sentence")
    assert block.certain


def test_a_block_is_certain_only_where_its_interval_is_positive() -> None:
    sure, doubtful = (block_structure(planted(), unit_errors(12, size)) for size in (0.01, 0.2))
    assert [(block.first, block.last) for block in sure.certain] == [(3, 7)]
    assert spans(doubtful) == {(3, 7)}
    assert doubtful.certain == ()
    assert sure.headline() == "Layers 3-7 form a block."
    assert sure.sentence().startswith(
        "Layers 3-7 form a block. Layers 3-7: least similarity inside 0.70, largest with a layer outside "
        "0.50; margin 0.20 ["
    )
    assert doubtful.headline() == "No block of layers is certain; layers 3-7 may form one."
    names = [f"m/{k}" for k in range(12)]
    assert sure.headline(names) == "Layers m/3 to m/7 form a block."
    with pytest.raises(InputError, match="one name for each of the 12 layers"):
        sure.headline(names[1:])


def test_equal_similarities_are_rarely_taken_for_a_block() -> None:
    # The worst case: every run has a margin of exactly 0, and the estimates err by chance.
    fired = 0
    for seed in range(300):
        errors = unit_errors(8, 0.02, units=100, seed=seed)
        noise = generator(seed, "estimate").standard_normal(100) @ errors.reshape(100, -1)
        values = 0.5 + noise.reshape(8, 8)
        fired += bool(block_structure(values, errors, dof=99).certain)
    assert fired <= 6


def test_what_each_unit_adds_is_of_the_least_and_the_largest_pair() -> None:
    values, errors = maps(8, 3), unit_errors(8, 0.1)
    values[2:6, 2:6] += 1
    values[2, 5] = values[5, 2] = 0.95
    values[1, 2] = values[2, 1] = 0.9
    found = margin_errors(values, errors, block_structure(values).blocks[0])
    assert block_structure(values).blocks[0].margin == pytest.approx(0.95 - 0.9, abs=0.1)
    np.testing.assert_allclose(np.abs(found), np.abs(errors[:, 2, 5] - errors[:, 1, 2]))


def test_an_outlying_layer_may_be_left_out_where_that_is_allowed() -> None:
    values = planted()
    values[5, :] = values[:, 5] = 0.1
    values[5, 5] = 1.0
    assert block_structure(values).blocks == ()
    tolerant = block_structure(values, unit_errors(12, 0.01), tolerance=1)
    (block,) = tolerant.certain
    assert (block.first, block.last, block.without) == (3, 7, (5,))
    assert tolerant.headline() == "Layers 3-7 without 5 form a block."
    assert tolerant.runs > block_structure(values).runs
    # Nothing is left out where the whole run is a block already.
    assert block_structure(planted(), tolerance=2).blocks[0].without == ()
    with pytest.raises(InputError, match="tolerance must be a whole number from 0 to 3"):
        block_structure(values, tolerance=4)


def test_layers_that_are_undefined_are_left_out_and_keep_their_numbers() -> None:
    values = np.full((13, 13), np.nan)
    values[1:, 1:] = planted()
    finding = block_structure(values)
    assert spans(finding) == {(4, 8)}
    assert finding.left_out == (0,)
    assert finding.sentence().endswith("Left out as undefined: layer 0.")
    two = planted()
    two[6, 6] = np.nan  # the same layer of two stacks is a pair of its own
    assert block_structure(two, two_stacks=True).left_out == (6,)
    assert block_structure(two).left_out == ()


def test_too_few_layers_and_identical_ones() -> None:
    short = block_structure(np.ones((3, 3)))
    assert short.reason == "they need at least 4 layers with defined similarities, not 3"
    assert short.headline().startswith("Blocks of layers are undefined: they need at least 4 layers")
    same = block_structure(np.ones((6, 6)) - 1e-8 * maps(6, 0), unit_errors(6, 1e-12))
    assert same.blocks == ()
    assert same.headline() == "The layers form no blocks."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones((3, 4))}, "the map must be of layers by as many layers"),
        ({"errors": np.ones((5, 3, 3))}, r"errors must be of shape \(units, 12, 12\)"),
        ({"level": 1.0}, "level must be between 0 and 1"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        block_structure(**{"values": planted(), **change})


def test_blocks_inside_blocks_are_cores() -> None:
    values = planted()
    values[4:8, 4:8] = 0.9
    np.fill_diagonal(values, 1.0)
    finding = block_structure(values, unit_errors(12, 0.01))
    assert [(b.first, b.last) for b in finding.blocks] == [(3, 7)]
    assert [(b.first, b.last) for b in finding.blocks[0].cores] == [(4, 7)]
    assert [(b.first, b.last) for b in finding.certain] == [(3, 7), (4, 7)]
    assert "core: layers 4-7" in finding.sentence()
    assert isinstance(finding.blocks[0], Block)
