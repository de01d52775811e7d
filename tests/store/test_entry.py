"""Every damage to the store is found and named."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from microtome.errors import DamageWarning, WorkError
from microtome.store.entry import check_whole
from microtome.store.shelf import Shelf


def write(content: str = "content", name: str = "a.txt") -> Any:
    return lambda folder: (folder / name).write_text(content)


def fail(folder: Path) -> None:
    raise AssertionError(f"asked to write {folder} again")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


def test_every_damage_is_found_and_named(shelf: Shelf, tmp_path: Path) -> None:
    def four(folder: Path) -> None:
        for name in ("cut", "flipped", "lost", "grown", "linked"):
            write("0123456789", name)(folder)

    entry = shelf.put(four, kind="note", specification={})
    healthy = shelf.put(write(), kind="note", specification={"n": 1})
    (entry.folder / "cut").write_text("0123")
    (entry.folder / "flipped").write_text("0123456788")
    (entry.folder / "lost").unlink()
    (entry.folder / "grown").write_text("0123456789+")
    (entry.folder / "linked").rename(tmp_path / "elsewhere")
    (entry.folder / "linked").symlink_to(tmp_path / "elsewhere")
    (entry.folder / "foreign").touch()
    problems = shelf.verify()
    endings = {
        "cut": "must be 10 bytes long, but it has 4: it is cut short.",
        "flipped": ": its content has changed.",
        "lost": "must be a file of 10 bytes, but it is missing.",
        "grown": "must be 10 bytes long, but it has 11: it is followed by something else.",
        "linked": "must be a file of 10 bytes, but it is no plain file.",
        "foreign": "must be a file of its entry, but entry.json does not know it.",
    }
    assert len(problems) == len(endings)
    for name, ending in endings.items():
        (found,) = (one for one in problems if one.startswith(f"{entry.folder / name} "))
        assert found.endswith(ending)
    assert shelf.verify(entry.address[:12]) == problems
    assert shelf.verify(healthy.address) == []
    for name in ("lost", "linked"):
        with pytest.raises(WorkError, match=f"{name} must be a file, but it is not there any more"):
            entry.path(name)


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda text: None, "it cannot be read: No such file"),
        (lambda text: text[: len(text) // 2], "it is no JSON"),
        (lambda text: b"", "it is no JSON"),
        (lambda text: b"\xff" + text, "it is no JSON"),
        (lambda text: b"[" * 100_000, "it is no JSON"),
        (lambda text: b"{}", "it has not the form microtome/entry/1"),
        (lambda text: text.replace(b"entry/1", b"entry/9"), "it has not the form microtome/entry/1"),
        (lambda text: text.replace(b"typed", b"taped"), "its checksum is wrong"),
        (lambda text: text.replace(b'"bytes": 7', b'"bytes": 8'), "its checksum is wrong"),
    ],
)
def test_a_damaged_record_is_never_half_an_entry(shelf: Shelf, damage: Any, words: str) -> None:
    entry = Shelf(shelf.root, "typed").put(write(), kind="note", specification={"n": 0})
    record = entry.folder / "entry.json"
    changed = damage(record.read_bytes())
    record.unlink() if changed is None else record.write_bytes(changed)
    (problem,) = shelf.verify()
    assert problem.startswith(f"{record} must be the whole record of an entry, but {words}")
    with pytest.raises(WorkError, match="must be the whole record of an entry, but"):
        shelf.look(entry.address)
    assert list(shelf.entries()) == []
    assert shelf.addresses() == [entry.address]
    with pytest.warns(DamageWarning, match="must be the whole record of an entry, but"):
        again = shelf.put(write(), kind="note", specification={"n": 0})
    assert again == shelf.get(entry.address)
    assert shelf.damaged() == [entry.address]


@pytest.mark.parametrize("ask", ["get", "put", "work"])
@pytest.mark.parametrize("damage", ["zeros", "cut", "lost", "other"])
def test_a_damaged_entry_is_set_aside_and_made_again(shelf: Shelf, ask: str, damage: str) -> None:
    entry = shelf.put(write("0123456789"), kind="note", specification={"n": 0})
    (path,) = (entry.folder / name for name in entry.files)
    path.unlink()
    if damage != "lost":
        path.write_text({"zeros": "01234\0\0\0\0\0", "cut": "01234", "other": "9876543210"}[damage])
    asking: dict[str, Any] = {
        "get": lambda: shelf.get(entry.address),
        "put": lambda: shelf.put(write("0123456789"), kind="note", specification={"n": 0}).files,
        "work": lambda: ExitStack().enter_context(shelf.work(kind="note", specification={"n": 0})).entry,
    }
    with pytest.warns(DamageWarning, match=rf"{path.name} must .* The entry was moved to .*damaged/"):
        answer = asking[ask]()
    assert answer == (entry.files if ask == "put" else None)
    (aside,) = (shelf.root / "damaged").iterdir()
    assert (aside / path.name).exists() == (damage != "lost")
    assert {(one.what, one.name) for one in shelf.gc().removed} == {("damaged", entry.address)}
    assert shelf.damaged() == []
    assert shelf.verify() == []


def test_a_file_is_hashed_once_a_process_unless_it_changes(shelf: Shelf) -> None:
    entry = shelf.put(write("0123456789"), kind="note", specification={"n": 0})
    (path,) = (entry.folder / name for name in entry.files)
    before = path.stat()
    path.chmod(0o644)
    path.write_text("9876543210")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    # Neither size nor time has changed, and this process has hashed the file when it was written.
    assert shelf.get(entry.address) == entry
    assert len(shelf.verify()) == 1
    os.utime(path)
    with pytest.warns(DamageWarning):
        assert shelf.get(entry.address) is None


def test_a_model_by_the_path_of_its_entry_is_checked(shelf: Shelf, tmp_path: Path) -> None:
    entry = shelf.put(write("0123456789"), kind="note", specification={"n": 0})
    (path,) = (entry.folder / name for name in entry.files)
    check_whole(entry.folder)
    path.unlink()
    path.write_text("9876543210")
    with pytest.raises(
        WorkError, match=rf"content has changed\. .* `microtome store rm {entry.address[:12]}`"
    ):
        check_whole(entry.folder)
    # A copy under another name is its owner's affair.
    entry.folder.rename(tmp_path / "mine")
    check_whole(tmp_path / "mine")


def test_an_entry_under_the_name_of_another(shelf: Shelf) -> None:
    entry = shelf.put(write(), kind="note", specification={})
    entry.folder.rename(shelf.root / "entries" / entry.address[:2] / (entry.address[:2] + "0" * 38))
    (problem,) = shelf.verify()
    assert f"but it is that of {entry.address!r}" in problem


def test_what_lies_between_the_entries_is_named(shelf: Shelf) -> None:
    shelf.put(write(), kind="note", specification={})
    (shelf.root / "entries" / "notes.txt").touch()
    (shelf.root / "entries" / "00").mkdir(exist_ok=True)
    (shelf.root / "entries" / "00" / "copy of 12").mkdir()
    stray, name = shelf.verify()
    assert "notes.txt must be a folder of entries, but" in name
    assert "copy of 12 must be an entry, but its name is no address there" in stray


def test_checking_says_how_far_it_is(shelf: Shelf) -> None:
    for n in range(3):
        shelf.put(write(), kind="note", specification={"n": n})
    said: list[tuple[str, int, int]] = []
    shelf.verify(progress=lambda *what: said.append(what))
    assert said == [("entries", 1, 3), ("entries", 2, 3), ("entries", 3, 3)]
