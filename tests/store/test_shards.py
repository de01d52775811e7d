"""A recorded stack reads as one array, however its rows were cut into shards, and damage to it is named."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.errors import InputError, WorkError
from microtome.randomness import generator
from microtome.store.address import digest_file
from microtome.store.formats import open_layers
from microtome.store.recording import ShardWriter
from microtome.store.shards import open_stack, read_manifest

RNG = generator(0, "test_shards")
LAYERS = [("bert/0", 4), ("bert/1", 6), ("bert/10", 5)]


def numbers(rows: int, layers: list[tuple[str, int]] = LAYERS) -> dict[str, np.ndarray]:
    return {name: RNG.normal(size=(rows, width)).astype(np.float32) for name, width in layers}


def record(folder: Path, cuts: list[int], dtype: str = "float32") -> dict[str, np.ndarray]:
    """Record random layers in shards of so many rows, and give them back as they should be read."""
    writer = ShardWriter(folder, LAYERS, dtype)
    parts = [numbers(rows) for rows in cuts]
    for k, part in enumerate(parts):
        writer.write(part, {"k": k})
    writer.finish({"model": "bert"})
    return {name: stored(np.concatenate([part[name] for part in parts]), dtype) for name, _ in LAYERS}


def stored(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return array.astype(dtype)
    import torch

    return torch.tensor(array).to(torch.bfloat16).float().numpy()


# What is read


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_stack_is_read_as_it_was_written(tmp_path: Path, dtype: str) -> None:
    whole = record(tmp_path, [3, 1, 7], dtype)
    layers = open_stack(tmp_path)
    assert [layer.name for layer in layers] == [name for name, _ in LAYERS]
    for layer in layers:
        expected = whole[layer.name]
        assert (layer.shape, layer.dtype) == (expected.shape, dtype)
        read = layer.rows(0, 11)
        assert read.dtype == (np.float16 if dtype == "float16" else np.float32)
        assert read.flags.c_contiguous
        assert read.flags.writeable
        np.testing.assert_array_equal(read, expected)
        np.testing.assert_array_equal(layer.take([10, 0, 3, 3, 4]), expected[[10, 0, 3, 3, 4]])


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    dtype=st.sampled_from(["float16", "bfloat16", "float32"]),
    widths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    data=st.data(),
)
def test_how_rows_are_cut_does_not_matter(tmp_path_factory, cuts, dtype, widths, data) -> None:
    layers = [(f"layer {i}", width) for i, width in enumerate(widths)]
    rows, whole = sum(cuts), numbers(sum(cuts), layers)
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    index = data.draw(st.lists(st.integers(0, rows - 1), max_size=12))
    for pieces in (cuts, [rows], [1] * rows):
        folder = tmp_path_factory.mktemp("cut")
        writer = ShardWriter(folder, layers, dtype)
        for end, size in zip(np.cumsum(pieces), pieces, strict=True):
            writer.write({name: array[end - size : end] for name, array in whole.items()})
        writer.finish()
        opened = open_stack(folder)
        assert len(opened) == len(layers)
        for layer in opened:
            expected = stored(whole[layer.name], dtype)
            np.testing.assert_array_equal(layer.rows(start, stop), expected[start:stop])
            np.testing.assert_array_equal(layer.take(index), expected[np.array(index, dtype=int)])
            np.testing.assert_array_equal(layer.take(np.array(index, dtype=np.uint64)), layer.take(index))


def test_each_shard_is_a_file_that_others_read(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    whole = record(tmp_path, [3, 4])
    first, second = (load_file(tmp_path / f"shard-0000{k}.safetensors") for k in range(2))
    for name, array in whole.items():
        np.testing.assert_array_equal(np.concatenate([first[name], second[name]]), array)


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    record(tmp_path, [3, 4], "bfloat16")
    read = json.loads((tmp_path / "manifest.json").read_text())
    assert read["format"] == "microtome/stack/1"
    assert read["layers"] == [{"name": n, "width": w, "dtype": "bfloat16"} for n, w in LAYERS]
    assert read["rows"] == 7
    assert read["extra"] == {"model": "bert"}
    for k, shard in enumerate(read["shards"]):
        path = tmp_path / f"shard-0000{k}.safetensors"
        assert shard == {
            "file": path.name,
            "rows": [3, 4][k],
            "bytes": path.stat().st_size,
            "blake2b": digest_file(path),
            "meta": {"k": k},
        }
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines[1:]] == read["shards"]


def test_a_folder_with_a_manifest_is_opened_as_a_stack(tmp_path: Path) -> None:
    whole = record(tmp_path, [3, 4])
    layers = open_layers(tmp_path)
    assert [layer.name for layer in layers] == [name for name, _ in LAYERS]
    for layer in layers:
        np.testing.assert_array_equal(layer.rows(2, 5), whole[layer.name][2:5])
        assert layer.path == tmp_path / "manifest.json"


def test_the_manifest_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    for content in ('{"format": "webpack"}', "[1]", "{", '{"format": 1}'):
        (tmp_path / "manifest.json").write_text(content)
        (tmp_path / "journal.jsonl").write_text(content)
        assert [layer.name for layer in open_layers(tmp_path)] == ["a"]


def test_a_layer_is_a_value_and_what_is_read_a_copy(tmp_path: Path) -> None:
    record(tmp_path, [3, 4])
    layer = open_stack(tmp_path)[0]
    before = layer.rows(0, 7)
    layer.rows(0, 7)[:] = 7
    layer.rows(0, 2)[:] = 7
    layer.take([0, 5])[:] = 7
    np.testing.assert_array_equal(layer.rows(0, 7), before)
    assert pickle.loads(pickle.dumps(layer)) == layer
    assert {layer, open_stack(tmp_path)[0]} == {layer}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peak memory")
def test_few_rows_of_many_need_little_memory(tmp_path: Path) -> None:
    # 600 MB of zeros that take no place on the disk, read by a process that stays under 300 MB.
    writer = ShardWriter(tmp_path, [("x", 1000)])
    writer.write({"x": np.zeros((1, 1000), dtype=np.float32)})
    writer.finish()
    header = b'{"x":{"dtype":"F32","shape":[50000,1000],"data_offsets":[0,200000000]}}'
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["rows"], manifest["shards"] = 150_000, []
    for k in range(3):
        name = f"shard-0000{k}.safetensors"
        with (tmp_path / name).open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(file.tell() + 200_000_000)
        size, checksum = (tmp_path / name).stat().st_size, digest_file(tmp_path / name)
        known = {"file": name, "rows": 50_000, "bytes": size, "blake2b": checksum, "meta": {}}
        manifest["shards"].append(known)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    script = (
        "import pathlib, re, sys\n"
        "from microtome.store.formats import open_layers\n"
        "layer, = open_layers(sys.argv[1])\n"
        "assert layer.shape == (150_000, 1000)\n"
        "assert layer.rows(49_998, 50_003).shape == (5, 1000)\n"
        "assert layer.take([3, 149_999, 80_000]).shape == (3, 1000)\n"
        "assert 'torch' not in sys.modules and 'safetensors' not in sys.modules\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "assert int(re.search(r'VmHWM:\\s*(\\d+)', status)[1]) < 300_000\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], check=True, timeout=60)


# What is refused when it is read


@pytest.mark.parametrize("start, stop", [(-1, 2), (0, 8), (2, 1), (8, 8)])
def test_rows_outside_the_layer(tmp_path: Path, start: int, stop: int) -> None:
    record(tmp_path, [3, 4])
    with pytest.raises(InputError) as caught:
        open_stack(tmp_path)[1].rows(start, stop)
    assert str(caught.value) == f"rows of bert/1 must be between 0 and 7, but got {start} to {stop}."


@pytest.mark.parametrize(
    "index, words",
    [
        ([-1], "row numbers of bert/1 must be between 0 and 6, but got -1."),
        ([0, 7], "row numbers of bert/1 must be between 0 and 6, but got 7."),
        ([0.5], "row numbers must be a list of whole numbers, but got float64 values."),
        ([[0, 1]], "row numbers must be a list of whole numbers, but got int64 values."),
        ([True], "row numbers must be a list of whole numbers, but got bool values."),
    ],
)
def test_row_numbers_that_are_none(tmp_path: Path, index: Any, words: str) -> None:
    record(tmp_path, [3, 4])
    with pytest.raises(InputError) as caught:
        open_stack(tmp_path)[1].take(index)
    assert str(caught.value) == words


def refused(folder: Path, *words: str) -> None:
    for opening in (open_stack, open_layers):
        with pytest.raises(InputError) as caught:
            opening(folder)
        for word in words:
            assert word in str(caught.value)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_damaged_shards_are_named(tmp_path: Path, number: int) -> None:
    record(tmp_path, [3, 4, 2])
    path = tmp_path / f"shard-0000{number}.safetensors"
    content = path.read_bytes()
    for length in (0, 7, 100, len(content) - 1):
        path.write_bytes(content[:length])
        sentence = f"{path} must be {len(content)} bytes long, but it has {length}: it is cut short."
        refused(tmp_path, sentence)
    path.write_bytes(content + b"\0")
    refused(tmp_path, str(path), "followed by something else")
    path.unlink()
    sentence = f"{path} must be a file of {len(content)} bytes, but it is missing."
    refused(tmp_path, sentence)


def test_shards_that_belong_to_another_stack(tmp_path: Path) -> None:
    record(tmp_path / "a", [3, 4])
    other = ShardWriter(tmp_path / "b", [*LAYERS[:2], ("bert/11", 5)])
    other.write(numbers(3, [*LAYERS[:2], ("bert/11", 5)]))
    path = tmp_path / "a" / "shard-00000.safetensors"
    path.write_bytes((tmp_path / "b" / path.name).read_bytes())
    assert path.stat().st_size == read_manifest(tmp_path / "a").shards[0].mark.bytes
    refused(
        tmp_path / "a",
        f"{path} must hold the layers of its manifest, bert/0 float32 [3, 4], bert/1 float32 [3, 6], bert/10 "
        "float32 [3, 5], but it holds bert/0 float32 [3, 4], bert/1 float32 [3, 6], bert/11 float32 [3, 5].",
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"format": "microtome/stack/2"}, "must be 'microtome/stack/1', but got 'microtome/stack/2'"),
        ({"rows": 8}, "its shards have 7 rows, and it says 8"),
        ({"rows": None}, "it says None"),
        ({"layers": []}, "its layers have 0 types"),
        ({"layers": None}, "must be the whole manifest of a stack, but got: "),
        ({"layers": [{"name": "a", "width": 4}]}, "but got: no 'dtype'."),
        ({"layers": [{"name": "a", "width": 4, "dtype": "int8"}]}, "dtype must be one of float16"),
        ({"layers": [{"name": "a", "width": 0, "dtype": "float32"}]}, "the width of layer 'a' must be"),
        ({"layers": [{"name": "a", "width": 4, "dtype": "float32"}]}, "must hold the layers of its manifest"),
        ({"shards": []}, "its shards have 0 rows"),
        ({"shards": 3}, "must be the whole manifest of a stack, but got: "),
        ({"shards": [{}]}, "but got: no 'rows'."),
        ({"extra": [3]}, "but got: extra that is no object."),
    ],
)
def test_manifests_that_do_not_fit(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    record(tmp_path, [3, 4])
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    refused(tmp_path, words)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"file": "../shard-00001.safetensors"}, "shard 1 has the name '../shard-00001.safetensors'"),
        ({"file": "shard-00000.safetensors"}, "shard 1 has the name 'shard-00000.safetensors'"),
        ({"rows": 0}, "shard 1 has 0 rows"),
        ({"rows": True}, "shard 1 has True rows"),
        ({"bytes": "many"}, "shard 1 has 4 rows in many bytes"),
        ({"blake2b": "short"}, "shard 1 has no checksum"),
        ({"bytes": 3}, "shard-00001.safetensors must be 3 bytes long"),
    ],
)
def test_shards_of_a_manifest_that_do_not_fit(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    record(tmp_path, [3, 4])
    path = tmp_path / "manifest.json"
    document = json.loads(path.read_text())
    document["shards"][1].update(change)
    path.write_text(json.dumps(document))
    refused(tmp_path, words)


def test_a_torn_manifest_and_an_unfinished_stack(tmp_path: Path) -> None:
    record(tmp_path, [3, 4])
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes()[:-10])
    refused(tmp_path, f"{path} must be the whole manifest of a stack, but it is no JSON.")
    path.unlink()
    refused(tmp_path, f"{tmp_path} must hold a finished stack, but its recording was interrupted.")
    with pytest.raises(InputError, match=r"manifest.json must be a readable file, but got: No such file"):
        open_stack(tmp_path / "nowhere")


def test_a_stack_that_changes_after_it_was_opened(tmp_path: Path) -> None:
    record(tmp_path, [300, 400])
    layer = open_stack(tmp_path)[0]
    with (tmp_path / "shard-00001.safetensors").open("r+b") as file:
        file.truncate(500)
    assert layer.rows(0, 300).shape == (300, 4)
    with pytest.raises(WorkError, match=r"shard-00001.safetensors must stay as it was .* it is shorter now"):
        layer.rows(299, 700)
    (tmp_path / "shard-00000.safetensors").unlink()
    with pytest.raises(WorkError, match="must stay readable"):
        layer.take([1])
