"""Which label has each word? A linear readout of every layer, fitted to convergence."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError
from ..inference.answers import Answers
from ..tasks.scores import find_score
from .asking import Asked, Probed
from .control import control_labels, fit_small
from .linear import fit_logistic
from .targets import word_labels


def words_left_out(count: int) -> str:
    """
    Say that labels of words are not read.

    Examples
    --------
    >>> words_left_out(1)
    '1 word has a label but no row, as a model reads no further, and is left out.'
    """
    one = count == 1
    return (
        f"{count:,} word{' has a label' if one else 's have labels'} but no row, as a model reads no "
        f"further, and {'is' if one else 'are'} left out."
    )


def probe_words(asked: Asked, X: np.ndarray) -> Probed:
    """
    Read the labels of words out of every layer.

    Parameters
    ----------
    asked : Asked
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Accuracy on words, which cluster in sentences or documents. A linear readout has no seed: its best
        weights are the only ones.
    """
    found = asked.annotated
    labels = word_labels(found, asked.examples, asked.units)
    if asked.control is not None:
        words = [found.sentences[row][unit] for row, unit in zip(asked.examples, asked.units, strict=True)]
        labels = np.where(labels < 0, -1, control_labels(words, labels, seed=asked.control))
    train, judged = (rows[labels[rows] >= 0] for rows in map(asked.rows_of, (asked.train, asked.judged)))
    if not len(train) or not len(judged):
        raise InputError(f"{found.source} must hold {found.target.name} to learn from and to judge on.")
    given = X[:, train], labels[train], len(found.labels)
    more: dict[str, Any] = {"groups": asked.examples[train], "device": asked.device}
    fitted = fit_logistic(*given, **more) if asked.size is None else fit_small(*given, asked.size, **more)
    predictions = fitted.predict(X[:, judged])
    right = labels[judged]
    ids = [f"{found.ids[asked.examples[row]]}/{asked.units[row]}" for row in judged]
    groups = asked.groups(asked.examples[judged])
    lost = asked.words_lost(np.concatenate([asked.train, asked.judged]))
    score = find_score("accuracy")
    usual = int(np.bincount(labels[train]).argmax())
    return Probed(
        answers=tuple(
            Answers(ids=ids, targets=right, predictions=[one], groups=groups, seeds=(0,))
            for one in predictions
        ),
        score=score,
        labels=found.labels,
        lines=MappingProxyType({f"always {found.labels[usual]}": float((right == usual).mean())}),
        note=" ".join(
            said
            for said, so in (
                (words_left_out(lost), lost > 0),
                ("Some readouts did not converge.", not fitted.converged.all()),
            )
            if so
        ),
        rows=tuple(
            {"penalty": float(penalty), "converged": bool(done)}
            for penalty, done in zip(fitted.penalty, fitted.converged, strict=True)
        ),
    )
