"""The simulation of coverage and size: its truths are true, its counts are right, and it can fail."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from microtome.randomness import generator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
POPULATION = "population value"
ANOTHER = "value of another sample of the same size"
SMALL = {"datasets": 2, "population_rows": 4000}


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield importlib.import_module("certainty")


@pytest.fixture(scope="module")
def results(benchmark: ModuleType) -> dict[str, Any]:
    names = [
        "ln 200 x 64",
        "indep 500 x 64",
        "ln, 40 of 2-22 rows",
        "ln, 80 of 2-22 rows",
        "16 sentences of 10",
    ]
    return benchmark.run(**SMALL, only=["C1", "C2", "C3"], names=names)


def design(benchmark: ModuleType, **changes: Any) -> Any:
    return benchmark.Design(name="mine", **changes)


def answers(
    rng: np.random.Generator, arm: float, *, target: str = POPULATION, count: int = 2000
) -> list[Any]:
    """Values around 0.3 with deviation 0.01, and intervals that reach so many deviations to either side."""
    values = 0.3 + 0.01 * rng.standard_normal(count)
    return [(v, v - 0.01 * arm, v + 0.01 * arm, "a method", target) for v in values]


def test_population_of_gauss_is_the_closed_form(benchmark: ModuleType) -> None:
    gauss = design(benchmark, form="gauss", features=24)
    found = benchmark.population(gauss, 0, seed=5, rows=60_000)
    share = benchmark.SHARE[24]
    a, b = (generator(5, "mixing", side, 0, 24).standard_normal((12, 24)) for side in ("left", "right"))
    own = [share / 12 * m.T @ m + (1 - share) * np.eye(24) for m in (a, b)]
    both = share / 12 * a.T @ b
    expected = (both**2).sum() / np.sqrt(np.prod([(m**2).sum() for m in own]))
    assert abs(found["debiased_cka"] - expected) < 4 * found["error"]
    assert found["error"] < 0.01 * expected
    assert found["linear_cka"] == pytest.approx(expected, abs=5 * found["error"])


def test_true_values_lie_where_the_text_says(benchmark: ModuleType) -> None:
    keys = {d.key: d for designs in benchmark.INTERVALS.values() for d in designs}
    assert set(keys) == {"ln 64", "ln 128", "ln 256", "gauss 64", "gauss 256", "indep 64"}
    found = {key: benchmark.population(d, 0, seed=0, rows=20_000)["debiased_cka"] for key, d in keys.items()}
    assert abs(found.pop("indep 64")) < 0.005
    assert all(0.26 < value < 0.6 for value in found.values())


def test_rows_of_a_sentence_are_alike(benchmark: ModuleType) -> None:
    rng = generator(1, "rows")
    (x,), _, ids = benchmark.draw(
        design(benchmark, form="gauss", sentences=4000, lengths=(2, 4), icc=0.3), rng
    )
    assert np.array_equal(np.unique(np.bincount(ids)), [2, 3, 4])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    first = np.flatnonzero(np.diff(ids, prepend=-1))
    assert (x[first] * x[first + 1]).mean() == pytest.approx(0.3, abs=0.03)  # the same sentence
    assert (x[first[1:]] * x[first[1:] - 1]).mean() == pytest.approx(0.0, abs=0.03)  # the one before


def test_layernorm_and_the_outlier(benchmark: ModuleType) -> None:
    (x,), _, ids = benchmark.draw(design(benchmark, rows=50), generator(2, "rows"))
    assert ids is None
    x[:, 0] /= benchmark.OUTLIER
    np.testing.assert_allclose(x.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(x.std(axis=1), 1)


@pytest.mark.parametrize("arm,problem", [(1.96, None), (1.5, "narrow"), (3.2, "wide")])
def test_coverage_outside_the_limits_is_a_problem(
    benchmark: ModuleType, arm: float, problem: str | None
) -> None:
    given = answers(generator(3, "coverage"), arm)
    row = benchmark.coverage(design(benchmark), "debiased_cka", given, {"debiased_cka": 0.3, "error": 1e-5})
    assert len(row["problems"]) == (0 if problem is None else 2)
    assert all(f"too {problem}" in text for text in row["problems"])
    assert row["width"] == pytest.approx(arm / 1.96, rel=0.05)
    hits = sum(low <= 0.3 <= high for _, low, high, *_ in given)
    assert row["population"] == hits / 2000
    assert row["population_error"] == pytest.approx(math.sqrt(hits * (2000 - hits) / 2000**3))
    unrelated = design(benchmark, related=False)
    row = benchmark.coverage(unrelated, "debiased_cka", given, {"debiased_cka": 0.3, "error": 1e-5})
    assert bool(row["problems"]) == (problem == "narrow")


def test_only_what_the_package_promises_is_held_against_it(benchmark: ModuleType) -> None:
    far = {"svcca": 0.1, "debiased_cka": 0.1, "error": 1e-5}
    rng = generator(4, "promises")
    half = benchmark.coverage(design(benchmark), "svcca", answers(rng, 1.96, target=ANOTHER), far)
    assert (half["population"], half["problems"]) == (0, [])
    sure = benchmark.coverage(design(benchmark), "debiased_cka", answers(rng, 1.96), far)
    assert sure["problems"] == ["population covered in 0.0 %: too narrow"]
    told = "debiased_cka, sentences not given"
    assert benchmark.coverage(design(benchmark), told, answers(rng, 1.96), far)["problems"] == []
    rough = {"debiased_cka": 0.3, "error": 0.002}
    row = benchmark.coverage(design(benchmark), "debiased_cka", answers(rng, 1.96), rough)
    assert row["problems"] == ["the population value is only known to ± 0.002"]


def test_an_undefined_interval_covers_nothing(benchmark: ModuleType) -> None:
    given = answers(generator(5, "undefined"), 1.96, count=100)
    given[:50] = [(v, math.nan, math.nan, *words) for v, _, _, *words in given[:50]]
    row = benchmark.coverage(design(benchmark), "debiased_cka", given, {"debiased_cka": 0.3, "error": 1e-5})
    assert row["population"] <= 0.5


@pytest.mark.parametrize("hits,kept", [(10, True), (19, True), (20, False), (200, False)])
def test_a_test_may_fire_three_errors_above_its_level(benchmark: ModuleType, hits: int, kept: bool) -> None:
    fired = np.repeat([1.0, 0.0], [hits, 200 - hits])  # 5 % + 3 sqrt(.05 .95 / 200) = 9.6 %
    row = benchmark.size(design(benchmark), "svcca", "permutations, any cell (p_map)", {0.05: fired})
    assert (row["0.05"], not row["problems"]) == (hits / 200, kept)
    other = benchmark.size(design(benchmark), "svcca", "p_map, sentences not given", {0.05: fired})
    assert other["problems"] == []


def test_shares_of_cells_are_judged_by_their_own_spread(benchmark: ModuleType) -> None:
    shares = np.tile([0.04, 0.12], 100)
    row = benchmark.size(design(benchmark), "svcca", "permutations, a cell", {0.05: shares})
    assert row["0.05_error"] == pytest.approx(0.04 / math.sqrt(200))
    assert row["problems"] == ["fires in 8.0 %"]


def test_the_package_answers_as_a_user_would_see(results: dict[str, Any]) -> None:
    tables = results["tables"]
    seen = {(row["data"], row["measure"]): row["interval"] for row in tables["C1"] + tables["C2"]}
    assert len(seen) == 2 * 5 + 2 * 6
    assert seen["ln 200 x 64", "debiased_cka"] == "influence function, rows"
    assert seen["ln, 40 of 2-22 rows", "debiased_cka"] == "jackknife over groups of clusters, clusters"
    assert seen["ln, 80 of 2-22 rows", "debiased_cka"] == "influence function, clusters"
    assert seen["ln, 80 of 2-22 rows", "svcca"] == "influence function, clusters"
    assert seen["ln, 80 of 2-22 rows", "neuron_correlation"] == "half-sampling, clusters"
    assert seen["ln, 80 of 2-22 rows", "debiased_cka, sentences not given"] == "influence function, rows"
    by = {(row["data"], row["measure"]): row for row in tables["C1"] + tables["C2"]}
    aware, blind = (
        by["ln, 40 of 2-22 rows", name] for name in ("debiased_cka", "debiased_cka, sentences not given")
    )
    assert blind["mean"] > aware["mean"] + 0.05  # pairs within sentences inflate the value
    assert by["indep 500 x 64", "svcca"]["mean"] > 0.2 > abs(by["indep 500 x 64", "debiased_cka"]["mean"])
    screens = [row for row in tables["C3"] if row["test"] == "closed-form p"]
    assert {(row["data"], row["datasets"]) for row in screens} == {("ln 200 x 64", 30)}
    ignored = [row for row in tables["C3"] if row["test"] == "p_map, sentences not given"]
    assert [row["0.05"] for row in ignored] == [1.0]


def test_results_are_written_read_and_judged(
    benchmark: ModuleType, results: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "results.json"
    source.write_text(json.dumps(results, allow_nan=False))
    # Two data sets cannot cover 91 to 99 %, so that something must be wrong.
    assert benchmark.main(["--read", str(source), "--markdown", str(tmp_path / "tables.md")]) == 1
    assert "Promises that were not kept:\nC1 | ln 200 x 64 | " in capsys.readouterr().out
    text = (tmp_path / "tables.md").read_text()
    assert text.count("\n| ln 200 x 64 | ") == 5 + 2
    kept = {name: [row | {"problems": []} for row in rows] for name, rows in results["tables"].items()}
    source.write_text(json.dumps(results | {"tables": kept}))
    assert benchmark.main(["--read", str(source)]) == 0
    assert "All promises were kept." in capsys.readouterr().out


def test_blocks_are_simulated_from_the_command_line(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = benchmark.blocks_simulation
    few = tuple(
        one for one in simulation.SCENARIOS if one.name in ("exchangeable", "planted: 5 layers, share 0.3")
    )
    monkeypatch.setattr(simulation, "SCENARIOS", few)
    target = tmp_path / "blocks.json"
    code = benchmark.main(["--only", "E", "--datasets", "2", "--json", str(target)])
    found = json.loads(target.read_text())
    assert len(found["tables"]["E"]) == 5 * len(few)
    assert code == int(any(row["problems"] for row in found["tables"]["E"]))
    assert capsys.readouterr().out.count("\n| sentences | ") == len(few)


@pytest.mark.parametrize("wrong", [["--only", "C1,C9"], ["--datasets", "1"]])
def test_a_wrong_request_is_refused(benchmark: ModuleType, wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(wrong)
    assert stopped.value.code == 2


def test_processes_do_not_change_the_numbers(benchmark: ModuleType) -> None:
    asked = {**SMALL, "only": ["C3"], "names": ["ln 50 x 64"]}
    alone, shared = (benchmark.run(**asked, processes=count)["tables"] for count in (1, 2))
    assert alone == shared


def test_tables_are_put_between_their_marks(benchmark: ModuleType) -> None:
    text = (ROOT / "docs" / "certainty.md").read_text()
    once = benchmark.fill(text, {name: f"| {name} |" for name in benchmark.TABLES})
    assert len(once.split("<!-- table ")) == len(benchmark.TABLES) + 1
    again = benchmark.fill(once, {"C1": "| new |"})
    assert again == once.replace("| C1 |", "| new |")
    assert once.startswith(text[: text.index("<!-- table C1 -->")])
