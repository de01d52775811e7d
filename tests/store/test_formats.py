from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from microtome.errors import InputError, WorkError
from microtome.randomness import generator
from microtome.store.formats import LayerFile, open_layers

RNG = generator(0, "test_formats")


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def whole(layer) -> np.ndarray:
    return layer.rows(0, layer.shape[0])


def write_safetensors(path: Path, header: object, data: bytes, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# What is read


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy_with_one_layer(tmp_path: Path, dtype: str, order: str, version: tuple[int, int]) -> None:
    x = np.asarray(numbers(7, 3), dtype=dtype, order="F" if order == "F" else "C")
    with (tmp_path / "bert.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=version)
    (layer,) = open_layers(tmp_path / "bert.npy")
    assert (layer.name, layer.shape, layer.dtype) == ("bert", (7, 3), np.dtype(dtype).name)
    read = whole(layer)
    assert read.dtype == np.dtype(dtype).newbyteorder("=")
    assert read.dtype.isnative
    assert read.flags.c_contiguous
    np.testing.assert_array_equal(read, x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_with_a_stack(tmp_path: Path, order: str) -> None:
    x = np.asarray(numbers(12, 5, 4), order="F" if order == "F" else "C")
    np.save(tmp_path / "bert.npy", x)
    layers = open_layers(str(tmp_path / "bert.npy"))
    assert [layer.name for layer in layers] == [f"bert/{i}" for i in range(12)]
    for i, layer in enumerate(layers):
        np.testing.assert_array_equal(whole(layer), x[i])
        np.testing.assert_array_equal(layer.rows(2, 4), x[i, 2:4])


def test_safetensors_tensors_come_in_natural_order(tmp_path: Path) -> None:
    tensors = {f"layer{i}": numbers(6, 2 + i) for i in (0, 1, 2, 10, 11)}
    save_file({name: tensors[name] for name in reversed(tensors)}, tmp_path / "a.safetensors")
    layers = open_layers(tmp_path / "a.safetensors")
    assert [layer.name for layer in layers] == list(tensors)
    for layer in layers:
        np.testing.assert_array_equal(whole(layer), tensors[layer.name])


def test_safetensors_of_several_types_and_dimensions(tmp_path: Path) -> None:
    tensors = {
        "half": numbers(5, 3, dtype="float16"),
        "double": numbers(5, 3, dtype="float64"),
        "stack": numbers(3, 5, 4),
    }
    save_file(tensors, tmp_path / "a.safetensors", metadata={"made by": "a test"})
    layers = {layer.name: layer for layer in open_layers(tmp_path / "a.safetensors")}
    assert list(layers) == ["double", "half", "stack/0", "stack/1", "stack/2"]
    assert [layer.dtype for layer in layers.values()] == ["float64", "float16", *["float32"] * 3]
    np.testing.assert_array_equal(whole(layers["double"]), tensors["double"])
    np.testing.assert_array_equal(whole(layers["half"]), tensors["half"])
    for i in range(3):
        np.testing.assert_array_equal(whole(layers[f"stack/{i}"]), tensors["stack"][i])


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file as save_torch

    x = torch.tensor(numbers(9, 4) * 1e3).to(torch.bfloat16)
    x[0, 0], x[1, 1], x[2, 2] = float("inf"), float("nan"), -0.0
    save_torch({"x": x}, tmp_path / "a.safetensors")
    (layer,) = open_layers(tmp_path / "a.safetensors")
    assert layer.dtype == "bfloat16"
    for read in (whole(layer), layer.take(range(9))):
        assert read.dtype == np.float32
        np.testing.assert_array_equal(read, x.float().numpy())


def test_a_tensor_at_an_odd_byte_is_read(tmp_path: Path) -> None:
    x = numbers(3, 2)
    header = json.dumps({"x": entry([3, 2], 0, 24)}).encode()
    header += b" " * (-(8 + len(header)) % 4 + 1)
    path = write_safetensors(tmp_path / "a.safetensors", header, x.tobytes())
    (layer,) = open_layers(path)
    assert isinstance(layer, LayerFile)
    assert layer.offset % 4 == 1
    np.testing.assert_array_equal(whole(layer), x)


def test_a_folder_in_natural_order(tmp_path: Path) -> None:
    arrays = {name: numbers(4, 3) for name in ("layer1", "layer2", "layer10", "layer10b", "pooled")}
    np.save(tmp_path / "layer10.npy", arrays["layer10"])
    np.save(tmp_path / "layer2.npy", arrays["layer2"])
    np.save(tmp_path / "pooled.npy", arrays["pooled"])
    save_file({"x": arrays["layer1"]}, tmp_path / "layer1.safetensors")
    save_file({"x": arrays["layer10b"]}, tmp_path / "layer10b.SAFETENSORS")
    (tmp_path / "notes.txt").write_text("not an array")
    (tmp_path / "._layer2.npy").write_bytes(b"what a desktop leaves behind")
    (tmp_path / "deeper.npy").mkdir()
    layers = open_layers(tmp_path)
    assert [layer.name for layer in layers] == ["layer1/x", "layer2", "layer10", "layer10b/x", "pooled"]
    for layer in layers:
        np.testing.assert_array_equal(whole(layer), arrays[layer.name.removesuffix("/x")])


def test_natural_order_of_hard_names(tmp_path: Path) -> None:
    names = ["1", "2", "10", "a", "a0", "a01", "a1", "a1b", "a1b2", "a1b10", "a" + "9" * 60, "a1" + "0" * 60]
    for name in names:
        np.save(tmp_path / f"{name}.npy", numbers(2, 2))
    assert [layer.name for layer in open_layers(tmp_path)] == names


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    suffix=st.sampled_from([".npy", ".safetensors"]),
    fortran=st.booleans(),
    data=st.data(),
)
def test_any_rows_of_any_shape(tmp_path_factory, shape, dtype, suffix, fortran, data) -> None:
    path = tmp_path_factory.mktemp("any") / f"x{suffix}"
    x = numbers(*shape, dtype=dtype)
    if suffix == ".npy":
        np.save(path, np.asfortranarray(x) if fortran else x)
    else:
        save_file({"x": x}, path)
    stack = x if x.ndim == 3 else x[None]
    layers = open_layers(path)
    assert len(layers) == len(stack)
    start = data.draw(st.integers(0, shape[-2]))
    stop = data.draw(st.integers(start, shape[-2]))
    index = data.draw(st.lists(st.integers(0, shape[-2] - 1), max_size=8))
    for layer, expected in zip(layers, stack, strict=True):
        np.testing.assert_array_equal(layer.rows(start, stop), expected[start:stop])
        np.testing.assert_array_equal(layer.take(index), expected[np.array(index, dtype=int)])


def test_a_layer_is_a_value_and_what_is_read_a_copy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 2), dtype=np.float32))
    (layer,) = open_layers(tmp_path / "a.npy")
    whole(layer)[:] = 7
    layer.take([0, 1])[:] = 7
    np.testing.assert_array_equal(whole(layer), 0)
    assert pickle.loads(pickle.dumps(layer)) == layer
    assert {layer, open_layers(tmp_path / "a.npy")[0]} == {layer}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peak memory")
def test_few_rows_of_a_large_file_need_little_memory(tmp_path: Path) -> None:
    # 4 GB of zeros that take no place on the disk, read by a process that stays under 500 MB.
    rows = 1_000_000
    with (tmp_path / "large.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 1000)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 4000)
    script = (
        "import pathlib, re, sys\n"
        "from microtome.store.formats import LayerFile, open_layers\n"
        "layer, = open_layers(sys.argv[1])\n"
        "assert layer.rows(rows := layer.shape[0] - 5, rows + 5).shape == (5, 1000)\n"
        "assert layer.take([3, 999_999]).shape == (2, 1000)\n"
        "assert 'torch' not in sys.modules and 'safetensors' not in sys.modules\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "assert int(re.search(r'VmHWM:\\s*(\\d+)', status)[1]) < 500_000\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "large.npy"], check=True, timeout=60)


# What is refused


def refused(path: Path, *words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_layers(path)
    sentence = str(caught.value).replace(str(path.parent), "")  # its name has words of the test in it
    assert "must" in sentence
    assert "but" in sentence
    for word in words:
        assert word in sentence


@pytest.mark.parametrize("start, stop", [(-1, 2), (0, 4), (2, 1), (4, 4)])
def test_rows_outside_the_layer(tmp_path: Path, start: int, stop: int) -> None:
    np.save(tmp_path / "a.npy", numbers(3, 2))
    (layer,) = open_layers(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"must be between 0 and 3, but got"):
        layer.rows(start, stop)


@pytest.mark.parametrize("index", [[-1], [3], [0.5], [[0, 1]], [True, False, True]])
def test_row_numbers_that_are_none(tmp_path: Path, index) -> None:
    np.save(tmp_path / "a.npy", numbers(3, 2))
    (layer,) = open_layers(tmp_path / "a.npy")
    with pytest.raises(InputError, match="must be"):
        layer.take(index)


def test_paths_without_layers(tmp_path: Path) -> None:
    refused(tmp_path / "none.npy", "none.npy", "exists")
    with pytest.raises(InputError, match="exists"):
        open_layers("")
    refused(write_safetensors(tmp_path / "a.safetensors", {"__metadata__": {"a": "b"}}, b""), "at least one")
    (tmp_path / "a.safetensors").unlink()
    refused(tmp_path, "there is none")
    (tmp_path / "readme.md").write_text("nothing")
    refused(tmp_path, "there is none")
    (tmp_path / "layer3.npy").symlink_to(tmp_path / "lost.npy")
    refused(tmp_path, "layer3.npy", "readable")


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.bin", "a", "npy"])
def test_other_suffixes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    refused(tmp_path / name, ".npy or .safetensors", name)


def test_python_objects_are_not_loaded(tmp_path: Path) -> None:
    flag = tmp_path / "flag"

    class Trap:
        def __reduce__(self):
            return (Path.touch, (flag,))

    trap = np.empty((2, 2), dtype=object)
    trap[0, 0] = Trap()
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    refused(tmp_path / "a.npy", "Python objects")
    assert not flag.exists()
    np.load(tmp_path / "a.npy", allow_pickle=True)
    assert flag.exists()  # the trap is a real one


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "complex64", "longdouble", "<U3", "f4,f4"])
def test_npy_of_other_types(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 2), dtype=dtype))
    refused(tmp_path / "a.npy", "float16, float32 or float64", np.dtype(dtype).name)


@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (3, 0), (0, 3, 2), (2, 2, 2, 2)])
def test_shapes_that_are_no_layers(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.zeros(shape, dtype=np.float32))
    refused(tmp_path / "a.npy", "[rows, features]", str(list(shape)))
    save_file({"bias": np.zeros(shape, dtype=np.float32)}, tmp_path / "a.safetensors")
    refused(tmp_path / "a.safetensors", "[rows, features]", "'bias'")


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_every_cut_of_a_file_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    np.save(path, numbers(2, 2)) if suffix == ".npy" else save_file({"x": numbers(2, 2)}, path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refused(path, "a" + suffix)
    path.write_bytes(content + b"\0")
    refused(path, "something else")


def test_a_file_that_shrinks_after_it_was_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbers(1000, 100))
    (layer,) = open_layers(tmp_path / "a.npy")
    with (tmp_path / "a.npy").open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(WorkError, match="shorter now"):
        layer.rows(990, 1000)
    (tmp_path / "a.npy").unlink()
    with pytest.raises(WorkError, match="must stay readable"):
        layer.take([1])


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2), }\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2.0), }\n",
        b"{'descr': '<f4', 'fortran_order': False}\n",
        b"{'descr': 'f99', 'fortran_order': False, 'shape': (3, 2), }\n",
        b"__import__('os').abort()\n",
        b"(" * 5000 + b"\n",
        b"\xff\xfe{}\n",
    ],
)
def test_npy_headers_that_are_broken(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(24))
    refused(path, "a.npy", "header")


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "I64", "U8", "BOOL", "F4", "C64", "f32"])
def test_safetensors_of_other_types(tmp_path: Path, kind: str) -> None:
    path = write_safetensors(tmp_path / "a.safetensors", {"x": entry([2, 2], 0, 16, kind)}, bytes(16))
    refused(path, "F16, BF16, F32 or F64", kind, "'x'")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b" {}",
        b"null",
        b"\xff\xff",
        b"[" * 100_000,
        {"x": None},
        {"x": {"dtype": "F32", "shape": [2, 2]}},
        {"x": {**entry([2, 2], 0, 16), "more": 1}},
        {"x": {**entry([2, 2], 0, 16), "dtype": ["F32"]}},
        {"x": {**entry([2, 2], 0, 16), "shape": "22"}},
        {"x": entry([-2, -2], 0, 16)},
        {"x": {**entry([2, 2], 0, 16), "shape": [2.0, 2]}},
        {"x": {**entry([2, 2], 0, 16), "shape": [True, 4]}},
        {"x": {**entry([2, 2], 0, 16), "data_offsets": [0, 16, 16]}},
        {"x": {**entry([2, 2], 0, 16), "data_offsets": [-16, 0]}},
        {"\ud800": entry([2, 2], 0, 16)},
        {"x": entry([2, 2], 0, 16), "__metadata__": {"a": 1}},
        b'{"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"x":{"dtype":"F32","shape":[2,2],'
        b'"data_offsets":[0,16]}}',
    ],
)
def test_safetensors_headers_that_are_broken(tmp_path: Path, header: object) -> None:
    refused(write_safetensors(tmp_path / "a.safetensors", header, bytes(16)), "header cannot be read")


@pytest.mark.parametrize("length", [0, 5, 10**6, 2**62, 2**64 - 1])
def test_safetensors_with_a_wrong_header_length(tmp_path: Path, length: int) -> None:
    header = {"x": entry([2, 2], 0, 16)}
    refused(write_safetensors(tmp_path / "a.safetensors", header, bytes(16), length), "header")


@pytest.mark.parametrize(
    "entries",
    [
        {"x": entry([2, 2], 0, 12)},  # too few bytes
        {"x": entry([2, 2], 0, 20)},  # too many
        {"x": entry([2, 2], 4, 20)},  # a hole at the start
        {"x": entry([2, 2], 16, 0)},  # backward
        {"x": entry([2, 2], 0, 16), "y": entry([2, 2], 8, 24)},  # overlap
        {"x": entry([2, 2], 0, 16), "y": entry([2, 2], 0, 16)},  # the same bytes twice
        {"x": entry([2, 2], 0, 16), "y": entry([2, 2], 24, 40)},  # a hole between
        {"x": entry([2, 10**18], 0, 16)},
    ],
)
def test_safetensors_offsets_that_do_not_fit(tmp_path: Path, entries: dict[str, object]) -> None:
    refused(write_safetensors(tmp_path / "a.safetensors", entries, bytes(40)), "offsets")


@settings(max_examples=150, deadline=None)
@given(
    position=st.integers(0, 300), byte=st.integers(0, 255), suffix=st.sampled_from([".npy", ".safetensors"])
)
def test_one_wrong_byte_never_reads_other_bytes(tmp_path_factory, position, byte, suffix) -> None:
    path = tmp_path_factory.mktemp("byte") / f"a{suffix}"
    np.save(path, numbers(3, 4)) if suffix == ".npy" else save_file({"x": numbers(3, 4)}, path)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = byte
    path.write_bytes(bytes(content))
    try:
        layers = open_layers(path)
    except InputError:
        return
    # A changed byte may rename a tensor or turn the bytes of a number around, never read other bytes.
    assert sum(whole(layer).nbytes for layer in layers) == 48


def test_two_layers_of_one_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", numbers(2, 3, 2))
    save_file({"0": numbers(3, 2)}, tmp_path / "a.safetensors")
    refused(tmp_path, "'a/0'", "a.npy", "a.safetensors")
