from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from microtome.errors import InputError
from microtome.tasks.loading import task
from microtome.tasks.reading.finding import find_files
from microtome.tasks.table import TASKS
from task_samples import SAMPLES


def test_a_packed_copy_beside_a_file_is_no_doubt(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("plain")
    (tmp_path / "train.tsv.xz").write_bytes(lzma.compress(b"packed"))
    folder, found = find_files(TASKS["rte"], tmp_path)
    assert folder == tmp_path
    assert {split: f.path.name for split, f in found.items()} == {"train": "train.tsv"}
    assert found["train"].official


def test_hidden_files_and_other_names_are_passed_over(tmp_path: Path) -> None:
    for name in (".train.tsv", "train.tsv.bak", "mytrain.tsv", "train_old.tsv"):
        (tmp_path / name).write_text("")
    with pytest.raises(InputError, match="has none of them"):
        find_files(TASKS["rte"], tmp_path)


def test_the_folders_of_the_official_archive(tmp_path: Path) -> None:
    files = SAMPLES["semeval2010-8"]().files
    for folder, name in (("training", "TRAIN_FILE.TXT"), ("testing_keys", "TEST_FILE_FULL.TXT")):
        place = tmp_path / "SemEval2010_task8_all_data" / f"SemEval2010_task8_{folder}"
        place.mkdir(parents=True)
        (place / name).write_bytes(files[name].encode())
    loaded = task("semeval2010-8", data=tmp_path)
    assert [len(loaded.split(split)) for split in ("train", "test")] == [2, 1]


def test_a_lone_text(tmp_path: Path) -> None:
    lines = [f"Line {i} .\n" + ("\n" if i % 4 == 3 else "") for i in range(400)]
    (tmp_path / "book.txt").write_text("".join(lines))
    loaded = task("lm", data=tmp_path / "book.txt")
    assert loaded.splits == ("train", "validation", "test")
    assert sum(len(loaded.split(split)) for split in loaded.splits) == 400
    assert len({item.group for item in loaded.split("train")}) == len(loaded.split("train")) / 4
    assert task("lm", data=tmp_path).split("train").digest == loaded.split("train").digest
    assert task("lm", data=tmp_path, seed=1).split("train").digest != loaded.split("train").digest
    with pytest.raises(InputError, match="data must be a folder that exists for rte, but got"):
        task("rte", data=tmp_path / "book.txt")
