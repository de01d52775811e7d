"""What leaves the store is a copy, and takes nothing away from others."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from microtome.errors import InputError, WorkError
from microtome.store.entry import RECORD, StoreEntry
from microtome.store.outfolder import EXPORT, check_foreign, deliver, fill, forget, listed
from microtome.store.shelf import Shelf


@pytest.fixture
def entry(tmp_path: Path) -> StoreEntry:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(bytes(range(256)) * 100)
        (folder / "config.json").write_text("{}")

    return Shelf(tmp_path / "store").put(write, kind="finetune", specification={"n": 1})


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_change_outside_does_not_reach_the_entry(entry: StoreEntry, tmp_path: Path) -> None:
    out = deliver(entry.folder, tmp_path / "out")
    weights = out / "model.safetensors"
    assert weights.read_bytes() == (entry.folder / weights.name).read_bytes()
    with weights.open("r+b") as file:
        file.write(b"changed in place")
    assert Shelf(tmp_path / "store").verify() == []
    assert deliver(entry.folder, out) == out
    assert weights.read_bytes() == (entry.folder / weights.name).read_bytes()


@pytest.mark.usefixtures("umask")
def test_entries_are_for_reading_and_copies_have_ordinary_modes(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "store")
    entry = shelf.put(lambda folder: (folder / "a").write_text("a"), kind="note", specification={})
    assert {mode(path) for path in entry.folder.iterdir()} == {0o440}
    out = deliver(entry.folder, tmp_path / "out")
    assert {mode(path) for path in out.iterdir()} == {0o640}
    assert shelf.remove(entry.address)
    assert list((shelf.root / "trash").iterdir()) == []


def test_what_was_delivered_before_goes_and_nothing_else(entry: StoreEntry, tmp_path: Path) -> None:
    out = deliver(entry.folder, tmp_path / "out")
    (out / "notes.txt").write_text("mine")

    def write(folder: Path) -> None:
        (folder / "other.json").write_text("[]")

    other = Shelf(tmp_path / "store").put(write, kind="finetune", specification={"n": 2})
    deliver(other.folder, out)
    assert {path.name for path in out.iterdir()} == {RECORD, "other.json", "notes.txt"}
    (out / "config.json").write_text("mine")
    with pytest.raises(InputError, match=r"out holds config\.json, which microtome did not write there"):
        deliver(entry.folder, out)
    assert {path.name for path in out.iterdir()} == {RECORD, "other.json", "notes.txt", "config.json"}


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def fail(folder: Path) -> None:
        (folder / "weights").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(WorkError, match="out must have room for what is written, but got: No space left"):
        fill(out, fail, EXPORT)
    assert not out.exists()
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(WorkError):
        fill(out, fail, EXPORT)
    assert [path.name for path in out.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "link/outside", ""])
def test_a_record_does_not_lead_out_of_its_folder(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "outside").write_text("mine")
    (out / "link").symlink_to(tmp_path)
    (out / "own").write_text("ours")
    (out / EXPORT).write_text(json.dumps({"format": "microtome/prune/1", "files": [name, "own"]}))
    forget(out)
    assert (tmp_path / "outside").read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["link"]


def test_hidden_files_and_empty_folders_are_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".gitkeep").touch()
    (tmp_path / "figures").mkdir()
    check_foreign(tmp_path, ["*", "figures"])
    assert listed(tmp_path) == frozenset()
