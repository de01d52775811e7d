"""Do numbers become the predictions that scores expect?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import samples
import tiny
from microtome.encoders.tokens import Tokenizer
from microtome.errors import InputError
from microtome.scores.table import SCORES
from microtome.tasks.task import Item
from microtome.training.heads.decoding import answers, best_span, best_tree, cut, decode
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build

Encoders = Callable[..., Any]
WORDPIECE = tiny.wordpiece()


def test_classes_choices_and_numbers() -> None:
    for kind in ("classification", "multiple_choice"):
        items, task = samples.items_of(kind), samples.task_of(kind)
        features = encode(items, task, Tokenizer(WORDPIECE))
        outputs = list(np.array([[0, 2, 1], [3, 0, 0], [0, 0, 1], [0, 1, 0]], dtype=float))
        assert decode(outputs, features, items, task) == [1, 0, 2, 1]
    items, task = samples.items_of("regression"), samples.task_of("regression", range=(0.0, 5.0))
    features = encode(items, task, Tokenizer(WORDPIECE))
    said = decode([np.array([v]) for v in (-1.0, 0.5, 7.0, 2.0)], features, items, task)
    assert said == [-1.0, 0.5, 7.0, 2.0]


def test_words_that_were_not_read_get_the_usual_tag() -> None:
    words = ("The", "cat", "sits", "on", "the", "mat")
    items, task = [Item(id="0", words=words, target=(0,) * 6)], samples.task_of("tagging")
    features = encode(items, task, Tokenizer(WORDPIECE), longest=6)
    seen = int((features[0].words >= 0).sum())  # pyright: ignore[reportOptionalOperand]
    assert 0 < seen < 6
    outputs = [np.tile([0.0, 0.0, 1.0], (6, 1))]
    outputs[0][0] = [1.0, 0.0, 0.0]
    usual = decode(outputs, features, items, task)[0]
    assert usual == (0, *(2 for _ in words[1:]))
    assert SCORES["tag_accuracy"].compute([usual], [items[0].target], samples.LABELS) == pytest.approx(1 / 6)


def test_words_that_were_not_read_hang_on_the_root() -> None:
    words = ("The", "\u200b", "cat", "sits")
    items, task = (
        [Item(id="0", words=words, target=((3, 0), (1, 0), (4, 1), (0, 2)))],
        samples.task_of("parsing"),
    )
    features = encode(items, task, Tokenizer(WORDPIECE))
    arcs, relations = np.zeros((4, 5)), np.zeros((4, 5, 3))
    for word, (head, name) in enumerate(items[0].target):
        arcs[word, head] = 5.0
        relations[word, head, name] = 1.0
    # The word that is nothing must not be anyone's head, however high it scores.
    arcs[0, 2] = 9.0
    (found,) = decode([(arcs, relations)], features, items, task)
    assert found == ((3, 0), (0, 0), (4, 1), (0, 2))


@pytest.mark.parametrize(("model_type", "head"), [("gpt2", "CausalLM"), ("bert", "MaskedLM")])
def test_likelihoods_are_those_of_the_library_and_add_up_over_windows(
    encoder_of: Encoders, model_type: str, head: str
) -> None:
    encoder, task = encoder_of(model_type, head), samples.task_of("language_modeling")
    items, model = samples.items_of("language_modeling"), build(encoder_of(model_type, head), task)
    features = encode(items, task, encoder.tokenizer, mask=model.mask)
    batch = collate(features)
    with torch.inference_mode():
        outputs = model(batch)
        found = decode(answers(model, outputs, batch, features), features, items, task)
        for item, (nll, count) in enumerate(found):
            one = collate([features[item]])
            labels = one["labels"]
            expected = encoder.model(
                input_ids=one["input_ids"], attention_mask=one["attention_mask"], labels=labels
            ).loss
            counted = labels[:, 1:] if encoder.family.causal else labels
            assert count == int((counted != -100).sum())
            assert nll / count == pytest.approx(float(expected), rel=1e-5)
        assert float(model.loss(outputs, batch)) == pytest.approx(
            sum(nll for nll, _ in found) / sum(count for _, count in found), rel=1e-5
        )
        cut = encode(items, task, encoder.tokenizer, mask=model.mask, longest=12, stride=4)
        assert len(cut) > len(features)
        batch = collate(cut)
        sums = decode(answers(model, model(batch), batch, cut), cut, items, task)
    if encoder.family.causal:
        assert [count for _, count in sums] == [count for _, count in found]
    assert SCORES["perplexity"].compute(sums, None, ()) > 1


def test_outputs_must_be_those_of_the_features() -> None:
    items, task = samples.items_of("classification"), samples.task_of("classification")
    features = encode(items, task, Tokenizer(WORDPIECE))
    with pytest.raises(InputError, match="outputs must be as many as the 4 features, but got 0"):
        decode([], features, items, task)


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
    answerable = [Item(id="q", texts=items[0].texts, target=((0, "The cat"),))]
    assert decode(outputs, features, answerable, task) == ["reader"]
    outputs[0][features[0].null] = 2.0
    assert decode(outputs, features, items, task) == ["reader"]


def is_tree(heads: tuple[int, ...]) -> bool:
    """Whether all words come to the root, and one of them stands there."""
    if sum(head == 0 for head in heads) != 1:
        return False
    for word in range(1, len(heads) + 1):
        seen = set()
        while word != 0:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


@given(
    st.integers(1, 5).flatmap(
        lambda n: arrays(np.float64, (n, n + 1), elements=st.integers(-20, 20).map(lambda v: v / 4))
    )
)
def test_no_other_tree_has_a_larger_sum(scores: np.ndarray) -> None:
    count = len(scores)
    found = tuple(best_tree(scores).tolist())
    assert is_tree(found)

    def total(heads: tuple[int, ...]) -> float:
        return float(sum(scores[word, head] for word, head in enumerate(heads)))

    best = max(total(h) for h in itertools.product(range(count + 1), repeat=count) if is_tree(h))
    assert total(found) == pytest.approx(best)


def test_long_sentences_get_trees() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 61)) * 5
    assert is_tree(tuple(best_tree(scores).tolist()))


def test_numbers_that_are_none_still_give_a_tree() -> None:
    assert is_tree(tuple(best_tree(np.full((4, 5), np.nan)).tolist()))
    assert best_tree(np.zeros((0, 1))).tolist() == []


def test_scores_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"scores of arcs must be of shape \(words, words \+ 1\)"):
        best_tree(np.zeros((3, 3)))
