"""What is written is a safetensors file that others read, with numbers rounded as they round them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from microtome.errors import InputError
from microtome.randomness import generator
from microtome.store.tensors import safetensors_pieces, to_bfloat16

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
