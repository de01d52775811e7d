"""What can a probe learn by heart? Labels that mean nothing, but are the same wherever a word stands.

A probe that is right about such labels has memory, not knowledge of the layer. Selectivity is how much more
often it is right about the true ones. A probe that sees less of a layer, or combines it in fewer ways, can
learn less by heart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import must
from ..randomness import generator
from .linear import Linear, fit_logistic
from .standard import as_layers, chunks, scale_of
from .targets import Annotated

RANK = 1e-10  # axes with less than this share of the largest variance are rounding


def control_draws(types: Sequence[str], shares: Any, *, seed: int = 0) -> np.ndarray:
    """
    Draw one of several outcomes for every type.

    What a type gets depends on the seed and its name, not on what else there is: it is the same in every
    split. The outcomes may be classes, or where a control task puts the head of a word.

    Parameters
    ----------
    types : sequence of str
        One a row: the word, or the words of a span.
    shares : array of shape (outcomes,)
        How often each outcome is to occur among types.
    seed : int

    Returns
    -------
    ndarray of int of shape (rows,)

    Examples
    --------
    >>> drawn = control_draws(["a", "cat", "a"], [0.5, 0.5])
    >>> bool(drawn[0] == drawn[2] == control_draws(["a"], [0.5, 0.5])[0])
    True
    """
    weights = np.asarray(shares, dtype=np.float64)
    if weights.ndim != 1 or not len(weights) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise must("shares", "numbers from 0 on, not all 0", shares)
    names, place = np.unique(np.asarray(types, dtype=object).astype(str), return_inverse=True)
    ends = np.cumsum(weights) / weights.sum()
    points = [generator(seed, "probing", "control", name).random() for name in names.tolist()]
    # Rounding of the last end must not lead past it, nor a point on an end to an outcome without a share.
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(ends, points, side="right"), last)[place]


def control_labels(words: Sequence[str], labels: Any, *, seed: int = 0) -> np.ndarray:
    """
    Draw a label for every word type, as often as the true labels occur.

    Parameters
    ----------
    words : sequence of str
        One a row.
    labels : array of int of shape (rows,)
        The true ones; rows below 0 have none.
    seed : int

    Returns
    -------
    ndarray of int of shape (rows,)
        Equal for equal words.

    References
    ----------
    Hewitt and Liang (2019), Designing and interpreting probes with control tasks, EMNLP.

    Examples
    --------
    >>> drawn = control_labels(["a", "cat", "a"], [0, 1, 0])
    >>> bool(drawn[0] == drawn[2])
    True
    """
    given = np.asarray(labels)
    if given.shape != (len(words),):
        raise must("labels", f"one for each of {len(words)} words", given.shape)
    known = given[given >= 0]
    if not len(known):
        raise must("labels", "known for some words", "none")
    return control_draws(words, np.bincount(known), seed=seed)


def control_spans(found: Annotated, *, seed: int = 0) -> np.ndarray:
    """
    Draw labels for every type of span, as often as the true ones occur together.

    Parameters
    ----------
    found : Annotated
        With labels. The type of a target is the words of its span, or of both in their order.
    seed : int

    Returns
    -------
    ndarray of bool of shape (targets, labels)
        Equal for equal types.
    """
    types = [
        "\n".join(" ".join(found.sentences[owner][begin:end]) for begin, end in spans.tolist())
        for owner, spans in zip(found.owner.tolist(), found.spans, strict=True)
    ]
    sets, counts = np.unique(found.right, axis=0, return_counts=True)
    # In the order of the labels, so that a word gets the label that `control_labels` draws for it.
    return sets[::-1][control_draws(types, counts[::-1], seed=seed)]


def fit_small(X: Any, labels: Any, classes: int, size: int, **more: Any) -> Linear:
    """
    Fit a logistic regression that sees the principal components of a layer alone.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    labels : array of int of shape (rows,)
    classes : int
    size : int
        Components, those of the largest variance first, of features of mean 0 and variance 1.
    **more
        As in `fit_logistic`; the penalty is on the weights of components of variance 1.

    Returns
    -------
    Linear
        In units of the features as they came; the weights of a layer have this rank at most.
    """
    found = as_layers(X)
    _, rows, features = found.shape
    most = min(rows - 1, features)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= most:
        raise must("size", f"a whole number from 1 to {most}", size)
    more.setdefault("device", getattr(X, "device", "cpu"))
    seen = np.empty((len(found), rows, size), dtype=found.dtype)
    turns, means = [], []
    for place, layer in enumerate(found):
        scale = scale_of(layer)
        products = np.zeros((features, features))
        for _, part in chunks(layer, scale):
            products += part.T @ part
        values, axes = np.linalg.eigh(products)
        # An axis along which nothing varies but rounding shows nothing.
        turn = (axes * (values > RANK * values[-1]))[:, : -size - 1 : -1]
        for part_rows, part in chunks(layer, scale):
            seen[place, part_rows] = part @ turn
        turns.append(turn / scale.spread[:, None])
        means.append(scale.mean)
    fit = fit_logistic(seen, labels, classes, **more)
    weights = np.stack([each @ turn.T for each, turn in zip(fit.weights, turns, strict=True)])
    moved = np.stack([each @ mean for each, mean in zip(weights, means, strict=True)])
    return replace(fit, weights=weights, bias=fit.bias - moved)
