"""Are character ids those that ELMo was trained on?"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoders.elmo.slow import ids_of
from microtome.encoders.elmo.characters import character_ids, real_tokens
from microtome.errors import InputError

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SENTENCES = st.lists(st.lists(WORDS, max_size=5), max_size=4)


def test_a_word_by_hand() -> None:
    ids = character_ids([["é!"]])
    assert ids.dtype == torch.int64
    assert ids.shape == (1, 3, 50)
    assert ids[0, 0].tolist() == [259, 257, 260] + [261] * 47
    assert ids[0, 1].tolist() == [259, 196, 170, 34, 260] + [261] * 45
    assert ids[0, 2].tolist() == [259, 258, 260] + [261] * 47


@given(SENTENCES)
def test_any_sentences(sentences: list[list[str]]) -> None:
    ids = character_ids(sentences)
    longest = max(map(len, sentences), default=0)
    assert ids.shape == (len(sentences), longest + 2, 50)
    for row, sentence in zip(ids.tolist(), sentences, strict=True):
        words = ["<S>", *sentence, "</S>"]
        assert row[: len(words)] == [ids_of(word) for word in words]
        assert row[len(words) :] == [[0] * 50] * (longest - len(sentence))
    lengths = [len(sentence) + 2 for sentence in sentences]
    assert real_tokens(ids).sum(1).tolist() == lengths


def test_long_words_are_cut_at_48_bytes() -> None:
    ids = character_ids([["a" * 47 + "é" + "b", "x" * 48, "x" * 60, ""]])[0]
    assert ids[1].tolist() == [259, *[98] * 47, 196, 260]
    assert ids[2].tolist() == ids[3].tolist()
    assert ids[4].tolist() == [259, 260] + [261] * 48


def test_boundaries_may_be_written_as_words() -> None:
    ids = character_ids([["<S>", "</S>", "<s>"]])[0]
    assert ids[1].tolist() == ids[0].tolist()
    assert ids[2].tolist() == ids[4].tolist()
    assert ids[3].tolist() == ids_of("<s>")


def test_half_of_a_surrogate_pair_is_left_out() -> None:
    assert character_ids([["a\ud800b"]]).tolist() == character_ids([["ab"]]).tolist()


@pytest.mark.parametrize(
    "sentences, words",
    [
        (["one sentence"], "each of the sentences must be a list of words, but got 'one sentence'."),
        ([3], "each of the sentences must be a list of words, but got 3."),
        ([["a", 3]], "each word of the sentences must be a string, but got 3."),
        ([[b"a"]], "each word of the sentences must be a string, but got b'a'."),
        ("ab", "each of the sentences must be a list of words, but got 'a'."),
    ],
)
def test_what_is_not_a_sentence(sentences, words: str) -> None:
    with pytest.raises(InputError) as caught:
        character_ids(sentences)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "ids, words",
    [
        (
            torch.zeros(2, 50, dtype=torch.int64),
            "ids must be of the shape (sentences, tokens, 50), but got (2, 50).",
        ),
        (torch.zeros(1, 2, 49, dtype=torch.int64), "but got (1, 2, 49)."),
        (torch.zeros(1, 2, 50), "ids must be whole numbers, but got 'torch.float32'."),
        (torch.full((1, 2, 50), 262), "ids must be between 0 and 261, but got 262."),
        (torch.full((1, 2, 50), -1), "ids must be between 0 and 261, but got -1."),
        (
            torch.tensor([1, 0, 1])[None, :, None].expand(1, 3, 50),
            "ids must be padded after a sentence's last token, but got an empty token before it.",
        ),
    ],
)
def test_what_are_not_ids(ids: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError) as caught:
        real_tokens(ids)
    assert words in str(caught.value)
