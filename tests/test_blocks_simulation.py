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
    path = Path(__file__).parents[1] / "benchmarks" / "blocks_simulation.py"
    spec = importlib.util.spec_from_file_location("blocks_simulation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("variant", ["rows", "sentences"])
def test_chains_fall_by_their_steps(simulation: ModuleType, variant: str) -> None:
    rng = generator(1, "chain", variant)
    clusters = simulation.draw_clusters(variant, 6000, rng)
    jump = next(s for s in simulation.SCENARIOS if s.name == "jump .3")
    stack, border = simulation.draw_stack(jump, rng, layers=8, features=8, clusters=clusters)
    ids = None if variant == "rows" else clusters
    found = mt.similarity_matrix(list(stack), measures="debiased_cka", clusters=ids)["debiased_cka"]
    steps = 1 - np.diagonal(found.values, offset=1)
    expected = np.full(7, 0.05)
    expected[border - 1] = 0.3
    np.testing.assert_allclose(steps, expected, atol=0.035 if variant == "sentences" else 0.02)


def test_strong_blocks_fire_and_equal_steps_do_not(simulation: ModuleType) -> None:
    rows = simulation.run(stacks=3, scenarios=["equal", "block .3"])
    assert [(row.variant, row.scenario) for row in rows] == [
        (variant, name) for variant in ("rows", "sentences") for name in ("equal", "block .3")
    ]
    assert [row.fired for row in rows] == [0, 1, 0, 1]
    assert [row.near for row in rows[1::2]] == [1, 1]
    assert all(row.passed for row in rows)


def test_rates_outside_the_limits_fail(simulation: ModuleType) -> None:
    null, block = (next(s for s in simulation.SCENARIOS if s.name == name) for name in ("equal", "block .3"))
    place = simulation.SCENARIOS.index(block)
    sizes = {"seed": 0, "layers": 13, "rows": 200, "sentence_rows": 200, "features": 16}
    fired = [simulation.simulate(("rows", place, number), **sizes) for number in range(2)]
    quiet = [simulation.simulate(("rows", 0, number), **sizes) for number in range(2)]
    assert not simulation.summarize("rows", null, fired).passed
    assert not simulation.summarize("rows", block, quiet).passed
    assert simulation.summarize("rows", null, quiet).passed


def test_the_table_is_printed(simulation: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = simulation.main(["--stacks", "1", "--variants", "rows", "--rows", "200", "--features", "16"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| rows |")]) == len(simulation.SCENARIOS)
    assert code == int(any("outside the limits" in line for line in lines))
