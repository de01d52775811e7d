"""The generated samples of the small studies: the package has what the script writes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import microtome as mt

ROOT = Path(__file__).parents[2]
SAMPLES = Path(mt.__file__).parent / "studies" / "papers" / "_samples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("study_samples", ROOT / "benchmarks" / "study_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_has_what_the_script_writes(script: ModuleType) -> None:
    files = script.files()
    assert {
        str(path.relative_to(SAMPLES)): path.read_text()
        for path in SAMPLES.rglob("*")
        if path.suffix in (".tsv", ".conllu")
    } == files


@pytest.mark.parametrize("name", ["opinions", "numbers", "denials"])
def test_tasks_are_balanced_and_no_text_is_in_two_splits(name: str) -> None:
    task = mt.task(SAMPLES / f"{name}.toml")
    texts = {split: [item.texts for item in task.split(split)] for split in ("train", "validation")}
    assert [len(set(part)) for part in texts.values()] == [800, 200]
    assert not set(texts["train"]) & set(texts["validation"])
    for split in texts:
        targets = [item.target for item in task.split(split)]
        assert sum(targets) == len(targets) / 2


def test_every_sentence_is_a_tree() -> None:
    task = mt.task(SAMPLES / "trees.toml")
    for split, size in (("train", 300), ("validation", 100)):
        corpus = list(mt.corpus(f"task:{SAMPLES / 'trees.toml'}/{split}"))
        assert len(corpus) == len(task.split(split)) == size
    for file in sorted((SAMPLES / "trees").iterdir()):
        for part in file.read_text().split("\n\n")[:-1]:
            rows = [line.split("\t") for line in part.splitlines() if not line.startswith("#")]
            heads = [int(row[6]) for row in rows]
            assert [row[7] == "root" for row in rows] == [head == 0 for head in heads]
            assert heads.count(0) == 1
            for word in range(len(heads)):
                steps, at = 0, word + 1
                while at:
                    at, steps = heads[at - 1], steps + 1
                    assert steps <= len(heads)
