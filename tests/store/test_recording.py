"""A recording that is killed at any moment goes on from its whole shards, and ends with the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import microtome
from microtome.errors import InputError, WorkError
from microtome.randomness import generator
from microtome.store.recording import ShardWriter, safetensors_pieces, to_bfloat16
from microtome.store.shards import open_stack
from microtome.store.shelf import Shelf

SOURCE = Path(microtome.__file__).parents[1]
LAYERS = [("x", 5), ("y", 3)]
SHARDS = 4


def part(k: int) -> dict[str, np.ndarray]:
    rng = generator(0, "test_recording", k)
    return {name: rng.normal(size=(k + 2, width)).astype(np.float32) for name, width in LAYERS}


def record(folder: Path, stop: int = SHARDS) -> ShardWriter:
    writer = ShardWriter(folder, LAYERS, "bfloat16")
    for k in range(writer.done, stop):
        writer.write(part(k), {"k": k})
    if stop == SHARDS:
        writer.finish({"rows": "word"})
    return writer


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "entry.json"}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    record(tmp_path / "uninterrupted")
    return contents(tmp_path / "uninterrupted")


# Going on


@pytest.mark.parametrize("stop", range(SHARDS))
def test_a_recording_goes_on(tmp_path: Path, whole: dict[str, bytes], stop: int) -> None:
    first = record(tmp_path / "a", stop)
    writer = ShardWriter(tmp_path / "a", LAYERS, "bfloat16")
    assert writer.done == stop
    assert writer.shards == first.shards
    assert [shard.meta for shard in writer.shards] == [{"k": k} for k in range(stop)]
    record(tmp_path / "a")
    assert contents(tmp_path / "a") == whole


def test_a_finished_recording_is_only_looked_at(tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "uninterrupted"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert ShardWriter(folder, LAYERS, "bfloat16").done == SHARDS
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    record(folder)
    assert contents(folder) == whole


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
@pytest.mark.parametrize("number", range(SHARDS))
def test_a_wrong_shard_and_all_that_follow_are_done_again(
    tmp_path: Path, whole: dict[str, bytes], number: int, damage: Any
) -> None:
    folder = tmp_path / "uninterrupted"
    (folder / "notes.txt").write_text("somebody else's")
    damage(folder / f"shard-0000{number}.safetensors")
    writer = ShardWriter(folder, LAYERS, "bfloat16")
    assert writer.done == number
    assert (folder / "journal.jsonl").read_bytes().count(b"\n") == 1 + number
    assert {path.name for path in folder.iterdir()} == {
        *("journal.jsonl", "notes.txt"),
        *(f"shard-0000{k}.safetensors" for k in range(number)),
    }
    record(folder)
    assert contents(folder) == {**whole, "notes.txt": b"somebody else's"}


def test_every_cut_of_the_journal(tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "uninterrupted"
    journal = whole["journal.jsonl"]
    ends = [i + 1 for i, byte in enumerate(journal) if byte == ord("\n")]
    for length in range(ends[0], len(journal), 7):
        (folder / "journal.jsonl").write_bytes(journal[:length])
        done = ShardWriter(folder, LAYERS, "bfloat16").done
        assert done == sum(end <= length for end in ends) - 1
        record(folder)
        assert contents(folder) == whole
    (folder / "journal.jsonl").write_bytes(b"")
    record(folder)
    assert contents(folder) == whole


@pytest.mark.parametrize("line", [b"{}\n", b"[]\n", b"3\n", b"\xff\n", b"\n", b"[" * 100_000 + b"\n"])
def test_lines_of_the_journal_that_are_none(tmp_path: Path, whole: dict[str, bytes], line: bytes) -> None:
    folder = tmp_path / "uninterrupted"
    lines = whole["journal.jsonl"].splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join([*lines[:2], line, *lines[2:]]))
    assert ShardWriter(folder, LAYERS, "bfloat16").done == 1
    assert not (folder / "manifest.json").exists()
    record(folder)
    assert contents(folder) == whole


def test_other_layers_do_not_go_on(tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "uninterrupted"
    for layers, dtype in (([("x", 5)], "bfloat16"), ([("x", 5), ("y", 4)], "bfloat16"), (LAYERS, "float16")):
        with pytest.raises(
            InputError, match=r"journal.jsonl must be of the same layers and type when a reco"
        ):
            ShardWriter(folder, layers, dtype)
    assert contents(folder) == whole


def test_more_rows_open_a_finished_stack_again(tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "uninterrupted"
    writer = ShardWriter(folder, LAYERS, "bfloat16")
    writer.write(part(SHARDS))
    assert not (folder / "manifest.json").exists()
    writer.finish()
    assert open_stack(folder)[0].shape[0] == sum(k + 2 for k in range(SHARDS + 1))


# Killed

EVERYWHERE = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[2])
import test_recording as case
from microtome.store.shelf import Shelf

root = pathlib.Path(sys.argv[1])
calls = 0

def fatal(name, at):
    real = getattr(os, name)
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == at:
            if name == "write":
                real(arguments[0], bytes(arguments[1])[:7])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, name, call)

def work(place):
    with Shelf(place).work(kind="stack", specification={}) as work:
        if work.entry is None:
            case.record(work.folder)
            work.finish()

at, killed = 0, True
while killed:
    at += 1
    place = root / str(at)
    child = os.fork()
    if not child:
        for name in ("fsync", "replace", "rename", "write", "mkdir", "unlink"):
            fatal(name, at)
        work(place)
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
    work(place)
print(at)
"""


def test_killed_before_every_step(tmp_path: Path, whole: dict[str, bytes]) -> None:
    # A process that is killed at its first call of the system that changes the disk, one at its second, ...
    # Each is followed by one that goes on.
    done = subprocess.run(
        [sys.executable, "-c", EVERYWHERE, str(tmp_path / "stores"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 30
    for step in range(1, steps + 1):
        shelf = Shelf(tmp_path / "stores" / str(step))
        (entry,) = shelf.entries()
        assert contents(entry.folder) == whole
        assert shelf.verify() == shelf.partial() == []


LARGE = """
import sys
import numpy as np
from microtome.randomness import generator
from microtome.store.recording import ShardWriter
from microtome.store.shelf import Shelf

with Shelf(sys.argv[1]).work(kind="stack", specification={}) as work:
    if work.entry is None:
        writer = ShardWriter(work.folder, [("x", 256), ("y", 256)], "bfloat16")
        print(writer.done, flush=True)
        for k in range(writer.done, 20):
            rng = generator(0, "large", k)
            writer.write({name: rng.normal(size=(4096, 256)).astype(np.float32) for name in "xy"})
            print(k + 1, flush=True)
        writer.finish()
        work.finish()
"""


def start(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LARGE, str(root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OPENBLAS_NUM_THREADS": "1"},
    )


def test_killed_while_it_writes(tmp_path: Path) -> None:
    reference = start(tmp_path / "whole")
    assert reference.communicate(timeout=120)[0].split()[-1] == "20"
    rng = generator(0, "test_killed_while_it_writes")
    resumed, reached = [], 0
    for _ in range(3):
        running = start(tmp_path / "killed")
        try:
            assert running.stdout is not None
            resumed.append(int(running.stdout.readline()))
            # What was whole when it was killed is never done again.
            assert resumed[-1] >= reached
            for _ in range(2):
                reached = int(running.stdout.readline())
            time.sleep(rng.uniform(0, 0.05))
            running.send_signal(signal.SIGKILL)
        finally:
            running.kill()
            running.communicate()
        assert running.returncode == -signal.SIGKILL
        assert Shelf(tmp_path / "killed").addresses() == []
    assert resumed == sorted(set(resumed))
    last = start(tmp_path / "killed")
    assert int(last.communicate(timeout=120)[0].split()[0]) >= reached
    (one,), (other,) = (list(Shelf(tmp_path / name).entries()) for name in ("whole", "killed"))
    assert contents(one.folder) == contents(other.folder)
    assert one.files == other.files
    assert Shelf(tmp_path / "killed").verify() == []


# A disk that refuses

FULL = """
import resource, sys
import numpy as np
from microtome.errors import WorkError
from microtome.store.recording import ShardWriter

writer = ShardWriter(sys.argv[1], [("x", 100)])
writer.write({"x": np.zeros((10, 100), dtype=np.float32)})
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
try:
    writer.write({"x": np.zeros((100, 100), dtype=np.float32)}, {"long": "x" * 60_000})
except WorkError as error:
    print(error)
assert writer.done == 1
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
if sys.argv[3] == "go on":
    writer.write({"x": np.ones((1, 100), dtype=np.float32)})
    writer.finish()
"""


# A shard of 40 kB that does not fit, and a journal of 60 kB that does not.
@pytest.mark.parametrize("room, place", [(20_000, "/shard-00001.safetensors"), (50_000, "")])
@pytest.mark.parametrize("then", ["stop", "go on"])
def test_a_full_disk_leaves_the_shards_before(tmp_path: Path, room: int, place: str, then: str) -> None:
    folder = tmp_path / "a"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder), str(room), then],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"{folder}{place} must have room for what is written, but got: File too large.\n")
    if then == "stop":
        assert ShardWriter(folder, [("x", 100)]).done == 1
        assert {path.name for path in folder.iterdir()} == {"journal.jsonl", "shard-00000.safetensors"}
    else:
        assert ShardWriter(folder, [("x", 100)]).done == 2
        assert open_stack(folder)[0].shape == (11, 100)


def test_a_line_that_could_not_be_written_whole_is_written_again(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = record(tmp_path / "a", 2)
    real = os.write

    def torn(handle: int, content: bytes) -> int:
        if len(content) > 20:
            return real(handle, bytes(content)[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", torn)
        with pytest.raises(WorkError, match="must have room for what is written, but got: No space left on"):
            writer.write(part(2), {"k": 2})
    assert writer.done == 2
    for k in (2, 3):
        writer.write(part(k), {"k": k})
    writer.finish({"rows": "word"})
    assert contents(tmp_path / "a") == whole


# What is refused


@pytest.mark.parametrize(
    "layers, dtype, words",
    [
        (LAYERS, "float64", "dtype must be one of float16, bfloat16, float32, but got 'float64'."),
        ([], "float32", "a stack must have at least one layer, but got none."),
        ([("a", 0)], "float32", "the width of layer 'a' must be a whole number above 0, but got 0."),
        ([("a", 2.0)], "float32", "the width of layer 'a' must be a whole number above 0, but got 2.0."),
        ([("", 2)], "float32", "the name of a layer must be printable text, but got ''."),
        ([("a\n", 2)], "float32", "the name of a layer must be printable text, but got 'a\\n'."),
        ([("__metadata__", 2)], "float32", "the name of a layer must be printable text, but got"),
        ([3], "float32", "the name of a layer must be printable text, but got 3."),
        ([("a", 1), ("a", 2)], "float32", "names of layers must differ, but 'a' stands twice."),
    ],
)
def test_layers_that_cannot_be_recorded(tmp_path: Path, layers: Any, dtype: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        ShardWriter(tmp_path / "a", layers, dtype)
    assert words in str(caught.value)
    assert not (tmp_path / "a").exists()


ONES = np.ones((2, 3), dtype=np.float32)


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"x": ONES}, "arrays must be one for each of the layers x, y, but got x."),
        ({}, "arrays must be one for each of the layers x, y, but got none."),
        ({"x": np.ones((2, 5)), "y": ONES, "z": ONES}, "but got x, y, z."),
        (
            {"x": np.ones((2, 4)), "y": ONES},
            "the array of layer 'x' must have the shape [2, 5], but got [2, 4]",
        ),
        (
            {"x": np.ones((3, 5)), "y": ONES},
            "the array of layer 'y' must have the shape [3, 3], but got [2, 3]",
        ),
        ({"x": np.ones((0, 5)), "y": ONES}, "must have the shape [rows, 5], but got [0, 5]."),
        ({"x": np.ones(5), "y": ONES}, "must have the shape [5, 5], but got [5]."),
        (
            {"x": np.float32(1), "y": ONES},
            "the array of layer 'x' must be of the type float16, float32, float64",
        ),
        ({"x": np.ones((2, 5), int), "y": ONES}, "but got 'int64'."),
        ({"x": [[1.0] * 5], "y": ONES}, "but got 'list'."),
        ({"x": np.ones((2, 5), np.uint16), "y": ONES}, "float16, float32, float64, but got 'uint16'."),
        ({"x": np.full((2, 5), 1e39), "y": ONES}, "numbers of layer 'x' must be small enough for float32"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: Any, words: str) -> None:
    writer = ShardWriter(tmp_path, LAYERS)
    with pytest.raises(InputError) as caught:
        writer.write(arrays)
    assert words in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["journal.jsonl"]
    assert writer.done == 0


def test_facts_that_cannot_be_written(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, LAYERS)
    with pytest.raises(
        InputError, match="a stack must have at least one shard before it is finished, but it"
    ):
        writer.finish()
    with pytest.raises(InputError, match=r"meta\.ids must be text, a number"):
        writer.write(part(0), {"ids": np.arange(3)})
    writer.write(part(0))
    with pytest.raises(InputError, match=r"extra\.rate must be a finite number, but got inf"):
        writer.finish({"rate": float("inf")})
    assert not (tmp_path / "manifest.json").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkError, match=r"must be readable and writable, but got: "):
        ShardWriter(tmp_path / "file" / "a", LAYERS)


def test_bits_of_bfloat16_are_recorded_as_they_are(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, [("x", 2)], "bfloat16")
    writer.write({"x": np.array([[0x3F80, 0xC000]], dtype=np.uint16)})
    writer.write({"x": np.array([[1.0, -2.0]], dtype=np.float16)})
    writer.finish()
    np.testing.assert_array_equal(open_stack(tmp_path)[0].rows(0, 2), [[1, -2], [1, -2]])


RNG = generator(0, "test_tensors")


def write(path: Path, arrays: dict[str, np.ndarray], dtype: str) -> Path:
    path.write_bytes(b"".join(bytes(piece) for piece in safetensors_pieces(arrays, dtype)))
    return path


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64", ">f4"])
def test_others_read_what_is_written(tmp_path: Path, dtype: str, given: str) -> None:
    import torch
    from safetensors.torch import load_file

    arrays = {f"b/{i}": RNG.normal(size=(5, 3 + i)).astype(given) for i in (10, 2)}
    arrays["turned"] = np.asfortranarray(RNG.normal(size=(5, 7)).astype(given))
    arrays["holes"] = RNG.normal(size=(10, 8)).astype(given)[::2, ::-2]
    read = load_file(write(tmp_path / "a.safetensors", arrays, dtype))
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        native = torch.tensor(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
        assert read[name].dtype == getattr(torch, dtype)
        # By way of float32, as the rows of an encoder are.
        assert torch.equal(read[name], native.to(torch.float32).to(getattr(torch, dtype)))


def test_the_header_is_padded_and_in_the_order_given(tmp_path: Path) -> None:
    for width in range(1, 12):
        arrays = {"z" * width: np.ones((2, width)), "a": np.ones((2, 1))}
        content = write(tmp_path / "a", arrays, "float32").read_bytes()
        length = int.from_bytes(content[:8], "little")
        assert length % 8 == 0
        header = json.loads(content[8 : 8 + length])
        assert list(header) == list(arrays)
        assert header["a"] == {"dtype": "F32", "shape": [2, 1], "data_offsets": [8 * width, 8 * width + 8]}
        assert len(content) == 8 + length + 8 * width + 8


def test_many_rows_come_in_pieces() -> None:
    array = RNG.normal(size=(3_000, 1_000)).astype(np.float32)
    pieces = list(safetensors_pieces({"x": array}, "float32"))
    assert len(pieces) > 2
    assert max(len(piece) for piece in pieces) <= 4 << 20
    assert b"".join(pieces[1:]) == array.tobytes()


FLOATS = hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32))


@settings(max_examples=300, deadline=None)
@given(FLOATS | hnp.arrays(np.uint32, st.integers(1, 40)).map(lambda bits: bits.view(np.float32)))
def test_bfloat16_is_rounded_as_torch_does(numbers: np.ndarray) -> None:
    import torch

    ours = to_bfloat16(numbers)
    theirs = torch.tensor(numbers).to(torch.bfloat16).view(torch.uint16).numpy()
    nan = np.isnan(numbers)
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])
    assert np.isnan((ours[nan].astype(np.uint32) << 16).view(np.float32)).all()


def test_halfway_goes_to_the_even_one() -> None:
    halves = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F817FFF], dtype=np.uint32).view(np.float32)
    assert [hex(bits) for bits in to_bfloat16(halves)] == ["0x3f80", "0x3f82", "0x3f81", "0x3f81"]


def test_bits_of_bfloat16_are_written_as_they_are(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    bits = RNG.integers(0, 1 << 15, (4, 3)).astype(np.uint16) & 0x7F7F
    read = load_file(write(tmp_path / "a", {"x": bits}, "bfloat16"))["x"]
    np.testing.assert_array_equal(read.float().numpy(), (bits.astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize(
    "dtype, large", [("float16", 65520.0), ("bfloat16", 3.4e38), ("float32", 1e39), ("bfloat16", -1e39)]
)
def test_a_number_that_does_not_fit_is_never_turned_into_infinity(dtype: str, large: float) -> None:
    array = np.array([[1.0, 2.0], [np.inf, large], [np.nan, 0.0]])
    with pytest.raises(InputError) as caught:
        list(safetensors_pieces({"bert/3": array}, dtype))
    assert str(caught.value) == (
        f"numbers of layer 'bert/3' must be small enough for {dtype}, but got {large:g}."
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_infinity_and_nan_stay_what_they_are(dtype: str) -> None:
    array = np.array([[np.inf, -np.inf, np.nan, -0.0]], dtype=np.float32)
    data = b"".join(list(safetensors_pieces({"x": array}, dtype))[1:])
    if dtype == "bfloat16":
        read = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        read = np.frombuffer(data, np.dtype(dtype))
    np.testing.assert_array_equal(read, array[0].astype(read.dtype))
    assert np.signbit(read[3])
