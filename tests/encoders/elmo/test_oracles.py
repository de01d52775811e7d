"""Are the states of released ELMos those that the original programs wrote down for them?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import is_elmo, read_elmo
from microtome.encoders.elmo.model import ElmoModel

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("MICROTOME_SHARED", ROOT.parent / "shared"))
ORACLES = SHARED / "oracles"
KINDS = {
    "elmo": ("elmo", 2),
    "elmo-noskip": ("elmo", 2),
    "elmo4": ("elmo", 4),
    "elmo-transformer": ("transformer-elmo", 3),
    "elmo-transformer2": ("transformer-elmo", 2),
}


def folder(name: str) -> Path:
    if not (ORACLES / name).is_dir():
        pytest.skip(
            f"the states of {name} are not here: MICROTOME_SHARED names the folder with oracles/{name}"
        )
    return ORACLES / name


def layers_of(model: ElmoModel, sentences: list[list[str]], **options: Any) -> np.ndarray:
    with torch.inference_mode():
        return torch.stack(model(character_ids(sentences), **options)).numpy()


def near(states: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(states, expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_it_is_read(name: str) -> None:
    path = folder(name)
    assert is_elmo(path)
    model = read_elmo(path)
    assert (model.kind, model.layers, model.width) == (*KINDS[name], 32)


@pytest.mark.parametrize("name", ["elmo", "elmo-noskip"])
@pytest.mark.parametrize("together", [True, False])
def test_the_top_layer_of_first_sentences(name: str, together: bool) -> None:
    # The original program carries its state on: only the first sentence of a list starts from zero.
    path = folder(name)
    model = read_elmo(path)
    (listed,) = path.glob("*sentences.json")
    firsts = [sentences[0].split() for sentences in json.loads(listed.read_text())]
    expected = []
    for k in range(len(firsts)):
        with h5py.File(path / f"lm_embeddings_{k}.hdf5") as file:
            expected.append(np.concatenate(list(np.asarray(file["0"])), -1))
    for row in [range(len(firsts))] if together else [[k] for k in range(len(firsts))]:
        top = layers_of(model, [firsts[k] for k in row])[-1]
        for states, k in zip(top, row, strict=True):
            near(states[1 : 1 + len(firsts[k])], expected[k])


def test_token_vectors() -> None:
    path = folder("elmo")
    words = (path / "vocab_test.txt").read_text().splitlines()
    with h5py.File(path / "elmo_token_embeddings.hdf5") as file:
        expected = np.asarray(file["embedding"])
    assert len(expected) == len(words)
    layer = layers_of(read_elmo(path), [[word] for word in words])[0, :, 1]
    near(layer, np.concatenate([expected, expected], -1))


@pytest.mark.parametrize("name", [name for name in KINDS if name != "elmo-noskip"])  # it has no such states
def test_every_layer_without_state(name: str) -> None:
    path = folder(name)
    model = read_elmo(path)
    with h5py.File(path / ("states.hdf5" if "transformer" in name else "states_stateless.hdf5")) as states:
        alone = {key: np.asarray(node) for key, node in states.items() if "words" in node.attrs}
        sentences = [json.loads(str(states[key].attrs["words"])) for key in alone]
    assert len(alone) >= 2
    together = layers_of(model, sentences)
    for i, (sentence, expected) in enumerate(zip(sentences, alone.values(), strict=True)):
        near(layers_of(model, [sentence])[:, 0], expected)
        near(together[:, i, : expected.shape[1]], expected)


def test_the_padded_batch_of_the_transformer() -> None:
    path = folder("elmo-transformer")
    with h5py.File(path / "states.hdf5") as states:
        sentences = json.loads(str(states.attrs["words"]))
        expected, mask = np.asarray(states["batch_states"]), np.asarray(states["mask"]).astype(bool)
    layers = layers_of(read_elmo(path), sentences)
    assert layers.shape == expected.shape
    near(layers[:, mask], expected[:, mask])
