"""Are rows of different models the same words, and is what was lost told?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import tiny
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.encoders.tokens import Tokenizer
from microtome.errors import InputError
from microtome.extraction.streaming import stream
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options, select, tokenize
from microtome.rows.tokenizing import TokenCache

KINDS = ("bert", "roberta", "xlnet", "qwen2")  # word pieces, bytes, unigrams, bytes behind a pattern
ODD = ["don't", "日本語", "😀", "\u200b", "New York", "…", "a\u0301", "\ufeff", "$3.50", "\u00ad", "ﬁ"]
WORD = st.one_of(st.sampled_from(ODD), st.text(max_size=6))


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("models")
    return [load(tiny.save_checkpoint(folder / kind, kind)) for kind in KINDS]


def sentences(*words: list[str]) -> list[Example]:
    return [Example(id=f"s{k}", words=tuple(own)) for k, own in enumerate(words)]


def test_a_word_that_one_model_loses_is_dropped_in_all(encoders: list[Any]) -> None:
    corpus = sentences(["The", "\u200b", "cat", "", "sleeps"], [""], ["Stop", "."])
    rows = plan_rows(corpus, encoders, row_options("word"))
    assert rows.examples.tolist() == [0, 0, 0, 2, 2]
    assert rows.units.tolist() == [0, 2, 4, 0, 1]
    assert rows.candidates == 8
    assert rows.lost["bert"] == 3  # nothing is left of a zero-width space, nor of an empty word
    assert "dropped in all models, since lost in one: 3 in bert" in rows.sentence()
    alone = plan_rows(corpus, encoders[1:2], row_options("word"))
    assert alone.lost == {"roberta": 2}
    assert alone.digest != rows.digest


def test_words_of_a_pair_are_read_as_a_pair(encoders: list[Any]) -> None:
    pair = Example(id="p", text="The cat sleeps", pair="every mat")
    rows = plan_rows([pair], encoders, row_options("word"))
    assert rows.units.tolist() == [0, 1, 2, 3, 4]
    assert rows.paired
    for encoder in encoders:
        (words,) = tokenize(encoder, [pair], row_options("word"))
        (texts,) = tokenize(encoder, [pair], row_options("mean"))
        # As many tokens between and around the texts, and the same sides.
        assert words.special.sum() == texts.special.sum()
        assert set(words.types.tolist()) == set(texts.types.tolist())
    bert = tokenize(encoders[0], [pair], row_options("word"))[0]
    assert bert.special.sum() == 3
    assert bert.types[bert.words >= 3].tolist() == [1, 1]
    assert not plan_rows(sentences(["The", "cat"]), encoders, row_options("word")).paired
    assert not plan_rows([pair], encoders, row_options("mean")).paired


def test_every_sub_word_of_the_words_that_all_models_have_can_be_a_row(encoders: list[Any]) -> None:
    corpus = sentences(["The", "\u200b", "catcatcats", "", "sleeps"], ["Stop", "."])
    shared = plan_rows(corpus, encoders, row_options("word"))
    options, longer = replace(row_options("word"), subword="each"), []
    for encoder in encoders:
        rows = plan_rows(corpus, [encoder], options).among(shared)
        cut = [tokens.words for tokens in tokenize(encoder, corpus, options)]
        wanted = [sorted(w for w in own if w >= 0 and w in shared.of_example(e)) for e, own in enumerate(cut)]
        assert [rows.of_example(place).tolist() for place in range(2)] == wanted
        longer.append(len(rows) - len(shared))
        for place, tokens in enumerate(tokenize(encoder, corpus, options)):
            kept = select([tokens], options, encoder.family.reads).keep(rows.of_example(place))
            assert kept.units.tolist() == wanted[place]
            assert set(kept.sizes) == {1}
    assert min(longer) >= 0 < max(longer)
    with pytest.raises(InputError, match="models with one tokenizer"):
        plan_rows(corpus, encoders, options)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=6)), min_size=1, max_size=9), max_size=4
    )
)
def test_every_model_has_the_rows_of_the_plan(encoders: list[Any], words: list[list[str]]) -> None:
    corpus = sentences(["The", "cat"], *words)
    options = row_options("word", longest=24)
    rows = plan_rows(corpus, encoders, options)
    for encoder in encoders:
        for place, tokens in enumerate(tokenize(encoder, corpus, options)):
            own = select([tokens], options, encoder.family.reads)
            kept = own.keep(rows.of_example(place))
            assert kept.units.tolist() == rows.of_example(place).tolist()
            assert (tokens.words[kept.positions] == kept.units).all()
            assert not tokens.special[kept.positions].any()


def test_a_word_beyond_the_longest_input_is_dropped_and_counted(encoders: list[Any]) -> None:
    corpus = sentences(["cat"] * 80, ["cat"])
    rows = plan_rows(corpus, encoders, row_options("word", longest=10))
    assert rows.truncated == {"bert": 1, "roberta": 1, "xlnet": 1, "qwen2": 1}
    assert len(rows.of_example(0)) < 10
    assert "examples cut at the longest input: 1 in bert" in rows.sentence()


def test_which_sub_words_stand_for_a_word(encoders: list[Any]) -> None:
    bert = encoders[0]
    (tokens,) = bert.words([["cat", "sleepsleeps", "mat"]])
    places = np.flatnonzero(tokens.words == 1)
    assert len(places) > 1
    first, last, mean = (
        select([tokens], row_options("word", subword=s), "first") for s in ("first", "last", "mean")
    )
    assert (first.positions[1], last.positions[1]) == (places[0], places[-1])
    assert mean.sizes.tolist() == [np.sum(tokens.words == k) for k in range(3)]
    assert mean.keep(np.array([1])).positions.tolist() == places.tolist()


def test_rows_of_whole_examples(encoders: list[Any]) -> None:
    corpus = [Example(id="a", text="The cat sleeps.", pair="It sleeps."), Example(id="b", text="Stop.")]
    for kind in ("cls", "mean"):
        rows = plan_rows(corpus, encoders, row_options(kind))
        assert rows.examples.tolist() == [0, 1]
        assert rows.clusters.tolist() == [0, 1]
    for encoder in encoders:
        tokens = tokenize(encoder, corpus, row_options("cls"))[0]
        place = select([tokens], row_options("cls"), encoder.family.reads).positions.tolist()
        assert place == [len(tokens) - 1 if encoder.family.reads == "last" else 0]
        out = select([tokens], row_options("mean"), encoder.family.reads)
        inside = select([tokens], row_options("mean", special="in"), encoder.family.reads)
        assert out.sizes[0] == int((~tokens.special).sum())
        assert inside.sizes[0] == len(tokens)


def test_tokens_need_one_tokenizer(encoders: list[Any]) -> None:
    corpus = [Example(id="a", text="The cat sleeps.")]
    rows = plan_rows(corpus, encoders[:1], row_options("token"))
    assert len(rows) == int((~encoders[0].texts([("The cat sleeps.", None)])[0].special).sum())
    with pytest.raises(InputError, match="rows of tokens must come from models with one tokenizer, but"):
        plan_rows(corpus, encoders, row_options("token"))


def test_the_published_variant_has_no_special_tokens_and_no_sentence_twice(encoders: list[Any]) -> None:
    corpus = sentences(["The", "cat"], ["Stop"], ["The", "cat"])
    options = row_options("word", published="wu")
    rows = plan_rows(corpus, encoders, options)
    assert rows.examples.tolist() == [0, 0, 1]
    assert rows.skipped == {2}
    assert not any(t.special.any() for e in encoders for t in tokenize(e, corpus, options))
    assert "no special tokens in the input" in options.sentence()


def test_rows_are_drawn_with_the_seed(encoders: list[Any]) -> None:
    corpus = sentences(*[["The", "cat", "sleeps"]] * 20)
    draws = [plan_rows(corpus, encoders[:1], row_options("word", sample=30, seed=s)) for s in (1, 1, 2)]
    assert [len(rows) for rows in draws] == [30] * 3
    assert draws[0].digest == draws[1].digest != draws[2].digest
    assert (np.diff(draws[0].examples) >= 0).all()
    with pytest.raises(InputError, match=r"sample must be at most the 60 rows that there are, but got 61\."):
        plan_rows(corpus, encoders[:1], row_options("word", sample=61))


def test_the_digest_knows_ids_and_words(encoders: list[Any]) -> None:
    one = plan_rows(sentences(["The", "cat"]), encoders[:1], row_options("word"))
    other = plan_rows([Example(id="t", words=("The", "cat"))], encoders[:1], row_options("word"))
    assert one.digest != other.digest


@pytest.mark.parametrize(
    "options, words",
    [
        ({"rows": "line"}, "rows must be one of cls, mean, token, word, but got 'line'."),
        ({"rows": "word", "subword": "all"}, "subword must be one of last, first, mean, but got 'all'."),
        ({"rows": "mean", "special": "no"}, "special must be 'in' or 'out', but got 'no'."),
        ({"rows": "cls", "longest": 0}, "longest must be a whole number above 0, but got 0."),
        ({"rows": "cls", "sample": 3}, "sample must be a whole number of at least 4, but got 3."),
        ({"rows": "cls", "seed": -1}, "seed must be a whole number of at least 0, but got -1."),
        ({"rows": "word", "published": "phang"}, "published must be 'wu', but got 'phang'."),
        ({"rows": "cls", "published": "wu"}, "published='wu' must be asked of the last sub-words of words"),
    ],
)
def test_bad_options_are_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        row_options(**options)
    assert words in str(caught.value)


def test_bad_corpora_and_models_are_told(encoders: list[Any], tmp_path: Path) -> None:
    options = row_options("word")
    with pytest.raises(InputError, match="a corpus must hold at least one example, but it is empty"):
        plan_rows([], encoders, options)
    with pytest.raises(InputError, match="names of models must differ, but 'bert' stands twice"):
        plan_rows(sentences(["a"]), [encoders[0], encoders[0]], options)
    with pytest.raises(InputError, match="a comparison must have at least one model, but got none"):
        plan_rows(sentences(["a"]), [], options)
    with pytest.raises(InputError, match="ids of examples must differ, but 'a' stands twice"):
        plan_rows([Example(id="a", words=("x",))] * 2, encoders, options)


def test_rows_of_several_examples_are_those_of_each(encoders: list[Any]) -> None:
    corpus = sentences(["The", "\u200b", "catcatcats", "sleeps"], [""], ["Stop", "."], ["\u200b"])
    kinds = [row_options(kind) for kind in ("cls", "mean", "token", "word")]
    kinds += [row_options("mean", special="in"), row_options("word", subword="mean")]
    kinds += [replace(row_options("word", longest=4), framed=False, subword=s) for s in ("first", "each")]
    for encoder, options in product(encoders, kinds):
        tokenized = tokenize(encoder, corpus, options)
        together = select(tokenized, options, encoder.family.reads)
        apart = [select([tokens], options, encoder.family.reads) for tokens in tokenized]
        for name in ("units", "positions", "sizes"):
            assert getattr(together, name).tolist() == [v for own in apart for v in getattr(own, name)]
        assert together.examples.tolist() == [k for k, own in enumerate(apart) for _ in own.units]
        assert (np.diff(together.keys) >= (options.subword != "each")).all()


def test_texts_are_tokenized_once_for_all_models_with_one_tokenizer(
    encoders: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    twin: Any = load(encoders[0].source.given, name="twin")
    corpus = sentences(*[["The", "cat", str(k)] for k in range(9)])
    read: Counter[str] = Counter()
    plain = Tokenizer.words

    def words(self: Any, texts: Any, **options: Any) -> Any:
        read.update(f"{self.cuts} {text[2]}" for text in texts)
        return plain(self, texts, **options)

    monkeypatch.setattr(Tokenizer, "words", words)
    rows = plan_rows(corpus, [encoders[0], twin, encoders[1]], row_options("word"))
    whole = list(stream([encoders[0], twin, encoders[1]], corpus, rows, window=4))
    assert set(read.values()) == {1}
    assert len(read) == 2 * len(corpus)
    # Without room for tokens they are made again, once for each tokenizer.
    read.clear()
    rows = replace(rows, tokens=TokenCache(rows.options))
    assert rows.tokens is not None
    rows.tokens.room = 5
    list(stream([encoders[0], twin, encoders[1]], corpus, rows, window=4))
    again = list(stream([encoders[0], twin, encoders[1]], corpus, rows, window=4))
    assert sorted(set(read.values())) == [1, 2]
    for one, two in zip(whole, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.layers[1], two.layers[1], strict=True))
    # Another maximal length gives other tokens.
    assert load(encoders[0].source.given).tokenization == twin.tokenization
    twin.tokenizer = Tokenizer(twin.tokenizer._whole, longest=3)
    assert twin.tokenization != encoders[0].tokenization
