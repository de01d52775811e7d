"""Span scores of SQuAD, versions 1.1 and 2.0: exact match and F1.

Case, punctuation, articles and white space are ignored. A question may have several right answers, and the
best match counts. For a question without an answer, only the empty string is right.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import must
from .declare import Array, Labels, same_length, share

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """
    Normalize an answer as SQuAD does.

    Examples
    --------
    >>> normalized("The  Broncos' (2016) win!")
    'broncos 2016 win'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def overlap_f1(answer: str, right: str) -> float:
    """
    Compute the F1 of the words of two normalized answers.

    Examples
    --------
    >>> overlap_f1("denver broncos", "broncos")
    0.6666666666666666
    """
    predicted_words, gold_words = answer.split(), right.split()
    if not predicted_words or not gold_words:
        return float(predicted_words == gold_words)
    shared = sum((Counter(predicted_words) & Counter(gold_words)).values())
    return 2 * shared / (len(predicted_words) + len(gold_words))


def right_answers(target: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the normalized right answers of a question, ("",) if it has none."""
    # A gold answer that is empty after normalization, such as "the", is none.
    return tuple(text for _, answer in target if (text := normalized(answer))) or ("",)


def _best(measure: Callable[[str, str], float]) -> Callable[[Any, Any, Labels], Array]:
    def parts(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
        n = same_length(predictions, targets)
        values = np.empty(n)
        for i, (answer, target) in enumerate(zip(predictions, targets, strict=True)):
            if not isinstance(answer, str):
                raise must("predictions", "text, empty where there is no answer", answer)
            prediction = normalized(answer)
            values[i] = max(measure(prediction, gold) for gold in right_answers(target))
        return np.column_stack([values, np.ones(n)])

    return parts


SPAN_SCORES = (
    share(
        "exact_match",
        "Exact match",
        ("span",),
        _best(lambda answer, gold: float(answer == gold)),
        counts=True,
    ),
    share("span_f1", "F1 of the words of the answer", ("span",), _best(overlap_f1)),
)
