from __future__ import annotations

import re
import string
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from microtome.errors import InputError, UnknownNameError
from microtome.scores.table import SCORES, find_score, mean_of
from microtome.scores.words import entities, normalized
from microtome.tasks.baselines import baseline

SKLEARN: Any = metrics  # its annotations do not allow zero_division=0

CLASSES = st.integers(2, 5).flatmap(
    lambda k: st.tuples(
        st.just(k), st.lists(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1)), min_size=1, max_size=40)
    )
)
NUMBERS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=3, max_size=40)


def names(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def example_data(name: str, rng: np.random.Generator, n: int = 40) -> tuple[Any, Any, tuple[str, ...]]:
    """Predictions and targets of the kind that the score is for."""
    kind = SCORES[name].kinds[0]
    if name == "semeval_f1":
        labels = ("Other", "A(e1,e2)", "A(e2,e1)", "B(e1,e2)", "B(e2,e1)")
        return rng.integers(0, 5, n), rng.integers(0, 5, n), labels
    if kind in ("classification", "multiple_choice"):
        return rng.integers(0, 2, n), rng.integers(0, 2, n), ("no", "yes")
    if kind == "regression":
        targets = rng.integers(0, 6, n).astype(float)
        return targets + rng.standard_normal(n), targets, ()
    if kind == "span":
        words = ["the cat", "A cat.", "cats", "", "the black cat"]
        return (
            [words[i] for i in rng.integers(0, 5, n)],
            [((0, words[i]),) if i != 3 else () for i in rng.integers(0, 5, n)],
            (),
        )
    if kind == "language_modeling":
        tokens = rng.integers(1, 30, n)
        return np.column_stack([tokens * rng.gamma(3, size=n), tokens]), [None] * n, ()
    lengths = rng.integers(1, 8, n)
    if kind == "tagging":
        pair = [[rng.integers(0, 3, m).tolist() for m in lengths] for _ in range(2)]
        return pair[0], pair[1], ("O", "B-X", "I-X")
    pair = [[rng.integers(0, 3, (m, 2)).tolist() for m in lengths] for _ in range(2)]
    return pair[0], pair[1], ("root", "obj", "nmod")


@given(CLASSES)
def test_class_scores_equal_scikit_learn(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    k, pairs = drawn
    p, t = np.array(pairs).T
    labels = names(k)
    assert SCORES["accuracy"].compute(p, t, labels) == pytest.approx(metrics.accuracy_score(t, p))
    macro = SKLEARN.f1_score(t, p, average="macro", zero_division=0)
    assert SCORES["macro_f1"].compute(p, t, labels) == pytest.approx(macro)
    if k == 2:
        assert SCORES["f1"].compute(p, t, labels) == pytest.approx(SKLEARN.f1_score(t, p, zero_division=0))
    if len(set(p)) > 1 and len(set(t)) > 1:
        assert SCORES["mcc"].compute(p, t, labels) == pytest.approx(
            metrics.matthews_corrcoef(t, p), abs=1e-12
        )
        assert SCORES["mcc"].undefined(p, t, labels) is None
    else:
        assert SCORES["mcc"].compute(p, t, labels) == 0
        assert "the same class" in str(SCORES["mcc"].undefined(p, t, labels))


@given(NUMBERS, st.sampled_from([0.0, 0.1, 1e4]))
def test_correlations_equal_scipy(pairs: list[tuple[int, int]], shift: float) -> None:
    x, y = np.array(pairs, dtype=float).T
    x += shift
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert SCORES["pearson"].compute(x, y, ()) == SCORES["spearman"].compute(x, y, ()) == 0
        assert "the same number" in str(SCORES["spearman"].undefined(x, y, ()))
        return
    assert SCORES["pearson"].compute(x, y, ()) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-9)
    assert SCORES["spearman"].compute(x, y, ()) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-9)
    assert SCORES["pearson"].undefined(x, y, ()) is None


def test_a_constant_predictor_does_not_correlate() -> None:
    constant = np.full(9, np.float32(2.7))
    both = find_score(("pearson", "spearman"))
    assert both.compute(constant, np.arange(9.0), ()) == 0
    assert both.undefined(constant, np.arange(9.0), ()) == (
        "pearson: every prediction is the same number; spearman: every prediction is the same number"
    )


@pytest.mark.parametrize("name", SCORES)
def test_every_score_keeps_its_declarations(name: str) -> None:
    score = SCORES[name]
    assert score.name == name
    assert score.title
    for seed in range(5):
        rng = np.random.default_rng(seed)
        predictions, targets, labels = example_data(name, rng)
        value = score.compute(predictions, targets, labels)
        assert score.range[0] <= value <= score.range[1]
        if score.influence is not None:
            assert score.influence(predictions, targets, labels).sum() == pytest.approx(0, abs=1e-12)
            continue
        assert score.parts is not None
        assert score.from_parts is not None
        parts = score.parts(predictions, targets, labels)
        assert len(parts) == len(predictions)
        assert float(score.from_parts(parts.sum(axis=0))) == pytest.approx(value)
        # The score of some of the examples is that of the sum of their parts.
        some = rng.permutation(len(parts))[:25]
        fewer = score.compute([predictions[i] for i in some], [targets[i] for i in some], labels)
        np.testing.assert_allclose(score.from_parts(np.stack([parts[some].sum(axis=0)] * 2)), fewer)


@pytest.mark.parametrize("name", [n for n, s in SCORES.items() if s.extremes is not None])
def test_one_more_failure_lowers_and_one_more_success_raises(name: str) -> None:
    score = SCORES[name]
    predictions, targets, labels = example_data(name, np.random.default_rng(1))
    assert score.parts is not None
    assert score.from_parts is not None
    assert score.extremes is not None
    sums = score.parts(predictions, targets, labels).sum(axis=0)
    wrong, right = score.extremes(sums, 40)
    assert score.from_parts(sums + wrong) < score.from_parts(sums) < score.from_parts(sums + right)


def test_influence_of_an_example_on_spearman_is_what_leaving_it_out_does() -> None:
    rng = np.random.default_rng(2)
    y = np.round(rng.random(400) * 25) / 5
    x = y + rng.standard_normal(400)
    score = SCORES["spearman"]
    assert score.influence is not None
    psi = score.influence(x, y, ())
    without = np.array([score.compute(np.delete(x, i), np.delete(y, i), ()) for i in range(400)])
    jackknife = 399 / 400 * (without.mean() - without)
    assert np.corrcoef(psi, jackknife)[0, 1] > 0.9999
    assert np.linalg.norm(psi) == pytest.approx(np.linalg.norm(jackknife), rel=0.02)


def official_squad(prediction: str, golds: list[str]) -> tuple[float, float]:
    """The evaluation of SQuAD 2.0, written anew from its definition."""

    def clean(text: str) -> str:
        kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return " ".join(word for word in re.sub(r"\b(a|an|the)\b", " ", kept).split())

    kept = [gold for gold in golds if clean(gold)] or [""]
    exact = max(float(clean(gold) == clean(prediction)) for gold in kept)
    best = 0.0
    for gold in kept:
        a, b = clean(prediction).split(), clean(gold).split()
        if not a or not b:
            best = max(best, float(a == b))
            continue
        same = sum(min(count, Counter(b)[word]) for word, count in Counter(a).items())
        precision, recall = same / len(a), same / len(b)
        if same:
            best = max(best, 2 * precision * recall / (precision + recall))
    return exact, best


ANSWER = st.lists(
    st.sampled_from(["the", "An", "a", "cat", "Cat's", "—", "!", "é", "b.", " ", "\t"]), max_size=5
)


@given(st.lists(st.tuples(ANSWER, st.lists(ANSWER, max_size=3)), min_size=1, max_size=6))
def test_spans_equal_the_official_evaluation(drawn: list[tuple[list[str], list[list[str]]]]) -> None:
    predictions = [" ".join(words) for words, _ in drawn]
    golds = [[" ".join(words) for words in many] for _, many in drawn]
    targets = [tuple((0, gold) for gold in many) for many in golds]
    expected = np.mean([official_squad(p, g) for p, g in zip(predictions, golds, strict=True)], axis=0)
    assert SCORES["exact_match"].compute(predictions, targets, ()) == pytest.approx(expected[0])
    assert SCORES["span_f1"].compute(predictions, targets, ()) == pytest.approx(expected[1])


def test_spans_by_hand() -> None:
    targets = [((0, "the Denver Broncos"), (9, "Broncos")), (), ()]
    answers = ["Broncos of Denver!", "", "something"]
    assert SCORES["exact_match"].compute(answers, targets, ()) == pytest.approx(1 / 3)
    assert SCORES["span_f1"].compute(answers, targets, ()) == pytest.approx((0.8 + 1 + 0) / 3)
    assert normalized("An a.m. theory, the  END") == "am theory end"


@pytest.mark.parametrize(
    "tags,expected",
    [
        ("B-PER I-PER O B-PER B-PER", {("PER", 0, 2), ("PER", 3, 4), ("PER", 4, 5)}),  # IOB2
        ("I-PER I-PER O I-PER B-PER", {("PER", 0, 2), ("PER", 3, 4), ("PER", 4, 5)}),  # IOB1
        ("B-PER E-PER O S-PER S-PER", {("PER", 0, 2), ("PER", 3, 4), ("PER", 4, 5)}),  # IOBES
        ("B-PER L-PER O U-PER U-PER", {("PER", 0, 2), ("PER", 3, 4), ("PER", 4, 5)}),  # BILOU
        ("B-PER I-LOC I-LOC", {("PER", 0, 1), ("LOC", 1, 3)}),
        ("O I-X-Y", {("X-Y", 1, 2)}),
        ("S-A I-A E-A B-A", {("A", 0, 1), ("A", 1, 3), ("A", 3, 4)}),
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities_of_every_scheme(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected


def test_entity_f1_of_the_published_example() -> None:
    # From the read-me of seqeval, which was checked against conlleval: MISC begins a word too early.
    labels = ("O", "B-MISC", "I-MISC", "B-PER", "I-PER")
    true = [[0, 0, 0, 1, 2, 2, 0], [3, 4, 0]]
    found = [[0, 0, 1, 2, 2, 2, 0], [3, 4, 0]]
    assert SCORES["entity_f1"].compute(found, true, labels) == 0.5
    assert SCORES["tag_accuracy"].compute(found, true, labels) == 0.8
    nothing = [[0] * 7, [0] * 3]
    assert SCORES["entity_f1"].compute(nothing, true, labels) == 0
    assert "no entity" in str(SCORES["entity_f1"].undefined(nothing, nothing, labels))


# A confusion table that the official scorer printed for some system: rows are true, columns predicted, in
# the order of RELATIONS; then how many had the right relation in the wrong direction. It gave 83.25.
RELATIONS = ("C-E", "C-W", "C-C", "E-D", "E-O", "I-A", "M-C", "M-T", "P-P", "Other")
TABLE = """300 0 0 0 4 1 0 2 2 12  3
1 235 5 1 1 11 11 6 3 29  8
0 5 160 7 2 0 1 1 1 11  4
0 2 7 264 0 0 0 1 1 16  1
3 1 1 4 226 1 0 1 3 16  1
0 4 1 1 1 118 0 4 5 21  0
0 4 0 0 2 0 206 1 0 19  0
1 5 0 1 2 0 2 229 1 19  1
5 1 2 0 4 9 0 3 177 27  2
16 25 18 23 27 24 29 33 26 231  0"""


def test_semeval_equals_the_official_scorer() -> None:
    labels = ("Other", *(f"{r}({way})" for r in RELATIONS[:-1] for way in ("e1,e2", "e2,e1")))
    place = {label: number for number, label in enumerate(labels)}
    rng = np.random.default_rng(3)

    def directed(relation: str, way: int) -> int:
        return place[relation if relation == "Other" else f"{relation}({('e1,e2', 'e2,e1')[way]})"]

    predictions, targets = [], []
    for true, line in zip(RELATIONS, TABLE.splitlines(), strict=True):
        *row, astray = map(int, line.split())
        for found, count in zip(RELATIONS, row, strict=True):
            for way, other in zip(rng.integers(0, 2, count), rng.integers(0, 2, count), strict=True):
                targets.append(directed(true, way))
                predictions.append(directed(found, way if found == true else other))
        for way in rng.integers(0, 2, astray):
            targets.append(directed(true, way))
            predictions.append(directed(true, 1 - way))
    assert len(targets) == 2706
    assert round(100 * SCORES["semeval_f1"].compute(predictions, targets, labels), 2) == 83.25
    # A relation that the key does not have is left out of the mean.
    few = SCORES["semeval_f1"].compute([1, 3, 1, 0], [1, 1, 1, 0], labels)
    assert few == pytest.approx(2 * (2 / 2) * (2 / 3) / (2 / 2 + 2 / 3))


def test_attachment_counts_every_word_and_universal_relations() -> None:
    labels = ("root", "nmod", "nmod:poss", "punct")
    true = [[(2, 2), (0, 0), (2, 3)], [(0, 0)]]
    found = [[(2, 1), (0, 0), (1, 3)], [(0, 1)]]
    assert SCORES["uas"].compute(found, true, labels) == 3 / 4  # the punctuation is wrong, and counts
    assert SCORES["las"].compute(found, true, labels) == 2 / 4  # nmod for nmod:poss is right
    assert SCORES["las"].compute(found, true, ()) == 1 / 4  # without names, numbers are compared


def test_perplexity() -> None:
    nll = [(2 * np.log(8), 2), (6 * np.log(2), 6)]
    assert SCORES["perplexity"].compute(nll, [None, None], ()) == pytest.approx(8 ** (2 / 8) * 2 ** (6 / 8))
    assert not SCORES["perplexity"].higher_is_better
    assert SCORES["perplexity"].points == 1
    assert SCORES["accuracy"].points == 100


def test_the_mean_of_scores() -> None:
    p, t = [1, 1, 0, 1], [1, 0, 0, 1]
    assert find_score(["accuracy", "f1"]).compute(p, t, ("no", "yes")) == pytest.approx((0.75 + 0.8) / 2)
    assert find_score(["mcc"]) is SCORES["mcc"]
    with pytest.raises(InputError, match="must be of one kind of task, but got accuracy and uas"):
        mean_of(SCORES["accuracy"], SCORES["uas"])
    with pytest.raises(InputError, match="one direction and one scale"):
        mean_of(SCORES["perplexity"], SCORES["uas"])
    with pytest.raises(UnknownNameError, match="Did you mean accuracy"):
        find_score("acuracy")


@pytest.mark.parametrize(
    "name,predictions,targets,labels,words",
    [
        ("accuracy", [0], [0, 1], (), "predictions must be as many as the 2 examples, but got 1"),
        ("accuracy", [], [], (), "the number of examples must be at least 1, but got 0"),
        (
            "accuracy",
            [2, 0],
            [0, 1],
            ("a", "b"),
            "predictions must be numbers of the 2 labels, 0 to 1, but got 2",
        ),
        ("accuracy", [0.5, 1], [0, 1], (), "predictions must be whole numbers, but got 0.5"),
        ("accuracy", [[0], [1]], [0, 1], (), "one whole number an example"),
        ("accuracy", [[0], [1, 2]], [0, 1], (), "lists of several lengths"),
        ("f1", [2, 0], [0, 1], (), "f1 must have 2 labels, but the task has 3"),
        ("pearson", [float("nan"), 1], [0, 1], (), "predictions must be finite, but got nan"),
        ("pearson", ["a", "b"], [0, 1], (), "predictions must be one number per example"),
        ("span_f1", [3], [()], (), "predictions must be text"),
        ("tag_accuracy", [[0]], [[0, 1]], (), "sentence 0 has 2 words and 1 predictions"),
        ("tag_accuracy", [[0, 2]], [[0, 1]], ("O", "B-X"), "numbers of the 2 labels, 0 to 1, but got 2"),
        ("entity_f1", [[0]], [[0]], (), "must know the names of the tags"),
        ("entity_f1", [[0]], [[0]], ("X-PER",), "a tag must be O, or B-"),
        ("semeval_f1", [0], [0], (), "must know the names of the labels"),
        ("perplexity", [3.0], [None], (), "a summed negative log-likelihood and a number of tokens"),
    ],
)
def test_bad_input_is_told(name: str, predictions: Any, targets: Any, labels: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        SCORES[name].compute(predictions, targets, labels)


def test_baselines() -> None:
    assert baseline("classification", [2, 1, 2, 1], [0, 0, 0]) == [1, 1, 1]
    assert baseline("multiple_choice", [3, 3, 1], [0]) == [3]
    assert baseline("regression", [1.0, 4.0], [9.0, 9.0]) == [2.5, 2.5]
    assert baseline("tagging", [[0, 0, 5], [5, 0]], [[1], [1, 1]]) == [[0], [0, 0]]
    assert baseline("span", [((0, "a"),)], [(), ()]) == ["", ""]
    assert baseline("language_modeling", [], [None]) is None
    left = [[(0, 7), (1, 2), (2, 2)]]
    assert baseline("parsing", left, [[(2, 1), (0, 0)]]) == [[(0, 7), (1, 2)]]
    right = [[(2, 2), (3, 2), (0, 7)]]
    assert baseline("parsing", right, [[(2, 1), (0, 0)]]) == [[(2, 2), (0, 7)]]
    with pytest.raises(InputError, match="train_targets must be at least one"):
        baseline("classification", [], [0])
    with pytest.raises(UnknownNameError, match="Did you mean tagging"):
        baseline("taging", [], [0])  # pyright: ignore[reportArgumentType]


@settings(max_examples=30)
@given(CLASSES)
def test_no_constant_beats_the_majority_on_its_own_examples(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    k, pairs = drawn
    targets = [t for _, t in pairs]
    found = baseline("classification", targets, targets)
    best = max(SCORES["accuracy"].compute([c] * len(targets), targets, names(k)) for c in range(k))
    assert SCORES["accuracy"].compute(found, targets, names(k)) == best
