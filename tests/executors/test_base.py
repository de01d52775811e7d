"""Resources and settings are checked where they are made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from microtome.errors import InputError, MissingExtraError, UnknownNameError, WorkError
from microtome.executors.base import ExecutorSettings, Resources
from microtome.executors.table import EXECUTORS, open_executor
from microtome.testing.executors import call_of


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"cpus": 0}, "cpus must be at least 1"),
        ({"gpus": 1.5}, "gpus must be between 0 and 1, or a whole number"),
        ({"gpus": -1}, "gpus must be"),
        ({"memory": "much"}, "memory must be a number with a unit"),
        ({"minutes": 0}, "minutes must be at least 1"),
    ],
)
def test_resources_that_nobody_has_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Resources(**options)


def test_memory_is_read_with_its_unit() -> None:
    assert [Resources(memory=text).bytes for text in ("1GB", "1.5 gib", "2T", "10k")] == [
        2**30,
        3 * 2**29,
        2**41,
        10240,
    ]


def test_settings_name_absolute_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ExecutorSettings(store="s")
    assert settings.root == tmp_path / "s"
    assert settings.jobs == tmp_path / "s" / "jobs"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"workers": 1.5}, "workers must be a whole number"),
        ({"pack": "x"}, "pack must be a whole number"),
        ({"gpus": -1}, "gpus must be at least 0"),
        ({"slurm": 3}, "slurm must be a mapping"),
        ({"folder": "\0"}, "folder must have no zero byte"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ExecutorSettings(**settings)


def test_an_executor_that_is_misspelt_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean processes"):
        open_executor("proceses", ExecutorSettings(store=tmp_path))


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_a_call_needs_an_address(name: str, tmp_path: Path) -> None:
    with (
        open_executor(name, ExecutorSettings(store=tmp_path)) as executor,
        pytest.raises(InputError, match="a call for an executor must be an object with an address"),
    ):
        executor.submit([{**call_of("plain", 1), "address": "x"}], Resources())


def test_the_table_names_what_is_there() -> None:
    assert {name: entry.name for name, entry in EXECUTORS.items()} == {name: name for name in EXECUTORS}


@pytest.mark.parametrize("name, package, extra", [("slurm", "submitit", "slurm"), ("ray", "ray", "ray")])
def test_an_extra_that_is_missing_is_named(
    name: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"must find {package}; try `pip install microtome\[{extra}\]`"
    ):
        open_executor(name, ExecutorSettings(store=tmp_path))


def test_slurm_needs_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkError, match="must find the commands of Slurm"):
        open_executor("slurm", ExecutorSettings(store=tmp_path / "store"))
