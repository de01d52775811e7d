"""Is a model judged on as many examples as there are, and never on those that it was trained on?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.pruning.examples import Examples, find_examples, trained_part
from microtome.tasks.loading import task as open_task
from microtome.tasks.task import Task
from microtome.training.finetuning import finetune
from microtome.training.opening import Model, open_model

LABELS = {"id2label": {0: "down", 1: "up"}, "label2id": {"down": 0, "up": 1}}


def table(path: Path, animal: str = "cat", rows: int = 200) -> Task:
    lines = "".join(f"the {animal} number {i} sleeps,{'up' if i % 3 else 'down'}\n" for i in range(rows))
    path.write_text(f"words,mood\n{lines}")
    return open_task(path, text="words", label="mood")


def texts(*parts: Any) -> set[str]:
    return {item.texts[0] for part in parts for item in part}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def mine(place: Path) -> Task:
    return table(place / "mine.csv")


@pytest.fixture(scope="module")
def foreign(place: Path) -> Path:
    """A checkpoint that does not say what it was trained on."""
    return tiny.save_checkpoint(place / "bert", "bert", head="SequenceClassification", **LABELS)


@pytest.fixture(scope="module")
def tuned(place: Path, mine: Task) -> Path:
    """A model that was tuned here, on 64 rows of `mine`."""
    encoder: Any = load(tiny.save_checkpoint(place / "plain", "bert"))
    quick: dict[str, Any] = {"steps": 1, "batch": 8, "longest": 32, "store": place / "shelf"}
    run = finetune(encoder, mine, "wu2020", train_size=64, seed=3, **quick)
    return Path(shutil.copytree(run.folder, place / "tuned"))


def opened(model: Any, task: Task) -> Model:
    return open_model(model, task, context=Context(), pooled=True)


def found(model: Path, task: Task, **roles: Any) -> Examples:
    return find_examples(task, opened(model, task), **roles)


def test_all_rows_of_a_lone_table_judge_a_model_of_others(foreign: Path, mine: Task) -> None:
    examples = found(foreign, mine)
    assert (len(examples.choose), len(examples.certify)) == (100, 100)
    assert texts(examples.choose, examples.certify) == texts(mine.split("whole"))
    chosen, certified = examples.said()
    assert chosen == "Chosen on 100 examples of the whole table mine"
    assert certified == (
        "Certified on 100 examples of the whole table mine, never used to choose; that bert was not trained "
        "on them is taken for granted"
    )
    assert found(foreign, mine, split="whole").choose.digest == examples.choose.digest
    assert len(found(foreign, mine, split="train").choose) == 80


def test_a_row_has_one_role(foreign: Path, mine: Task) -> None:
    examples = found(foreign, mine, confirm_on="test")
    assert examples.confirm is not None
    assert (len(examples.choose), len(examples.certify), len(examples.confirm)) == (90, 90, 20)
    assert not texts(examples.choose, examples.certify) & texts(examples.confirm)
    assert "90 examples of the table mine without test" in examples.said()[0]
    examples = found(foreign, mine, certify_on="train", confirm_on="test")
    assert (len(examples.choose), len(examples.certify)) == (20, 160)
    for roles in ({"split": "whole", "confirm_on": "test"}, {"confirm_on": "whole"}):
        with pytest.raises(InputError, match="must be different ones, but got whole"):
            found(foreign, mine, **roles)


def test_a_cut_that_learns_again_is_not_judged_on_what_it_learns(foreign: Path, mine: Task) -> None:
    examples = found(foreign, mine, learns=True)
    learned = trained_part(mine, opened(foreign, mine)).split("train")
    assert (len(examples.choose) + len(examples.certify), len(learned)) == (40, 160)
    assert not texts(examples.choose, examples.certify) & texts(learned)
    for name in ("train", "whole"):
        with pytest.raises(InputError, match="must be judged on examples that it does not learn from"):
            found(foreign, mine, split=name, learns=True)


def test_what_a_model_was_trained_on_is_left_out(tuned: Path, mine: Task) -> None:
    examples = found(tuned, mine)
    assert len(examples.choose) + len(examples.certify) == 136
    learned = trained_part(mine, opened(tuned, mine)).split("train")
    assert texts(examples.choose, examples.certify, learned) == texts(mine.split("whole"))
    assert "without the 64 that were trained on" in examples.said()[0]
    assert examples.said()[1].endswith("never used to choose")
    assert len(found(tuned, mine, learns=True).choose) == len(examples.choose)
    assert len(found(tuned, mine, split="rest").choose) == 48
    for name in ("train", "whole"):
        with pytest.raises(
            InputError, match=f"but '{name}' is what it was trained on; without a split named"
        ):
            found(tuned, mine, split=name)


def test_another_table_is_not_what_it_was_trained_on(tuned: Path, place: Path) -> None:
    other = table(place / "other.csv", "dog")
    examples = found(tuned, other)
    assert len(examples.choose) + len(examples.certify) == 200
    assert "not among what plain-mine was trained on is taken for granted" in examples.said()[1]
    assert len(found(tuned, other, split="train").choose) == 80
    # Cuts that are tuned anew learn from all of it.
    assert len(trained_part(other, opened(tuned, other)).split("train")) == 160
    with pytest.raises(InputError, match="does not say which of other it was trained on"):
        found(tuned, other, split="rest")


def test_the_same_rows_under_another_name_are_known(tuned: Path, place: Path) -> None:
    copied = table(place / "copied.csv")
    assert len(found(tuned, copied).choose) == 68
    with pytest.raises(InputError, match="'train' is what it was trained on"):
        found(tuned, copied, split="train")


def test_a_table_that_grew_is_refused(tuned: Path, tmp_path: Path) -> None:
    grown = table(tmp_path / "mine.csv", rows=260)
    for on in (None, "train", "validation", "rest"):
        with pytest.raises(InputError, match="trained on other examples of mine, or in another order"):
            found(tuned, grown, split=on)


def test_a_training_split_that_is_not_needed_is_not_read(tuned: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("train", "validation"):
        table(tmp_path / "mine" / f"{name}.csv", rows=60)
    split = open_task(tmp_path / "mine", text="words", label="mood")
    (tmp_path / "mine" / "train.csv").unlink()
    examples = found(tuned, split)
    assert (len(examples.choose), len(examples.certify)) == (30, 30)
    assert examples.said()[1].endswith("never used to choose")


def test_without_a_record_the_name_decides(tuned: Path, mine: Task, place: Path, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(tuned, tmp_path / "bare"))
    (bare / "entry.json").unlink()
    assert len(found(bare, mine).choose) == 68
    with pytest.raises(InputError, match="'train' is what it was trained on"):
        found(bare, mine, split="train")
    assert len(found(bare, table(place / "third.csv", "cow")).choose) == 100


@pytest.mark.parametrize("name", ["validation", "test"])
def test_a_folder_with_one_table(name: str, foreign: Path, tuned: Path, tmp_path: Path) -> None:
    table(tmp_path / f"{name}.csv", rows=60)
    lone = open_task(tmp_path, text="words", label="mood")
    for model in (foreign, tuned):
        examples = found(model, lone)
        assert f"30 examples of {name}" in examples.said()[0]
    with pytest.raises(InputError, match="must have a split 'train' to learn from"):
        found(foreign, lone, split="train")
