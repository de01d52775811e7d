"""Results of all experiments are put together in one place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import microtome as mt
from microtome import experiments
from microtome.experiments.result import make_result
from microtome.findings.claims.claim import Claim
from microtome.findings.results import WEAK
from microtome.scores.table import SCORES
from microtome.version import VERSION

SOURCES = {path: path.read_text() for path in Path(experiments.__path__[0]).rglob("*.py")}


@pytest.mark.parametrize("text", [" Result(", "Computed with microtome"])
def test_there_is_one_place(text: str) -> None:
    assert [path.name for path, source in SOURCES.items() if text in source] == ["result.py"]


def test_a_task_brings_its_score_and_is_recorded() -> None:
    task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    facts = {"value": 0.5, "baseline": 0.5, "ahead": False, "curve": "UNTUNED", "experiment": "truncation"}
    weak = Claim(kind="baseline", verdict="inconclusive", score="accuracy", facts={**facts, "model": "it"})
    result = make_result(
        "truncation",
        task,
        task.validation,
        started=time.monotonic(),
        model="m",
        methods="Layers were cut.",
        claims=[weak],
        warnings=["few", "few"],
        provenance={"model": "digest"},
    )
    assert (result.task, result.split, result.score, result.points) == (
        "polarity",
        "validation",
        "accuracy",
        100,
    )
    assert result.provenance["task"] == task.digest("validation")
    assert result.provenance["models"] == ["digest"]
    assert result.provenance["seconds"] >= 0
    assert result.methods == f"Layers were cut. Computed with microtome {VERSION}."
    assert result.warnings == ("few",)
    assert result.claims == (weak,)
    assert result.more[WEAK] == {"UNTUNED": {"value": 0.5, "baseline": 0.5, "ahead": False}}


def test_a_text_is_named_and_a_similarity_has_no_points() -> None:
    shared = {"started": time.monotonic(), "model": "m", "methods": "", "provenance": {}}
    result = make_result("change", "text", "text", score="similarity", **shared)
    assert (result.score, result.points, result.higher_is_better) == ("similarity", 1.0, True)
    assert "task" not in result.provenance
    result = make_result("probing", "upos", "test", score=SCORES["perplexity"], **shared)
    assert (result.score, result.points, result.higher_is_better) == ("perplexity", 1.0, False)
