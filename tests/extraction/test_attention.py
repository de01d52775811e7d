"""Is the attention between words what the definition says, whatever the model and however it is batched?"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import tiny
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.extraction import attention
from microtome.extraction.attention import stream_attention, to_words
from microtome.randomness import generator
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options

# Both directions; left to right with two key heads for four query heads; both streams with its token last.
KINDS = ("bert", "qwen2", "xlnet")
CORPUS = [
    Example(id="a", words=("The", "sleepsleeps", "\u200b", "cat", "doesn't", "日本", "😀")),
    Example(id="b", words=("\u200b",)),
    Example(id="c", words=("Stop",)),
    Example(id="d", words=("Every", "reader", "who", "likes", "long", "books", "knows", "a", "short", "one")),
]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: load(tiny.save_checkpoint(folder / kind, kind)) for kind in KINDS}


def written_out(encoder: Any, words: tuple[str, ...], units: list[int]) -> np.ndarray:
    """Attention between words, cell by cell, from what the library gives for this sentence alone."""
    import transformers

    model = transformers.AutoModel.from_pretrained(encoder.source.given, attn_implementation="eager").eval()
    (tokens,) = encoder.words([words])
    with torch.inference_mode():
        given = encoder.tokenizer.collate([tokens], "cpu")
        blocks = model(**given, output_attentions=True).attentions
    out = np.empty((len(blocks), blocks[0].shape[1], len(units), len(units)))
    for b, block in enumerate(blocks):
        for h in range(block.shape[1]):
            for i, source in enumerate(units):
                rows = []
                for t in np.flatnonzero(tokens.words == source):
                    spread = block[0, h, t].double().numpy()
                    rows.append([spread[tokens.words == target].sum() for target in units])
                mean = np.mean(rows, axis=0)
                out[b, h, i] = mean / mean.sum()
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_words_attend_as_the_definition_says(encoders: dict[str, Any], kind: str) -> None:
    encoder = encoders[kind]
    # Planned with BERT, which loses zero-width spaces, so that words are left out in every model.
    rows = plan_rows(CORPUS, list({kind: encoder, "bert": encoders["bert"]}.values()), row_options("word"))
    found = list(stream_attention([encoder], CORPUS, rows))
    assert [one.place for one in found] == [0, 2, 3]
    assert rows.of_example(0).tolist() == [0, 1, 3, 4, 5, 6]
    for one in found:
        units = rows.of_example(one.place).tolist()
        expected = written_out(encoder, CORPUS[one.place].words or (), units)
        assert one.maps[0].shape == (3, 4, len(units), len(units))
        np.testing.assert_allclose(one.maps[0], expected, atol=1e-6)
        np.testing.assert_allclose(one.maps[0].sum(-1), 1, rtol=0, atol=1e-9)


def test_grouped_heads_are_told_apart(encoders: dict[str, Any]) -> None:
    encoder = encoders["qwen2"]
    assert encoder.config.num_key_value_heads < encoder.config.num_attention_heads
    rows = plan_rows(CORPUS, [encoder], row_options("word"))
    last = list(stream_attention([encoder], CORPUS, rows))[-1].maps[0]
    heads = last[0]
    assert len({head.round(6).tobytes() for head in heads}) == encoder.config.num_attention_heads
    assert (np.triu(last, 1) == 0).all()


def test_batches_windows_and_padding_change_nothing(
    encoders: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = list(encoders.values())
    rows = plan_rows(CORPUS, every, row_options("word"))
    together = list(stream_attention(every, CORPUS, rows))
    apart = [list(stream_attention([encoder], CORPUS, rows, window=2)) for encoder in every]
    monkeypatch.setattr(attention, "NUMBERS", 1)  # every sentence runs alone
    alone = list(stream_attention(every, CORPUS, rows))
    for k, one in enumerate(together):
        for side, maps in enumerate(one.maps):
            np.testing.assert_allclose(maps, alone[k].maps[side], atol=1e-6)
            np.testing.assert_allclose(maps, apart[side][k].maps[0], atol=1e-6)


def test_the_kernel_of_the_model_is_given_back(encoders: dict[str, Any]) -> None:
    encoder = encoders["bert"]
    before = encoder.config._attn_implementation
    assert before != "eager"
    rows = plan_rows(CORPUS, [encoder], row_options("word"))
    list(stream_attention([encoder], CORPUS, rows))
    assert encoder.config._attn_implementation == before


def test_rows_that_are_drawn_leave_the_others_out(encoders: dict[str, Any]) -> None:
    encoder = encoders["bert"]
    rows = plan_rows(CORPUS, [encoder], row_options("word", sample=8, seed=1))
    for one in stream_attention([encoder], CORPUS, rows):
        units = rows.of_example(one.place).tolist()
        expected = written_out(encoder, CORPUS[one.place].words or (), units)
        np.testing.assert_allclose(one.maps[0], expected, atol=1e-6)


def test_attention_is_between_words(encoders: dict[str, Any]) -> None:
    encoder = encoders["bert"]
    rows = plan_rows(CORPUS, [encoder], row_options("mean"))
    with pytest.raises(InputError, match="attention must be asked of rows of words, but got rows of mean"):
        list(stream_attention([encoder], CORPUS, rows))


def test_another_corpus_is_noticed(encoders: dict[str, Any]) -> None:
    encoder = encoders["bert"]
    rows = plan_rows(CORPUS, [encoder], row_options("word"))
    with pytest.raises(InputError, match="the one that the rows were planned on, but from example 0"):
        list(stream_attention([encoder], CORPUS[::-1], rows))


def test_progress_counts_sentences(encoders: dict[str, Any]) -> None:
    encoder = encoders["bert"]
    rows = plan_rows(CORPUS, [encoder], row_options("word"))
    said: list[tuple[str, int, int]] = []
    list(stream_attention([encoder], CORPUS, rows, window=3, progress=lambda *one: said.append(one)))
    assert said == [("sentences", 3, 4), ("sentences", 4, 4)]


def test_a_word_that_attends_to_no_word_is_spread_evenly_and_counted() -> None:
    maps = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    found, evened = to_words(maps, np.array([-1, 0, 1]), np.array([0, 1]))
    np.testing.assert_array_equal(found, [[0.5, 0.5], [1.0, 0.0]])
    assert evened == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 4), min_size=1, max_size=9).filter(lambda w: max(w) >= 0), st.integers(0, 99))
def test_gathering_equals_a_loop(words: list[int], seed: int) -> None:
    rng = generator(seed, "maps")
    maps = rng.dirichlet(np.full(len(words), 0.3), size=(2, len(words)))
    held = np.array(words)
    units = sorted(set(words) - {-1})[: int(rng.integers(1, 6))]
    found, evened = to_words(maps, held, np.array(units))
    expected = np.empty((2, len(units), len(units)))
    empty = 0
    for b in range(2):
        for i, source in enumerate(units):
            for j, target in enumerate(units):
                cells = [maps[b, t, held == target].sum() for t in np.flatnonzero(held == source)]
                expected[b, i, j] = np.mean(cells)
            total = expected[b, i].sum()
            empty += int(total == 0)
            expected[b, i] = expected[b, i] / total if total else 1 / len(units)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=0, atol=1e-9)
    assert evened == empty
