"""Linear probing of every layer for labels of words."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError
from ..inference.answers import Answers
from ..scores.table import find_score
from .control import control_labels, fit_small
from .dataset import Asked, Probed
from .linear import fit_logistic
from .targets import word_labels


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
