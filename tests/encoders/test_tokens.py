"""Does every sub-word know its word, whatever the tokenizer and however odd the word?"""

from __future__ import annotations

import contextlib

import hypothesis.strategies as st
import numpy as np
import pytest
import tokenizers
import tokenizers.models
from hypothesis import HealthCheck, given, settings

import tiny
from microtome.encoders.tokens import Tokenizer, check_fit
from microtome.errors import InputError

ODD = [
    "don't",
    "日本語",
    "😀",
    "",
    "\u200b",
    "New York",
    "…",
    "a\u0301",
    "\ufeff",
    "$3.50",
    "ﬁ",
    "  ",
    "x" * 300,
]


@pytest.fixture(scope="module", params=sorted(tiny.TOKENIZERS))
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer(tiny.TOKENIZERS[request.param](), longest=40)


def test_sub_words_of_a_word_stand_together_and_in_order(tokenizer: Tokenizer) -> None:
    (found,) = tokenizer.words([["The", *ODD[:8], "mat"]])
    words = found.words[found.words >= 0]
    assert (np.diff(words) >= 0).all()
    assert {0, 1, 9} <= set(words.tolist())
    assert (found.words[found.special] == -1).all()


def test_every_word_is_cut_as_in_running_text(tokenizer: Tokenizer) -> None:
    text = "The cat sleeps on every mat"
    (split,) = tokenizer.words([text.split()], special=False)
    # A byte-level vocabulary sees a space before every word, the first one too.
    (whole,) = tokenizer.texts([(f" {text}" if tokenizer._space else text, None)], special=False)
    assert split.ids.tolist() == whole.ids.tolist()


def test_words_of_two_texts_stand_as_the_tokenizer_puts_a_pair(tokenizer: Tokenizer) -> None:
    first, second = "The cat sleeps", "every mat is long"
    words = [*first.split(), *second.split()]
    (split,) = tokenizer.words([words], second=[3])
    space = " " if tokenizer._space else ""
    (whole,) = tokenizer.texts([(f"{space}{first}", f"{space}{second}")])
    assert split.ids.tolist() == whole.ids.tolist()
    assert split.types.tolist() == whole.types.tolist()
    assert split.special.tolist() == whole.special.tolist()
    # Words are counted through both texts, and each stands in its own.
    assert sorted(set(split.words[split.words >= 0].tolist())) == list(range(7))
    (joined,) = tokenizer.words([words], special=False)
    alone = split.words >= 0
    assert split.ids[alone].tolist() == joined.ids.tolist()
    assert split.words[alone].tolist() == joined.words.tolist()


def test_of_two_texts_the_longer_is_cut_and_words_keep_their_numbers(tokenizer: Tokenizer) -> None:
    words = ["mat"] * 30 + ["cat"] * 3
    (found,) = tokenizer.words([words], second=[30], longest=16)
    assert found.truncated
    assert len(found) == 16
    there = set(found.words[found.words >= 0].tolist())
    assert {30, 31, 32} <= there
    assert 29 not in there


def test_the_first_word_is_cut_like_any_other(tokenizer: Tokenizer) -> None:
    (found,) = tokenizer.words([["mat", "mat"]], special=False)
    first, second = (found.ids[found.words == k].tolist() for k in (0, 1))
    assert first == second


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=8)), max_size=12))
def test_words_are_cut_one_by_one(tokenizer: Tokenizer, words: list[str]) -> None:
    (found,) = tokenizer.words([words], special=False, longest=10_000)
    if found.truncated:
        return
    for k, word in enumerate(words):
        (alone,) = tokenizer.words([[word]], special=False)
        if not alone.truncated:
            assert found.ids[found.words == k].tolist() == alone.ids.tolist()


def test_a_word_in_which_the_cut_falls_is_lost_as_a_whole(tokenizer: Tokenizer) -> None:
    words = ["mat", "sleeps" * 4, "cat"]
    (whole,) = tokenizer.words([words])
    inside = np.flatnonzero(whole.words == 1)
    added = int(whole.special.sum())
    limit = int(inside[1]) + added
    (cut,) = tokenizer.words([words], longest=limit)
    assert len(cut) == limit
    assert cut.truncated
    assert set(cut.words.tolist()) <= {-1, 0}
    assert (cut.words == 0).any()
    assert int(cut.special.sum()) == added


def test_half_of_a_surrogate_pair_is_no_accident(tokenizer: Tokenizer) -> None:
    (found,) = tokenizer.words([["cat", "\ud83d", "mat"]])
    assert {0, 2} <= set(found.words.tolist())
    assert len(tokenizer.texts([("cat \ud83d", None)])[0]) > 0


def test_pairs_know_their_sides_and_the_longer_one_is_cut() -> None:
    tokenizer = Tokenizer(tiny.wordpiece(), longest=12, typed=True)
    (found,) = tokenizer.texts([("the cat", "on the mat it sleeps on the mat it sleeps")])
    assert found.truncated
    assert len(found) == 12
    assert int((found.types == 0).sum()) == 4
    batch = tokenizer.collate([found, *tokenizer.texts([("stop", None)])])
    assert batch.keys() == {"input_ids", "attention_mask", "token_type_ids"}
    assert batch["attention_mask"].sum(1).tolist() == [12, 3]


def test_the_given_tokenizer_is_not_changed() -> None:
    backend = tiny.wordpiece()
    backend.enable_truncation(3)
    before = backend.to_str()
    tokenizer = Tokenizer(backend)
    assert len(tokenizer.words([["the", "cat", "on", "the", "mat"]])[0]) == 7
    assert backend.to_str() == before
    assert tokenizer.digest == Tokenizer(backend).digest
    assert tokenizer.digest != Tokenizer(backend, longest=9).digest
    assert tokenizer.cuts == Tokenizer(backend, longest=9).cuts != Tokenizer(tiny.unigram()).cuts


def test_limits_that_leave_no_room_are_refused() -> None:
    tokenizer = Tokenizer(tiny.wordpiece())
    with pytest.raises(InputError, match=r"^longest must be a whole number above 0, but got 0\.$"):
        tokenizer.words([["the"]], longest=0)
    with pytest.raises(InputError, match=r"^longest must be above the 2 tokens that every text gets"):
        tokenizer.words([["the", "cat"]], longest=2)


@pytest.mark.parametrize("entries", [50, 119, 300])
def test_a_vocabulary_of_another_size_is_refused(entries: int) -> None:
    tokenizer = Tokenizer(tiny.wordpiece())
    check_fit(tokenizer, tokenizer.size, "m")
    check_fit(tokenizer, tokenizer.size + 8, "m")
    with pytest.raises(
        InputError, match=f"of m must have a vocabulary for its {entries} embeddings, but it has"
    ):
        check_fit(tokenizer, entries, "m")


@pytest.mark.parametrize("question", ["Who sits?", None])
@pytest.mark.parametrize("stride", [0, 5])
def test_windows_cover_the_text_and_share_what_they_should(
    tokenizer: Tokenizer, question: str | None, stride: int
) -> None:
    passage = " ".join(tiny.TEXT * 2)
    whole = Tokenizer(tokenizer._whole)
    given = (passage, None) if question is None else (question, passage)
    ((everything,),) = whole.windows([given])
    inside = everything.offsets[:, 0] >= 0
    (found,) = tokenizer.windows([given], stride=stride)
    assert len(found) > 2
    joined = []
    for number, window in enumerate(found):
        held = window.offsets[:, 0] >= 0
        assert len(window.tokens) <= 40
        assert window.shared == (stride if number else 0)
        joined += list(zip(window.tokens.ids[held], window.offsets[held].tolist(), strict=True))[
            window.shared :
        ]
        # What stands around the stretch is the same in every window.
        assert window.tokens.ids[~held].tolist() == everything.tokens.ids[~inside].tolist()
        assert window.tokens.types[~held].tolist() == everything.tokens.types[~inside].tolist()
    ids, offsets = everything.tokens.ids[inside], everything.offsets[inside].tolist()
    assert joined == list(zip(ids, offsets, strict=True))


def test_a_text_that_fits_is_one_window_as_the_model_reads_it(tokenizer: Tokenizer) -> None:
    for pair in (("Who?", "The cat."), ("Stop.", None), ("Who?", "")):
        ((window,),) = tokenizer.windows([pair])
        (tokens,) = tokenizer.texts([pair])
        assert window.tokens.ids.tolist() == tokens.ids.tolist()
        assert window.tokens.types.tolist() == tokens.types.tolist()
        assert not window.tokens.truncated


def test_a_first_text_that_leaves_no_room_is_cut(tokenizer: Tokenizer) -> None:
    (found,) = tokenizer.windows([("Every reader " * 40, "The cat sits on the mat. " * 4)], stride=4)
    assert all(len(window.tokens) <= 40 for window in found)
    assert all((window.offsets[:, 0] >= 0).sum() > 4 for window in found)


def test_windows_without_room_are_refused() -> None:
    tokenizer = Tokenizer(tiny.wordpiece())
    with pytest.raises(InputError, match=r"^longest must be at least 13 for a stride of 8, but got 12\.$"):
        tokenizer.windows([("a", "b")], longest=12, stride=8)
    with pytest.raises(InputError, match=r"^stride must be a whole number of at least 0, but got -1\.$"):
        tokenizer.windows([("a", "b")], stride=-1)


def test_a_tokenizer_that_cannot_be_written_is_refused_in_one_sentence() -> None:
    # Two tokens of one id: the merge is written with either name, and one of them cannot be read again.
    refusals = 0
    for size in range(2, 27):
        vocabulary = {chr(ord("a") + k): k for k in range(size)} | {"ab": size, "y" * 20: 1}
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("a", "b")]))
        with contextlib.suppress(InputError):
            Tokenizer(backend)
            continue
        refusals += 1
    assert refusals > 0
