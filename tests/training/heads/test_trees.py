"""Is the tree that is found the best one?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from microtome.errors import InputError
from microtome.training.heads.trees import best_tree


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
