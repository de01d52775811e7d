"""What can a probe learn by heart? Labels that mean nothing, but are the same wherever a word stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import must
from ..randomness import generator


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
    counts = np.bincount(known)
    types, place = np.unique(np.asarray(words, dtype=object).astype(str), return_inverse=True)
    draw = generator(seed, "probing", "control")
    return draw.choice(len(counts), size=len(types), p=counts / counts.sum())[place]
