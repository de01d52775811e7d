"""Linear probes of word labels, and control tasks: random labels for each word or span type.

Accuracy on a control task measures how much a probe memorizes. Selectivity is the accuracy on the true labels
minus that on the control labels. A probe that reads fewer dimensions of a layer can memorize less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import whole_number
from ..errors import InputError, must
from ..inference.answers import Answers
from ..randomness import generator
from ..scores.table import find_score
from .dataset import Asked, Probed
from .linear import Linear, fit_logistic
from .logistic.fitting import as_layers, chunks, scale_of
from .targets import Annotated, word_labels

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


def words_left_out(count: int) -> str:
    """
    Describe how many labeled words are left out.

    Examples
    --------
    >>> words_left_out(1)
    '1 word has a label but no row, as a model reads no further, and is left out.'
    """
    singular = count == 1
    return (
        f"{count:,} word{' has a label' if singular else 's have labels'} but no row, as a model reads no "
        f"further, and {'is' if singular else 'are'} left out."
    )


def labels_of_rows(asked: Asked) -> np.ndarray:
    """The label of each row, of the target or of its control task; -1 for words without one."""
    labels = word_labels(asked.annotated, asked.examples, asked.units)
    if asked.control is None:
        return labels
    sentences = asked.annotated.sentences
    words = [sentences[row][unit] for row, unit in zip(asked.examples, asked.units, strict=True)]
    return np.where(labels < 0, -1, control_labels(words, labels, seed=asked.control))


def probe_words(asked: Asked, X: np.ndarray) -> Probed:
    """
    Probe every layer for labels of words.

    Parameters
    ----------
    asked : Asked
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Accuracy on words, clustered by sentence or document. The optimum of a linear probe is unique, so it
        has no seed.
    """
    annotated, labels = asked.annotated, labels_of_rows(asked)
    train, judged = (rows[labels[rows] >= 0] for rows in map(asked.rows_of, (asked.train, asked.judged)))
    if not len(train) or not len(judged):
        raise InputError(
            f"{annotated.source} must hold {annotated.target.name} to learn from and to judge on."
        )
    training = X[:, train], labels[train], len(annotated.labels)
    options: dict[str, Any] = {"groups": asked.examples[train], "device": asked.device}
    fitted = (
        fit_logistic(*training, **options)
        if asked.size is None
        else fit_small(*training, asked.size, **options)
    )
    predictions = fitted.predict(X[:, judged])
    gold = labels[judged]
    ids = [f"{annotated.ids[asked.examples[row]]}/{asked.units[row]}" for row in judged]
    groups = asked.groups(asked.examples[judged])
    lost = asked.words_lost(np.concatenate([asked.train, asked.judged]))
    score = find_score("accuracy")
    majority = int(np.bincount(labels[train]).argmax())
    return Probed(
        answers=tuple(
            Answers(ids=ids, targets=gold, predictions=[layer_predictions], groups=groups, seeds=(0,))
            for layer_predictions in predictions
        ),
        score=score,
        labels=annotated.labels,
        lines=MappingProxyType({f"always {annotated.labels[majority]}": float((gold == majority).mean())}),
        note=" ".join(
            message
            for message, applies in (
                (words_left_out(lost), lost > 0),
                ("Some linear probes did not converge.", not fitted.converged.all()),
            )
            if applies
        ),
        rows=tuple(
            {"penalty": float(penalty), "converged": bool(done)}
            for penalty, done in zip(fitted.penalty, fitted.converged, strict=True)
        ),
    )
