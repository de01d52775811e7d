from __future__ import annotations

import re

import numpy as np
import pytest

from microtome.tasks.generated.agreement import AGREEMENT, DOES, PEOPLE, PLACES
from microtome.tasks.generated.grammar import build, draws, vocabulary

PLACE = r"(?:near|behind|outside|opposite) the (?P<place{0}>\w+)"
CLAUSE = (
    r"the (?:\w+ )?(?P<head{0}>(?!that )\w+) "
    r"(?:that (?!the )\w+ the (?P<a{0}>\w+)|that the (?P<b{0}>\w+) \w+|the (?P<c{0}>\w+) \w+)"
    rf"(?: {PLACE})? "
    r"(?P<verb{0}>(?:(?:often|rarely|always|usually|sometimes|never) )?\w+|(?:is|are|was|were) \w+|"
    r"(?:has|have) been \w+)"
)
SENTENCE = re.compile(
    rf"(?:{PLACE.format(0)}, )?{CLAUSE.format(1)}(?P<joint> while|, and|, but| because) {CLAUSE.format(2)}\.",
    re.IGNORECASE,
)


def parsed(text: str) -> re.Match[str]:
    found = SENTENCE.fullmatch(text)
    assert found, text
    return found


def plural_noun(noun: str) -> bool:
    return noun not in PEOPLE and noun not in PLACES


def plural_verb(phrase: str) -> bool:
    words = phrase.split()
    if len(words) > 1 and words[0] in {"is", "are", "was", "were", "has", "have"}:
        return words[0] in {"are", "were", "have"}
    return words[-1] in DOES


def agrees(found: re.Match[str], clause: int) -> bool:
    return plural_noun(found[f"head{clause}"]) == plural_verb(found[f"verb{clause}"])


def last_noun(found: re.Match[str], clause: int) -> str:
    return next(found[f"{name}{clause}"] for name in ("place", "a", "b", "c") if found[f"{name}{clause}"])


@pytest.fixture(scope="module")
def task():
    return build(AGREEMENT)


@pytest.mark.parametrize("split", ["train", "validation", "test", "held_out"])
def test_labels_follow_from_a_parse(task, split: str) -> None:
    for item in task.split(split):
        found = parsed(item.texts[0])
        assert {agrees(found, 1), agrees(found, 2)} == {bool(item.target)}
        assert plural_noun(found["head1"]) != plural_noun(found["head2"])


def test_nouns_that_are_no_subject_say_nothing(task) -> None:
    items = task.split("train").items
    found = [parsed(item.texts[0]) for item in items]
    targets = np.array([item.target for item in items], dtype=bool)
    error = 4 * np.sqrt(0.25 / len(items))
    for clause in (1, 2):
        heads = np.array([plural_noun(f[f"head{clause}"]) for f in found])
        nearest = np.array([plural_noun(last_noun(f, clause)) for f in found])
        verbs = np.array([plural_verb(f[f"verb{clause}"]) for f in found])
        # An attractor stands in half of the sentences of either label.
        for label in (False, True):
            attracted = (heads != nearest)[targets == label]
            assert abs(attracted.mean() - 0.5) < error * np.sqrt(2)
        assert abs(((nearest == verbs) == targets).mean() - 0.5) < error
        assert abs((verbs == targets).mean() - 0.5) < error
        assert abs((heads == targets).mean() - 0.5) < error


def test_swapped_verbs_turn_the_label_round_with_the_same_words(task) -> None:
    for item in task.split("validation"):
        found, text = parsed(item.texts[0]), item.texts[0]
        one, two = found.span("verb1"), found.span("verb2")
        swapped = text[: one[0]] + found["verb2"] + text[one[1] : two[0]] + found["verb1"] + text[two[1] :]
        assert sorted(re.findall(r"\w+", swapped)) == sorted(re.findall(r"\w+", text))
        again = parsed(swapped)
        assert {agrees(again, 1), agrees(again, 2)} == {not item.target}


def test_a_pair_is_never_torn() -> None:
    words = vocabulary(AGREEMENT, held_out=False)
    for place in range(200):
        wrong, right = (AGREEMENT.draft(words, label, draws(place, "pair")) for label in (0, 1))
        assert wrong.key == right.key == right.texts[0] != wrong.texts[0]


@pytest.mark.parametrize("longest", [1, 2])
def test_counting_words_is_no_help(task, longest: int) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    train, test = task.split("train"), task.split("test")
    bag = make_pipeline(CountVectorizer(ngram_range=(1, longest)), LogisticRegression(max_iter=1000))
    bag.fit([i.texts[0] for i in train], [i.target for i in train])
    assert bag.score([i.texts[0] for i in test], [i.target for i in test]) <= 0.56
