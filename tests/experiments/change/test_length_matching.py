"""Inputs of two texts are paired at equal length and in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from microtome.corpora.examples import Example
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.change.length_matching import match_lengths
from microtome.extraction.texts import make_texts
from moving import sentences

Encoders = Callable[..., Any]


def test_pairs_have_as_many_tokens(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    first, second = sentences(40, seed=1), sentences(60, seed=2, longest=14)
    found = match_lengths(encoder, make_texts(first), make_texts(second))
    assert len(found.first) == len(found.second) == len(found.lengths) > 10
    for one, other, length in zip(found.first, found.second, found.lengths, strict=True):
        counts = [len(t) for t in encoder.texts([(one.text, None), (other.text, None)])]
        assert counts == [length, length]
    assert len({one.id for one in found.first}) == len(found.first)
    assert {one.text for one in found.second} <= set(second)
    assert found.given == (40, 60)
    assert found.before[0] < found.before[1]
    assert "of 40 and 60 inputs were paired" in found.sentence()


def test_a_text_is_paired_with_itself_input_by_input(encoder_of: Encoders) -> None:
    text = make_texts(sentences(30, seed=3))
    found = match_lengths(encoder_of("bert"), text, text, seed=5)
    assert found.first == found.second
    assert len(found.first) == 30


def test_all_inputs_get_one_form(encoder_of: Encoders) -> None:
    pairs = [
        Example(id=str(k), text=one, pair=two)
        for k, (one, two) in enumerate(zip(sentences(30, seed=1), sentences(30, seed=2), strict=True))
    ]
    words = [tuple(one.split()) for one in sentences(61, seed=3)]
    texts = make_texts(pairs), make_texts(words)
    alone = match_lengths(encoder_of("bert"), *texts)
    assert all(one.pair is None for one in (*alone.first, *alone.second))
    assert alone.given == (30, 61)
    both = match_lengths(encoder_of("bert"), *texts, template="pair")
    assert all(one.pair is not None for one in (*both.first, *both.second))
    # Sentences that stand alone make pairs with the one that follows.
    assert both.given == (30, 30)
    assert "a pair of texts" in both.sentence()


def test_what_cannot_be_paired_is_told(encoder_of: Encoders) -> None:
    short, long = make_texts(["a cat"]), make_texts(["a cat who sleeps on the mat"])
    with pytest.raises(InputError, match="none of 1 and 1 inputs match"):
        match_lengths(encoder_of("bert"), short, long)
    with pytest.raises(InputError, match="inputs for the template 'pair', but it has none"):
        match_lengths(encoder_of("bert"), short, short, template="pair")
    with pytest.raises(UnknownNameError, match="template must be one of pair, single"):
        match_lengths(encoder_of("bert"), short, short, template="two")


def test_documents_go_with_their_inputs(encoder_of: Encoders) -> None:
    # The second text numbers its documents, as its sentences are numbered; the last sentence has none.
    first = [Example(id=f"s{k}", text=one, group=f"d{k // 3}") for k, one in enumerate(sentences(30, seed=1))]
    second = [
        Example(id=str(k), text=one, group=str(k // 3) if k < 29 else "")
        for k, one in enumerate(sentences(30, seed=1))
    ]
    found = match_lengths(encoder_of("bert"), make_texts(first), make_texts(second))
    assert len(found.first) == 30
    groups = [[one.group for one in side] for side in (found.first, found.second)]
    for a in range(29):
        for b in range(29):
            same = a // 3 == b // 3
            assert [side[a] == side[b] for side in groups] == [same, same]
    assert groups[1].count(groups[1][29]) == 1


def test_pairs_are_of_one_document_where_it_has_two(encoder_of: Encoders) -> None:
    text = [f"w{k}" for k in range(13)]
    sizes = {"a": 3, "b": 4, "c": 1, "d": 3, "": 2}
    names = [name for name, size in sizes.items() for _ in range(size)]
    examples = [Example(id=f"s{k}", text=one, group=names[k]) for k, one in enumerate(text)]
    both = Example(id="two", text="w20", pair="w21", group="c")
    made = make_texts([*examples, both])
    found = match_lengths(encoder_of("bert"), made, made, template="pair").first
    pairs = {(one.text, one.pair): one.group for one in found}
    # a: w0 w1 | b: w3 w4, w5 w6 | d: w8 w9; left over are w2 of a, w7 of c, w10 of d, and w11 and w12.
    left = [("w2", "w7"), ("w10", "w11")]
    assert set(pairs) == {("w0", "w1"), ("w3", "w4"), ("w5", "w6"), ("w8", "w9"), ("w20", "w21"), *left}
    # What shares a pair of a and c is one cluster, the rest of both included.
    assert pairs["w0", "w1"] == pairs["w2", "w7"] == pairs["w20", "w21"]
    assert pairs["w3", "w4"] == pairs["w5", "w6"]
    assert pairs["w8", "w9"] == pairs["w10", "w11"]
    assert len(set(pairs.values())) == 3
