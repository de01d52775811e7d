"""Do control labels belong to words alone, and does a larger probe learn more of them by heart?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from microtome.errors import InputError
from microtome.inference.answers import Answers
from microtome.inference.pairing import Comparison, compare_scores
from microtome.probes.linear import fit_logistic
from microtome.probes.targets import TARGETS, Annotated
from microtome.probes.wordprobe import control_draws, control_labels, control_spans, fit_small

WORDS, WIDTH, CLASSES = 80, 40, 3


def corpus(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[str], np.ndarray]:
    """Words with vectors of their own, in contexts; the class is told by the widest directions alone."""
    fixed = np.random.default_rng(0)
    widths = np.where(np.arange(WIDTH) < 4, 3.0, 1.0)
    vectors = fixed.normal(size=(WORDS, WIDTH)) * widths
    turn = np.linalg.qr(fixed.normal(size=(WIDTH, WIDTH)))[0]
    rng = np.random.default_rng([1, seed])
    word = rng.integers(WORDS, size=rows)
    X = vectors[word] + 0.7 * rng.normal(size=(rows, WIDTH))
    y = (X[:, :4] @ fixed.normal(size=(4, CLASSES))).argmax(1)
    return (X @ turn)[None], y, [f"w{k}" for k in word], np.arange(rows) // 10


def test_a_word_has_one_label_wherever_it_stands() -> None:
    words, labels = ["the", "cat", "the", "mat"], np.array([0, 1, 0, 1])
    drawn = control_labels(words, labels, seed=3)
    assert drawn[0] == drawn[2]
    # Another corpus with the same frequencies of labels says the same of it.
    assert control_labels(["mat", "a", "b", "the"], labels, seed=3)[[3, 0]].tolist() == drawn[[0, 3]].tolist()


@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(st.text(max_size=6), min_size=1, max_size=30),
    shares=st.lists(st.floats(0, 5), min_size=1, max_size=6).filter(lambda given: sum(given) > 1e-6),
    seed=st.integers(0, 1000),
)
def test_whatever_comes_equal_words_get_equal_draws(words: list[str], shares: list[float], seed: int) -> None:
    drawn = control_draws(words, shares, seed=seed)
    assert drawn.shape == (len(words),)
    assert len({(word, int(one)) for word, one in zip(words, drawn, strict=True)}) == len(set(words))
    assert all(shares[one] > 0 for one in drawn)


def spans(target: str, words: list[str], places: list[Any], right: np.ndarray) -> Annotated:
    """One sentence with labeled spans."""
    return Annotated(
        target=TARGETS[target],
        source="tests",
        ids=("1",),
        groups=("",),
        splits=("",),
        sentences=(tuple(words),),
        labels=tuple(map(str, range(right.shape[1]))),
        spans=np.array(places),
        right=right,
        owner=np.zeros(len(places), dtype=int),
    )


def test_spans_of_the_same_words_get_the_same_labels() -> None:
    words = ["the", "old", "cat", "saw", "the", "old", "cat"]
    places = [[[0, 3], [3, 4]], [[4, 7], [3, 4]], [[3, 4], [0, 3]], [[0, 2], [3, 4]]]
    right = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    for seed in range(20):
        drawn = control_spans(spans("spr", words, places, right), seed=seed)
        assert (drawn[0] == drawn[1]).all()
        assert {tuple(one) for one in drawn} <= {tuple(one) for one in right}, "they stay together"
    found = [control_spans(spans("spr", words, places, right), seed=seed) for seed in range(40)]
    assert any((one[0] != one[2]).any() for one in found), "which span comes first makes another type"


def test_a_word_as_a_span_gets_the_label_of_the_word() -> None:
    rng = np.random.default_rng(4)
    words = [f"w{k}" for k in rng.integers(30, size=200)]
    labels = rng.choice(3, p=[0.6, 0.3, 0.1], size=200)
    places = [[[k, k + 1]] for k in range(200)]
    drawn = control_spans(spans("upos", words, places, np.eye(3, dtype=bool)[labels]), seed=5)
    assert drawn.argmax(1).tolist() == control_labels(words, labels, seed=5).tolist()


def test_control_labels_are_as_frequent_as_the_true_ones() -> None:
    labels = np.random.default_rng(0).choice(3, size=4000, p=[0.7, 0.2, 0.1])
    drawn = control_labels([str(k) for k in range(4000)], np.where(np.arange(4000) % 9 == 0, -1, labels))
    share = np.bincount(labels) / 4000
    error = np.sqrt(share * (1 - share) / 4000)
    assert (np.abs(np.bincount(drawn) / 4000 - share) < 4 * np.sqrt(2) * error).all()
    other = control_labels([str(k) for k in range(4000)], labels, seed=1)
    assert abs((drawn == other).mean() - share @ share) < 0.04


def selectivity(right: Any, control: Any, groups: Any = None, level: float = 0.95) -> Comparison:
    """How much oftener true labels are said rightly than drawn ones, as `probing` compares them."""
    sides = [
        Answers(
            ids=[str(k) for k in range(len(one))], targets=[True] * len(one), predictions=[one], groups=groups
        )
        for one in (right, control)
    ]
    return compare_scores("accuracy", sides[0], sides[1], level=level)


def judged(fit: Any) -> Comparison:
    """Fit probes of the true and of the control labels, and compare them on new sentences."""
    X, y, words, _ = corpus(2500, 0)
    new, right, others, groups = corpus(1500, 1)
    shares = np.bincount(y)
    true = np.ravel(fit(X, y)(new)) == right
    drawn = np.ravel(fit(X, control_draws(words, shares))(new)) == control_draws(others, shares)
    return selectivity(true, drawn, groups)


def test_selectivity_falls_with_the_components_that_a_readout_sees() -> None:
    found = [judged(lambda X, y, k=k: fit_small(X, y, CLASSES, k).predict) for k in (4, 20, 40)]
    assert min(one.first for one in found) > 0.9
    control = [one.second for one in found]
    assert control[0] + 0.05 < control[1] < control[2] - 0.05
    _surely_falls(found)


def _surely_falls(found: list[Comparison]) -> None:
    assert found[0].difference > found[1].difference > found[2].difference
    ends = [one.interval for one in found]
    assert ends[0] is not None
    assert ends[2] is not None
    assert ends[0].low > ends[2].high


def test_selectivity_falls_with_the_hidden_units_of_a_network() -> None:
    def fit(hidden: int) -> Any:
        def inner(X: np.ndarray, y: np.ndarray) -> Any:
            model = MLPClassifier((hidden,), max_iter=60, random_state=0, learning_rate_init=0.01)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X[0], y)
            return lambda new: model.predict(new[0])

        return inner

    found = [judged(fit(hidden)) for hidden in (2, 5, 60)]
    assert min(one.first for one in found) > 0.95
    control = [one.second for one in found]
    assert control[0] + 0.05 < control[1] < control[2] - 0.02
    _surely_falls(found)


def test_a_readout_of_few_components_is_that_of_scikit_learn() -> None:
    X, y, _, _ = corpus(600, 2)
    X = np.concatenate([X, 5 + 2 * X[:, ::-1]])
    found = fit_small(X, y, CLASSES, 6, penalties=[2.0])
    for layer in range(2):
        scaled = StandardScaler().fit_transform(X[layer])
        seen = StandardScaler().fit_transform(PCA(6, svd_solver="full").fit_transform(scaled))
        model = LogisticRegression(C=1 / 2, tol=1e-8, max_iter=10_000).fit(seen, y)
        assert (found.predict(X)[layer] == model.predict(seen)).mean() > 0.998
        assert np.linalg.matrix_rank(found.weights[layer]) <= min(6, CLASSES)


def test_all_components_are_as_good_as_the_features() -> None:
    X, y, _, _ = corpus(800, 3)
    X[..., 5] = 2.5
    small, plain = (
        fit_small(X, y, CLASSES, WIDTH, penalties=[1e-3]),
        fit_logistic(X, y, CLASSES, penalties=[1e-3]),
    )
    assert (small.predict(X) == plain.predict(X)).mean() > 0.995


def test_labels_without_meaning_leave_no_selectivity() -> None:
    # Each row has a word of its own, so that there is nothing to learn by heart either.
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(1, 2000, 8)), rng.integers(2, size=2000)
    drawn = control_labels([str(k) for k in range(2000)], y)
    learn, judge = slice(0, 1000), slice(1000, 2000)
    right, control = (
        fit_logistic(X[:, learn], labels[learn], 2).predict(X[:, judge])[0] == labels[judge]
        for labels in (y, drawn)
    )
    found = selectivity(right, control, level=0.999).interval
    assert found is not None
    assert found.low < 0 < found.high


def test_bad_input_gets_a_sentence() -> None:
    X: Any = np.random.default_rng(7).normal(size=(1, 10, 3))
    y = np.arange(10) % 2
    cases = [
        (lambda: control_labels(["a"], [0, 1]), "labels must be one for each of 1 words"),
        (lambda: control_labels(["a"], [-1]), "labels must be known for some words"),
        (lambda: control_draws(["a"], [0.0, 0.0]), "shares must be numbers from 0 on, not all 0"),
        (lambda: control_draws(["a"], [1.0, -1.0]), "shares must be numbers from 0 on"),
        (lambda: fit_small(X, y, 2, 4), "size must be a whole number between 1 and 3"),
        (lambda: fit_small(X, y, 2, 0), "size must be a whole number between 1 and 3"),
    ]
    for call, words in cases:
        with pytest.raises(InputError, match=words):
            call()
