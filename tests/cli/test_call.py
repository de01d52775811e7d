"""`microtome call`: one piece, a list of them, or a file of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from microtome.cli import main
from microtome.store.address import address
from microtome.store.shelf import Shelf
from microtome.testing.executors import PERFORM, call_of


@pytest.mark.parametrize("processes", ["1", "2"])
def test_of_several_calls_those_after_a_failure_are_performed(
    processes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [
        {"kind": "freez", "options": {"k": k}, "piece": "run", "context": {}, "address": address({"k": k})}
        for k in range(3)
    ]
    (tmp_path / "calls.json").write_text(json.dumps(calls))
    words = ["--store", str(tmp_path / "store"), "--processes", processes, "--quiet"]
    assert main(["call", f"@{tmp_path / 'calls.json'}", *words]) == 1
    assert "all 3 calls must succeed, but 3 did not: " in capsys.readouterr().err


def test_a_call_that_breaks_the_gpu_breaks_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [call_of("breaking", 0), call_of("plain", 1)]
    words = ["--store", str(tmp_path), "--function", PERFORM, "--quiet"]
    assert main(["call", json.dumps(calls), *words]) == 1
    assert "1 did not: AcceleratorError: CUDA error" in capsys.readouterr().err
    assert Shelf(tmp_path).addresses() == [calls[1]["address"]]


def test_a_file_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", f"@{tmp_path / 'none.json'}"]) == 2
    assert "none.json must be" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{}", "null"])
def test_a_call_is_not_empty(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", text]) == 2
    assert "a call must be an object" in capsys.readouterr().err
