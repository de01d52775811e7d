"""Studies of the package: every file is planned without torch, with as many runs as the papers made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
from microtome.experiments.table import EXPERIMENTS
from microtome.studies.estimates import encoder_of_blocks
from microtome.studies.file import SIZES, shipped_studies
from microtome.studies.grid import StudyGrid, StudyJob

PAPERS = ("merchant2020", "phang2021", "sajjad2020", "tamkin2020", "wu2020")
FILES = [(paper, size) for paper in PAPERS for size in SIZES]

PLAN = """
import socket, sys
socket.socket.connect = None
from microtome.studies.file import shipped_studies, study
for paper, sizes in shipped_studies().items():
    for size in sizes:
        assert study(paper, size=size).plan(sys.argv[1]).jobs
assert not {"torch", "transformers", "datasets"} & set(sys.modules)
"""


def full(paper: str) -> StudyGrid:
    return StudyGrid(mt.study(paper, size="full"))


def of(grid: StudyGrid, table: str) -> list[StudyJob]:
    return [job for job in grid.jobs if job.table == table]


def fine_tunings(job: StudyJob) -> int:
    """Different fine-tunings of one task in the grid of an experiment on an encoder of twelve blocks."""
    experiment: Any = EXPERIMENTS[job.verb].load()(**job.call["options"])
    runs = experiment.grid(encoder_of_blocks(12))
    return len({(run.interventions, run.seed, str(run.options)) for run in runs})


def total(grid: StudyGrid, table: str) -> int:
    return sum(fine_tunings(job) for job in of(grid, table))


def layers(grid: StudyGrid, table: str) -> int:
    models = grid.study.models
    return sum(models[name].shape[0] + 1 for name in grid.study.experiments[table].models_only)


def test_all_papers_come_in_all_sizes() -> None:
    assert dict(shipped_studies()) == dict.fromkeys(PAPERS, SIZES)


@pytest.mark.parametrize(("paper", "size"), FILES)
def test_options_of_every_file_fit(paper: str, size: str) -> None:
    grid = StudyGrid(mt.study(paper, size=size))
    grid.check()
    assert (grid.study.name, grid.study.paper) == (f"{paper}-{size}", paper)
    addresses = [job.address for job in grid.jobs]
    assert len(set(addresses)) == len(addresses)
    assert {need for job in grid.jobs for need in job.needs} <= set(addresses)


def test_all_are_planned_offline_and_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PLAN, str(tmp_path)], check=True, timeout=120)


def test_phang_has_72_fine_tunings_576_heads_and_78_spans() -> None:
    grid = full("phang2021")
    assert len(of(grid, "finetune")) == 72
    assert (len(of(grid, "maps")), len(of(grid, "encoders"))) == (36, 12)
    assert len(of(grid, "truncate")) == 36
    assert sum(grid.study.models[job.model].shape[0] for job in of(grid, "truncate")) == 576
    skips = of(grid, "skip")
    assert [job.model for job in skips] == ["roberta"] * 6
    assert len(StudyGrid(mt.study("phang2021", size="core")).tunings) == 45


def test_wu_has_91_layers_152_with_baselines_8_fine_tunings_and_40_frozen_ones() -> None:
    grid = full("wu2020")
    assert layers(grid, "maps") == layers(grid, "ewt-maps") == 91
    assert 2 * layers(grid, "random") == 152
    assert layers(grid, "attention") - 6 == 108
    assert len(of(grid, "finetune")) == 8
    assert total(grid, "freeze") == 40
    for table in ("tuned-maps", "tuned-attention", "tuned-localize"):
        assert [len(job.call["options"]["models"]) for job in of(grid, table)] == [5, 5]


TAMKIN = {
    "progressive": 117,
    "progressive-50000": 78,
    "progressive-5000": 117,
    "progressive-500": 1950,
    # 600 and 108 as published; the full model and new blocks in all places are points, too.
    "localized": 600 + 2 * 3 * 10,
    "single": 108 + 2 * 3 * 3,
}


@pytest.mark.parametrize("table", TAMKIN)
def test_tamkin_has_as_many_fine_tunings_as_its_code(table: str) -> None:
    assert total(full("tamkin2020"), table) == TAMKIN[table]


def test_tamkin_has_360_probes_and_30_orders() -> None:
    grid = full("tamkin2020")
    assert sum(12 * len(job.call["options"]["seeds"]) for job in of(grid, "probe")) == 360
    (job,) = of(grid, "permute")
    # Ten orders, the original one, and new blocks, on each of three tasks.
    assert len(job.call["options"]["task"]) * fine_tunings(job) == 30 + 2 * 3


def test_merchant_has_13_numbers_of_frozen_blocks_and_12_depths_on_three_tasks() -> None:
    grid = full("merchant2020")
    assert len(of(grid, "finetune")) == 9
    assert (total(grid, "freeze"), total(grid, "truncate-before")) == (3 * 13, 3 * 12)


def test_sajjad_has_six_strategies_for_three_numbers_of_blocks() -> None:
    grid = full("sajjad2020")
    assert total(grid, "drop") == 3 * 7 * (6 * 3 + 1)


def test_a_model_of_a_study_can_be_replaced() -> None:
    models = {"mpnet": "zoo:masked"}
    study = mt.study("wu2020", size="available", models=models)
    assert {str(job.call["options"]["models"][0]) for job in of(StudyGrid(study), "maps")} == {"zoo:masked"}


def above_baseline(document: Mapping[str, Any]) -> bool:
    evaluation = document["runs"][0]["evaluation"]
    return evaluation["score"]["low"] > evaluation["baseline"][evaluation["main"][0]]


@pytest.mark.slow
def test_a_small_study_runs_to_its_end(tmp_path: Path) -> None:
    study = mt.study(QUICKEST)
    outcome = study.run(tmp_path)
    assert (outcome.failures, outcome.left_out) == ({}, ())
    assert study.status(tmp_path).counts["done"] == outcome.done
    results = study.results(tmp_path)
    assert len(results) == outcome.done
    assert all(above_baseline(result.document) for result in results.select(table="finetune"))
    assert study.run(tmp_path).done == 0


QUICKEST = "phang2021"
