"""Valid models, texts, tasks and results, tiny, and what is wrong with others: the ground of the attack."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
from attack_studies import make_bad_studies, write_study

from microtome.randomness import generator

ROOT = Path(__file__).resolve().parents[1]

_WORDS = (
    "the",
    "cat",
    "sleeps",
    "on",
    "mat",
    "every",
    "reader",
    "knows",
    "long",
    "books",
    "a",
    "short",
    "one",
)
RESULTS = (
    *("pretrain", "finetune", "similarity", "compare", "skip", "probe"),
    *("study run", "study report"),
)
SMALL = ("layers=2", "width=32", "heads=2", "inner=64", "length=24", "batch=4", "steps=6", "vocabulary=60")


def of_tests(name: str) -> Any:
    """A module of the tests, which make the same samples."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return importlib.import_module(name)


def make_ground(place: Path, verbs: Sequence[str] = RESULTS) -> None:
    """
    Write `good` and `bad` into a folder, and import what the verbs need into this process.

    Parameters
    ----------
    place : Path
    verbs : sequence of str
        Those whose results are wanted.
    """
    from attack_child import load_modules, run

    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        make(place / "good")
        make_bad(place / "bad")
    names = place / "modules.txt"

    def action() -> int:
        names.write_text("\n".join(make_results(place / "good", verbs)))
        return 0

    ended = run(action, place, 900.0)
    if ended.code:
        raise RuntimeError(ended.err)
    load_modules(sorted(names.read_text().split()))


def make(place: Path) -> None:
    """Write what is valid into a folder."""
    tiny = of_tests("tiny")
    place.mkdir(parents=True, exist_ok=True)
    labels = {"id2label": {0: "down", 1: "up"}, "label2id": {"down": 0, "up": 1}}
    tiny.save_checkpoint(place / "bert", "bert")
    for seed in (1, 2):
        tiny.save_checkpoint(
            place / f"tuned-{seed}", "bert", head="SequenceClassification", seed=seed, **labels
        )
        # Trained anew, ties in the vocabulary may fall otherwise.
        shutil.copy(place / "bert" / "tokenizer.json", place / f"tuned-{seed}")
    tiny.save_checkpoint(place / "gpt2", "gpt2")
    rng = generator(0, "attack", "layers")
    np.save(place / "a.npy", rng.normal(size=(3, 60, 8)))
    np.save(place / "b.npy", rng.normal(size=(2, 60, 6)))
    np.save(place / "clusters.npy", np.arange(60) // 3)
    for name, count in (("lines", 60), ("others", 60), ("corpus", 2500)):
        (place / f"{name}.txt").write_text("\n".join(sentences(count, name)) + "\n")
    (place / "tagged.conllu").write_text(tagged(24))
    folder = place / "mine"
    folder.mkdir(exist_ok=True)
    for name, count in (("train", 48), ("validation", 60), ("test", 40)):
        (folder / f"{name}.csv").write_text(table(count))
    write_study(place)


def make_results(good: Path, verbs: Sequence[str]) -> set[str]:
    """
    Write what verbs make of the samples: `zoo`, a pretraining, `study`, a report, and `results`.

    Returns
    -------
    set of str
        The modules that the verbs have imported.
    """
    from attack_verbs import requests, typed

    asked = requests(good)
    out = {"pretrain": good / "zoo", "study report": good / "study"}
    for name in verbs:
        place = out.get(name, good / "results" / name)
        store = [] if name in ("pretrain", "similarity") else ["--store", str(good / "store")]
        words = [*name.split(), *asked[name], *([] if name == "study run" else ["--out", str(place)])]
        code = typed([*words, *store, "--quiet"])()
        if code:
            raise RuntimeError(f"the sample of {name} could not be made: {code}")
    return set(sys.modules)


def sentences(count: int, name: str) -> list[str]:
    """Lines of words that the tiny tokenizers know."""
    rng = generator(0, "attack", name)
    return [" ".join(_WORDS[k] for k in rng.integers(len(_WORDS), size=7)) for _ in range(count)]


def table(count: int) -> str:
    """A task that anything learns."""
    rows = [
        f"the cat sleeps well number {k},up" if k % 2 else f"a dog never runs number {k},down"
        for k in range(count)
    ]
    return "\n".join(["words,mood", *rows, ""])


def tagged(count: int) -> str:
    """Sentences with tags and heads."""
    tags = ("DET", "NOUN", "VERB")
    lines = []
    for k in range(count):
        lines.append(f"# sent_id = doc{k // 4}-{k}")
        words = ("the", "cat" if k % 2 else "reader", "sleeps" if k % 3 else "knows")
        for place, (word, tag) in enumerate(zip(words, tags, strict=True)):
            head, relation = (0, "root") if place == 2 else (place + 2, "dep")
            lines.append(f"{place + 1}\t{word}\t{word}\t{tag}\t{tag}\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    return "\n".join([*lines, ""])


def make_bad(place: Path) -> None:
    """Write what is wrong into a folder: `files`, `models`, `tasks` and `studies`."""
    for kind, makers in (("files", FILES), ("models", MODELS), ("tasks", TASKS)):
        for name, maker in makers.items():
            path = place / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            maker(path, place)
    make_bad_studies(place / "studies")


def _bytes(content: bytes) -> Callable[[Path, Path], object]:
    return lambda path, place: path.write_bytes(content)


def _array(path: Path, values: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=values.dtype == object)


FILES: dict[str, Callable[[Path, Path], object]] = {
    "empty": _bytes(b""),
    "binary": _bytes(bytes(range(256)) * 16),
    "latin1.txt": _bytes("caf\xe9 na\xefve\n".encode("latin-1") * 20),
    "utf16.txt": _bytes(("a line of words\n" * 20).encode("utf-16")),
    "blank.txt": _bytes(b"\n\n  \n"),
    "fifo": lambda path, place: os.mkfifo(path),
    "fifo.txt": lambda path, place: os.mkfifo(path),
    "fifo.npy": lambda path, place: os.mkfifo(path),
    "folder": lambda path, place: path.mkdir(),
    "loop": lambda path, place: path.symlink_to(path.name),
    "dangling.txt": lambda path, place: path.symlink_to("nowhere"),
    "broken.json": _bytes(b'{"a": [1, 2'),
    "deep.json": _bytes(b"[" * 100_000),
    "broken.jsonl": _bytes(b'{"text": "a"}\n{"text": \n'),
    "list.jsonl": _bytes(b"[1]\n[2]\n"),
    "broken.toml": _bytes(b"name = \nkind = ["),
    "other.toml": _bytes(b'name = "x"\nkind = "poetry"\n'),
    "typed.toml": _bytes(b"name = 3\nlabels = 4\n"),
    "broken.conllu": _bytes(b"1\tthe\n2\tcat\n\n"),
    "heads.conllu": _bytes(b"1\ta\ta\tX\tX\t_\t9\tdep\t_\t_\n\n"),
    "broken.parquet": _bytes(b"PAR1" + b"\0" * 40 + b"PAR1"),
    "broken.npy": _bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3,"),
    "broken.safetensors": _bytes(b"\xff" * 8 + b"{}"),
    "huge.safetensors": _bytes((1 << 60).to_bytes(8, "little") + b"{}"),
    "broken.gz": _bytes(b"\x1f\x8b\x08\x00" + b"\0" * 20),
    "broken.xz": _bytes(b"\xfd7zXZ\x00" + b"\0" * 20),
    "nan.npy": lambda path, place: _array(path, np.full((3, 60, 8), np.nan)),
    "inf.npy": lambda path, place: _array(path, np.full((3, 60, 8), np.inf)),
    "objects.npy": lambda path, place: _array(path, np.array([{}, []], dtype=object)),
    "flat.npy": lambda path, place: _array(path, np.zeros(60)),
    "four.npy": lambda path, place: _array(path, np.zeros((2, 3, 4, 5))),
    "none.npy": lambda path, place: _array(path, np.zeros((3, 0, 8))),
    "thin.npy": lambda path, place: _array(path, np.zeros((3, 60, 0))),
    "rows.npy": lambda path, place: _array(path, np.ones((3, 59, 8))),
    "two.npy": lambda path, place: _array(path, np.ones((3, 2, 8))),
    "words.npy": lambda path, place: _array(path, np.array([["a"] * 8] * 60)),
    "complex.npy": lambda path, place: _array(path, np.ones((3, 60, 8), dtype=complex)),
    "dates.npy": lambda path, place: _array(path, np.zeros((60, 8), dtype="M8[s]")),
    "wide.npy": lambda path, place: _array(path, 1e304 * np.arange(1440.0).reshape(3, 60, 8)),
}


def _changed(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    def write(path: Path, place: Path) -> None:
        shutil.copytree(place.parent / "good" / "tuned-1", path)
        (path / file).write_bytes(change((path / file).read_bytes()))

    return write


def _configured(**values: object) -> Callable[[Path, Path], None]:
    return _changed("config.json", lambda content: json.dumps({**json.loads(content), **values}).encode())


def _without(file: str) -> Callable[[Path, Path], None]:
    def write(path: Path, place: Path) -> None:
        shutil.copytree(place.parent / "good" / "tuned-1", path)
        (path / file).unlink()

    return write


def _nan(content: bytes) -> bytes:
    from safetensors.numpy import load, save

    weights = load(content)
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name] = np.full_like(weights[name], np.nan)
    return save(weights, metadata={"format": "pt"})


_WEIGHTS = "model.safetensors"
MODELS: dict[str, Callable[[Path, Path], object]] = {
    "empty": lambda path, place: path.mkdir(),
    "file": _bytes(b"no model"),
    "fifo": lambda path, place: os.mkfifo(path),
    "no-config": _without("config.json"),
    "no-weights": _without(_WEIGHTS),
    "no-tokenizer": _without("tokenizer.json"),
    "broken-config": _changed("config.json", lambda content: content[:-20]),
    "list-config": _changed("config.json", lambda content: b"[]"),
    "binary-config": _changed("config.json", lambda content: b"\xff\xfe\x00"),
    "unknown-type": _configured(model_type="abacus"),
    "no-type": _configured(model_type=None),
    "layers-5": _configured(num_hidden_layers=5),
    "layers-0": _configured(num_hidden_layers=0),
    "layers-minus": _configured(num_hidden_layers=-1),
    "layers-word": _configured(num_hidden_layers="three"),
    "heads-5": _configured(num_attention_heads=5),
    "hidden-zero": _configured(hidden_size=0),
    "hidden-huge": _configured(hidden_size=2**40),
    "vocabulary-list": _configured(vocab_size=[1]),
    "cut-weights": _changed(_WEIGHTS, lambda content: content[: len(content) // 2]),
    "empty-weights": _changed(_WEIGHTS, lambda content: b""),
    "foreign-weights": _changed(_WEIGHTS, lambda content: b"\x80\x04K\x01."),
    "nan-weights": _changed(_WEIGHTS, _nan),
    "broken-tokenizer": _changed("tokenizer.json", lambda content: content[:100]),
    "empty-tokenizer": _changed("tokenizer.json", lambda content: b"{}"),
    "list-tokenizer": _changed("tokenizer_config.json", lambda content: b"[]"),
}


def _folder(**files: str | bytes) -> Callable[[Path, Path], None]:
    def write(path: Path, place: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            target = path / name.replace("_", ".")
            target.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def _with_fifo(path: Path, place: Path) -> None:
    path.mkdir()
    for name in ("train", "validation"):
        os.mkfifo(path / f"{name}.csv")


def _with_folder(path: Path, place: Path) -> None:
    for name in ("train", "validation"):
        (path / f"{name}.csv").mkdir(parents=True)


def _both(content: str | bytes) -> Callable[[Path, Path], None]:
    return _folder(train_csv=content, validation_csv=content)


_GOOD = table(40)
TASKS: dict[str, Callable[[Path, Path], object]] = {
    "empty": lambda path, place: path.mkdir(),
    "empty-files": _both(""),
    "header-only": _both("words,mood\n"),
    "other-columns": _both("a,b\n1,2\n"),
    "columns-differ": _folder(train_csv=_GOOD, validation_csv="words\nx\n"),
    "ragged": _both(_GOOD + "one,two,three,four\n"),
    "short-row": _both(_GOOD + "alone\n"),
    "latin1": _both(_GOOD.encode() + b"caf\xe9,up\n"),
    "binary": _both(bytes(range(256)) * 8),
    "one-class": _folder(train_csv=_GOOD.replace("down", "up"), validation_csv=_GOOD.replace("down", "up")),
    "new-labels": _folder(train_csv=_GOOD, validation_csv=_GOOD.replace(",up", ",sideways")),
    "no-label": _both(_GOOD.replace(",up", ",")),
    "quote": _both(_GOOD + '"never closed,up\n'),
    "twice-named": _both("words,mood,mood\na,up,down\nb,up,down\n"),
    "fifo": _with_fifo,
    "folder": _with_folder,
    "broken-jsonl": _folder(train_jsonl='{"words": "a", "mood": \n', validation_jsonl="{}\n"),
    "broken-parquet": _folder(train_parquet=b"PAR1PAR1", validation_parquet=b"PAR1PAR1"),
}
