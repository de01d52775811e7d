"""Are the spanning trees of many sentences those that are found one by one?"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from microtome.probes.structural.spanning_trees import shared_edges, spanning_trees

Edges = set[frozenset[int]]


def edges_of(parents: np.ndarray) -> Edges:
    return {frozenset((word, int(parent))) for word, parent in enumerate(parents) if parent >= 0}


def kruskal(distances: np.ndarray, kept: np.ndarray) -> Edges:
    """Sorted by length; pairs of one length stay in order."""
    words = np.flatnonzero(kept).tolist()
    pairs = [(distances[i, j], i, j) for i in words for j in words if i < j]
    tree = {word: {word} for word in words}
    found: Edges = set()
    for _, i, j in sorted(pairs):
        if tree[i] is not tree[j]:
            found.add(frozenset((i, j)))
            tree[i] |= tree[j]
            for word in tree[j]:
                tree[word] = tree[i]
    return found


def drawn(seed: int, sentences: int, words: int, largest: int | None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (sentences, words, words)
    half = np.triu(rng.random(shape) if largest is None else rng.integers(0, largest + 1, shape), 1)
    return half + half.swapaxes(1, 2), rng.random((sentences, words)) < 0.8


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 12), st.integers(0, 4))
def test_ties_and_distances_of_0_are_taken_in_order(
    seed: int, sentences: int, words: int, largest: int
) -> None:
    distances, kept = drawn(seed, sentences, words, largest)
    found = spanning_trees(distances, kept)
    for sentence in range(sentences):
        assert edges_of(found[sentence]) == kruskal(distances[sentence], kept[sentence])


def test_trees_are_those_of_scipy() -> None:
    distances, kept = drawn(0, 50, 20, None)
    found = spanning_trees(distances, kept)
    for sentence in range(50):
        words = np.flatnonzero(kept[sentence])
        tree = minimum_spanning_tree(distances[sentence][np.ix_(words, words)]).tocoo()
        theirs = {frozenset((int(words[i]), int(words[j]))) for i, j in zip(tree.row, tree.col, strict=True)}
        assert edges_of(found[sentence]) == theirs


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 10))
def test_edges_are_counted_whatever_their_direction(seed: int, sentences: int, words: int) -> None:
    true, kept = drawn(seed, sentences, words, None)
    others = np.stack([drawn(seed + k, sentences, words, None)[0] for k in (1, 2)])
    edges = spanning_trees(true, kept)
    found = np.stack([spanning_trees(other, kept) for other in others])
    counts = shared_edges(found, edges)
    for place in np.ndindex(counts.shape):
        assert counts[place] == len(edges_of(found[place]) & edges_of(edges[place[-1]]))
