"""Does every verb that writes into a folder keep what others have there?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from figures.resulting import make_result
from microtome.cli import main
from microtome.cli.app import command

# What a user types, with everything that the verb looks at before it looks at the folder.
VERBS = {
    "similarity": "similarity layers.npy",
    "extract": "extract zoo:masked --on lines.txt",
    "compare": "compare zoo:masked --on lines.txt",
    "finetune": "finetune zoo:masked --task table --column text=words --column label=mood --seeds 1",
    "evaluate": "evaluate tuned --task table --column text=words --column label=mood",
    "truncate": "truncate tuned --task rte",
    "skip": "skip tuned --task rte",
    "freeze": "freeze base --task rte",
    "reinit": "reinit base --task rte",
    "permute": "permute base --task rte",
    "drop": "drop base --task rte",
    "prune": "prune tuned --task table --column text=words --column label=mood",
    "probe": "probe base --on lines.txt --target upos",
    "change": "change base tuned --on lines.txt",
    "domains": "domains base tuned --inside lines.txt --outside lines.txt",
    "localize": "localize base tuned --on lines.txt",
    "tuning-methods": "tuning-methods base --task rte",
    "trajectory": "trajectory run --on lines.txt",
    "report": "report results",
    "pretrain": "pretrain masked --corpus lines.txt --set steps=1",
    "demo": "demo",
}
FOREIGN = (
    *("result.json", "table.parquet", "methods.md", "references.bib", "figures/scores.png", "notes.txt"),
    *("manifest.json", "journal.jsonl", "rows.parquet", "shard-00000.safetensors", "entry.json"),
    *("config.json", "model.safetensors", "README.md", "microtome.json", "seed-1/model.safetensors"),
    *("pretraining.json", "log.jsonl", "report.html", "picture.svg", "compare/result.json"),
)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import numpy as np

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MICROTOME_STORE", str(tmp_path / "store"))
    (tmp_path / "lines.txt").write_text("The cat sleeps.\nA dog waits.\n")
    np.save(tmp_path / "layers.npy", np.ones((2, 8, 3), dtype=np.float32))
    make_result().save(tmp_path / "results")
    for folder in ("base", "tuned", "run", "table"):
        (tmp_path / folder).mkdir()
    for name in ("train", "validation"):
        rows = "".join(f"the cat {n} sleeps,{'up' if n % 3 else 'down'}\n" for n in range(8))
        (tmp_path / "table" / f"{name}.csv").write_text(f"words,mood\n{rows}")
    return tmp_path


def test_the_verbs_are_all_there_are() -> None:
    built: Any = command()
    with_out = {
        name for name, verb in built.commands.items() if any("--out" in option.opts for option in verb.params)
    }
    assert with_out - {"figure"} == set(VERBS), "a figure is one file"


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_of_others_keeps_every_byte(
    verb: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = here / "mine"
    for name in FOREIGN:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(os.urandom(64))
    before = contents(out)
    code = main([*VERBS[verb].split(), "--out", str(out / "report.html" if verb == "report" else out)])
    assert contents(out) == before
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert "which microtome did not write there" in said or "replace an earlier report" in said
