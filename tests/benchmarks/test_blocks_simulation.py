"""The simulation behind the block rule: its chains are what they say, and its verdicts can fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import microtome as mt
from microtome.randomness import generator


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "blocks_simulation.py"
    spec = importlib.util.spec_from_file_location("blocks_simulation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("variant", ["rows", "sentences"])
@pytest.mark.parametrize("name", ["smooth: trend 3", "exchangeable", "planted: 5 layers, share 0.3"])
def test_stacks_have_the_map_of_their_population(simulation: ModuleType, variant: str, name: str) -> None:
    rng = generator(1, "chain", variant)
    clusters = simulation.draw_clusters(variant, 6000 if variant == "rows" else 2000, rng)
    scenario = next(s for s in simulation.SCENARIOS if s.name == name)
    stack, population, run = simulation.draw_stack(scenario, rng, layers=8, features=8, clusters=clusters)
    ids = None if variant == "rows" else clusters
    found = mt.similarity_matrix(list(stack), measures="debiased_cka", clusters=ids)["debiased_cka"]
    np.testing.assert_allclose(found.values, population, atol=0.06 if variant == "sentences" else 0.03)
    assert (run is not None) == name.startswith("planted")


def test_strong_blocks_are_found_and_smooth_stacks_have_none(simulation: ModuleType) -> None:
    names = ["smooth: equal steps", "planted: 5 layers, share 0.3"]
    rows = simulation.run(stacks=2, rows=(400,), scenarios=names)
    assert [(row.variant, row.scenario) for row in rows] == [
        (variant, name) for variant in simulation.ROWS for name in names
    ]
    assert [row.certain for row in rows] == [0, 1] * 3
    assert [row.found for row in rows[1::2]] == [1] * 3
    assert all(row.passed for row in rows)


def test_rates_outside_the_limits_fail(simulation: ModuleType) -> None:
    smooth = next(s for s in simulation.SCENARIOS if s.name.startswith("smooth"))
    block = next(s for s in simulation.SCENARIOS if s.floor is not None)
    none, right, wrong = (
        (0.2, certain, false, certain, found, 1, 0, 0, 0, 0)
        for certain, false, found in ((0, 0, 0), (1, 0, 1), (1, 1, 0))
    )
    assert simulation.summarize("rows", 800, smooth, [none] * 9).passed
    assert not simulation.summarize("rows", 800, smooth, [wrong] * 9).passed
    assert simulation.summarize("rows", 800, block, [right] * 9).passed
    assert not simulation.summarize("rows", 800, block, [none] * 9).passed


def test_the_table_is_printed(simulation: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["exchangeable", "planted: 3 layers, share 0.3"]
    code = simulation.main(["--stacks", "1", "--variants", "rows", "--rows", "100", "--scenarios", *names])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| rows | 100 |")]) == 2
    assert code == int(any("outside the limits" in line for line in lines))
