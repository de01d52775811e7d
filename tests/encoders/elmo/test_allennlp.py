"""Are a configuration and its tensors read as they are, and is nothing in them run?"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from encoders.elmo.written import (
    EMBEDDER,
    changed,
    transformer_config,
    transformer_tensors,
    write_transformer,
)
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import read_elmo
from microtome.errors import InputError

FORWARD = "_contextualizer._forward_transformer"
PLACE = "model.text_field_embedder.token_embedders"
NAME = f"{PLACE}.token_characters"


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_elmo(path)
    assert str(caught.value) == sentence


def test_tensors_of_other_floating_types(tmp_path: Path) -> None:
    tensors = {
        name: torch.from_numpy(x).half() for name, x in transformer_tensors(transformer_config()).items()
    }
    layers = read_elmo(write_transformer(tmp_path / "a", tensors=tensors))(character_ids([["a"]]))
    same = {name: x.double() for name, x in tensors.items()}
    expected = read_elmo(write_transformer(tmp_path / "b", tensors=same))(character_ids([["a"]]))
    assert all(torch.equal(x, y) for x, y in zip(layers, expected, strict=True))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"model": ...}, "{source} must hold model.type, but it is missing."),
        (
            {"model.type": "crf_tagger"},
            "model.type in {source} must be language_model or bidirectional_language_model or "
            "bidirectional-language-model, but got 'crf_tagger'.",
        ),
        (
            {"model.contextualizer.type": "lstm"},
            "model.contextualizer.type in {source} must be bidirectional_language_model_transformer, "
            "but got 'lstm'.",
        ),
        ({"model.bidirectional": False}, "model.bidirectional in {source} must be true, but got False."),
        (
            {"model.text_field_embedder": ...},
            "{source} must hold model.text_field_embedder, but it is missing.",
        ),
        (
            {"model.text_field_embedder": 3},
            "model.text_field_embedder in {source} must be embedders by name, but got 3.",
        ),
        (
            {f"{PLACE}.tokens": {"type": "embedding"}},
            f"{PLACE} in {{source}} must be one embedder, of the type character_encoding, but got "
            "['character_encoding', 'embedding'].",
        ),
        (
            {f"{NAME}.embedding.num_embeddings": 261},
            f"{NAME}.embedding.num_embeddings in {{source}} must be 262, but got 261.",
        ),
        (
            {f"{NAME}.encoder.type": "cnn"},
            f"{NAME}.encoder.type in {{source}} must be cnn-highway, but got 'cnn'.",
        ),
        (
            {f"{NAME}.encoder.activation": "selu"},
            f"{NAME}.encoder.activation in {{source}} must be relu or tanh, but got 'selu'.",
        ),
        (
            {f"{NAME}.encoder.projection_location": None},
            f"{NAME}.encoder.projection_location in {{source}} must be after_cnn or after_highway, "
            "but got None.",
        ),
        (
            {f"{NAME}.encoder.projection_dim": 8},
            f"{NAME}.encoder.projection_dim in {{source}} must be the contextualizer's input_dim, 16, "
            "but got 8.",
        ),
        (
            {f"{NAME}.encoder.projection_dim": 12, "model.contextualizer.input_dim": 12},
            "model.contextualizer.input_dim in {source} must be a multiple of 8, but got 12.",
        ),
        (
            {"model.contextualizer.num_layers": 0},
            "model.contextualizer.num_layers in {source} must be a whole number of at least 1, but got 0.",
        ),
    ],
)
def test_configurations_that_cannot_be(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    write_transformer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(changed(transformer_config(), change)))
    refused(tmp_path, words.format(source=f"config.json in {tmp_path}"))


@pytest.mark.parametrize(
    "change, words",
    [
        ({f"{FORWARD}.norm.gamma": None}, f"{{source}} must hold {FORWARD}.norm.gamma, but it is missing."),
        (
            {f"{FORWARD}.norm.gamma": np.zeros(15, np.float32)},
            f"{FORWARD}.norm.gamma in {{source}} must have the shape [16], as the configuration says, "
            "but it has [15].",
        ),
        (
            {f"{EMBEDDER}._embedding._module.weight": np.zeros((261, 4), np.float32)},
            f"{EMBEDDER}._embedding._module.weight in {{source}} must have the shape [262, 4], as the "
            "configuration says, but it has [261, 4].",
        ),
        (
            {f"{FORWARD}.norm.gamma": torch.ones(16, dtype=torch.int32)},
            f"{FORWARD}.norm.gamma in {{source}} must hold floating numbers, but it holds torch.int32.",
        ),
        (
            {f"{FORWARD}.norm.gamma": [1.0] * 16},
            f"{FORWARD}.norm.gamma in {{source}} must hold floating numbers, but it holds list.",
        ),
        (
            {f"{FORWARD}.norm.gamma": torch.eye(16).to_sparse()},
            f"{FORWARD}.norm.gamma in {{source}} must hold floating numbers, but it holds Tensor.",
        ),
        (
            {f"{FORWARD}.norm.gamma": torch.full((16,), torch.inf)},
            f"{FORWARD}.norm.gamma in {{source}} must hold finite numbers, but some are not.",
        ),
        (
            {f"{FORWARD}.layers.3.sublayer.0.norm.gamma": torch.ones(16)},
            f"{{source}} must hold what the configuration says, but it also holds "
            f"{FORWARD}.layers.3.sublayer.0.norm.gamma.",
        ),
        (
            {f"{EMBEDDER}._encoder._module.char_conv_3.bias": torch.ones(16)},
            f"{{source}} must hold what the configuration says, but it also holds "
            f"{EMBEDDER}._encoder._module.char_conv_3.bias.",
        ),
    ],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    tensors = {**transformer_tensors(transformer_config()), **change}
    write_transformer(tmp_path, tensors={name: x for name, x in tensors.items() if x is not None})
    refused(tmp_path, words.format(source=f"weights.th in {tmp_path}"))


def test_weights_that_are_no_mapping(tmp_path: Path) -> None:
    write_transformer(tmp_path)
    torch.save([torch.ones(3)], tmp_path / "weights.th")
    refused(tmp_path, f"weights.th in {tmp_path} must hold tensors by name, but it holds a list.")


def test_weights_that_are_broken(tmp_path: Path) -> None:
    write_transformer(tmp_path)
    whole = (tmp_path / "weights.th").read_bytes()
    for content in (b"", b"text", b"PK\x03\x04", whole[: len(whole) // 2], whole[:-10]):
        (tmp_path / "weights.th").write_bytes(content)
        with pytest.raises(
            InputError, match=r"^weights\.th in .* must (be|hold) .*, but it cannot be read.*\.$"
        ):
            read_elmo(tmp_path)


@pytest.mark.parametrize("form", ["zip", "legacy", "pickle"])
def test_a_pickle_that_wants_to_run_code(tmp_path: Path, form: str) -> None:
    flag, path = tmp_path / "flag", write_transformer(tmp_path) / "weights.th"

    class Trap:
        def __reduce__(self):
            return (Path.touch, (flag,))

    content = {f"{FORWARD}.norm.gamma": Trap()}
    if form == "pickle":
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(InputError) as caught:
        read_elmo(tmp_path)
    sentence = str(caught.value)
    assert sentence.startswith(f"weights.th in {tmp_path} must hold tensors and nothing else, but it ")
    assert "\n" not in sentence
    assert not flag.exists()
    if form == "pickle":
        pickle.loads(path.read_bytes())
    else:
        assert "asks to run" in sentence
        torch.load(path, weights_only=False)
    assert flag.exists()  # the trap is a real one
