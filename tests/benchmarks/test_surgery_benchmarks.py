"""The benchmarks of cuts run on a small model, and their tables say what was measured."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Load = Callable[[str], ModuleType]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module


def test_ratios_of_a_small_model(benchmark: Load) -> None:
    surgery = benchmark("surgery")
    found = surgery.measure(width=32, layers=4, examples=8, longest=16, rounds=1, threads=1)
    assert set(found["ratios"]) == {"truncations", "heads", "freezing", "spans"}
    assert [one["removed"] for one in found["export"]] == [1, 2, 3]
    assert json.loads(json.dumps(found)) == found
    table = surgery.markdown(found)
    assert table.count("\n|") == 8
    assert all(value > 0 for values in found["ratios"].values() for value in values)


def test_a_missed_promise_is_told(benchmark: Load) -> None:
    surgery = benchmark("surgery")
    found: dict[str, Any] = {
        "ratios": {"truncations": [1.3], "heads": [0.4], "spans": [0.55], "freezing": [0.5]},
        "export": [{"removed": 6, "share": 0.5, "ratios": [0.52]}],
        "shape": {"width": 1, "layers": 12, "examples": 1, "longest": 1},
        "rounds": 1,
        "machine": "m",
    }
    kept = [row[-1] for row in surgery.shown(found)]
    assert kept == [False, True, True, True, True]
    assert surgery.markdown(found).count("(missed)") == 1


def test_tables_of_the_real_run(benchmark: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cutting = benchmark("cutting")
    curve = {
        "name": "UNTUNED",
        "x": [1, 2],
        "values": [0.5, None],
        "band_low": [0.4, None],
        "band_high": [0.6, None],
        "n": 10,
        "seeds": [3, 3],
    }
    spans = {
        "depth": 2,
        "values": [[0.1, 0.2], [None, 0.0]],
        "band_low": [[0.05, -0.1], [None, -0.1]],
        "band_high": [[0.2, 0.4], [None, 0.1]],
        "full": 0.9,
        "n": 10,
        "seeds": 3,
    }
    effect = {"mean": -0.5, "low": None, "high": None}
    found = {
        "truncation": {"t": {"score": "accuracy", "curves": [curve], "lines": {}, "findings": ["Said."]}},
        "skipping": {"t": {"score": "accuracy", "points": 100, "spans": [spans], "findings": []}},
        "prediction": {
            "more": {
                "measures": {"rsa": {"spearman": effect, "partial": effect, "gain_out_of_task": effect}},
                "ranking": ["rsa"],
            },
            "findings": [],
        },
        "machine": "m",
    }
    (tmp_path / "found.json").write_text(json.dumps(found))
    page = tmp_path / "page.md"
    page.write_text("\n".join(mark for marks in cutting.MARKS.values() for mark in marks))
    assert cutting.main(["--load", str(tmp_path / "found.json"), "--markdown", str(page)]) == 0
    text = page.read_text()
    assert "| UNTUNED | 0.500 [0.400, 0.600] |  |" in text
    assert "| 1 | 10.0* | 20.0 |" in text
    assert "| rsa | -0.50 | -0.50 | -0.50 |" in text
    assert "- Said." in capsys.readouterr().out
