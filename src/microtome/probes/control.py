"""Control tasks: random labels for each word or span type, and linear probes of limited rank.

Accuracy on a control task measures how much a probe memorizes. Selectivity is the accuracy on the true labels
minus that on the control labels. A probe that reads fewer dimensions of a layer can memorize less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import whole_number
from ..errors import must
from ..randomness import generator
from .linear import Linear, fit_logistic
from .logistic.scaling import as_layers, chunks, scale_of
from .targets import Annotated

RANK = 1e-10  # axes with less than this share of the largest variance are rounding error


def control_draws(types: Sequence[str], shares: Any, *, seed: int = 0) -> np.ndarray:
    """
    Draw one of several outcomes for every type.

    The outcome of a type depends only on the seed and its name, so it is the same in every split. The
    outcomes may be classes, or the position of a word's head in a control task.

    Parameters
    ----------
    types : sequence of str
        One per row: the word, or the words of a span.
    shares : array of shape (outcomes,)
        Expected frequency of each outcome among types.
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
    names, inverse = np.unique(np.asarray(types, dtype=object).astype(str), return_inverse=True)
    ends = np.cumsum(weights) / weights.sum()
    points = [generator(seed, "probing", "control", name).random() for name in names.tolist()]
    # Rounding must not select an index past the last outcome, nor an outcome with share 0.
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(ends, points, side="right"), last)[inverse]


def control_labels(words: Sequence[str], labels: Any, *, seed: int = 0) -> np.ndarray:
    """
    Draw a label for every word type, with the frequencies of the true labels.

    Parameters
    ----------
    words : sequence of str
        One per row.
    labels : array of int of shape (rows,)
        True labels; negative where a row has none.
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
    label_numbers = np.asarray(labels)
    if label_numbers.shape != (len(words),):
        raise must("labels", f"one for each of {len(words)} words", label_numbers.shape)
    valid_labels = label_numbers[label_numbers >= 0]
    if not len(valid_labels):
        raise must("labels", "known for some words", "none")
    return control_draws(words, np.bincount(valid_labels), seed=seed)


def control_spans(found: Annotated, *, seed: int = 0) -> np.ndarray:
    """
    Draw a set of labels for every span type, with the frequencies of the true sets.

    Parameters
    ----------
    found : Annotated
        With labels. The type of a target is the words of its span, or of both spans in order.
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
    # In the order of the labels, so that a word gets the label that `control_labels` draws.
    return sets[::-1][control_draws(types, counts[::-1], seed=seed)]


def fit_small(X: Any, labels: Any, classes: int, size: int, **more: Any) -> Linear:
    """
    Fit a logistic regression on the first principal components of each layer.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    labels : array of int of shape (rows,)
    classes : int
    size : int
        Number of components of the standardized features, in order of decreasing variance.
    **more
        As in `fit_logistic`; the penalty is on the weights of components of variance 1.

    Returns
    -------
    Linear
        In units of the original features; the weights of a layer have at most this rank.
    """
    layers = as_layers(X)
    _, rows, features = layers.shape
    largest_size = min(rows - 1, features)
    whole_number("size", size, least=1, most=largest_size)
    more.setdefault("device", getattr(X, "device", "cpu"))
    components = np.empty((len(layers), rows, size), dtype=layers.dtype)
    projections, means = [], []
    for index, layer in enumerate(layers):
        scale = scale_of(layer)
        products = np.zeros((features, features))
        for _, part in chunks(layer, scale):
            products += part.T @ part
        values, axes = np.linalg.eigh(products)
        # Axes whose variance is rounding error are zeroed.
        projection = (axes * (values > RANK * values[-1]))[:, : -size - 1 : -1]
        for part_rows, part in chunks(layer, scale):
            components[index, part_rows] = part @ projection
        projections.append(projection / scale.spread[:, None])
        means.append(scale.mean)
    fit = fit_logistic(components, labels, classes, **more)
    weights = np.stack(
        [
            layer_weights @ projection.T
            for layer_weights, projection in zip(fit.weights, projections, strict=True)
        ]
    )
    offsets = np.stack([layer_weights @ mean for layer_weights, mean in zip(weights, means, strict=True)])
    return replace(fit, weights=weights, bias=fit.bias - offsets)
