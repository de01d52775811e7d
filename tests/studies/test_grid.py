"""Jobs of a study: one for each model, task and seed that options name, each with an address of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
from microtome.errors import MicrotomeError
from microtome.studies.grid import StudyGrid

TABLE: dict[str, Any] = {
    "models": {"a": "zoo:masked", "b": {"source": "owner/b", "revision": "main"}},
    "tasks": ["polarity", "rte"],
    "finetune": {"seeds": [1, 2], "recipe": "wu2020", "set": {"steps": 3}},
}


def jobs_of(experiments: dict[str, Any], **tables: Any) -> list[Any]:
    grid = StudyGrid(mt.study({**TABLE, "experiments": experiments, **tables}))
    return [job for job in grid.jobs if job.table != "finetune"]


def test_every_model_is_fine_tuned_on_every_task_with_every_seed() -> None:
    grid = StudyGrid(mt.study({**TABLE, "experiments": {}}))
    assert len(grid.jobs) == 2 * 2 * 2
    assert len({job.address for job in grid.jobs}) == 8
    job = grid.tunings["b", "rte", 2]
    assert job.name == "finetune/b/rte/seed-2"
    assert job.call["options"]["model"] == {"source": "owner/b", "revision": "main"}
    assert job.call["options"]["changes"] == {"steps": 3}


def test_defaults_follow_from_what_an_experiment_takes() -> None:
    truncation, *_ = jobs_of({"truncate": {"models_only": ["a"], "tasks_only": ["rte"]}})
    assert len(truncation.call["options"]["tuned"]) == 2
    assert truncation.call["options"]["task"] == "rte"
    assert len(truncation.needs) == 2
    (freezing, *_), changes = jobs_of({"freeze": {}}), jobs_of({"change": {}})
    assert freezing.call["options"]["seeds"] == [1, 2]
    assert freezing.call["options"]["recipe"] == "wu2020"
    assert not freezing.needs
    assert len(jobs_of({"freeze": {}})) == len(changes) == 4
    assert changes[0].call["options"]["on"] == "task:polarity/validation"
    assert changes[0].call["options"]["base"] == "zoo:masked"


@pytest.mark.parametrize(
    ("options", "count", "models"),
    [
        ({"models": ["{models}"]}, 2, 2),
        ({"models": ["{model}", "{tuned}"]}, 4, 3),
        ({"models": ["{model}", "{all_tuned}"], "on": "hub:a/b"}, 2, 5),
        ({"models": ["{model}", "{all_tuned}"], "on": "hub:a/b", "tuned_seeds": [2]}, 2, 3),
        ({"models": ["{models}"], "on": "hub:a/b"}, 1, 2),
    ],
)
def test_placeholders_decide_how_many_results_there_are(
    options: dict[str, Any], count: int, models: int
) -> None:
    jobs = jobs_of({"maps": {"verb": "compare", **options}})
    assert len(jobs) == count
    assert all(len(job.call["options"]["models"]) == models for job in jobs)


def test_one_model_where_several_are_meant_is_one_result_per_seed() -> None:
    jobs = jobs_of({"prune": {"max_drop": 1.0}})
    assert len(jobs) == 8
    assert {job.seed for job in jobs} == {1, 2}


def test_one_address_for_one_question() -> None:
    first, second = (
        {job.name: job.address for job in jobs_of({"truncate": {}, "skip": {"split": split}})}
        for split in ("validation", "train")
    )
    assert [name for name in first if first[name] != second[name]] == [n for n in first if "skip" in n]


def test_a_changed_file_is_another_address(tmp_path: Path) -> None:
    corpus = tmp_path / "text.txt"

    def address() -> str:
        return jobs_of({"localize": {"models": ["{models}"], "on": str(corpus)}})[0].address

    corpus.write_text("a dog\n")
    before = address()
    assert before == address()
    corpus.write_text("a dog runs\n")
    assert before != address()


def test_parts_divide_a_job_and_are_needed_for_nothing_else() -> None:
    grid = StudyGrid(mt.study({**TABLE, "experiments": {"freeze": {}, "truncate": {}}}))
    jobs = {job.name: job for job in grid.jobs}
    parts = grid.parts(jobs["freeze/a/rte"])
    assert [part.call["options"]["seeds"] for part in parts] == [[1], [2]]
    assert {part.call["piece"] for part in parts} == {"pieces"}
    assert [len(part.needs) for part in grid.parts(jobs["truncate/a/rte"])] == [1, 1]
    assert grid.parts(grid.tunings["a", "rte", 1]) == ()


def test_values_are_checked_before_anything_runs() -> None:
    study = mt.study({**TABLE, "experiments": {"truncate": {"arms": ["TUND"]}}})
    with pytest.raises(MicrotomeError, match=r"experiments\.truncate.*arms"):
        StudyGrid(study).check()
    study = mt.study({**TABLE, "experiments": {"skip": {"tuned_seeds": [3]}}})
    with pytest.raises(MicrotomeError, match="tuned_seeds"):
        StudyGrid(study).check()
    without = {name: value for name, value in TABLE.items() if name != "finetune"}
    with pytest.raises(MicrotomeError, match="must have fine-tunings"):
        StudyGrid(mt.study({**without, "experiments": {"skip": {}}})).check()


def test_planning_imports_no_torch() -> None:
    code = (
        "import sys, microtome as mt; mt.study('phang2021').plan('no-store'); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parts_and_results_are_not_taken_for_one_another() -> None:
    one, both = ({**TABLE, "experiments": {"freeze": {"seeds": seeds}}} for seeds in ([1], [1, 2]))
    grid = StudyGrid(mt.study(both))
    parts = {part.address for job in grid.jobs for part in grid.parts(job)}
    assert not parts & {job.address for job in StudyGrid(mt.study(one)).jobs}


def test_the_text_of_a_changed_task_is_another_address(tmp_path: Path) -> None:
    (tmp_path / "moods").mkdir()
    file = tmp_path / "moods" / "validation.csv"

    def address() -> str:
        task = {"moods": {"task": str(tmp_path / "moods"), "column": {"text": "words"}}}
        return jobs_of({"localize": {"models": ["{models}"], "on": "{text}"}}, tasks=task)[0].address

    file.write_text("words\na dog\n")
    before = address()
    (tmp_path / "moods" / "store").mkdir()
    (tmp_path / "moods" / "store" / "format.json").write_text("{}")
    assert before == address()
    file.write_text("words\na dog runs\n")
    assert before != address()


def test_a_misspelled_placeholder_is_refused() -> None:
    with pytest.raises(MicrotomeError, match=r"Did you mean \{model\}"):
        jobs_of({"truncate": {"base": "{modle}"}})
    tasks = {"a": {"task": "polarity"}, "b": {"task": "rte", "held_out": 10}}
    with pytest.raises(MicrotomeError, match="alike in data, columns and pairs"):
        jobs_of({"permute": {}}, tasks=tasks)
