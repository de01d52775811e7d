"""Scores of text: answer spans (SQuAD), tags, entities, dependency trees and perplexity.

Of answers (SQuAD 1.1 and 2.0), case, punctuation, articles and white space are ignored. A question may have
several right answers, and the best match counts. For a question without an answer, only the empty string is
right.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, must
from .classes import overlap
from .declare import Array, Labels, additive, same_length, share, share_of

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# BILOU and BMES are IOBES with other letters.
_LETTERS = {"L": "E", "U": "S", "M": "I"}


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


def sentences(predictions: Any, targets: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Iterate over pairs of predicted and true sentences; raise unless there is one prediction per word."""
    same_length(predictions, targets)
    for number, (predicted, gold) in enumerate(zip(predictions, targets, strict=True)):
        if len(predicted) != len(gold):
            raise InputError(
                f"predictions must have one entry per word, but sentence {number} has {len(gold)} words "
                f"and {len(predicted)} predictions."
            )
        yield predicted, gold


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """
    Extract the entities that tags mark, in any scheme: IOB1, IOB2 (BIO), IOBES or BILOU.

    Invalid sequences of tags are read as `conlleval` does: an I that follows O or another type begins an
    entity.

    Parameters
    ----------
    tags : sequence of str
        "O", or a letter, a hyphen and a type, such as "B-PER".

    Returns
    -------
    set of (type, first word, last word + 1)

    Examples
    --------
    >>> sorted(entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"]))
    [('LOC', 3, 4), ('LOC', 4, 5), ('PER', 0, 2)]
    """
    spans: set[tuple[str, int, int]] = set()
    start, last, kind = -1, "O", ""
    for index, tag in enumerate([*tags, "O"]):
        letter, _, type_ = tag.partition("-")
        letter = _LETTERS.get(letter, letter)
        if letter not in ("B", "I", "O", "E", "S"):
            raise must("a tag", 'O, or B-, I-, E- or S- and a type, such as "B-PER"', tag)
        begins = letter != "O" and (letter in "BS" or last in "OES" or type_ != kind)
        if start >= 0 and (begins or letter == "O"):
            spans.add((kind, start, index))
            start = -1
        if begins:
            start = index
        last, kind = letter, type_
    return spans


def _tags(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
    rows = [
        (sum(int(p == t) for p, t in zip(predicted, gold, strict=True)), len(gold))
        for predicted, gold in _known(predictions, targets, labels)
    ]
    return np.array(rows, dtype=np.float64)


def _known(predictions: Any, targets: Any, labels: Labels) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Iterate over sentences; raise if a number is not that of a label."""
    for pair in sentences(predictions, targets):
        for side, what in zip(pair, ("predictions", "targets"), strict=True):
            for number in side:
                if labels and not 0 <= number < len(labels):
                    allowed = f"numbers of the {len(labels)} labels, 0 to {len(labels) - 1}"
                    raise must(what, allowed, int(number))
        yield pair


def _entities(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
    if not labels:
        raise InputError("entity_f1 must know the names of the tags, but got none.")
    rows = []
    for pair in _known(predictions, targets, labels):
        predicted, gold = (entities([labels[number] for number in side]) for side in pair)
        rows.append((len(predicted & gold), len(predicted), len(gold)))
    return np.array(rows, dtype=np.float64)


def _no_entities(predictions: Any, targets: Any, labels: Labels = ()) -> str | None:
    parts = _entities(predictions, targets, labels)
    return None if parts.any() else "there is no entity and none was predicted"


def _entity_extremes(sums: Array, n: int) -> tuple[Array, Array]:
    size = max(1.0, (sums[1] + sums[2]) / 2 / n)
    return np.array([0, size, size]), np.full(3, size)


def _attached(*, labeled: bool) -> Callable[[Any, Any, Labels], Array]:
    def parts(predictions: Any, targets: Any, labels: Labels = ()) -> Array:
        # The part of a relation before the colon is universal; the shared tasks compare only this part.
        universal = [label.partition(":")[0] for label in labels]
        rows = []
        for predicted, gold in sentences(predictions, targets):
            correct = 0
            for (head, relation), (true_head, true_relation) in zip(predicted, gold, strict=True):
                if labeled and universal:
                    relation, true_relation = universal[relation], universal[true_relation]
                correct += int(head == true_head and (not labeled or relation == true_relation))
            rows.append((correct, len(gold)))
        return np.array(rows, dtype=np.float64)

    return parts


def _likelihoods(predictions: Any, targets: Any = None, labels: Labels = ()) -> Array:
    likelihoods = np.asarray(predictions, dtype=np.float64)
    if likelihoods.ndim != 2 or likelihoods.shape[1] != 2 or not len(likelihoods):
        raise must(
            "predictions", "a summed negative log-likelihood and a number of tokens a text", likelihoods.shape
        )
    if not np.isfinite(likelihoods).all() or (likelihoods[:, 1] < 0).any():
        raise must("predictions", "finite, with numbers of tokens of at least 0", likelihoods.tolist()[0])
    return likelihoods


WORD_SCORES = (
    share(
        "exact_match",
        "Exact match",
        ("span",),
        _best(lambda answer, gold: float(answer == gold)),
        counts=True,
    ),
    share("span_f1", "F1 of the words of the answer", ("span",), _best(overlap_f1)),
    share("tag_accuracy", "Words with the right tag", ("tagging",), _tags),
    additive(
        "entity_f1",
        "F1 of entities with exact ends and type (CoNLL)",
        ("tagging",),
        _entities,
        overlap,
        extremes=_entity_extremes,
        undefined=_no_entities,
    ),
    share("uas", "Words with the right head (punctuation counts)", ("parsing",), _attached(labeled=False)),
    share(
        "las",
        "Words with the right head and universal relation (punctuation counts)",
        ("parsing",),
        _attached(labeled=True),
    ),
    additive(
        "perplexity",
        "Perplexity a token",
        ("language_modeling",),
        _likelihoods,
        lambda sums: np.exp(share_of(sums)),
        range=(1.0, float("inf")),
        higher_is_better=False,
        points=1.0,
    ),
)
