"""Inputs of two texts are paired at equal length and in one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from microtome.corpora.examples import Example
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.lengths import match_lengths
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
