"""Are options and HDF5 weights read as they are, and refused where they cannot be right?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from encoders.elmo.written import (
    changed,
    lstm_options,
    lstm_tensors,
    write_lstm,
)
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import read_elmo
from microtome.errors import InputError, MissingExtraError

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_elmo(path)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_weights_of_other_floating_types(tmp_path: Path, dtype: Any) -> None:
    tensors = {name: x.astype(np.float16).astype(dtype) for name, x in lstm_tensors(lstm_options()).items()}
    layers = read_elmo(write_lstm(tmp_path / "a", tensors=tensors))(character_ids([["a"]]))
    same = {name: x.astype(np.float32) for name, x in tensors.items()}
    expected = read_elmo(write_lstm(tmp_path / "b", tensors=same))(character_ids([["a"]]))
    assert all(torch.equal(x, y) for x, y in zip(layers, expected, strict=True))


def test_h5py_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lstm(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError) as caught:
        read_elmo(tmp_path)
    assert str(caught.value) == (
        "h5py must be installed to read the weights of an ELMo, but it is missing: "
        "pip install microtome[elmo]."
    )


@pytest.mark.parametrize(
    "change, words",
    [
        ({"lstm": ...}, "{path} must hold lstm.projection_dim, but it is missing."),
        ({"char_cnn": ...}, "{path} must hold char_cnn.n_characters, but it is missing."),
        ({"lstm.dim": ...}, "{path} must hold lstm.dim, but it is missing."),
        ({"lstm.dim": 0}, "lstm.dim in {path} must be a whole number of at least 1, but got 0."),
        ({"lstm.dim": True}, "lstm.dim in {path} must be a whole number of at least 1, but got True."),
        (
            {"lstm.n_layers": 2.0},
            "lstm.n_layers in {path} must be a whole number of at least 1, but got 2.0.",
        ),
        *(
            (
                {f"lstm.{name}": value},
                f"lstm.{name} in {{path}} must be a number above 0 that float32 can hold, or null, but got "
                f"{value!r}.",
            )
            for name, value in (
                ("cell_clip", 0),
                ("proj_clip", "3"),
                ("cell_clip", 1e308),
                ("proj_clip", 10**400),
            )
        ),
        (
            {"lstm.use_skip_connections": 1},
            "lstm.use_skip_connections in {path} must be true or false, but got 1.",
        ),
        ({"bidirectional": False}, "bidirectional in {path} must be true, but got False."),
        ({"char_cnn.n_characters": 100}, "char_cnn.n_characters in {path} must be 262 or 261, but got 100."),
        (
            {"char_cnn.max_characters_per_token": 40},
            "char_cnn.max_characters_per_token in {path} must be 50, but got 40.",
        ),
        (
            {"char_cnn.activation": "gelu"},
            "char_cnn.activation in {path} must be relu or tanh, but got 'gelu'.",
        ),
        (
            {"char_cnn.activation": ["relu"]},
            "char_cnn.activation in {path} must be relu or tanh, but got ['relu'].",
        ),
        (
            {"char_cnn.n_highway": -1},
            "char_cnn.n_highway in {path} must be a whole number of at least 0, but got -1.",
        ),
        (
            {"char_cnn.filters": [[51, 2]]},
            "char_cnn.filters in {path} must be a list of pairs [width up to 50, number], but got [[51, 2]].",
        ),
        (
            {"char_cnn.filters": []},
            "char_cnn.filters in {path} must be a list of pairs [width up to 50, number], but got [].",
        ),
        (
            {"char_cnn.filters": {"1": 3}},
            "char_cnn.filters in {path} must be a list of pairs [width up to 50, number], "
            "but got {{'1': 3}}.",
        ),
        (
            {"char_cnn.filters": [[1, 3, 4]]},
            "char_cnn.filters in {path} must be a list of pairs [width up to 50, number], "
            "but got [[1, 3, 4]].",
        ),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    write_lstm(tmp_path)
    path = tmp_path / "options.json"
    path.write_text(json.dumps(changed(lstm_options(), change)))
    refused(tmp_path, words.format(path=path))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"char_embed": None}, "{path} must hold the dataset char_embed, but it is missing."),
        ({f"{CELL}/W_P_0": None}, f"{{path}} must hold the dataset {CELL}/W_P_0, but it is missing."),
        (
            {"char_embed": np.zeros((262, 4), np.float32)},
            "char_embed in {path} must have the shape [261, 4], as the options say, but it has [262, 4].",
        ),
        (
            {f"{CELL}/W_0": np.zeros((10, 24), np.float32)},
            f"{CELL}/W_0 in {{path}} must have the shape [10, 28], as the options say, but it has [10, 24].",
        ),
        (
            {"CNN/b_cnn_0": np.float32(3)},
            "CNN/b_cnn_0 in {path} must have the shape [3], as the options say, but it has [].",
        ),
        (
            {"CNN/b_cnn_0": h5py.Empty("f4")},
            "CNN/b_cnn_0 in {path} must have the shape [3], as the options say, but it has [].",
        ),
        (
            {"CNN/b_cnn_0": np.zeros(3, np.int32)},
            "CNN/b_cnn_0 in {path} must hold floating numbers, but it holds int32.",
        ),
        (
            {"CNN/b_cnn_0": np.array([0, np.nan, 0])},
            "CNN/b_cnn_0 in {path} must hold finite numbers, but some are not.",
        ),
        (
            {"CNN/b_cnn_0": np.array([0, 1e300, 0])},
            "CNN/b_cnn_0 in {path} must hold finite numbers, but some are not.",
        ),
        (
            {"CNN/b_cnn_0": None, "CNN/b_cnn_0/deeper": np.zeros(3)},
            "CNN/b_cnn_0 in {path} must be a dataset, but it is a group.",
        ),
        (
            {"CNN": np.zeros(3), **{f"CNN/{kind}_cnn_{i}": None for kind in "Wb" for i in range(3)}},
            "{path} must hold the dataset CNN/W_cnn_0, but it is missing.",
        ),
        (
            {"RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell/B": np.zeros(28)},
            "{path} must hold what the options say, "
            "but it also holds RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell/B.",
        ),
        (
            {"CNN/W_cnn_3": np.zeros((1, 4, 4, 4))},
            "{path} must hold what the options say, but it also holds CNN/W_cnn_3.",
        ),
    ],
)
def test_datasets_that_do_not_fit(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    tensors = {**lstm_tensors(lstm_options()), **change}
    write_lstm(tmp_path, tensors={name: x for name, x in tensors.items() if x is not None})
    refused(tmp_path, words.format(path=tmp_path / "weights.hdf5"))


def test_other_datasets_are_left_alone(tmp_path: Path) -> None:
    write_lstm(tmp_path, tensors={**lstm_tensors(lstm_options()), "softmax/W": np.zeros(3)})
    assert read_elmo(tmp_path).layers == 2


def test_a_file_that_is_no_hdf5(tmp_path: Path) -> None:
    write_lstm(tmp_path)
    whole = (tmp_path / "weights.hdf5").read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2]):
        (tmp_path / "weights.hdf5").write_bytes(content)
        with pytest.raises(InputError, match=r"weights\.hdf5 must be an HDF5 file, but got: .*\.$"):
            read_elmo(tmp_path)


def test_a_dataset_that_was_damaged(tmp_path: Path) -> None:
    tensors = lstm_tensors(lstm_options())
    write_lstm(tmp_path, tensors=tensors)
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "a") as file:
        del file["CNN/b_cnn_0"]
        made = file.create_dataset("CNN/b_cnn_0", data=tensors["CNN/b_cnn_0"], chunks=(3,), fletcher32=True)
        place = made.id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"^CNN/b_cnn_0 in .* must be readable, but got: .*\.$"):
        read_elmo(tmp_path)


def soft(file: h5py.File, _: Path) -> None:
    file["CNN/b_cnn_0"] = h5py.SoftLink("/CNN/b_cnn_1")


def external(file: h5py.File, other: Path) -> None:
    file["CNN/b_cnn_0"] = h5py.ExternalLink(str(other), "/CNN/b_cnn_0")


def raw(file: h5py.File, other: Path) -> None:
    file.create_dataset("CNN/b_cnn_0", (3,), "f4", external=[(str(other), 0, 12)])


def virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource(str(other), "CNN/b_cnn_0", (3,))
    file.create_virtual_dataset("CNN/b_cnn_0", layout)


@pytest.mark.parametrize(
    "put, words",
    [
        (soft, "it is a link"),
        (external, "it is a link"),
        (raw, "it is in another one"),
        (virtual, "another one"),
    ],
)
def test_a_file_that_reaches_into_others(
    tmp_path: Path, put: Callable[[h5py.File, Path], None], words: str
) -> None:
    other = write_lstm(tmp_path / "other") / "weights.hdf5"
    write_lstm(tmp_path)
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["CNN/b_cnn_0"]
        put(file, other)
    with pytest.raises(InputError, match=rf"CNN/b_cnn_0 in .* must be in the file itself, but .*{words}\.$"):
        read_elmo(tmp_path)
