from __future__ import annotations

import pytest

from microtome.tasks.generated import agreement, entailment, polarity
from microtome.tasks.generated.english import with_article, with_s
from microtome.tasks.generated.grammar import part


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
    nouns = (*agreement.PEOPLE, *agreement.PLACES, *entailment.PEOPLE)
    members = [word for family in entailment.PEOPLE.values() for word in family]
    for word in (*nouns, *members, *agreement.DOES):
        assert not word.endswith(("o", "lf", "fe", "quy"))
        assert not word.endswith("man") or with_s(word).endswith("men")


def test_articles_follow_the_sound() -> None:
    words = [*entailment.ADJECTIVES]
    for families in (entailment.PEOPLE, entailment.ANIMALS):
        words += [*families, *(word for family in families.values() for word in family)]
    assert with_article("owl") == "an owl"
    for word in words:
        # A vowel that sounds as a consonant, or the other way round.
        assert not word.startswith(("uni", "use", "eu", "one", "hour", "honest", "heir"))


def test_lexicons_have_no_word_twice() -> None:
    opinions = ("PRAISE", "BLAME", "LIKED", "DISLIKED", "PLEASED", "DISPLEASED")
    lists = [
        [word for name in opinions for word in getattr(polarity, name)],
        [word for aspects in polarity.SUBJECTS.values() for word in aspects],
        [*agreement.PEOPLE],
        [*agreement.DOES],
        [*agreement.DID],
        [*agreement.STATES, *agreement.LOOKS],
        [*agreement.PLACES],
        [*entailment.ADJECTIVES],
        [*entailment.ADVERBS],
        [
            word
            for table in (entailment.PEOPLE, entailment.ANIMALS, entailment.VERBS)
            for head, members in table.items()
            for word in (head, *members)
        ],
    ]
    for words in lists:
        assert len(words) == len(set(words))


def test_parts_share_nothing_and_lose_nothing() -> None:
    words = agreement.PEOPLE
    seen, held = part(words, False), part(words, True)
    assert not set(seen) & set(held)
    assert sorted((*seen, *held)) == sorted(words)
    assert len(held) == len(words) // 5
