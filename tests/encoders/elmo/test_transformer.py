"""Does a Transformer ELMo compute what its files say, against numpy, one token and one head at a time?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.elmo.slow import transformer_layers
from encoders.elmo.written import transformer_config, transformer_tensors, write_transformer
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import read_elmo
from microtome.encoders.elmo.model import ElmoModel

SENTENCES = [["A", "slice", "is", "thin", "."], [], ["né"], ["w" * 70, "<S>", "!"]]
CONFIGS = {
    "as released": transformer_config(),
    "projection before the highways, no norm": transformer_config(
        characters__encoder__projection_location="after_cnn", characters__encoder__do_layer_norm=False
    ),
    "tanh, one layer": transformer_config(
        characters__encoder__activation="tanh", model__contextualizer__num_layers=1
    ),
    "no highway, 24 features": transformer_config(
        characters__encoder__num_highway=0,
        characters__encoder__projection_dim=24,
        model__contextualizer__input_dim=24,
    ),
}


def layers_of(model: ElmoModel, sentences: list[list[str]], **options: Any) -> np.ndarray:
    with torch.inference_mode():
        return torch.stack(model(character_ids(sentences), **options)).numpy()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ElmoModel:
    return read_elmo(write_transformer(tmp_path_factory.mktemp("transformer"))).double()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_layer(tmp_path: Path, config: dict[str, Any]) -> None:
    model = read_elmo(write_transformer(tmp_path, config))
    tensors, contextualizer = transformer_tensors(config), config["model"]["contextualizer"]
    expected = [transformer_layers(tensors, config, sentence) for sentence in SENTENCES]
    depth, width = contextualizer["num_layers"], 2 * contextualizer["input_dim"]
    assert (model.kind, model.layers, model.width, model.training) == (
        "transformer-elmo",
        depth,
        width,
        False,
    )
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    # The sinusoid is computed in float32, as in the released code, also where the rest is float64.
    for layers, tolerance in [
        (layers_of(model, SENTENCES), 2e-5),
        (layers_of(model.double(), SENTENCES), 3e-6),
    ]:
        assert layers.shape == (depth + 1, len(SENTENCES), 7, width)
        for i, states in enumerate(expected):
            np.testing.assert_allclose(layers[:, i, : states.shape[1]], states, rtol=0, atol=tolerance)
            assert not layers[:, i, states.shape[1] :].any()
    for sentence, states in zip(SENTENCES, expected, strict=True):
        np.testing.assert_allclose(layers_of(model, [sentence])[:, 0], states, rtol=0, atol=3e-6)


def test_the_raw_last_layer(model: ElmoModel) -> None:
    config, tensors = transformer_config(), transformer_tensors(transformer_config())
    expected = transformer_layers(tensors, config, SENTENCES[0], final_norm=False)
    raw = layers_of(model, SENTENCES[:1], raw_last=True)
    np.testing.assert_allclose(raw[:, 0], expected, atol=3e-6)
    normed = layers_of(model, SENTENCES[:1])
    np.testing.assert_array_equal(raw[:-1], normed[:-1])
    assert np.abs(raw[-1] - normed[-1]).max() > 0.1
    assert model.final_norm is not None
    with torch.inference_mode():
        np.testing.assert_allclose(model.final_norm(torch.from_numpy(raw[-1])), normed[-1], atol=1e-12)


def test_a_direction_sees_one_side_only(model: ElmoModel) -> None:
    one, other = layers_of(model, [["a", "b", "c"], ["a", "b", "d"]]).swapaxes(0, 1)
    width = model.width // 2
    np.testing.assert_allclose(one[:, :3, :width], other[:, :3, :width], atol=1e-12)
    assert np.abs(one[1:, :3, width:] - other[1:, :3, width:]).max(axis=(1, 2)).min() > 1e-3


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=55), max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_a_padded_batch_equals_its_sentences(model: ElmoModel, sentences: list[list[str]]) -> None:
    together = layers_of(model, sentences)
    for i, sentence in enumerate(sentences):
        alone = layers_of(model, [sentence])[:, 0]
        np.testing.assert_allclose(together[:, i, : alone.shape[1]], alone, atol=1e-11)
        assert not together[:, i, alone.shape[1] :].any()


def test_half_precision_stays_near(tmp_path: Path, model: ElmoModel) -> None:
    half = read_elmo(write_transformer(tmp_path)).half()
    with torch.inference_mode():
        layers = torch.stack(half(character_ids(SENTENCES)))
    assert layers.dtype == torch.float16
    np.testing.assert_allclose(layers.double().numpy(), layers_of(model, SENTENCES), atol=0.1)


def test_no_sentence_and_no_word(model: ElmoModel) -> None:
    assert layers_of(model, []).shape == (4, 0, 2, 32)
    assert layers_of(model, [[]]).shape == (4, 1, 2, 32)
