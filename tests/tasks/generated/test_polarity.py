from __future__ import annotations

import numpy as np
import pytest

from microtome.tasks.generated import polarity as lexicon
from microtome.tasks.generated.grammar import build

GOOD = {*lexicon.PRAISE, *lexicon.LIKED, *lexicon.PLEASED}
POOR = {*lexicon.BLAME, *lexicon.DISLIKED, *lexicon.DISPLEASED}


@pytest.fixture(scope="module")
def task():
    return build(lexicon.POLARITY, sizes={"held_out": 8000})


def counts(text: str) -> tuple[int, int]:
    words = [word.strip(".,") for word in text.split()]
    return sum(word in POOR for word in words), sum(word in GOOD for word in words)


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_noise_is_what_the_card_says(task, split: str) -> None:
    items = task.split(split).items
    told = [counts(item.texts[0]) for item in items]
    assert all(poor != good for poor, good in told)
    right = np.mean([(good > poor) == item.target for (poor, good), item in zip(told, items, strict=True)])
    bayes = task.card["bayes"]
    assert abs(right - bayes) < 4 * np.sqrt(bayes * (1 - bayes) / len(items))


def test_some_reviews_are_mixed(task) -> None:
    told = [counts(item.texts[0]) for item in task.split("train")]
    assert {tuple(sorted(pair)) for pair in told} == {(0, 1), (0, 2), (0, 3), (1, 2)}
    assert 0.3 < np.mean([min(pair) for pair in told]) < 0.37


def test_there_is_no_negation(task) -> None:
    words = {word.strip(".,").lower() for item in task.split("train") for word in item.texts[0].split()}
    assert not words & {"not", "no", "never", "hardly", "without", "neither", "nor", "nothing"}


def test_counting_words_is_enough(task) -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    train, test = task.split("train"), task.split("test")
    bag = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=1000))
    bag.fit([i.texts[0] for i in train], [i.target for i in train])
    score = bag.score([i.texts[0] for i in test], [i.target for i in test])
    assert score >= 0.9 * task.card["bayes"]
    # Words that were never seen say nothing to it.
    held = task.split("held_out")
    assert bag.score([i.texts[0] for i in held], [i.target for i in held]) < 0.56
