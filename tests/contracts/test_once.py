"""A command loads each model, reads each corpus and each treebank, and tokenizes each text once."""

from __future__ import annotations

import csv
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import cats
import tiny
from microtome.cli import main
from microtome.corpora import opening
from microtome.encoders import loading
from microtome.probes import targets
from microtome.rows import planning

TASK = "--task cats --column text=text --column label=label"
FEW = "--set steps=4 --set batch=16 --set rate=1e-3 --set longest=16"
WORDS = ("cat", "tea", "mat", "reader", "long", "books", "knows", "short")
# What may happen once for each model, corpus or treebank of a command.
ONCE: dict[CodeType, str] = {
    inspect.unwrap(function).__code__: argument
    for function, argument in (
        (loading.load, "source"),
        (opening.corpus, "source"),
        (targets.read_target, "source"),
        (planning.plan_rows, ""),
    )
}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count calls of the functions above by what they open, however they were imported."""
    counts: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code in ONCE:
            counts[f"{code.co_name} {frame.f_locals.get(ONCE[code], '')}".strip()] += 1

    sys.setprofile(profile)
    try:
        yield counts
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("once")
    tiny.save_checkpoint(folder / "base", "bert")
    task = cats.cats_task(train=64, validation=40)
    (folder / "cats").mkdir()
    for split in ("train", "validation"):
        with (folder / "cats" / f"{split}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            rows.writerows([item.texts[0], task.labels[int(item.target)]] for item in task.split(split))
    lines = [" ".join(WORDS[(k + step) % 8] for step in (0, 3, 5, k % 7)) for k in range(60)]
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    sentences = []
    for line in lines:
        tags = [(word, "NOUN" if len(word) == 3 else "VERB") for word in line.split()]
        words = [f"{n + 1}\t{word}\t_\t{tag}\t_\t_\t{n}\tdep\t_\t_\n" for n, (word, tag) in enumerate(tags)]
        sentences.append("".join(words))
    (folder / "treebank.conllu").write_text("\n".join(sentences))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(f"finetune base {TASK} {FEW} --seeds 1,2 --out runs --quiet --store store".split()) == 0
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "extract base --on lines.txt --rows word --out layers",
        "compare base runs/seed-1 --on lines.txt --rows word --certainty --halves 4",
        f"finetune base {TASK} {FEW} --seeds 3,4",
        f"evaluate runs/seed-1 {TASK}",
        f"truncate runs/seed-1 runs/seed-2 {TASK} --base base {FEW} --head-seeds 0",
        f"skip runs/seed-1 runs/seed-2 {TASK}",
        f"freeze base {TASK} {FEW} --ks 0,1 --seeds 1,2 --no-measure-time",
        f"reinit base {TASK} {FEW} --plans progressive --seeds 1",
        f"permute base {TASK} {FEW} --order-seeds 1-2 --seeds 1",
        f"drop base {TASK} {FEW} --count 1 --strategies top,random --seeds 1",
        f"prune runs/seed-1 {TASK} --max-drop 90 --no-speed --out small",
        "probe base runs/seed-1 --on treebank.conllu --target upos --random-baselines 0",
        f"probe base --target task:cats {TASK.partition('cats ')[2]} --epochs 1",
        "change base runs/seed-1 runs/seed-2 --on lines.txt --sample 100 --halves 4",
        "domains base runs/seed-1 --inside lines.txt --outside treebank.conllu --sample 100 --halves 4",
        "localize base runs/seed-1 --on lines.txt --sample 100 --rotations 2 --halves 4",
        f"tuning-methods base {TASK} {FEW} --methods full --rates full=1e-3 --sample 50",
    ],
    ids=lambda words: words.split()[0],
)
def test_everything_is_opened_once(
    words: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    with counted() as counts:
        assert main([*words.split(), "--quiet", "--json", "--store", str(tmp_path)]) == 0
    capsys.readouterr()
    texts = 2 if words.startswith("domains") else 1
    often = {name: count for name, count in counts.items() if count > (texts if name == "plan_rows" else 1)}
    assert counts
    assert not often
