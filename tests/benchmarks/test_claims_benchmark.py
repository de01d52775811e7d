"""The benchmark of claims runs, and gives the figures of docs/reliability.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "claims.py"


def test_it_measures_claims(tmp_path: Path) -> None:
    words = [sys.executable, SCRIPT, "--rounds", "2", "--no-hosts", "--json", tmp_path / "claims.json"]
    subprocess.run([*words, "--place", tmp_path], check=True, capture_output=True, timeout=120)
    figures = json.loads((tmp_path / "claims.json").read_text())
    assert set(figures["milliseconds"]) == {"claim and release", "running of 1,000", "has of 10,000"}
    assert 0 <= figures["seconds to take over"]["a killed process"] < 20
