"""Models are named by as little of their paths as makes the names differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from microtome.encoders.naming import distinct_names
from microtome.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bert").mkdir()
    for link in ("a/x/best", "b/x/best", "b/y/best"):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / "bert")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("sources, names", [
    (["bert"], ["bert"]),
    (["bert/"], ["bert"]),
    (["./bert", "a/x/best"], ["bert", "best"]),
    (["b/x/best", "b/y/best"], ["x-best", "y-best"]),
    (["a/x/best", "b/x/best"], ["a-x-best", "b-x-best"]),
    (["a/x/best", "b/x/best", "b/y/best", "bert"], ["a-x-best", "b-x-best", "y-best", "bert"]),
])  # fmt: skip
def test_names_have_as_many_folders_as_are_needed(folder: Path, sources: list[str], names: list[str]) -> None:
    assert distinct_names(sources) == names


@pytest.mark.parametrize("again", ["bert", "bert/", "./bert", "b/../bert", "FOLDER/bert", "FOLDER/bert/"])
def test_one_model_twice_is_refused(folder: Path, again: str) -> None:
    with pytest.raises(InputError, match="names of models must differ, but 'bert' stands twice"):
        distinct_names(["bert", again.replace("FOLDER", str(folder))])


def test_the_root_is_not_part_of_a_name(tmp_path: Path) -> None:
    source = tmp_path / "best"
    source.mkdir()
    link = tmp_path.joinpath("x", *source.parts[1:])
    link.parent.mkdir(parents=True)
    link.symlink_to(source)
    first, second = distinct_names([str(source), str(link)])
    assert first == "-".join(source.parts[1:])
    assert second.endswith(f"x-{first}")
