"""`mt.open` reads what every verb wrote with `--out`, and each tells the same facts of how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import microtome as mt
import tiny
from microtome.cli import _explain, main
from microtome.cli.app import command
from microtome.encoders.versions import LIBRARIES
from microtome.findings.record import Maps

# Keys of the provenance of every result.
COMMON = ("microtome", "python", *LIBRARIES, "models", "seeds", "device", "threads", "seconds")
COMMON += ("command", "options", "level")
TUNING = ["--set", "steps=4", "--set", "batch=8", "--set", "longest=16", "--threads", "1"]
SMALL = ("layers=2", "width=32", "heads=2", "inner=64", "length=12", "batch=4", "steps=3", "vocabulary=60")
DESIGN = [word for value in SMALL for word in ("--set", value)]
# What each verb is asked for; TASK, TEXT, LAYERS, BASE, ONE and TWO are filled in.
WORDS = {
    "similarity": ["LAYERS"],
    "compare": ["BASE", "ONE", "--on", "TEXT"],
    "extract": ["BASE", "--on", "TEXT"],
    "finetune": ["BASE", "TASK", *TUNING, "--seeds", "1"],
    "evaluate": ["ONE", "TASK"],
    "prune": ["ONE", "TASK", "--max-drop", "99"],
    "pretrain": ["replaced", "--corpus", "TEXT", *DESIGN, "--set", "generator=1,32", "--threads", "1"],
    "skip": ["ONE", "TWO", "TASK"],
    "change": ["BASE", "ONE", "TWO", "--on", "TEXT", "--sample", "60", "--halves", "2"],
}
SLOW = {
    "truncate": ["ONE", "TWO", "TASK", "--head-seeds", "0"],
    "freeze": ["BASE", "TASK", *TUNING, "--seeds", "1"],
    "reinit": ["BASE", "TASK", *TUNING, "--seeds", "1", "--plans", "single"],
    "permute": ["BASE", "TASK", *TUNING, "--seeds", "1", "--order-seeds", "1"],
    "drop": ["BASE", "TASK", *TUNING, "--seeds", "1", "--count", "1", "--strategies", "top"],
    "tuning-methods": ["BASE", "TASK", *TUNING, "--methods", "full,head", "--seeds", "1,2", "--sample", "60"],
    "probe": ["BASE", "--target", "task:DATA", *("--column", "text=words", "--column", "label=mood")],
    "domains": ["BASE", "ONE", "TWO", "--inside", "TEXT", "--outside", "TEXT2", "--halves", "2"],
    "localize": ["BASE", "ONE", "--on", "TEXT", "--sample", "60", "--halves", "2", "--rotations", "2"],
    "trajectory": ["RUN", "--on", "TEXT", "--sample", "60"],
}
# What these verbs write is no result: a page, a table on the screen, a folder of several results, an entry.
OTHERS = {"report", "figure", "ls", "demo", "study", "store", "call"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    place = tmp_path_factory.mktemp("open")
    data = place / "mine"
    data.mkdir()
    for name, size in (("train", 24), ("validation", 60)):
        rows = "".join(
            f"{'the cat sleeps well' if i % 2 else 'a dog never runs'} {i},{'up' if i % 2 else 'down'}\n"
            for i in range(size)
        )
        (data / f"{name}.csv").write_text(f"words,mood\n{rows}")
    for name, word in (("text", "cat"), ("text2", "tea")):
        lines = "".join(f"the {word} number {i} sits on the long mat and sleeps\n" for i in range(40))
        (place / f"{name}.txt").write_text(lines)
    base = str(tiny.save_checkpoint(place / "bert", "bert"))
    task = ["--task", str(data), "--column", "text=words", "--column", "label=mood"]
    store = ["--store", str(place / "shelf"), "--quiet"]
    asked = ["finetune", base, *task, *TUNING, "--seeds", "1,2", "--checkpoints", "2,3"]
    assert main([*asked, "--out", str(place / "tuned"), *store]) == 0
    assert (
        main(["extract", base, "--on", str(place / "text.txt"), "--out", str(place / "layers"), *store]) == 0
    )
    return {
        "BASE": [base],
        "ONE": [str(place / "tuned" / "seed-1")],
        "TWO": [str(place / "tuned" / "seed-2")],
        "RUN": [str(place / "tuned" / "seed-1")],
        "TASK": task,
        "task:DATA": [f"task:{data}"],
        "TEXT": [str(place / "text.txt")],
        "TEXT2": [str(place / "text2.txt")],
        "LAYERS": [str(place / "layers")],
        "STORE": store,
    }


def opened(verb: str, words: list[str], filled: dict[str, list[str]], out: Path) -> Any:
    asked = [part for word in words for part in filled.get(word, [word])]
    store = filled["STORE"][2:] if verb in ("similarity", "evaluate") else filled["STORE"]
    assert main([verb, *asked, *store, "--out", str(out)]) == 0
    return mt.open(out)


def check_facts(found: Any) -> None:
    facts = next(iter(found.values())).provenance if isinstance(found, Maps) else found.provenance
    assert set(COMMON) - set(facts) == set()
    assert facts["command"].startswith("microtome ")
    assert facts["seconds"] is not None


@pytest.mark.parametrize("verb", WORDS)
def test_open_reads_what_a_verb_wrote(verb: str, filled: dict[str, list[str]], tmp_path: Path) -> None:
    found = opened(verb, WORDS[verb], filled, tmp_path / "out")
    if verb == "extract":
        assert [layer["name"] for layer in found["layers"]] == ["0", "1", "2", "3"]
    else:
        check_facts(found)
    if verb in ("finetune", "evaluate", "prune", "pretrain"):
        assert found.kind == verb
        assert found.findings
        assert found.methods.endswith(".")
        found.save(tmp_path / "again")
        assert mt.open(tmp_path / "again").document() == found.document()


@pytest.mark.slow
@pytest.mark.parametrize("verb", SLOW)
def test_open_reads_what_a_verb_wrote_that_trains(
    verb: str, filled: dict[str, list[str]], tmp_path: Path
) -> None:
    check_facts(opened(verb, SLOW[verb], filled, tmp_path / "out"))


def test_no_verb_is_left_out() -> None:
    assert set(command().commands) == {*WORDS, *SLOW, *OTHERS}


@pytest.mark.parametrize("verb", sorted([*WORDS, *SLOW, *OTHERS]))
def test_the_hint_when_memory_runs_out_names_options_of_the_verb(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _explain(MemoryError(), [verb]) == 1
    said = capsys.readouterr().err
    assert said.startswith("microtome: there must be enough memory for the work, but it ran out")
    options = {option for one in getattr(command().commands[verb], "params", ()) for option in one.opts}
    named = {word.strip("(),.;") for word in said.split() if word.strip("(").startswith("--")}
    assert named <= options
    if "--memory" in options:
        assert "--memory" in named
