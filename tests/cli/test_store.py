"""`microtome store` lists, shows, checks and clears what is in the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import microtome
from microtome.cli import main
from microtome.cli.store import size
from microtome.store.address import digest_file
from microtome.store.entry import StoreEntry, write_entry
from microtome.store.shelf import Shelf

SOURCE = Path(microtome.__file__).parents[1]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICROTOME_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def entries(root: Path) -> list[StoreEntry]:
    """Three entries of different age, the oldest first."""
    found = []
    for n, kind in enumerate(["activations", "map", "activations"]):
        shelf = Shelf(root, f"microtome make {n}")

        def write(folder: Path, n: int = n) -> None:
            (folder / "result.json").write_text("x" * (n + 1) * 1000)

        entry = shelf.put(
            write,
            kind=kind,
            specification={"model": f"m{n}", "rows": {"unit": "word"}},
            inputs=[found[-1].address] if found else [],
            provenance={"device": "cpu"},
        )
        created = datetime.now(UTC) - timedelta(days=30 - 10 * n)
        entry = replace(entry, provenance={**entry.provenance, "created": created.isoformat()})
        write_entry(entry)
        found.append(entry)
    return found


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["store", *words]) == code
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def read(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    return json.loads(told(capsys, *words, "--json", code=code), parse_constant=lambda c: pytest.fail(c))


def wrong(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["store", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


# ls


def test_ls_has_a_line_an_entry(
    entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *lines = told(capsys, "ls").splitlines()
    assert head.split() == ["address", "kind", "created", "files", "size"]
    assert lines[-1] == f"{root}: 3 entries, 6.0 kB."
    for entry, line in zip(entries, lines[:-1], strict=True):
        assert line.split() == [
            *(entry.address, entry.kind, *f"{entry.created:%Y-%m-%d %H:%M}".split()),
            *("1", *size(entry.bytes).split()),
        ]


def test_ls_as_json(entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Shelf(root).work(kind="map", specification={"left": 1}) as work:
        (work.folder / "a").write_text("12345")
        running = read(capsys, "ls")["partial"]
    assert running == [{"address": work.address, "bytes": 5, "running": True, "resumable": True}]
    document = read(capsys, "ls")
    assert document["format"] == "microtome/store-ls/1"
    assert document["store"] == str(root)
    assert document["unreadable"] == 0
    assert [one["address"] for one in document["entries"]] == [entry.address for entry in entries]
    assert document["entries"][1] == {
        "address": entries[1].address,
        "kind": "map",
        "created": entries[1].provenance["created"],
        "seconds": entries[1].provenance["seconds"],
        "files": 1,
        "bytes": 2000,
    }
    assert [one["running"] for one in document["partial"]] == [False]


def test_ls_names_what_is_not_finished_or_cannot_be_read(
    entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (entries[0].folder / "entry.json").write_text("{")
    with Shelf(root).work(kind="map", specification={"left": 1}) as work:
        (work.folder / "a").write_text("12345")
        assert f"Not finished: {work.address}, 5 B, running." in told(capsys, "ls")
    out = told(capsys, "ls")
    assert f"Not finished: {work.address}, 5 B, interrupted." in out
    assert "1 entry cannot be read; microtome store verify says why." in out
    assert read(capsys, "ls")["unreadable"] == 1


def test_a_store_that_is_not_there_yet_is_empty(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "ls") == f"{root}: 0 entries, 0 B.\n"
    assert read(capsys, "ls")["entries"] == []
    assert told(capsys, "verify") == "0 entries checked: all is as it was written.\n"
    assert told(capsys, "gc") == "Removed 0 things, 0 B.\n"
    assert not root.exists()


def test_a_store_may_be_given(
    entries: list[StoreEntry], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    assert read(capsys, "ls", "--store", str(root))["entries"]
    assert read(capsys, "ls", "--store", str(tmp_path / "other"))["entries"] == []
    for verb in (["ls"], ["show", "ab"], ["verify"], ["rm", "ab"], ["gc"]):
        said = wrong(capsys, *verb, "--store", str(tmp_path / "nowhere"))
        assert said.startswith("microtome: --store must be a folder that exists, but got ")
    (tmp_path / "other" / "thesis.tex").touch()
    said = wrong(capsys, "ls", "--store", str(tmp_path / "other"))
    assert "holds thesis.tex and no format.json" in said


# show


def test_show_tells_all(entries: list[StoreEntry], capsys: pytest.CaptureFixture[str]) -> None:
    entry = entries[1]
    out = " ".join(told(capsys, "show", entry.address).split())
    for words in (
        f"address {entry.address}",
        "command microtome make 1",
        "device cpu",
        'specification: model "m1"',
        'specification: rows {"unit": "word"}',
        f"made from {entries[0].address}",
        f"folder {entry.folder}",
        f"result.json 2.0 kB {digest_file(entry.folder / 'result.json')}",
    ):
        assert words in out


def test_show_as_json(entries: list[StoreEntry], capsys: pytest.CaptureFixture[str]) -> None:
    entry = entries[1]
    assert read(capsys, "show", entry.address[:10]) == {
        "format": "microtome/store-show/1",
        "address": entry.address,
        "kind": "map",
        "specification": {"model": "m1", "rows": {"unit": "word"}},
        "inputs": [entries[0].address],
        "provenance": dict(entry.provenance),
        "files": {"result.json": {"bytes": 2000, "blake2b": digest_file(entry.folder / "result.json")}},
        "folder": str(entry.folder),
    }


def test_an_entry_that_is_not_there(entries: list[StoreEntry], capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("show", "verify"):
        said = wrong(capsys, verb, "no such")
        assert said.startswith("microtome: address must be that of an entry in ")
        assert said.endswith(", or its beginning, but got 'no such'.\n")


def test_a_beginning_of_two(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for end in "01":
        Shelf(root).put(lambda folder: None, kind="map", specification={}, address="a" * 39 + end)
    said = wrong(capsys, "show", "aa")
    assert "address must be the beginning of one entry, but 'aa' is that of 2: " in said
    assert told(capsys, "show", "a" * 39 + "1")


def test_an_entry_that_cannot_be_read(entries: list[StoreEntry], capsys: pytest.CaptureFixture[str]) -> None:
    (entries[0].folder / "entry.json").write_text("{")
    assert main(["store", "show", entries[0].address]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("entry.json must be the whole record of an entry, but it is no JSON.\n")


def test_what_is_shown_cannot_steer_the_terminal(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shelf = Shelf(root, "\x1b[31m[bold]")
    entry = shelf.put(lambda folder: None, kind="map", specification={"\x1b[2J": "[red]"})
    out = told(capsys, "show", entry.address)
    assert "\x1b" not in out
    assert "\ufffd[31m[bold]" in out
    assert "[red]" in out


# verify


def test_verify_says_that_all_is_well(entries: list[StoreEntry], capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "verify") == "3 entries checked: all is as it was written.\n"
    assert told(capsys, "verify", entries[0].address) == "1 entry checked: all is as it was written.\n"


def test_verify_names_each_problem_and_ends_with_1(
    entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = entries[0].folder / "result.json"
    path.write_text("y" * 1000)
    (entries[1].folder / "foreign").touch()
    *problems, last = told(capsys, "verify", code=1).splitlines()
    assert last == "3 entries checked: 2 problems."
    assert any(one.startswith(f"{path} must have the checksum ") for one in problems)
    assert any(one.startswith(f"{entries[1].folder / 'foreign'} must be a file of its") for one in problems)
    document = read(capsys, "verify", code=1)
    assert (document["format"], document["checked"]) == ("microtome/store-verify/1", 3)
    assert document["problems"] == problems
    one = read(capsys, "verify", entries[0].address, code=1)
    assert (one["address"], one["checked"], len(one["problems"])) == (entries[0].address, 1, 1)
    assert told(capsys, "verify", entries[2].address)


# gc


def test_gc_without_an_age_removes_no_entry(
    entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Shelf(root).work(kind="map", specification={"left": 1}) as work:
        (work.folder / "a").write_text("12345")
    assert told(capsys, "gc") == "Removed 0 things, 0 B.\n"
    assert len(Shelf(root).addresses()) == 3
    out = told(capsys, "gc", "--partial", "--grace", "0")
    assert work.address in out
    assert out.endswith("Removed 1 thing, 5 B.\n")
    assert Shelf(root).partial() == []


def test_gc_by_age(entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    would = told(capsys, "gc", "--older-than", "15", "--grace", "0", "--dry-run")
    assert [line.split()[1] for line in would.splitlines()[1:3]] == sorted(e.address for e in entries[:2])
    assert "Would remove 2 things, " in would
    assert len(Shelf(root).addresses()) == 3
    document = read(capsys, "gc", "--older-than", "15", "--grace", "0", "--keep", "map")
    (removed,) = document["removed"]
    assert (document["format"], document["dry_run"]) == ("microtome/store-gc/1", False)
    assert (removed["what"], removed["name"]) == ("entry", entries[0].address)
    assert document["bytes"] == removed["bytes"] > 1000
    assert set(Shelf(root).addresses()) == {entry.address for entry in entries[1:]}
    said = told(capsys, "gc", "--older-than", "0")
    assert said == (
        "Removed 0 things, 0 B. 2 things made, changed or read within 24 hours stay; "
        "--grace 0 would remove them, too.\n"
    )
    assert "Removed 2 things" in told(capsys, "gc", "--older-than", "0", "--grace", "0")
    assert Shelf(root).addresses() == []


@pytest.mark.parametrize("days", ["-1", "inf", "nan"])
def test_an_age_that_is_none(
    entries: list[StoreEntry], days: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = wrong(capsys, "gc", "--older-than", days)
    assert said.startswith("microtome: --older-than must be a number of at least 0, but got ")


# rm


def test_rm_takes_beginnings_and_broken_records(
    entries: list[StoreEntry], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (entry.address for entry in entries)
    (entries[0].folder / "entry.json").write_text("{")
    assert f"{entries[0].folder / 'entry.json'} must be the whole record" in told(capsys, "verify", code=1)
    assert read(capsys, "verify", code=1)["problems"]
    assert told(capsys, "rm", first[:9], "--dry-run") == f"{first}\nWould remove 1 entry.\n"
    assert told(capsys, "rm", first[:9], second, second[:8]) == f"{first}\n{second}\nRemoved 2 entries.\n"
    assert Shelf(root).addresses() == [third]
    assert told(capsys, "verify") == "1 entry checked: all is as it was written.\n"
    document = read(capsys, "rm", third)
    assert document == {
        "format": "microtome/store-rm/1",
        "store": str(root),
        "dry_run": False,
        "removed": [third],
    }
    assert wrong(capsys, "rm", third).startswith("microtome: address must be that of an entry in ")
    assert list((root / "trash").iterdir()) == []


# The program


def test_without_words_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["store"], ["store", "show"], ["store", "rm"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert "Usage: microtome store" in said.out + said.err


@pytest.mark.parametrize("words", [["ls"], ["verify"], ["gc", "--dry-run"], ["ls", "--json"]])
def test_nothing_heavy_is_imported(entries: list[StoreEntry], words: list[str]) -> None:
    code = (
        "import sys; from microtome.cli import main; assert main(sys.argv[1:]) == 0\n"
        "assert not {'torch', 'numpy', 'pyarrow', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code, "store", *words],
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_499, "999.5 kB"),
        (999_500, "1.0 MB"),
        (5 * 10**12, "5.0 TB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text
