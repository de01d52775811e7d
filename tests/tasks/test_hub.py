from __future__ import annotations

import sys
from pathlib import Path

import pytest

from microtome.errors import InputError, MissingExtraError, UnknownNameError
from microtome.tasks.loading import task
from task_samples import write_hub

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def rows(folder: Path, split: str, **columns: list) -> Path:
    """Write the rows of a split anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), folder / f"{split}.parquet")
    return folder


def test_where_it_was_read(tmp_path: Path) -> None:
    loaded = task("rte", data=f"hub:{write_hub('rte', tmp_path / 'hub')}")
    assert loaded.source == f"hub:{tmp_path / 'hub'}"
    assert loaded.split("train").notes == ("3 of 2,490 published examples",)


@pytest.mark.parametrize(
    "columns, words",
    [
        (
            {"sentence1": ["a"], "label": ["entailment"]},
            "row 1 of the dataset must have the column 'sentence2', but its columns are sentence1, label",
        ),
        (
            {"sentence1": ["a"], "sentence2": ["b"], "label": ["perhaps"]},
            "row 1 of the dataset must have one of the labels entailment, not_entailment, but got 'perhaps'",
        ),
        (
            {"sentence1": ["a", None], "sentence2": ["b", "c"], "label": ["entailment"] * 2},
            "row 2 of the dataset must have a text in the column 'sentence1', but got None",
        ),
    ],
)
def test_rows_that_are_refused(tmp_path: Path, columns: dict, words: str) -> None:
    folder = write_hub("rte", tmp_path / "hub")
    for split in ("train", "validation", "test"):
        rows(folder, split, **columns)
    with pytest.raises(InputError, match=words):
        task("rte", data=f"hub:{folder}").split("train")


def test_labels_kept_back_where_they_should_not_be(tmp_path: Path) -> None:
    folder = write_hub("stsb", tmp_path / "hub")
    columns = {"sentence1": ["a"], "sentence2": ["b"], "label": [-1.0]}
    for split in ("train", "validation", "test"):
        rows(folder, split, **columns)
    loaded = task("stsb", data=f"hub:{folder}")
    assert loaded.split("test").items[0].target is None
    with pytest.raises(
        InputError, match=r"row 1 of the dataset must have a number between 0.0 and 5.0, but got -1"
    ):
        loaded.split("train")


def test_a_split_and_a_configuration_that_are_missing(tmp_path: Path) -> None:
    folder = write_hub("rte", tmp_path / "hub")
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("split: validation", "split: dev"))
    with pytest.raises(
        UnknownNameError, match="option split must be one of dev, test, train, but got 'validation'"
    ):
        task("rte", data=f"hub:{folder}").split("validation")
    with pytest.raises(UnknownNameError, match="option config must be one of rte, but got 'wnli'"):
        task("wnli", data=f"hub:{folder}").split("train")


def test_a_package_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="must have the package datasets, but it is not installed"):
        task("rte").split("train")
