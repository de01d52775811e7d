"""The comparison of golden numbers sees what moved and keeps apart what is allowed; the kept numbers hold."""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
KEPT = FOLDER / "results" / "golden.json"


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("golden")


def test_only_numbers_truths_and_digests_are_kept(golden: ModuleType) -> None:
    digest = "0123456789abcdef" * 2
    document = {
        "value": 0.5,
        "safe": True,
        "sentence": "Layer 3 can go.",
        "seconds": 12.5,
        "trained_seconds": 3,
        "values": [[0.1, None], [float("nan"), 2]],
        "long": np.arange(200),
        "model": digest,
        "folder": digest,
        "provenance": {"threads": 4, "models": [digest], "runs": [digest[::-1]]},
    }
    kept = golden.numbers(document)
    assert kept.pop("long") == {
        "count": 200,
        "sha256": hashlib.sha256(np.arange(200.0).tobytes()).hexdigest(),
        "first": [0, 1, 2],
    }
    assert kept == {
        "value": 0.5,
        "safe": True,
        "values": [[0.1, None], ["nan", 2]],
        "model": digest,
        "provenance": {digest: True},
    }


def test_what_moved_is_printed_with_its_place(golden: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"skip": {"spans": [{"values": [1.0, 2.0], "low": [0.5, 1.5]}]}, "compare": {"p": 0.1, "n": 3}}
    after = {
        "skip": {"spans": [{"values": [1.0, 2.5], "low": [0.5, 1.25]}]},
        "compare": {"p": 0.1, "more": 1},
    }
    allowed = {"skip/spans/*/low/*": "intervals are those of truncate"}
    assert golden.compare(before, after, allowed) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "skip/spans/0/values/1: 2.0 -> 2.5",
        "compare/n: 3 -> absent",
        "allowed: skip/spans/*/low/*: 1 differ (intervals are those of truncate)",
        "6 numbers, 2 moved, 1 moved as allowed, 1 new",
    ]
    assert golden.compare(before, before, allowed) == 0


def test_a_truth_value_is_no_number_and_a_tolerance_is_for_numbers(golden: ModuleType) -> None:
    assert not golden.same(True, 1, 0.0)
    assert not golden.same(1.0, 1.0 + 1e-12, 0.0)
    assert golden.same(1.0, 1.0 + 1e-12, 1e-9)
    assert not golden.same(1.0, "absent", 1e-9)


@pytest.mark.slow
def test_numbers_of_maps_are_those_that_are_kept(golden: ModuleType, tmp_path: Path) -> None:
    # Another processor rounds differently; nothing larger may differ.
    names = "similarity, moments;similarity, Gram;every measure"
    allowed = KEPT.with_name(golden.ALLOWED)
    reasons = json.loads(allowed.read_text()) if allowed.exists() else {}
    before = {
        name: value for name, value in json.loads(KEPT.read_text()).items() if golden.wanted(name, names)
    }
    assert golden.compare(before, golden.record(names), reasons, 1e-6) == 0
