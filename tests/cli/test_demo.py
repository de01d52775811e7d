"""`microtome demo` finds in the generated layers what was put there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from microtome.cli import main
from microtome.cli.demo import BORDER, LAYERS, generate
from microtome.findings.record import open_record

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def test_the_same_seed_generates_the_same_layers() -> None:
    one, two, other = generate(1), generate(1), generate(2)
    for x, y in zip(one.base + one.tuned, two.base + two.tuned, strict=True):
        np.testing.assert_array_equal(x, y)
    assert len(one.base) == len(one.tuned) == LAYERS
    assert other.tuned[-1].shape != one.tuned[-1].shape or not np.array_equal(other.tuned[-1], one.tuned[-1])


def test_the_demo_says_what_it_made_and_finds_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(folder / "shown"), "--threads", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Generated, not trained: two stacks of 12 layers on ")
    assert (
        f"tuned: Two blocks, layers 1 to {BORDER} and layers {BORDER + 1} to {LAYERS}: the contrast"
        in said.out
    )
    assert "base: No step stands out" in said.out
    assert "From base to tuned: Layer tuned/12 changed most" in said.out
    maps = open_record(folder / "shown")
    assert list(maps) == ["debiased_cka", "svcca", "neuron_correlation"]
    cka = maps["debiased_cka"]
    assert cka.unit == "cluster"
    diagonal = np.diag(cka.values)
    assert diagonal[:BORDER].min() > 0.95
    assert diagonal[BORDER:].max() < 0.8
    for i in range(LAYERS):
        cell = cka[i, i]
        line = next(line for line in said.out.splitlines() if line.startswith(f"{i + 1} "))
        assert f"{cell.value:.3f} [{cell.low:.3f}, {cell.high:.3f}]" in line
        assert f"{maps['svcca'].null_mean[i, i]:.3f}" in line
    written = {path.name for path in (folder / "shown").rglob("*.*")}
    assert {"result.json", "table.parquet", "methods.md", "references.bib"} <= written
    for kind in ("png", "svg", "pdf"):
        assert {f"debiased_cka.{kind}", f"tuned_with_itself.{kind}"} <= written
    kept = json.loads((folder / "shown" / "result.json").read_text())
    assert all(sentence in said.out for sentence in kept["findings"])
    assert kept["provenance"]["command"].startswith("microtome demo --out")
