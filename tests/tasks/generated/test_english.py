from __future__ import annotations

import pytest

from microtome.tasks.generated import agreement_words, entailment_words, polarity_words
from microtome.tasks.generated.english import part, with_article, with_s


@pytest.mark.parametrize(
    "word, bent",
    [
        ("author", "authors"),
        ("secretary", "secretaries"),
        ("princess", "princesses"),
        ("coach", "coaches"),
        ("child", "children"),
        ("craftsman", "craftsmen"),
        ("boy", "boys"),
        ("relax", "relaxes"),
        ("cry", "cries"),
        ("ski", "skis"),
        ("lie", "lies"),
    ],
)
def test_with_s(word: str, bent: str) -> None:
    assert with_s(word) == bent


def test_no_word_needs_a_rule_that_is_missing() -> None:
    nouns = (*agreement_words.PEOPLE, *agreement_words.PLACES, *entailment_words.PEOPLE)
    members = [word for family in entailment_words.PEOPLE.values() for word in family]
    for word in (*nouns, *members, *agreement_words.DOES):
        assert not word.endswith(("o", "lf", "fe", "quy"))
        assert not word.endswith("man") or with_s(word).endswith("men")


def test_articles_follow_the_sound() -> None:
    words = [*entailment_words.ADJECTIVES]
    for families in (entailment_words.PEOPLE, entailment_words.ANIMALS):
        words += [*families, *(word for family in families.values() for word in family)]
    assert with_article("owl") == "an owl"
    for word in words:
        # A vowel that sounds as a consonant, or the other way round.
        assert not word.startswith(("uni", "use", "eu", "one", "hour", "honest", "heir"))


def test_lexicons_have_no_word_twice() -> None:
    opinions = ("PRAISE", "BLAME", "LIKED", "DISLIKED", "PLEASED", "DISPLEASED")
    lists = [
        [word for name in opinions for word in getattr(polarity_words, name)],
        [word for aspects in polarity_words.SUBJECTS.values() for word in aspects],
        [*agreement_words.PEOPLE],
        [*agreement_words.DOES],
        [*agreement_words.DID],
        [*agreement_words.STATES, *agreement_words.LOOKS],
        [*agreement_words.PLACES],
        [*entailment_words.ADJECTIVES],
        [*entailment_words.ADVERBS],
        [
            word
            for table in (entailment_words.PEOPLE, entailment_words.ANIMALS, entailment_words.VERBS)
            for head, members in table.items()
            for word in (head, *members)
        ],
    ]
    for words in lists:
        assert len(words) == len(set(words))


def test_parts_share_nothing_and_lose_nothing() -> None:
    words = agreement_words.PEOPLE
    seen, held = part(words, False), part(words, True)
    assert not set(seen) & set(held)
    assert sorted((*seen, *held)) == sorted(words)
    assert len(held) == len(words) // 5
