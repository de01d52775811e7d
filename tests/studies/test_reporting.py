"""The page of a study: what its claims come to, the scoreboard, then results by experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.studies import reporting
from studies.board_samples import curve, result, spans, study

CLAIM = {
    "id": "cost",
    "statement": "Without its last layer a model loses at most a point.",
    "experiment": "truncate",
    "statistic": "score difference",
    "arguments": {"first": {"arm": "UNTUNED", "x": "last"}, "second": {"arm": "UNTUNED", "x": -1}},
    "most": 1,
}
ABSENT = {**CLAIM, "id": "absent", "experiment": "permute"}


def test_the_answer_leads_and_results_are_grouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {"values": [-0.002, 0.0], "low": [-0.003, 0.0], "high": [-0.001, 0.0]}
    cut = result(curve("UNTUNED", [0.898, 0.9], (1, 2)), more={"cost": cost})
    fails = result(curve("UNTUNED", [0.8, 0.9], (1, 2)), more={"cost": {k: [-0.1, 0.0] for k in cost}})
    skipped = result(spans=(spans(np.full((2, 2), 0.1)),), experiment="skipping")
    contents = {
        ("skips", "skip", "a", "t"): skipped,
        ("cuts", "truncate", "a", "t"): cut,
        ("cuts", "truncate", "b", "t"): fails,
    }
    results = study(tmp_path / "results", contents, claims=[CLAIM, ABSENT])
    written: list[Any] = []
    monkeypatch.setattr(reporting, "read_results", lambda *_: results)
    monkeypatch.setattr(reporting, "write_page", lambda document, file: written.append(document) or file)
    table = {"models": ["zoo:masked"], "experiments": {"localize": {"on": "hub:texts"}}, "claims": [CLAIM]}
    mt.study(table).report(tmp_path / "out", tmp_path / "store")
    (document,) = written
    first, second = (finding["text"] for finding in document["findings"][:2])
    assert first.startswith("Claims that hold: 0 of 2")
    assert second == f"Holds for a, does not hold for b: {CLAIM['statement']}"
    board, *sections = document["sections"]
    # Two models have no mean.
    assert [row[:3] for row in board["rows"]] == [
        [f"cost: {CLAIM['statement']}", "a", "holds"],
        [f"cost: {CLAIM['statement']}", "b", "does not hold"],
    ]
    assert board["below"] == [
        {"text": "Not run, there is no result of permute: absent a, absent b.", "evidence": ""}
    ]
    assert list(dict.fromkeys(section["group"] for section in sections)) == ["skips", "cuts"]
