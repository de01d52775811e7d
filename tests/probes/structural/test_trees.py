"""Dependency trees against networkx and scipy."""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path

from microtome.corpora.opening import corpus
from microtome.errors import InputError
from microtome.probes.structural.trees import (
    Trees,
    read_trees,
    shared_edges,
    spanning_trees,
    tree_distances,
    word_rows,
)
from tree_samples import drawn_heads

SHARED = Path(os.environ.get("MICROTOME_SHARED", Path(__file__).parents[3] / "shared"))


def graph_distances(heads: np.ndarray) -> np.ndarray:
    graph = np.zeros((len(heads), len(heads)))
    for word, head in enumerate(heads):
        if head:
            graph[word, head - 1] = 1
    return shortest_path(graph, directed=False, unweighted=True)


def check(trees: Trees, sentence: int) -> None:
    heads = trees.heads[trees.rows(sentence)]
    found = tree_distances(trees, sentence)
    assert (found == graph_distances(heads)).all()
    assert (trees.depths[trees.rows(sentence)] == found[np.flatnonzero(heads == 0)[0]]).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 25), min_size=1, max_size=4))
def test_distances_and_depths_are_those_of_the_graph(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    trees = read_trees([drawn_heads(rng, words) for words in lengths])
    for sentence in range(len(trees)):
        check(trees, sentence)


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (
            [[0, 1], [2, 3, 1, 0]],
            "heads of sentence '1' must lead to its root, but words 1, 2, 3 never reach it",
        ),
        ([[0, 1, 0]], "roots of sentence '0' must be one word with the head 0, but got 2"),
        ([[1]], "roots of sentence '0' must be one word with the head 0, but got 0"),
        ([[0, 3]], "heads of sentence '0' must be between 0 and 2, its number of words, but got 3"),
        ([[0, -1]], "must be between 0 and 2, its number of words, but got -1"),
        ([[0], []], "every sentence must have a word, but '1' has none"),
        ([["0", "_"]], "heads of sentence '0' must be whole numbers"),
        ([[0, 1.5]], "heads of sentence '0' must be one whole number a word"),
        ([], "the number of sentences must be at least 1, but got 0"),
    ],
)
def test_what_is_no_tree_is_refused(heads: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_trees(heads)


def test_numbers_may_be_written_as_text() -> None:
    trees = read_trees([["2", "0"], ["0", "1", "2"]], punctuation=[[0, 1], [0, 0, 1]], ids=["x", "y"])
    assert trees.ids == ("x", "y")
    assert (trees.starts.tolist(), trees.lengths.tolist()) == ([0, 2], [2, 3])
    assert (trees.heads.tolist(), trees.depths.tolist()) == ([2, 0, 0, 1, 2], [1, 0, 0, 1, 2])
    assert trees.punctuation.tolist() == [False, True, False, False, True]


def test_words_that_do_not_fit_their_sentences_are_refused() -> None:
    with pytest.raises(InputError, match="punctuation must be one mark for each of 3 words, but got 2"):
        read_trees([[0, 1, 1]], punctuation=[[True, False]])
    with pytest.raises(InputError, match="ids must be different names for 2 sentences, but got '1 names'"):
        read_trees([[0], [0]], ids=["a", "a"])
    with pytest.raises(InputError, match="groups must be one for each of 2 sentences, but got 1"):
        read_trees([[0], [0]], groups=["a"])
    trees = read_trees([[0, 1], [0]])
    with pytest.raises(InputError, match="X must be one row for each of 3 words, but got 4"):
        word_rows(np.zeros((2, 4, 5)), trees)


def test_a_real_treebank_is_made_of_trees(tmp_path: Path) -> None:
    source = SHARED / "data" / "UD_English-EWT" / "en_ewt-ud-dev.conllu.xz"
    if not source.exists():
        pytest.skip(f"there is no treebank at {source}; MICROTOME_SHARED says where real data is")
    path = tmp_path / "dev.conllu"
    path.write_bytes(lzma.decompress(source.read_bytes()))
    examples = list(corpus(path).examples())
    trees = read_trees(
        [one.marks["head"] for one in examples],
        punctuation=[[tag == "PUNCT" for tag in one.marks["upos"]] for one in examples],
        ids=[one.id for one in examples],
    )
    assert len(trees) == 2001
    assert 0.1 < trees.punctuation.mean() < 0.15
    for sentence in range(0, len(trees), 50):
        check(trees, sentence)


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
