"""A new measure is one declaration and one entry: functions, commands, tables and contracts find it."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
from microtome.cli import main
from microtome.measures import table
from microtome.measures.declare import Measure, invariant
from microtome.testing.measures import contract


def centered_gram(x: torch.Tensor, _: Mapping[str, Any]) -> torch.Tensor:
    centered = x - x.mean(0)
    return centered @ centered.T


def cosine(left: torch.Tensor, right: torch.Tensor, _: Mapping[str, Any]) -> tuple[float, str | None]:
    norms = float(left.norm() * right.norm())
    return ((left * right).sum().item() / norms, None) if norms else (float("nan"), "a layer is constant")


RV = Measure(
    name="rv_coefficient",
    title="RV coefficient",
    summary="Cosine between the Gram matrices of two centered layers.",
    formula="tr(X X' Y Y') / sqrt(tr((X X')^2) tr((Y Y')^2))",
    citations=("kornblith2019",),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation"),
    needs="rows",
    prepare=centered_gram,
    compute=cosine,
    interval="halves",
)


class EntryPoint:
    """What an installed package with a measure declares."""

    name, value = "rv", "other.package:RV"

    def load(self) -> Measure:
        return RV


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [EntryPoint()])
    table.plugged_in.cache_clear()
    yield
    table.plugged_in.cache_clear()


@pytest.mark.usefixtures("installed")
def test_functions_commands_and_tables_find_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 40, 5))
    expected = float(mt.similarity(x, y, "linear_cka"))
    assert float(mt.similarity(x, y, "rv_coefficient")) == pytest.approx(expected, abs=1e-9)
    for name, layer in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", layer)
    words = ["similarity", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "--json"]
    assert main([*words, "--measures", "rv_coefficient"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["maps"]
    assert shown["values"][0][0] == pytest.approx(expected, abs=1e-9)
    assert main([*words, "--measures", "rv_coeficient"]) == 2
    assert "Did you mean rv_coefficient" in capsys.readouterr().err
    assert main(["ls", "measures"]) == 0
    assert "rv_coefficient" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_the_contract_suite_covers_it() -> None:
    def reference(x: np.ndarray, y: np.ndarray) -> float:
        return float(mt.similarity(x, y, "linear_cka", precision="exact"))

    for check in contract(RV, reference=reference):
        check.run()
