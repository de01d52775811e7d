"""Models and tasks of a study are checked when it is planned, as far as their files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
from microtome.errors import MicrotomeError

COLUMNS = {"text": "words", "label": "mood"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sources")
    (place / "moods").mkdir()
    for split in ("train", "validation"):
        (place / "moods" / f"{split}.csv").write_text("words,mood\n" + "a dog runs,good\na cat,bad\n" * 4)
    (place / "moods" / "test.tsv").write_text("words\na dog\n")
    (place / "moods.jsonl").write_text('{"words": "a dog runs", "mood": "good"}\n')
    (place / "card.toml").write_text('name = "x"\nkindd = "classification"\n')
    (place / "empty").mkdir()
    return place


def study_of(folder: Path, task: dict[str, Any], **tables: Any) -> Any:
    task = {**task, "task": str(folder / task.get("task", "moods"))}
    table = {"name": "tiny", "models": ["zoo:masked"], "tasks": {"moods": task}, "finetune": {}}
    return mt.study({**table, **tables})


def test_what_is_there_is_planned(folder: Path, tmp_path: Path) -> None:
    for task in ("moods", "moods.jsonl"):
        assert study_of(folder, {"task": task, "column": COLUMNS}).plan(tmp_path).counts["ready"] == 1
    assert study_of(folder, {"column": COLUMNS, "held_out": 7}).plan(tmp_path).counts["ready"] == 1


def test_a_task_that_is_mere_text_needs_no_labels(folder: Path, tmp_path: Path) -> None:
    experiments = {"localize": {"models": ["{models}"], "on": "{text}"}}
    table = {"name": "tiny", "models": ["zoo:masked"], "experiments": experiments}
    text = {"task": str(folder / "moods"), "column": {"text": "words"}}
    assert mt.study({**table, "tasks": {"moods": text}}).plan(tmp_path).counts["ready"] == 1


@pytest.mark.parametrize(
    "task, reason",
    [
        ({"column": {**COLUMNS, "text": "word"}}, "have the column 'word', but its columns are words, mood"),
        ({"column": {**COLUMNS, "label": "moood"}}, "have the column 'moood', but its columns are"),
        ({"column": {**COLUMNS, "pair": "other"}}, "have the column 'other'"),
        ({"pairs": "words,others,mood"}, "have the column 'others'"),
        ({"task": "moods.jsonl", "column": {**COLUMNS, "text": "word"}}, "have the column 'word'"),
        ({"column": {"text": "words"}}, r"label must be the name of a column of .* \(words, mood\)"),
        ({"column": {**COLUMNS, "txt": "words"}}, "role of a column must be one of .* Did you mean text"),
        ({"column": COLUMNS, "held_out": 8}, "held_out must be smaller than the 8 validation examples"),
        ({"task": "card.toml"}, "kindd"),
        ({"task": "empty", "column": COLUMNS}, "must have a table called train, validation or test"),
    ],
)
def test_what_a_task_has_not_is_refused(
    task: dict[str, Any], reason: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(MicrotomeError, match=rf"^tasks\.moods of tiny: .*{reason}"):
        study_of(folder, task).plan(tmp_path)


def test_held_out_examples_are_a_number(folder: Path) -> None:
    for size in (0, 0.2):
        with pytest.raises(MicrotomeError, match=r"held_out (of moods|in the study) must be a whole number"):
            study_of(folder, {"column": COLUMNS, "held_out": size})


def test_held_out_examples_are_fewer_than_published(tmp_path: Path) -> None:
    table = {"models": ["zoo:masked"], "tasks": {"rte": {"task": "rte", "held_out": 277}}, "finetune": {}}
    with pytest.raises(MicrotomeError, match="held_out must be smaller than the 277 validation examples"):
        mt.study(table).plan(tmp_path)


def test_models_that_are_not_there_are_refused(folder: Path, tmp_path: Path) -> None:
    task = {"column": COLUMNS}
    with pytest.raises(MicrotomeError, match=r"^models\.m of tiny: .*Did you mean masked"):
        study_of(folder, task, models={"m": "zoo:maskd"}).plan(tmp_path)
    with pytest.raises(MicrotomeError, match=r"^models\.m of tiny: the source must be .*config\.json"):
        study_of(folder, task, models={"m": str(folder / "empty")}).plan(tmp_path)
    for source in (str(folder / "none"), "./none"):
        with pytest.raises(MicrotomeError, match=r"models\.masked in --model must be .*a folder that exists"):
            mt.study("phang2021", models={"masked": source})


def test_nothing_is_loaded(folder: Path) -> None:
    task = {"task": str(folder / "moods"), "column": COLUMNS}
    code = (
        "import sys, microtome as mt; "
        f"mt.study({{'models': ['zoo:masked'], 'tasks': {{'m': {task!r}}}, 'finetune': {{}}}}).plan('none'); "
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
