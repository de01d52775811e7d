"""When is an answer taken from a passage the right one? SQuAD's rules, versions 1.1 and 2.0.

Case, punctuation, articles and white space do not count. A question may have several right answers, and
the best match counts. A question without an answer is answered rightly by the empty string alone.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import must
from .scores_classes import share_extremes
from .scores_declare import Array, Labels, additive, ratio, same_length

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """
    Write an answer as SQuAD compares it.

    Examples
    --------
    >>> normalized("The  Broncos' (2016) win!")
    'broncos 2016 win'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def overlap_f1(answer: str, right: str) -> float:
    """
    F1 of the words that two normalized answers share.

    Examples
    --------
    >>> overlap_f1("denver broncos", "broncos")
    0.6666666666666666
    """
    ours, theirs = answer.split(), right.split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def right_answers(target: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Normalized right answers of a question, ("",) where it has none."""
    # A gold answer of which nothing is left, such as "the", is none.
    return tuple(text for _, answer in target if (text := normalized(answer))) or ("",)


def _best(measure: Callable[[str, str], float]) -> Callable[[Any, Any, Labels], Array]:
    def parts(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
        n = same_length(predictions, targets)
        values = np.empty(n)
        for i, (answer, target) in enumerate(zip(predictions, targets, strict=True)):
            if not isinstance(answer, str):
                raise must("predictions", "text, empty where there is no answer", answer)
            given = normalized(answer)
            values[i] = max(measure(given, right) for right in right_answers(target))
        return np.column_stack([values, np.ones(n)])

    return parts


EXACT_MATCH = additive(
    name="exact_match",
    title="Exact match",
    kinds=("span",),
    counts=True,
    parts=_best(lambda answer, right: float(answer == right)),
    from_parts=lambda sums: ratio(sums[..., 0], sums[..., 1]),
    extremes=share_extremes,
)
SPAN_F1 = additive(
    name="span_f1",
    title="F1 of the words of the answer",
    kinds=("span",),
    parts=_best(overlap_f1),
    from_parts=lambda sums: ratio(sums[..., 0], sums[..., 1]),
    extremes=share_extremes,
)
