"""Does an ELMo of LSTMs compute what its files say, against numpy, one step at a time?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoders.elmo.slow import lstm_layers, lstm_word
from encoders.elmo.written import lstm_options, lstm_tensors, write_lstm
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import read_elmo
from microtome.encoders.elmo.model import ElmoModel

SENTENCES = [["A", "slice", "is", "thin", "."], [], ["né"], ["w" * 70, "<S>", "!"], ["x", "y"]]
OPTIONS = {
    "as released": lstm_options(),
    "no skip connections": lstm_options(lstm__use_skip_connections=False),
    "skip connections not named": lstm_options(lstm__use_skip_connections=...),
    "four layers": lstm_options(lstm__n_layers=4),
    "one layer, not named": lstm_options(lstm__n_layers=...),
    "nothing clipped": lstm_options(lstm__cell_clip=None, lstm__proj_clip=...),
    "tanh, 261 characters": lstm_options(char_cnn__activation="tanh", char_cnn__n_characters=261),
    "no highway": lstm_options(char_cnn__n_highway=...),
    "no projection": lstm_options(lstm__projection_dim=12),
    "wide filters": lstm_options(char_cnn__filters=[[50, 3], [1, 2], [7, 4]]),
}


def layers_of(model: ElmoModel, sentences: list[list[str]], **options: Any) -> np.ndarray:
    with torch.inference_mode():
        return torch.stack(model(character_ids(sentences), **options)).numpy()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ElmoModel:
    return read_elmo(write_lstm(tmp_path_factory.mktemp("lstm"))).double()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_every_layer(tmp_path: Path, options: dict[str, Any]) -> None:
    model = read_elmo(write_lstm(tmp_path, options))
    tensors = lstm_tensors(options)
    expected = [lstm_layers(tensors, options, sentence) for sentence in SENTENCES]
    depth, width = options["lstm"].get("n_layers", 1), 2 * options["lstm"]["projection_dim"]
    assert (model.kind, model.layers, model.width, model.training) == ("elmo", depth, width, False)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    for layers, tolerance in [
        (layers_of(model, SENTENCES), 1e-5),
        (layers_of(model.double(), SENTENCES), 1e-12),
    ]:
        assert layers.shape == (depth + 1, len(SENTENCES), 7, width)
        for i, states in enumerate(expected):
            np.testing.assert_allclose(layers[:, i, : states.shape[1]], states, rtol=0, atol=tolerance)
            assert not layers[:, i, states.shape[1] :].any()
    for sentence, states in zip(SENTENCES, expected, strict=True):
        np.testing.assert_allclose(layers_of(model, [sentence])[:, 0], states, rtol=0, atol=1e-12)


def test_the_samples_reach_what_they_are_for() -> None:
    states = lstm_layers(lstm_tensors(lstm_options()), lstm_options(), SENTENCES[0])
    assert np.isclose(np.abs(states[1]), 0.4).mean() > 0.05  # clipped
    assert (np.abs(states[1]) < 0.39).mean() > 0.2


def test_token_vectors_come_before_the_sentence(model: ElmoModel) -> None:
    layers = layers_of(model, [["wide", "thin", "wide"]])
    vector = lstm_word(lstm_tensors(lstm_options()), lstm_options(), "wide")
    for place in (1, 3):
        np.testing.assert_allclose(layers[0, 0, place], np.concatenate([vector, vector]), atol=1e-12)
    assert np.abs(layers[1, 0, 1] - layers[1, 0, 3]).max() > 0.01


def test_more_words_than_go_through_the_filters_at_once(model: ElmoModel) -> None:
    words = [f"{i}{'long' * (i % 13)}" for i in range(1100)]
    whole = layers_of(model, [words])[0, 0, 1:-1]
    for i in (0, 511, 512, 1023, 1024, 1099):
        alone = layers_of(model, [[words[i]]])[0, 0, 1]
        np.testing.assert_allclose(whole[i], alone, atol=1e-12)


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
        np.testing.assert_allclose(together[:, i, : alone.shape[1]], alone, atol=1e-12)
        assert not together[:, i, alone.shape[1] :].any()


def test_nothing_is_remembered(model: ElmoModel) -> None:
    first = layers_of(model, SENTENCES)
    layers_of(model, SENTENCES[::-1])
    np.testing.assert_array_equal(layers_of(model, SENTENCES), first)


def test_raw_last_changes_nothing(model: ElmoModel) -> None:
    np.testing.assert_array_equal(layers_of(model, SENTENCES, raw_last=True), layers_of(model, SENTENCES))


def test_no_sentence_and_no_word(model: ElmoModel) -> None:
    assert layers_of(model, []).shape == (3, 0, 2, 10)
    assert layers_of(model, [[]]).shape == (3, 1, 2, 10)
