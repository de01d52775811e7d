from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from microtome.errors import InputError
from microtome.moments.stack import Stack, dtype_name, make_stack, read_rows
from microtome.randomness import generator
from microtome.store.formats import open_layers

CPU = torch.device("cpu")


def layer(rows: int = 7, features: int = 3, name: str = "x") -> np.ndarray:
    return generator(0, "test_stack", name).standard_normal((rows, features))


def read(stack: Stack, position: int = 0, start: int = 0, stop: int | None = None) -> np.ndarray:
    stop = stack.rows if stop is None else stop
    return read_rows(stack, position, start, stop, torch.float64, CPU).numpy()


def test_lists_arrays_and_single_layers() -> None:
    x, y = layer(), layer(features=5, name="y")
    stack = make_stack([x, torch.from_numpy(y)])
    assert (len(stack), stack.rows, stack.widths, stack.names) == (2, 7, (3, 5), ("0", "1"))
    np.testing.assert_array_equal(read(stack, 1), y)
    cube = np.stack([x, x + 1, x + 2])
    for given in (cube, torch.from_numpy(cube)):
        stack = make_stack(given)
        assert (len(stack), stack.names) == (3, ("0", "1", "2"))
        np.testing.assert_array_equal(read(stack, 2), x + 2)
    assert make_stack(x).widths == (3,)
    assert make_stack([x.tolist()]).widths == (3,)
    assert make_stack(stack) is stack


def test_files_and_folders(tmp_path: Path) -> None:
    x = layer().astype(np.float32)
    np.save(tmp_path / "layer10.npy", x + 10)
    np.save(tmp_path / "layer2.npy", x)
    save_file({"a": x + 20}, tmp_path / "layer11.safetensors")
    stack = make_stack(tmp_path)
    assert stack.names == ("layer2", "layer10", "layer11/a")
    np.testing.assert_array_equal(read(stack, 1, 2, 5), (x + 10)[2:5])
    mixed = make_stack([str(tmp_path / "layer2.npy"), x + 1, open_layers(tmp_path)[1]])
    assert mixed.names == ("layer2", "1", "layer10")
    np.testing.assert_array_equal(read(mixed, 2), x + 10)
    assert make_stack(open_layers(tmp_path)[0]).names == ("layer2",)


def test_names() -> None:
    assert make_stack([layer(), layer()], names=["bert/0", "bert/1"]).names == ("bert/0", "bert/1")
    with pytest.raises(InputError, match=r"^names must be 2 for left, one per layer, but got 1\.$"):
        make_stack([layer(), layer()], names=["bert/0"])


@pytest.mark.parametrize(
    "given, words",
    [
        ([], "right must hold at least one layer, but got none."),
        ([layer(), layer(rows=8)], "every layer of right must have the same rows, but got 0: 7, 1: 8."),
        (
            np.zeros((2, 2, 2, 2)),
            "right must be an array [rows, features] or [layers, rows, features], but got",
        ),
        ([np.zeros(4)], "right layer 0 must have the shape [rows, features], but got [4]."),
        ([np.zeros((0, 3))], "right layer 0 must have rows and features, but got the shape [0, 3]."),
        (
            [np.zeros((4, 3), dtype=int)],
            "right layer 0 must be of the type bfloat16, float16, float32, float64",
        ),
        ([torch.zeros(4, 3, dtype=torch.complex64)], "but got 'complex64'"),
        (3, "right must be an array, a list of arrays, or a path, but got 'int'."),
        ("nowhere.npy", "path must be a file or a folder that exists, but got 'nowhere.npy'."),
    ],
)
def test_what_is_no_stack_is_told_in_one_sentence(given: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        make_stack(given, "right")
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


def test_masked_values_are_not_taken_for_numbers() -> None:
    array = np.ma.masked_array(np.ones((4, 3)), mask=np.zeros((4, 3), dtype=bool))
    assert make_stack([array]).widths == (3,)
    array[1, 2] = np.ma.masked
    for given in (array, [array], np.ma.stack([array, array])):
        with pytest.raises(
            InputError, match="but got a masked array with masked values; leave those rows out"
        ):
            make_stack(given)


def test_rows_columns_and_scales() -> None:
    x = layer()
    stack = make_stack([x, x + 1])
    some = stack.take(np.array([5, 1, 1, 6]))
    assert some.rows == 4
    np.testing.assert_array_equal(read(some, 0, 1, 4), x[[1, 1, 6]])
    again = some.take(np.array([3, 0]))
    np.testing.assert_array_equal(read(again, 1), (x + 1)[[6, 5]])
    one = again.select([1])
    assert one.names == ("1",)
    np.testing.assert_array_equal(read(one), (x + 1)[[6, 5]])
    for source in (x, torch.from_numpy(x)):
        scaled = Stack(
            names=("a",), layers=(source,), columns=(np.array([2, 0]),), scales=(np.array([10.0, 0.5]),)
        )
        assert scaled.widths == (2,)
        np.testing.assert_array_equal(read(scaled), x[:, [2, 0]] * [10.0, 0.5])


def test_every_layout_in_memory() -> None:
    x = layer()
    frozen = x.copy()
    frozen.flags.writeable = False
    turned: Any = torch.from_numpy(np.ascontiguousarray(x.T)).T
    layouts = [np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], frozen, turned]
    layouts += [np.ascontiguousarray(x[::-1])[::-1], torch.from_numpy(x).requires_grad_()]
    for layout in layouts:
        stack = make_stack([layout])
        np.testing.assert_array_equal(read(stack), x)
        np.testing.assert_array_equal(read(stack.take(np.array([3, 2]))), x[[3, 2]])


@pytest.mark.parametrize("order", ["<", ">"])
def test_either_byte_order(order: str) -> None:
    x = layer()
    stack = make_stack([x.astype(f"{order}f8")])
    np.testing.assert_array_equal(read(stack), x)


def test_half_precision_is_read_without_loss() -> None:
    x = torch.from_numpy(layer())
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        low = x.to(kind)
        np.testing.assert_array_equal(read(make_stack([low])), low.double().numpy())
        assert dtype_name(low) == str(kind).removeprefix("torch.")
    np.testing.assert_array_equal(
        read(make_stack([x.numpy().astype(np.float16)])), x.numpy().astype(np.float16).astype(np.float64)
    )


def test_a_memory_map_is_read_in_pieces(tmp_path: Path) -> None:
    x = layer(rows=50)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(read(make_stack([mapped]), 0, 20, 23), x[20:23])
