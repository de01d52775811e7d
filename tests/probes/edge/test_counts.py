"""Is F1 that of scikit-learn, sentence by sentence and over all of them?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from microtome.errors import InputError
from microtome.inference.scoring import score_interval
from microtome.probes.edge.batches import Edges
from microtome.probes.edge.counts import EDGE_F1, EdgeCounts, count_labels, majority, micro_f1


def edges_of(right: np.ndarray, owner: np.ndarray, *, several: bool = True) -> Edges:
    spans = np.stack([np.arange(len(owner)), np.arange(1, len(owner) + 1)], axis=-1)[:, None]
    names = tuple(f"label {number}" for number in range(right.shape[1]))
    return Edges(spans=spans, right=right, owner=owner, labels=names, multilabel=several)


def theirs(right: np.ndarray, said: np.ndarray) -> float:
    without: Any = 0
    return float(f1_score(right, said, average="micro", zero_division=without))


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(1, 30), st.integers(2, 5))
def test_f1_is_that_of_scikit_learn(seed: int, targets: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    owner = np.sort(rng.integers(8, size=targets))
    right, said = rng.random((2, targets, labels)) < 0.5
    edges, asked = edges_of(right, owner), np.arange(8)
    counts = count_labels(said[None, None], edges, asked)
    found = EdgeCounts(sentences=asked, counts=counts).f1[0, 0]
    assert found == pytest.approx(theirs(right, said))
    assert EDGE_F1.compute(counts[0, 0], counts[0, 0], ()) == pytest.approx(found)
    for sentence in asked:
        own = owner == sentence
        # scikit-learn scores no sentence without targets.
        expected = theirs(right[own], said[own]) if own.any() else 0
        assert micro_f1(counts[0, 0, sentence]) == pytest.approx(expected)


def test_majority_of_classes_and_of_properties() -> None:
    owner = np.array([0, 0, 1, 1, 2])
    classes = np.eye(3, dtype=bool)[[0, 0, 1, 2, 0]]
    one = majority(edges_of(classes, owner, several=False), [0, 1], [2])
    assert one.counts.tolist() == [[[[1, 0, 0]]]]
    several = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 1]], dtype=bool)
    both = majority(edges_of(several, owner), [0, 1], [2])
    assert both.counts.tolist() == [[[[1, 1, 1]]]]


def test_answers_are_by_sentence() -> None:
    counts = np.array([[[[1, 0, 2], [2, 1, 0]]], [[[3, 0, 0], [1, 1, 1]]]])
    found = EdgeCounts(sentences=np.array([4, 6]), counts=counts, seeds=(0, 1))
    ids = [f"s{number}" for number in range(9)]
    answers = found.answers(0, ids, groups=["d"] * 5 + ["e"] * 4)
    assert answers.ids == ["s4", "s6"]
    assert answers.targets == [3, 2]
    assert answers.groups == ["d", "e"]
    assert len(answers.predictions) == 2


def test_scores_at_their_ends_have_intervals_too() -> None:
    all_right = np.tile([2, 0, 0], (30, 1))
    found = score_interval(EDGE_F1, all_right, [2] * 30)
    assert found.value == 1
    assert found.low is not None
    assert found.low < 1
    nothing = score_interval(EDGE_F1, np.zeros((5, 3), int), [0] * 5)
    assert "there is no label and none was predicted" in nothing.warnings[0]


def test_bad_counts_get_a_sentence() -> None:
    edges = edges_of(np.ones((2, 2), bool), np.array([0, 1]))
    with pytest.raises(InputError, match=r"said must be of shape \(..., 2, 2\)"):
        count_labels(np.ones((2, 3), bool), edges, np.arange(2))
    with pytest.raises(InputError, match="predictions must be true positives"):
        EDGE_F1.compute([1, 2], [1, 2], ())
