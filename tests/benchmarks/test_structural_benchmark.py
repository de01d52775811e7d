"""The benchmark of the structural probe: its published form learns the same, and its tables come out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_the_published_form_learns_the_same_and_the_tables_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    benchmark = importlib.import_module("structural_probe")
    result = benchmark.run(layers=3, features=16, sentences=60, held=20, epochs=1, repeats=1, alone=2)
    assert result["apart"] < 1e-5
    assert [what for what, *_ in result["ends"]] == ["all", "0", "2"]
    epoch, end = benchmark.tables(result)
    assert [row[0] for row in epoch.rows] == ["all layers", "one layer", "one layer, published form"]
    assert all(len(row) == len(table.header) for table in (epoch, end) for row in table.rows)
    assert "UUAS by layer" in end.markdown()
