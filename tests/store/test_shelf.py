"""What was put into the store is found again, with all that is known of it, or it is not there at all."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import microtome
from microtome.errors import InputError, UnknownNameError, WorkError
from microtome.store.address import address, digest_file
from microtome.store.entry import check_name
from microtome.store.shelf import Shelf, find_store


def write(content: str = "content", name: str = "a.txt") -> Any:
    return lambda folder: (folder / name).write_text(content)


def fail(folder: Path) -> None:
    raise AssertionError(f"asked to write {folder} again")


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "store")


# Where it is


def test_the_store_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("MICROTOME_STORE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert find_store() == Path("/home/somebody/.cache/microtome")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert find_store() == Path("/home/somebody/.cache/microtome")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_store() == tmp_path / "microtome"
    monkeypatch.setenv("MICROTOME_STORE", "~/store")
    assert find_store() == Path("/home/somebody/store")
    assert find_store(tmp_path) == tmp_path
    assert Shelf().root == Path("/home/somebody/store")
    with pytest.raises(InputError, match="store must be a folder, but got ''"):
        find_store("")


def test_no_home_to_put_the_store_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("MICROTOME_STORE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(InputError, match="there is no home folder to put it in; MICROTOME_STORE can name"):
        find_store()


def test_looking_makes_no_folder(shelf: Shelf) -> None:
    assert shelf.get("0" * 40) is None
    assert list(shelf.entries()) == shelf.addresses() == shelf.partial() == shelf.verify() == []
    assert not shelf.remove("0" * 40)
    assert shelf.gc().removed == ()
    assert not shelf.root.exists()


@pytest.mark.parametrize("content", ['{"format": "microtome/store/2"}', '{"form": 1}', '"x"', "[]"])
def test_a_store_of_another_version_is_left_alone(shelf: Shelf, content: str) -> None:
    shelf.root.mkdir()
    (shelf.root / "format.json").write_text(content)
    with pytest.raises(InputError, match=r"the format of the store .* must be 'microtome/store/1' for this"):
        Shelf(shelf.root)
    with pytest.raises(InputError, match="the format of the store"):
        shelf.put(fail, kind="note", specification={})


def test_a_folder_that_is_no_store(shelf: Shelf, tmp_path: Path) -> None:
    shelf.root.mkdir()
    (shelf.root / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"but .*store holds thesis.tex and no format.json\."):
        Shelf(shelf.root)
    with pytest.raises(InputError, match="store must be a folder, but got"):
        Shelf(shelf.root / "thesis.tex")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "format.json").write_text('{"form')
    with pytest.raises(InputError, match=r"format.json must be a readable JSON file, but got: "):
        Shelf(tmp_path / "torn")


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkError, match=r"must be readable and writable, but got: .*Not a directory"):
        Shelf(tmp_path / "file" / "store").put(fail, kind="note", specification={})


# Put and get


def test_what_was_put_is_found_with_all_that_is_known_of_it(shelf: Shelf) -> None:
    specification = {"model": "bert", "layers": (1, 2), "nested": {"x": None}}
    made = Shelf(shelf.root, "microtome note").put(
        lambda folder: [write("1")(folder), write("22", "b \u00e9.bin")(folder)],
        kind="note",
        specification=specification,
        inputs=["f" * 40],
        provenance={"device": "cpu", "python": "a lie"},
    )
    entry = Shelf(shelf.root).get(address(specification, ["f" * 40]))
    assert entry == made
    assert entry is not None
    assert (entry.kind, entry.inputs) == ("note", ("f" * 40,))
    assert entry.specification == {"model": "bert", "layers": [1, 2], "nested": {"x": None}}
    assert entry.path("a.txt").read_text() == "1"
    assert entry.path("b \u00e9.bin").read_text() == "22"
    assert entry.files["b \u00e9.bin"].bytes == 2
    assert entry.files["a.txt"].blake2b == digest_file(entry.path("a.txt"))
    assert entry.bytes == 3
    assert entry.folder == shelf.root / "entries" / entry.address[:2] / entry.address
    facts = entry.provenance
    assert facts["device"] == "cpu"
    assert facts["command"] == "microtome note"
    assert facts["microtome"] == microtome.__version__
    assert facts["python"] == sys.version.split()[0]
    assert set(facts) >= {"numpy", "platform", "created", "seconds"}
    assert entry.created.utcoffset() is not None
    assert pickle.loads(pickle.dumps(entry)) == entry


def test_the_record_is_plain_json_with_the_promised_keys(shelf: Shelf) -> None:
    entry = shelf.put(write(), kind="note", specification={"a": 1})
    record = json.loads((entry.folder / "entry.json").read_text())
    assert set(record) == {
        *("format", "address", "kind", "specification", "inputs", "provenance", "files", "blake2b")
    }
    assert record["files"] == {"a.txt": {"bytes": 7, "blake2b": digest_file(entry.path("a.txt"))}}
    assert json.loads((shelf.root / "format.json").read_text()) == {"format": "microtome/store/1"}
    assert files_of(shelf.root) == {
        "format.json",
        *(f"entries/{entry.address[:2]}/{entry.address}/{name}" for name in ("a.txt", "entry.json")),
    }


def test_the_second_writer_need_not_write(shelf: Shelf) -> None:
    first = shelf.put(write(), kind="note", specification={"a": 1})
    assert shelf.put(fail, kind="note", specification={"a": 1}) == first
    assert shelf.put(write(), kind="note", specification={"a": 2}) != first
    assert len(list(shelf.entries())) == 2


def test_an_address_may_be_given(shelf: Shelf) -> None:
    entry = shelf.put(write(), kind="weights", specification={"from": "a file"}, address="ab" * 20)
    assert entry.address == "ab" * 20
    assert shelf.get("ab" * 20) == entry


def test_whoever_was_first_is_kept(shelf: Shelf) -> None:
    def overtaken(folder: Path) -> None:
        write("late")(folder)
        shelf.put(write("early"), kind="note", specification={})

    entry = shelf.put(overtaken, kind="note", specification={})
    assert entry.path("a.txt").read_text() == "early"
    assert shelf.verify() == []
    for name in ("partial", "trash", "locks"):
        assert list((shelf.root / name).iterdir()) == []


def test_a_writer_that_fails_leaves_nothing(shelf: Shelf) -> None:
    def failing(folder: Path) -> None:
        write()(folder)
        raise ZeroDivisionError("its own affair")

    with pytest.raises(ZeroDivisionError, match="its own affair"):
        shelf.put(failing, kind="note", specification={})
    with pytest.raises(FileNotFoundError, match="no-such-input"):
        shelf.put(lambda folder: Path("no-such-input").read_text(), kind="note", specification={})
    assert files_of(shelf.root) == {"format.json"}


@pytest.mark.parametrize("name", ["entry.json", "a\nb", "a\x1b[2J", "a\\b"])
def test_names_that_are_refused(shelf: Shelf, name: str) -> None:
    with pytest.raises(InputError, match="the name of a file must be"):
        shelf.put(write(name=name), kind="note", specification={})
    assert shelf.addresses() == []


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "/etc/passwd", "\0"])
def test_names_that_lead_elsewhere(shelf: Shelf, name: str) -> None:
    with pytest.raises(InputError, match="the name of a file must be printable, without / and"):
        check_name(name)
    entry = shelf.put(write(), kind="note", specification={})
    with pytest.raises(UnknownNameError, match=r"a file of entry .* must be one of a\.txt, but got"):
        entry.path(name)


def test_links_and_folders_are_no_files_of_an_entry(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(InputError, match="an entry must consist of plain files, but link is none"):
        shelf.put(
            lambda folder: (folder / "link").symlink_to(tmp_path / "secret"), kind="note", specification={}
        )
    with pytest.raises(InputError, match="an entry must consist of plain files, but deeper is none"):
        shelf.put(lambda folder: (folder / "deeper").mkdir(), kind="note", specification={})
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.parametrize("kind", ["", "Note", "a b", "../x", "1", 3])
def test_kinds_that_are_no_names(shelf: Shelf, kind: Any) -> None:
    with pytest.raises(InputError, match="kind must be a short name in small letters"):
        shelf.put(fail, kind=kind, specification={})


@pytest.mark.parametrize("wrong", ["", "ab", "../../x", "A" * 40, "g" * 40])
def test_addresses_that_are_none(shelf: Shelf, wrong: str) -> None:
    for ask in (shelf.get, shelf.remove):
        with pytest.raises(InputError, match="address must be 40 hexadecimal digits, but got"):
            ask(wrong)
    with pytest.raises(InputError, match="address must be 40 hexadecimal digits, but got"):
        shelf.put(fail, kind="note", specification={}, address=wrong)


def test_a_specification_or_a_fact_that_cannot_be_written(shelf: Shelf) -> None:
    with pytest.raises(InputError, match=r"specification\.x must be text"):
        shelf.put(fail, kind="note", specification={"x": object()})
    with pytest.raises(InputError, match=r"provenance\.x must be a finite number, but got nan"):
        shelf.put(fail, kind="note", specification={}, provenance={"x": float("nan")})


def test_one_address_is_of_one_kind(shelf: Shelf) -> None:
    shelf.put(write(), kind="note", specification={})
    with pytest.raises(InputError, match=r"kind must be 'note', as that of the entry .* is, but got 'map'"):
        shelf.put(fail, kind="map", specification={})


def test_the_beginning_of_an_address_is_enough(shelf: Shelf) -> None:
    for n in range(40):
        shelf.put(write(), kind="note", specification={"n": n})
    known = shelf.addresses()
    assert len(known) == 40
    assert all(shelf.find(one) == one for one in known)
    alone = next(one for one in known if sum(other[:4] == one[:4] for other in known) == 1)
    assert shelf.find(alone[:4]) == alone
    twice = next(one[0] for one in known if sum(other[0] == one[0] for other in known) > 1)
    with pytest.raises(InputError, match=f"must be the beginning of one entry, but '{twice}' is that of"):
        shelf.find(twice)
    for none in ("", "xyz", "../.."):
        with pytest.raises(InputError, match=r"must be that of an entry in .*, or its beginning, but"):
            shelf.find(none)


def test_remove(shelf: Shelf) -> None:
    entry = shelf.put(write(), kind="note", specification={})
    assert shelf.remove(entry.address)
    assert not shelf.remove(entry.address)
    assert shelf.get(entry.address) is None
    with pytest.raises(WorkError, match=r"a\.txt must be a file, but it is not there any more"):
        entry.path("a.txt")
    assert files_of(shelf.root) == {"format.json"}


def test_which_of_many_addresses_have_an_entry(shelf: Shelf) -> None:
    assert shelf.has([address({"n": 1})]) == set()
    made = {shelf.put(write(), kind="note", specification={"n": n}).address for n in range(20)}
    asked = [address({"n": n}) for n in range(10_000)]
    begun = time.perf_counter()
    assert shelf.has(asked) == made
    assert time.perf_counter() - begun < 1
    assert shelf.has([]) == set()


def test_what_runs_is_told_with_its_process(shelf: Shelf) -> None:
    assert shelf.running() == {}
    with shelf.work(kind="note", specification={"n": 1}) as work, shelf.alone(address({"alone": 1})):
        claims = shelf.running()
        assert set(claims) == {work.address, address({"alone": 1})}
        assert {claim.pid for claim in claims.values()} == {os.getpid()}

        def write_and_look(folder: Path) -> None:
            assert set(shelf.running()) == set(claims)  # what is made in one step is none

        shelf.put(write_and_look, kind="note", specification={"n": 2})
    assert shelf.running() == {}
