"""Is what a verb reads from the store what was written there, whatever kind of entry it is?"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tiny
from microtome.cli import main
from microtome.store.shelf import Shelf

QUICK = [
    *("--set", "steps=4", "--set", "batch=8", "--set", "longest=16", "--recipe", "wu2020"),
    *("--threads", "1"),
]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    tiny.save_checkpoint(folder / "bert", "bert")
    (folder / "lines.txt").write_text("The cat sleeps.\nA dog waits for the bus.\n" * 20)
    words = [("the", "DET"), ("cat", "NOUN"), ("sleeps", "VERB")]
    lines = [
        f"{n}\t{word}\t_\t{tag}" + "\t_" * 2 + "\t0" + "\t_" * 3 for n, (word, tag) in enumerate(words, 1)
    ]
    text = "".join(f"# sent_id = {n}\n" + "\n".join(lines) + "\n\n" for n in range(40))
    (folder / "bank.conllu").write_text(text)
    (folder / "mine").mkdir()
    for name, size in (("train", 48), ("validation", 24)):
        rows = "".join(f"the cat {n} sleeps,{'up' if n % 2 else 'down'}\n" for n in range(size))
        (folder / "mine" / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return folder


def halve(store: Path) -> list[str]:
    """Zero the second half of the largest file of each entry, and say of which kinds they are."""
    kinds = []
    for entry in Shelf(store).entries():
        path = max((entry.folder / name for name in entry.files), key=lambda path: path.stat().st_size)
        content = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
        kinds.append(entry.kind)
    return sorted(set(kinds))


def told(words: list[str], capsys: Capture) -> tuple[dict[str, Any], str]:
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    document.pop("provenance")
    return document, said.err


TASK = ["--task", "mine", "--column", "text=words", "--column", "label=mood"]


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["compare", "bert", "--on", "lines.txt", "--rows", "mean"], ["activations"]),
        (["truncate", "tuned", *TASK, "--threads", "1"], ["cuts", "heads"]),
        (["drop", "bert", *TASK, *QUICK, "--count", "1", "--seeds", "1"], ["contribution", "outcome"]),
        (["freeze", "bert", *TASK, *QUICK, "--seeds", "1"], ["cost", "outcome"]),
        (["probe", "bert", "--on", "bank.conllu", "--target", "upos"], ["activations", "probes"]),
    ],
)
def test_a_damaged_entry_changes_no_result(
    words: list[str], kinds: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(place)
    store = place / f"store-{words[0]}"
    monkeypatch.setenv("MICROTOME_STORE", str(store))
    if words[1] == "tuned" and not (place / "tuned").exists():
        out = ["--seeds", "1", "--out", "out", "--store", "other", "--quiet"]
        assert main(["finetune", "bert", *TASK, *QUICK, *out]) == 0
        (place / "tuned").symlink_to(place / "out" / "seed-1")
        capsys.readouterr()
    first, _ = told(words, capsys)
    assert halve(store) == kinds
    again, said = told(words, capsys)
    if words[0] != "freeze":  # which tells how long updates take
        assert again == first
    assert "its content has changed. The entry was moved to " in said
    assert Shelf(store).verify() == []


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let the system refuse to write larger files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room_for_weights_is_one_sentence_and_nothing_half_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(place)
    store, out = place / "full", place / "full-out"
    words = ["finetune", "bert", *TASK, *QUICK, "--seeds", "1", "--store", str(store)]
    words += ["--out", str(out), "--quiet"]
    with files_up_to(50_000):
        assert main(words) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        f"microtome: {store} must have room for what is written, but got: File too large; what was done "
        "before is kept, and the same command goes on from there."
    )
    assert Shelf(store).addresses() == []
    assert not out.is_dir() or not any(out.iterdir())
    assert main([*words[:-3], "--quiet"]) == 0
    capsys.readouterr()
    with files_up_to(50_000):
        assert main(words) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"microtome: {out / 'seed-1'} must have room for what is written, but got: File too large."
    assert not out.is_dir() or not any(out.iterdir())
    assert main(words) == 0
    assert {oct(path.stat().st_mode & 0o777) for path in (out / "seed-1").iterdir()} == {"0o644"}
    assert Shelf(store).verify() == []
