"""Are answers found again, character by character?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import samples
import tiny
from microtome.encoders.tokens import Tokenizer
from microtome.tasks.items import Item
from microtome.training.heads.decoding import decode
from microtome.training.heads.spans import best_span, cut
from microtome.training.inputs import encode

ODD = "Naïve  cafés in 日本 sell\n😀😀 tea — for $3.50!\tThe cat  doesn't sit on 日本's mat, it sleeps."
TOKENIZERS = {name: make() for name, make in tiny.TOKENIZERS.items()}


def answered(tokenizer: Tokenizer, passage: str, begin: int, end: int, **options: Any) -> list[str]:
    """What is read back where a model is sure of the right tokens, in each window that holds the answer."""
    item = Item(id="q", texts=("Who sits?", passage), target=((begin, passage[begin:end]),))
    features = encode([item], samples.task_of("span"), tokenizer, **options)
    out = []
    for each in features:
        start, stop = int(each.targets["starts"]), int(each.targets["ends"])
        if start != each.null:
            assert each.offsets is not None
            out.append(cut(passage, each.offsets[start, 0], each.offsets[stop, 1]))
    return out


@pytest.mark.parametrize("name", TOKENIZERS)
def test_answers_on_odd_text_are_read_back_exactly(name: str) -> None:
    tokenizer = Tokenizer(TOKENIZERS[name])
    for words in ("cafés", "日本", "😀😀", "3.50", "cat  doesn't sit", "sleeps.", "Naïve"):
        begin = ODD.index(words)
        (found,) = answered(tokenizer, ODD, begin, begin + len(words))
        # An unknown word is one token: then the answer is as much of it as tokens can tell.
        assert words in found
        if name in ("bytes", "bare"):
            assert found == words


@settings(max_examples=40, deadline=None)
@given(data=st.data(), name=st.sampled_from(["bytes", "bare"]))
def test_whole_words_are_read_back_from_every_window_that_holds_them(data: st.DataObject, name: str) -> None:
    words = data.draw(
        st.lists(
            st.sampled_from(["cat", "日本", "😀", "sits", "x", "café", "books"]), min_size=1, max_size=25
        )
    )
    gaps = data.draw(st.lists(st.sampled_from([" ", "  ", "\n"]), min_size=len(words), max_size=len(words)))
    passage = "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 2, len(words) - 1)))
    begin = sum(len(w) + len(g) for w, g in zip(words[:first], gaps[:first], strict=True))
    end = begin + sum(len(w) + len(g) for w, g in zip(words[first : last + 1], gaps[first:], strict=False))
    end -= len(gaps[last])
    found = answered(Tokenizer(TOKENIZERS[name]), passage, begin, end, longest=44, stride=14)
    assert all(each == passage[begin:end] for each in found)
    assert found, "an answer shorter than the stride is whole in one window"


def test_a_window_without_the_answer_points_to_no_answer() -> None:
    tokenizer = Tokenizer(TOKENIZERS["wordpiece"])
    passage = "The cat sits. " * 12 + "Every reader sleeps."
    begin = passage.index("reader")
    task = samples.task_of("span")
    item = Item(id="q", texts=("Who?", passage), target=((begin, "reader"),))
    features = encode([item], task, tokenizer, longest=24, stride=4)
    assert len(features) > 2
    held = [int(each.targets["starts"]) != each.null for each in features]
    assert held[-1]
    assert not any(held[:-2])
    (none,) = encode([Item(id="n", texts=("Who?", "No one."), target=())], task, tokenizer)
    assert none.targets["starts"] == none.targets["ends"] == none.null == 0
    (bare,) = encode(
        [Item(id="n", texts=("Who?", "No one."), target=())], task, Tokenizer(TOKENIZERS["bare"])
    )
    assert bare.offsets is not None
    assert bare.offsets[bare.null, 0] == -1, "what says that there is no answer must not be one"
    read_last = Tokenizer(TOKENIZERS["unigram, read last"])
    (last,) = encode([Item(id="n", texts=("Who?", "No one."), target=())], task, read_last)
    assert last.null == len(last) - 1


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_best_span_is_the_best_of_all(tokens: int, longest: int, random: object) -> None:
    generator = np.random.default_rng(random.randrange(2**30))  # pyright: ignore[reportAttributeAccessIssue]
    logits = generator.integers(-5, 6, size=(tokens + 2, 2)).astype(float)
    offsets = np.array([(-1, -1), *((3 * i, 3 * i + 2) for i in range(tokens)), (-1, -1)])
    score, begin, end = best_span(logits, offsets, longest=longest)
    sums = [
        logits[i, 0] + logits[j, 1]
        for i in range(1, tokens + 1)
        for j in range(i, min(i + longest, tokens + 1))
    ]
    assert score == max(sums)
    first, last = begin // 3 + 1, end // 3 + 1
    assert logits[first, 0] + logits[last, 1] == score
    assert 0 <= last - first < longest


def test_the_best_window_answers_and_every_window_must_deny() -> None:
    passage = "The cat sits. " * 12 + "Every reader sleeps."
    items = [Item(id="q", texts=("Who?", passage), target=())]
    task = samples.task_of("span")
    features = encode(items, task, Tokenizer(TOKENIZERS["wordpiece"]), longest=24, stride=4)
    outputs = [np.zeros((len(each), 2)) for each in features]
    place = int(np.flatnonzero(features[-1].offsets[:, 0] == passage.index("reader"))[0])  # pyright: ignore[reportOptionalSubscript]
    outputs[-1][place] = 3.0
    assert decode(outputs, features, items, task) == ["reader"]
    for each, feature in zip(outputs, features, strict=True):
        each[feature.null] = 4.0
    assert decode(outputs, features, items, task) == [""]
    assert decode(outputs, features, items, task, unanswerable=False) == ["reader"]
    outputs[0][features[0].null] = 2.0
    assert decode(outputs, features, items, task) == ["reader"]
