"""Does a model get what the example says?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import samples
import tiny
from microtome.encoders.tokens import Tokenizer
from microtome.errors import InputError
from microtome.tasks.task import Item
from microtome.training.inputs import collate, encode

WORDPIECE = tiny.wordpiece()
BARE = tiny.bare_bpe()


def test_pairs_are_cut_longest_first_and_lengths_are_those_of_the_tokens() -> None:
    tokenizer = Tokenizer(WORDPIECE, typed=True)
    items = [Item(id="0", texts=("cat " * 30, "mat"), target=0), Item(id="1", texts=("cat",), target=1)]
    features = encode(items, samples.task_of("classification"), tokenizer, longest=12)
    assert [len(each) for each in features] == [12, 3]
    batch = collate(features)
    assert batch["input_ids"].shape == batch["token_type_ids"].shape == (2, 12)
    assert batch["attention_mask"].sum(1).tolist() == [12, 3]
    assert batch["labels"].tolist() == [0, 1]
    mat = WORDPIECE.encode("mat", add_special_tokens=False).ids
    assert features[0].tokens[0].ids[-1 - len(mat) : -1].tolist() == mat, "the short text must stay whole"


def test_hidden_labels_leave_no_targets() -> None:
    items = [Item(id="0", texts=("cat",)), Item(id="1", texts=("mat",), target=1)]
    features = encode(items, samples.task_of("classification"), Tokenizer(WORDPIECE))
    assert "labels" not in collate(features)


def test_examples_may_have_fewer_choices_than_others() -> None:
    items = [
        Item(id="0", choices=(("a", "cat"), ("a", "mat")), target=0),
        Item(id="1", choices=(("a", "cat"), ("a", "mat"), ("a", "tea for all")), target=2),
    ]
    batch = collate(encode(items, samples.task_of("multiple_choice"), Tokenizer(WORDPIECE)))
    assert batch["input_ids"].shape[:2] == (2, 3)
    assert batch["choices"].tolist() == [[True, True, False], [True, True, True]]


def test_words_stand_at_their_last_sub_word() -> None:
    words = ("The", "reader", "likes", "cats", ".")
    item = Item(id="0", words=words, target=(0, 1, 2, 0, 1))
    tokenizer = Tokenizer(WORDPIECE)
    (found,) = encode([item], samples.task_of("tagging"), tokenizer)
    cut = WORDPIECE.encode(list(words), is_pretokenized=True)
    for word, place in enumerate(found.words):  # pyright: ignore[reportArgumentType]
        places = [i for i, of in enumerate(cut.word_ids) if of == word]
        assert place == places[-1]


def test_words_that_were_cut_off_or_are_nothing_are_not_learned() -> None:
    words = ("The", "\u200b", "cat", "sits", "on", "the", "mat")
    item = Item(id="0", words=words, target=((3, 0), (1, 1), (1, 2), (7, 0), (4, 1), (3, 1), (0, 2)))
    plain = Item(id="0", words=words, target=tuple(range(7)))
    tokenizer = Tokenizer(tiny.wordpiece())
    (whole,) = encode([plain], samples.task_of("tagging"), tokenizer)
    assert np.flatnonzero(whole.words == -1).tolist() == [1]  # pyright: ignore[reportArgumentType]
    assert whole.targets["labels"].tolist() == [0, -100, 2, 3, 4, 5, 6]
    (cut,) = encode([item], samples.task_of("parsing"), tokenizer, longest=7)
    gone = np.flatnonzero(cut.words == -1)  # pyright: ignore[reportArgumentType]
    assert len(gone) >= 3
    heads = cut.targets["heads"]
    assert (heads[gone] == -100).all()
    assert heads[3] == -100, "a word whose head was cut off has nothing right to choose"
    assert cut.targets["relations"][3] == -100


def test_an_empty_text_without_special_tokens_is_one_token() -> None:
    (found,) = encode(
        [Item(id="0", texts=("",), target=0)], samples.task_of("classification"), Tokenizer(BARE)
    )
    assert len(found) == 1


def test_language_modeling_counts_every_token_once_over_all_windows() -> None:
    text = " ".join(tiny.TEXT)
    task, tokenizer = samples.task_of("language_modeling"), Tokenizer(BARE)
    whole = BARE.encode(text).ids
    features = encode([Item(id="0", texts=(text,))], task, tokenizer, longest=16, stride=6)
    labels = np.concatenate([each.targets["labels"] for each in features])
    assert labels[labels != -100].tolist() == whole
    assert all(len(each) <= 16 for each in features)


def test_masked_tokens_are_chosen_by_the_seed_and_the_example() -> None:
    task, tokenizer = samples.task_of("language_modeling"), Tokenizer(WORDPIECE)
    items = samples.items_of("language_modeling")
    mask = WORDPIECE.token_to_id("[MASK]")
    first, again, other = (encode(items, task, tokenizer, mask=mask, seed=seed) for seed in (0, 0, 1))
    alone = encode(items[1:2], task, tokenizer, mask=mask)
    for one, two in [*zip(first, again, strict=True), (first[1], alone[0])]:
        assert np.array_equal(one.tokens[0].ids, two.tokens[0].ids)
    assert any(
        not np.array_equal(a.tokens[0].ids, b.tokens[0].ids) for a, b in zip(first, other, strict=True)
    )
    plain = encode(items, task, tokenizer)
    for hidden, shown in zip(first, plain, strict=True):
        chosen = hidden.targets["labels"] != -100
        assert chosen.sum() == max(1, round(0.15 * (len(hidden) - 2)))
        assert (hidden.tokens[0].ids[chosen] == mask).all()
        assert (hidden.targets["labels"][chosen] == shown.tokens[0].ids[chosen]).all()
        assert (hidden.tokens[0].ids[~chosen] == shown.tokens[0].ids[~chosen]).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: encode([Item(id="7", texts=("a",))], samples.task_of("span"), t), "'7' has 1 texts"),
        (
            lambda t: encode([Item(id="7", texts=("a", "b", "c"))], samples.task_of("classification"), t),
            "must have one text or two, but '7' has 3",
        ),
        (
            lambda t: encode(
                [Item(id="7", texts=("a", "b"))], samples.task_of("span"), t, longest=10, stride=8
            ),
            "longest must be at least 13 for a stride of 8, but got 10",
        ),
    ],
)
def test_what_cannot_be_encoded_is_refused(call: Callable[[Tokenizer], Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        call(Tokenizer(WORDPIECE))
    assert said in str(error.value)


@pytest.mark.parametrize("kind", ["classification", "parsing"])
def test_batches_are_filled_up_to_lengths_that_come_again_and_nothing_else_changes(kind: Any) -> None:
    task = samples.task_of(kind)
    features = encode(samples.items_of(kind), task, Tokenizer(WORDPIECE))
    plain, filled = collate(features), collate(features, multiple=16)
    assert filled["input_ids"].shape[1] % 16 == 0
    for name, value in plain.items():
        wide = filled[name]
        inside = wide[tuple(slice(0, size) for size in value.shape)]
        assert inside.equal(value), name
        if value.shape != wide.shape:
            outside = wide.clone()
            outside[tuple(slice(0, size) for size in value.shape)] = outside[-1, -1]
            assert outside.unique().numel() == 1, f"{name} must be filled with one value"
    assert not filled["attention_mask"][:, plain["input_ids"].shape[1] :].any()


def test_nothing_is_filled_up_beyond_what_the_model_takes() -> None:
    items = [Item(id="0", texts=("cat " * 30,), target=0)]
    features = encode(items, samples.task_of("classification"), Tokenizer(WORDPIECE), longest=20)
    assert collate(features, multiple=16, longest=20)["input_ids"].shape == (1, 20)
