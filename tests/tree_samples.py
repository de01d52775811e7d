"""Drawn trees, and representations of their words that hold the trees or know nothing of them."""

from __future__ import annotations

import numpy as np

from microtome.probes.structural.trees import Trees, read_trees

HIDDEN = 16  # dimensions in which the trees lie; sentences have at most one word more


def drawn_heads(rng: np.random.Generator, words: int) -> list[int]:
    """A tree whose words stand in any order: each but the first is attached to one before it."""
    name = rng.permutation(words)
    heads = [0] * words
    for place in range(1, words):
        heads[name[place]] = int(name[rng.integers(place)]) + 1
    return heads


def drawn_trees(sentences: int, seed: int = 0, longest: int = HIDDEN + 1, punctuation: float = 0.0) -> Trees:
    rng = np.random.default_rng(seed)
    heads = [drawn_heads(rng, int(rng.integers(2, longest + 1))) for _ in range(sentences)]
    marks = [rng.random(len(each)) < punctuation for each in heads]
    groups = [place // 3 for place in range(sentences)]
    return read_trees(heads, punctuation=marks, groups=groups, ids=[f"s{at}" for at in range(sentences)])


def planted(trees: Trees, noise: float, features: int = 24, seed: int = 0, mix: int = 0) -> np.ndarray:
    """
    Rows in which squared distances are those of the trees, seen through a linear map, shape (rows, features).

    Each edge of a sentence is a step in a direction of its own, the root stands at 0. The map to features
    comes from `mix`, the directions and the noise from `seed`.
    """
    rng = np.random.default_rng([seed, 1])
    hidden = np.zeros((len(trees.heads), features))
    for sentence in range(len(trees)):
        rows, axes = trees.rows(sentence), rng.permutation(HIDDEN)
        heads = trees.heads[rows]
        downward = np.argsort(trees.depths[rows], kind="stable")[1:]
        for axis, word in zip(axes, downward, strict=False):
            hidden[rows.start + word] = hidden[rows.start + heads[word] - 1]
            hidden[rows.start + word, axis] += 1
    hidden += noise * rng.normal(size=hidden.shape)
    # What lies outside of the trees' space is as large as they are.
    hidden[:, HIDDEN:] += rng.normal(size=(len(hidden), features - HIDDEN))
    turn = np.linalg.qr(np.random.default_rng([mix, 2]).normal(size=(features, features)))[0]
    return hidden @ turn
