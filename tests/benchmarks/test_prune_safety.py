"""The simulation of prune: its truths are true, its counts are right, and it can fail."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from microtome.randomness import generator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("prune_safety")


@pytest.mark.parametrize("score,truth", [("accuracy", "mixed"), ("pearson", "growing"), ("pearson", "rare")])
def test_cuts_lose_what_they_are_said_to_lose(benchmark: ModuleType, score: str, truth: str) -> None:
    _, drops = benchmark.true_drops(truth, 22, 4.0)
    drawn = benchmark.draw(score, truth, drops, 200_000, generator(0, "truth"))
    np.testing.assert_allclose(benchmark.losses(score, *drawn), drops, atol=0.5)


def test_nothing_safe_is_rarely_called_safe(benchmark: ModuleType) -> None:
    found = benchmark.simulate("accuracy", "at the margin", 200, 66, 6.0, runs=150)
    assert benchmark.problems([found]) == []
    assert found.eye > 0.9 * found.naive_runs  # choosing by eye nearly always errs
    assert found.tested > 5 * found.rate * found.naive_runs


def test_safe_cuts_are_found(benchmark: ModuleType) -> None:
    found = benchmark.simulate("pearson", "mixed", 500, 22, 3.0, runs=25)
    assert found.power > 0.8
    assert found.removed > 2


def test_a_procedure_that_errs_is_a_problem(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "run_sequence", lambda sequence, judge: sequence)
    monkeypatch.setattr(
        benchmark, "certified", lambda steps: type("S", (), {"candidate": steps[-1]}) if steps else None
    )
    found = benchmark.simulate("accuracy", "at the margin", 100, 22, 6.0, runs=20)
    assert benchmark.problems([found])
    assert "PROBLEM" not in benchmark.table([found])


def test_the_script_prints_a_table(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--runs", "20", "--examples", "100", "--cuts", "22", "--scores", "accuracy"]
    assert benchmark.main(words) == 0
    said = capsys.readouterr().out
    assert said.count("\n| accuracy") == 4
    assert "seconds." in said


def test_trying_again_is_paid_for(benchmark: ModuleType) -> None:
    found = benchmark.simulate_tries("accuracy", "other halves", 100, 22, 10.0, tries=6, runs=150)
    assert benchmark.problems([found]) == []
    assert found.uncorrected > 0.08 * found.runs > found.false


def test_the_script_prints_a_table_of_tries(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--tries", "3", "--runs", "5", "--examples", "100", "--cuts", "22", "--scores", "accuracy"]
    assert benchmark.main(words) == 0
    assert capsys.readouterr().out.count("\n| accuracy") == 3
