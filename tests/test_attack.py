"""A few cases of every section of the attack, so that a promise that breaks is seen at once."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    names = ("attack", "attack_calls", "attack_child", "attack_commands", "attack_fuzz", "attack_kills")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        for name in ("TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "MICROTOME_STORE"):
            patch.setenv(name, "1" if name.startswith("HF") else "false")
        yield {name: importlib.import_module(name) for name in (*names, "attack_samples", "attack_mutations")}


@pytest.fixture(scope="module")
def ground(modules: dict[str, ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ground")
    modules["attack_child"].prepare()
    modules["attack_samples"].make_ground(place, ("finetune", "compare", "pretrain"))
    return place


def test_bad_commands(modules: dict[str, ModuleType], ground: Path, tmp_path: Path) -> None:
    told = modules["attack_commands"].attack(ground, tmp_path, count=30, shells=1, seed=1, processes=1)
    assert told["problems"] == []
    assert told["lines"] == 30


def test_bad_calls(modules: dict[str, ModuleType], ground: Path, tmp_path: Path) -> None:
    told = modules["attack_calls"].attack(ground, tmp_path, count=60, seed=1, processes=1)
    assert told["problems"] == []
    assert told["functions"] > 40


def test_killed_work(modules: dict[str, ModuleType], ground: Path, tmp_path: Path) -> None:
    told = modules["attack_kills"].attack(
        ground, tmp_path, kills=2, terms=1, seed=0, processes=1, verbs=["extract"]
    )
    (verb,) = told["verbs"]
    assert (verb["kills"], verb["terms"], verb["problems"]) == (2, 1, [])


def test_changed_files(modules: dict[str, ModuleType], ground: Path, tmp_path: Path) -> None:
    fuzz = modules["attack_fuzz"].fuzz
    for number, name in enumerate(("layers", "store", "own table", "corpora", "task card", "model folder")):
        place = tmp_path / str(number)
        place.mkdir()
        done = fuzz(ground / "good", place, seconds=60.0, seed=1, processes=1, only=name, cases=12)
        assert done.crashes == []
        assert sum(counts["cases"] for counts in done.counts.values()) == 12


def test_a_reader_that_fails_is_found(
    modules: dict[str, ModuleType], ground: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzzing = modules["attack_fuzz"]
    reader: Any = fuzzing.READERS[0]

    def read(folder: Path) -> None:
        json.loads((folder / "a.json").read_bytes())

    def make(good: Path, place: Path) -> None:
        place.mkdir(parents=True)
        (place / "a.json").write_text('{"a": 1}')

    weak = type(reader)(name="weak", make=make, read=read)
    monkeypatch.setattr(fuzzing, "READERS", (weak,))
    done = fuzzing.fuzz(ground / "good", tmp_path, seconds=30.0, seed=0, processes=1, cases=40)
    assert done.crashes
    assert {one["reader"] for one in done.crashes} == {"weak"}
    assert sorted(path.name for path in (tmp_path / "crashes").iterdir())


def test_changes_are_those_of_the_seed(modules: dict[str, ModuleType]) -> None:
    from microtome.randomness import generator

    changed = modules["attack_mutations"].mutated
    content = b'{"a": [1, 2, 3], "b": "x"}'
    for name in ("a.json", "a.txt", "a.csv", "a.npy"):
        one, two = (changed(name, content, generator(3, "change")) for _ in range(2))
        assert one == two
    assert len({changed("a.json", content, generator(seed, "change")) for seed in range(20)}) > 10
