"""Are the rows in the store those of the model, computed once, and named in the table beside them?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import microtome as mt
import tiny
from microtome.context import Context
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.errors import DamageWarning, InputError
from microtome.extraction.recording import ROWS, read_grouping, record, write_rows
from microtome.extraction.streaming import stream
from microtome.extraction.texts import make_texts
from microtome.randomness import generator
from microtome.rows.planning import Rows, plan_rows
from microtome.rows.selecting import row_options
from microtome.store.recording import ShardWriter
from microtome.store.shelf import Shelf

SOURCE = Path(mt.__file__).parents[1]
WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books", "\u200b"]


def make_corpus(count: int = 23) -> list[Example]:
    rng = generator(0, "corpus")
    lengths = rng.integers(1, 15, size=count).tolist()
    found = [Example(id=f"s{k}", words=tuple(rng.choice(WORDS, size=n))) for k, n in enumerate(lengths)]
    # A window of four examples without any row.
    found[8:12] = [Example(id=f"s{k}", words=("\u200b",)) for k in range(8, 12)]
    return found


CORPUS = make_corpus()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_checkpoint(tmp_path_factory.mktemp("models") / "bert", "bert")


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> Any:
    return load(checkpoint)


class Runs:
    """How often a model ran: owns a hook."""

    def __init__(self, encoder: Any) -> None:
        self.count = 0
        self.hook = encoder.base.register_forward_hook(self._ran)

    def _ran(self, *_: object) -> None:
        self.count += 1


@pytest.fixture
def runs(encoder: Any) -> Iterator[Runs]:
    found = Runs(encoder)
    yield found
    found.hook.remove()


def recorded(encoder: Any, store: Path, corpus: Any = None, kind: str = "word", **options: Any) -> Any:
    texts = make_texts(CORPUS if corpus is None else corpus)
    chosen = {k: options.pop(k) for k in ("subword", "longest", "sample", "seed") if k in options}
    rows = plan_rows(texts.examples, [encoder], row_options(kind, **chosen))
    settings = {name: options.pop(name) for name in ("command", "progress") if name in options}
    return record(encoder, texts, rows, context=Context(store=store, **settings), **options)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an entry but for its record, which says when it was made."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "entry.json"}


@pytest.mark.parametrize("kind", ["word", "cls", "mean", "token"])
def test_rows_in_the_store_are_those_that_stream(encoder: Any, tmp_path: Path, kind: str) -> None:
    found = recorded(encoder, tmp_path, kind=kind, window=4)
    windows = list(stream([encoder], CORPUS, found.rows, window=4))
    assert found.names == tuple(f"bert/{k}" for k in range(4))
    assert found.constant == ((0,) if kind == "cls" else ())
    assert found.varying == ((1, 2, 3) if kind == "cls" else (0, 1, 2, 3))
    assert len(found.layers) == len(found.names)
    for layer, stored in enumerate(found.layers):
        expected = torch.cat([w.layers[0][layer] for w in windows]).numpy()
        assert stored.shape == (len(found.rows), 32)
        np.testing.assert_array_equal(stored, expected)
    assert [layer.shape for layer in found.layers[1:]] == [(len(found.rows), 32)] * (len(found.layers) - 1)
    np.testing.assert_array_equal(found.layers.stored[-1].rows(2, 5), found.layers[-1][2:5])
    assert f"{len(found.layers)} layers" in repr(found)
    assert repr(found.layers) == f"<{len(found.layers)} layers of {len(found.rows)} rows>"


def test_the_table_of_rows_says_which_word_each_is(encoder: Any, tmp_path: Path) -> None:
    found = recorded(encoder, tmp_path)
    table = pq.read_table(found.folder / ROWS).to_pydict()
    by_id = {example.id: example.words or () for example in CORPUS}
    told = [by_id[name][unit] for name, unit in zip(table["id"], table["unit"], strict=True)]
    assert told == [w for e in CORPUS for w in (e.words or ()) if w != "\u200b"]
    assert table["example"] == found.rows.clusters.tolist()


def test_asked_twice_the_model_runs_once(encoder: Any, tmp_path: Path, runs: Runs) -> None:
    first = recorded(encoder, tmp_path)
    assert runs.count > 0
    ran = runs.count
    again = recorded(encoder, tmp_path)
    assert runs.count == ran
    assert again.address == first.address
    for one, two in zip(first.layers, again.layers, strict=True):
        np.testing.assert_array_equal(one, two)
    assert Shelf(tmp_path).verify() == []


def test_the_name_of_a_model_is_no_reason_to_run_it_again(
    encoder: Any, checkpoint: Path, tmp_path: Path, runs: Runs
) -> None:
    first = recorded(load(checkpoint, name="another"), tmp_path)
    found = recorded(encoder, tmp_path)
    assert runs.count == 0
    assert found.address == first.address
    assert (first.names[0], found.names[0]) == ("another/0", "bert/0")


def test_whatever_decides_the_numbers_decides_the_address(
    encoder: Any, checkpoint: Path, tmp_path: Path
) -> None:
    changed = [Example(id=e.id, words=(*(e.words or ())[:-1], "cat")) for e in CORPUS]
    renamed = [Example(id=f"x{e.id}", words=e.words) for e in CORPUS]
    twin = load(checkpoint, random_init=True, seed=1)
    settled = load(tiny.save_checkpoint(tmp_path / "other", "bert", seed=1))
    store = tmp_path / "store"
    found = [
        recorded(encoder, store),
        recorded(encoder, store, changed),
        recorded(encoder, store, renamed),
        recorded(encoder, store, CORPUS[:-1]),
        recorded(encoder, store, subword="first"),
        recorded(encoder, store, longest=6),
        recorded(encoder, store, sample=9),
        recorded(encoder, store, sample=9, seed=1),
        recorded(encoder, store, kind="mean"),
        recorded(encoder, store, storage="float16"),
        recorded(encoder, store, batch_tokens=40),
        recorded(twin, store),
        recorded(settled, store),
    ]
    assert len({one.address for one in found}) == len(found)
    assert len(Shelf(store).addresses()) == len(found)


def test_an_entry_without_layer_0_is_not_taken_for_one_with_it(
    encoder: Any, tmp_path: Path, runs: Runs
) -> None:
    whole = recorded(encoder, tmp_path / "a", kind="cls")
    entry = Shelf(tmp_path / "a").get(whole.address)
    assert entry is not None
    # As rows of first tokens were recorded once: without the layer that is the same in all of them.
    shelf, asked = Shelf(tmp_path / "b"), {**entry.specification, "layers": ["1", "2", "3"]}
    with shelf.work(kind="activations", specification=asked) as work:
        writer = ShardWriter(work.folder, [(name, 32) for name in asked["layers"]], "float32")
        writer.write({name: whole.layers[int(name)] for name in asked["layers"]})
        writer.finish({})
        old = work.finish({})
    ran = runs.count
    found = recorded(encoder, tmp_path / "b", kind="cls")
    assert runs.count > ran
    assert old.address != found.address == whole.address
    assert len(found.layers) == 4
    np.testing.assert_array_equal(found.layers[1], whole.layers[1])


@pytest.mark.parametrize("dtype, digits", [("float16", 11), ("bfloat16", 8)])
def test_small_numbers_are_the_nearest_ones(encoder: Any, tmp_path: Path, dtype: str, digits: int) -> None:
    whole, small = recorded(encoder, tmp_path), recorded(encoder, tmp_path, storage=dtype)
    kind = getattr(torch, dtype)
    assert {layer.dtype for layer in small.layers.stored} == {dtype}
    for one, two in zip(whole.layers, small.layers, strict=True):
        np.testing.assert_array_equal(torch.from_numpy(one).to(kind).float().numpy(), two.astype(np.float32))
        np.testing.assert_allclose(two, one, rtol=2.0**-digits, atol=1e-7)


def test_facts_say_what_ran_on_what(encoder: Any, checkpoint: Path, tmp_path: Path) -> None:
    found = recorded(encoder, tmp_path, command="microtome extract bert")
    entry = Shelf(tmp_path).get(found.address)
    assert entry is not None
    assert (entry.kind, entry.provenance["command"]) == ("activations", "microtome extract bert")
    assert found.facts["model"]["source"] == str(checkpoint)
    assert found.facts["model"]["digest"] == encoder.digest
    assert found.facts["rows"] == {
        "count": len(found.rows),
        "sentence": found.rows.sentence(),
        "digest": found.rows.digest,
    }


@pytest.mark.parametrize("dtype", ["float64", "int8", None])
def test_numbers_must_be_of_a_kind_that_is_stored(encoder: Any, tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(InputError, match="storage must be one of float32, float16, bfloat16, but got"):
        recorded(encoder, tmp_path / "store", storage=dtype)
    assert not (tmp_path / "store").exists()


def test_weights_that_are_no_numbers_are_told_and_nothing_is_kept(checkpoint: Path, tmp_path: Path) -> None:
    broken: Any = load(checkpoint)
    broken.model.encoder.layer[1].output.dense.bias.data[3] = float("nan")
    texts = make_texts(["The cat.", "A mat."])
    rows = plan_rows(texts.examples, [broken], row_options("mean"))
    with pytest.raises(
        InputError, match=r"layer bert/2 must have finite values, .* look at the weights of .*bert"
    ):
        record(broken, texts, rows, context=Context(store=tmp_path))
    assert list(Shelf(tmp_path).entries()) == []


def test_a_corpus_without_a_row_is_told(encoder: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"at least one row that every model has, .* lost: 2 in bert"):
        recorded(encoder, tmp_path / "store", [["\u200b"], ["\u200b"]])
    assert not (tmp_path / "store").exists()


class StopError(Exception):
    """Raised where a user would press the keys."""


def interrupted(encoder: Any, store: Path, after: int, **options: Any) -> Path:
    """Record until some windows are done, and give the folder of the unfinished work."""
    seen: list[int] = []

    def stop(what: str, done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == after:
            raise StopError

    with pytest.raises(StopError):
        recorded(encoder, store, window=4, progress=stop, **options)
    (partial,) = Shelf(store).partial()
    return Path(partial.folder)


def test_an_interrupted_recording_goes_on_where_it_stopped(encoder: Any, tmp_path: Path, runs: Runs) -> None:
    whole = recorded(encoder, tmp_path / "whole", window=4)
    ran = runs.count
    folder = interrupted(encoder, tmp_path / "broken", 2)
    assert len(list(folder.glob("shard-*"))) == 2
    assert Shelf(tmp_path / "broken").addresses() == []
    said: list[int] = []
    runs.count = 0
    found = recorded(
        encoder, tmp_path / "broken", window=4, progress=lambda what, done, total: said.append(done)
    )
    assert said == [12, 16, 20, 23]  # only what was left
    assert 0 < runs.count < ran
    assert contents(found.folder) == contents(whole.folder)
    assert Shelf(tmp_path / "broken").partial() == []


@pytest.mark.parametrize("harm", ["cut", "changed", "gone", "journal cut"])
def test_a_shard_that_was_damaged_meanwhile_is_made_anew(encoder: Any, tmp_path: Path, harm: str) -> None:
    whole = recorded(encoder, tmp_path / "whole", window=4)
    folder = interrupted(encoder, tmp_path / "broken", 4)
    shards = sorted(folder.glob("shard-*"))
    assert len(shards) == 3
    if harm == "cut":
        shards[1].write_bytes(shards[1].read_bytes()[:-7])
    elif harm == "changed":
        content = bytearray(shards[1].read_bytes())
        content[-1] ^= 1
        shards[1].write_bytes(content)
    elif harm == "gone":
        shards[0].unlink()
    else:
        (journal,) = [p for p in folder.iterdir() if "shard" not in p.name]
        journal.write_bytes(journal.read_bytes()[:-9])
    found = recorded(encoder, tmp_path / "broken", window=4)
    assert contents(found.folder) == contents(whole.folder)


def test_a_batch_that_ran_out_of_memory_is_small_after_an_interruption_too(
    encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = type(encoder).run

    def cramped(self: Any, batch: Any, visit: Any) -> None:
        if len(batch) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        run(self, batch, visit)

    monkeypatch.setattr(type(encoder), "run", cramped)
    whole = recorded(encoder, tmp_path / "whole", window=4)
    interrupted(encoder, tmp_path / "broken", 1)
    found = recorded(encoder, tmp_path / "broken", window=4)
    assert contents(found.folder) == contents(whole.folder)


PROCESS = """
import os, signal, sys
from microtome.context import Context
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.extraction.recording import record
from microtome.extraction.texts import make_texts
from microtome.rows.selecting import row_options
from microtome.rows.planning import plan_rows

model, store, windows = sys.argv[1], sys.argv[2], int(sys.argv[3])
lines = sys.stdin.read().split("\\n")
corpus = [Example(id=f"s{k}", words=tuple(line.split(" "))) for k, line in enumerate(lines)]
seen = []

def progress(what, done, total):
    seen.append(done)
    if len(seen) == windows:
        os.kill(os.getpid(), signal.SIGKILL)

encoder, texts = load(model), make_texts(corpus)
rows = plan_rows(texts.examples, [encoder], row_options("word"))
print("ready", flush=True)
found = record(encoder, texts, rows, context=Context(store=store, progress=progress), window=4)
print(found.address, len(seen), flush=True)
"""


def start(checkpoint: Path, store: Path, windows: int = 0) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(checkpoint), str(store), str(windows)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )
    assert process.stdin is not None
    process.stdin.write("\n".join(" ".join(e.words or ()) for e in CORPUS))
    process.stdin.close()
    process.stdin = None
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), err
    return process.returncode, out.split()


@pytest.mark.slow
def test_a_killed_recording_ends_with_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    first, whole = start(checkpoint, tmp_path / "broken", 2), start(checkpoint, tmp_path / "whole")
    assert ended(first) == (-signal.SIGKILL, ["ready"])
    assert ended(whole)[0] == 0
    broken = Shelf(tmp_path / "broken")
    assert broken.addresses() == []
    assert len(broken.partial()) == 1
    code, (_, address, ran) = ended(start(checkpoint, tmp_path / "broken"))
    assert (code, ran) == (0, "4")  # of six windows
    entries = [Shelf(tmp_path / name).get(address) for name in ("broken", "whole")]
    one, two = [contents(entry.folder) for entry in entries if entry is not None]
    assert one == two
    assert broken.verify() == []
    assert broken.partial() == []


@pytest.mark.slow
def test_two_processes_at_once_leave_one_whole_entry(checkpoint: Path, tmp_path: Path) -> None:
    both = [start(checkpoint, tmp_path) for _ in range(2)]
    said = [ended(process) for process in both]
    assert [code for code, _ in said] == [0, 0]
    (address,) = {words[1] for _, words in said}
    shelf = Shelf(tmp_path)
    assert shelf.addresses() == [address]
    assert shelf.partial() == []
    assert shelf.verify() == []
    # Whoever came second waited, and found it done.
    assert sorted(words[2] for _, words in said) == ["0", "6"]


@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_a_finished_recording_that_was_damaged_is_set_aside_and_computed_again(
    encoder: Any, tmp_path: Path, harm: str
) -> None:
    found = recorded(encoder, tmp_path)
    (shard,) = found.folder.glob("shard-*")
    content = shard.read_bytes()
    os.chmod(shard, 0o644)
    shard.unlink() if harm == "gone" else shard.write_bytes(content[:-5])
    (problem,) = Shelf(tmp_path).verify()
    assert shard.name in problem
    with pytest.warns(DamageWarning, match=rf"{shard.name} must .*, but .* is computed again"):
        again = recorded(encoder, tmp_path)
    assert next(again.folder.glob("shard-*")).read_bytes() == content


def planned(groups: tuple[str, ...] = (), kind: str = "word", each: int = 2) -> Rows:
    """Rows of 24 sentences, the first of which has none."""
    options: Any = row_options(kind)
    return Rows(
        options=options,
        examples=np.repeat(np.arange(1, 25), each),
        units=np.tile(np.arange(each), 24),
        ids=tuple(f"s{k}" for k in range(25)),
        lost={},
        truncated={},
        candidates=24 * each,
        groups=groups,
    )


def test_documents_are_kept_and_read_as_rows_have_them(tmp_path: Path) -> None:
    rows = planned(tuple(f"d{k // 2}" for k in range(25)))
    write_rows(rows, tmp_path / ROWS)
    assert pq.read_table(tmp_path / ROWS).column("group").to_pylist()[:4] == ["d0", "d0", "d1", "d1"]
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, found.few) == (rows.unit, rows.few) == ("document", "")
    assert found.codes.tolist() == rows.clusters.tolist()


def test_few_documents_leave_sentences_and_it_is_said(tmp_path: Path) -> None:
    rows = planned(tuple(f"d{k // 12}" for k in range(25)))
    write_rows(rows, tmp_path / ROWS)
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, found.few) == (rows.unit, rows.few)
    assert found.few.startswith("Only 3 documents are read")
    assert found.codes.tolist() == rows.clusters.tolist()


def test_a_corpus_without_documents_and_a_stack_without_a_table(tmp_path: Path) -> None:
    assert read_grouping(tmp_path) is None
    write_rows(planned(), tmp_path / ROWS)
    assert pq.read_table(tmp_path / ROWS).column_names == ["id", "example", "unit"]
    found = read_grouping(tmp_path)
    assert found is not None
    assert found.codes is not None
    assert (found.unit, len(np.unique(found.codes))) == ("sentence", 24)
    write_rows(planned(kind="cls", each=1), tmp_path / ROWS)
    found = read_grouping(tmp_path)
    assert found is not None
    assert (found.codes, found.unit) == (None, "example")
