"""Does `mt.extract` give the rows of every layer, of the words that the user asked for?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.errors import InputError, WorkError
from microtome.testing.families import states

TEXT = ["The cat doesn't sleep.", "Every reader likes long books.", "Stop."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_checkpoint(tmp_path_factory.mktemp("models") / "bert", "bert")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Any:
    return mt.load(folder)


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICROTOME_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.mark.parametrize("subword", ["first", "last", "mean"])
def test_rows_are_the_states_of_words(encoder: Any, subword: str) -> None:
    found = mt.extract(encoder, TEXT, subword=subword)
    assert found.names == ("bert/0", "bert/1", "bert/2", "bert/3")
    row = 0
    for place, text in enumerate(TEXT):
        (tokens,) = encoder.words([text.split()])
        seen = states(encoder, [tokens])
        for word in range(len(text.split())):
            at = np.flatnonzero(tokens.words == word)
            at = {"first": at[:1], "last": at[-1:], "mean": at}[subword]
            for layer, rows in enumerate(found.layers):
                np.testing.assert_allclose(rows[row], seen[layer][0, at].mean(0), atol=1e-5)
            assert (found.rows.ids[found.rows.clusters[row]], found.rows.units[row]) == (str(place), word)
            row += 1
    assert row == len(found.rows) == len(found.layers[0])


def test_the_row_of_an_example_is_its_first_token_or_the_mean(encoder: Any) -> None:
    cls, mean = (mt.extract(encoder, TEXT, rows=kind) for kind in ("cls", "mean"))
    within = mt.extract(encoder, TEXT, rows="mean", special="in")
    assert cls.names == mean.names == ("bert/0", "bert/1", "bert/2", "bert/3")
    for place, text in enumerate(TEXT):
        (tokens,) = encoder.texts([(text, None)])
        last = states(encoder, [tokens])[3][0]
        np.testing.assert_allclose(cls.layers[-1][place], last[0], atol=1e-5)
        np.testing.assert_allclose(mean.layers[-1][place], last[~tokens.special].mean(0), atol=1e-5)
        np.testing.assert_allclose(within.layers[-1][place], last.mean(0), atol=1e-5)


@pytest.mark.parametrize("kind", ["cls", "mean", "token", "word"])
def test_a_layer_is_found_by_its_number_whatever_a_row_is(encoder: Any, kind: str) -> None:
    found = mt.extract(encoder, TEXT[:1], rows=kind)
    cut = encoder.words([TEXT[0].split()]) if kind == "word" else encoder.texts([(TEXT[0], None)])
    seen = states(encoder, cut)
    (tokens,) = cut
    inside = np.flatnonzero(~tokens.special)
    for layer in range(4):
        own = seen[layer][0]
        first = {"cls": own[0], "mean": own[inside].mean(0)}.get(kind, own[inside[0]])
        np.testing.assert_allclose(found.layers[layer][0], first, atol=1e-5)
    assert len(found.layers) == 4


def test_the_store_is_where_the_user_says(encoder: Any, shelf: Path, tmp_path: Path) -> None:
    assert shelf in mt.extract(encoder, TEXT).folder.parents
    found = mt.extract(encoder, TEXT, store=tmp_path / "elsewhere")
    assert tmp_path / "elsewhere" in found.folder.parents


def test_layers_feed_similarity_matrix(encoder: Any) -> None:
    found = mt.extract(encoder, TEXT * 4)
    one, two = (
        mt.similarity_matrix(given, measures="linear_cka", names=found.names)["linear_cka"]
        for given in (list(found.layers), found.folder)
    )
    np.testing.assert_allclose(one.values, two.values, atol=1e-12)


def test_a_folder_and_a_file_will_do(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(TEXT))
    found = mt.extract(folder, tmp_path / "lines.txt", sample=4, seed=3, storage="float16")
    assert (found.model, len(found.rows), found.layers[2].dtype) == ("bert", 4, np.float16)
    assert found.facts["texts"]["name"] == "lines"


def test_a_corpus_that_changed_meanwhile_is_noticed(encoder: Any, tmp_path: Path, shelf: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXT))
    opened = mt.corpus(path)
    path.write_text("\n".join([*TEXT[:2], "Go on."]))
    with pytest.raises(WorkError, match="must stay as it was when it was opened"):
        mt.extract(encoder, opened)
    assert not shelf.exists()


def test_another_library_s_model_is_told(encoder: Any) -> None:
    said = "a model must be what microtome.load gives, a hub id or a folder, but got 'BertModel'."
    with pytest.raises(InputError) as caught:
        mt.extract(encoder.model, TEXT)
    assert str(caught.value) == said


def test_a_model_that_was_changed_is_another_model(folder: Path) -> None:
    encoder: Any = mt.load(folder)
    first = mt.extract(encoder, TEXT)
    with torch.no_grad():
        encoder.blocks[-1].output.dense.bias[0].add_(1)
    second = mt.extract(encoder, TEXT)
    assert first.address != second.address
    np.testing.assert_array_equal(first.layers[2], second.layers[2])
    assert np.abs(first.layers[3] - second.layers[3]).max() > 1e-3


@pytest.mark.parametrize(
    "options, said",
    [
        ({"rows": "words"}, "rows must be one of cls, mean, token, word, but got 'words'."),
        ({"subword": "middle"}, "subword must be one of first, last, mean, but got 'middle'."),
        ({"special": "yes"}, "special must be one of in, out, but got 'yes'."),
        ({"longest": 0}, "longest must be at least 1, but got 0."),
        ({"sample": 3}, "sample must be at least 4, but got 3."),
        ({"sample": 99}, "sample must be at most the 10 rows that there are, but got 99."),
        ({"seed": -1}, "seed must be a whole number of at least 0, but got -1."),
        ({"published": "li"}, "published must be one of wu, but got 'li'."),
        ({"storage": "int8"}, "storage must be one of bfloat16, float16, float32, but got 'int8'."),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1, but got 0."),
    ],
)
def test_a_wrong_request_is_one_sentence(
    encoder: Any, shelf: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(mt.MicrotomeError) as caught:
        mt.extract(encoder, TEXT, **options)
    assert str(caught.value).startswith(said)
    assert not shelf.exists()
