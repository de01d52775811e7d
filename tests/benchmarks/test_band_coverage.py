"""The simulation behind the bands: its laws are what they say, and its verdict can fail."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from microtome.randomness import generator
from microtome.scores.table import find_score


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "band_coverage.py"
    spec = importlib.util.spec_from_file_location("band_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("score", ["accuracy", "mcc", "pearson"])
def test_many_examples_have_the_true_scores(simulation: ModuleType, score: str) -> None:
    cell = simulation.Cell(score=score, n=20_000, points=4, seeds=1)
    found = [
        find_score(score).compute(
            one.predictions[0], one.targets, () if score == "pearson" else ("no", "yes")
        )
        for one in simulation.draw(cell, generator(0, "law", score))
    ]
    np.testing.assert_allclose(found, simulation.truth(cell), atol=0.02)


def test_neighboring_layers_err_together(simulation: ModuleType) -> None:
    cell = simulation.Cell(score="accuracy", n=5000, points=8, seeds=1)
    answers = simulation.draw(cell, generator(0, "together"))
    right = np.array([one.predictions[0] == one.targets for one in answers])
    found = np.corrcoef(right)
    assert found[3, 4] > found[0, 7] > 0.1


def test_a_row_counts_what_was_held(simulation: ModuleType) -> None:
    cell = simulation.Cell(score="accuracy", n=200, points=12, seeds=1)
    score, difference = simulation.simulate(cell, datasets=10, seed=0)
    assert (score.what, difference.what) == ("score", "difference")
    for row in (score, difference):
        assert row.together >= 0.7
        assert row.alone >= 0.8
        assert row.band > row.interval
    assert replace(score, together=0.99).kept
    assert not replace(score, together=0.9).kept


def test_the_table_is_printed(simulation: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = simulation.main(["--datasets", "2", "--points", "6", "--scores", "pearson"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("| pearson |")]) == 4
    assert code == int(any("**!**" in line for line in lines))
