from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from microtome.tasks.generated import entailment as lexicon
from microtome.tasks.generated.entailment import ENTAILMENT
from microtome.tasks.generated.grammar import build, draws, vocabulary

COUNTS = {"two": 2, "three": 3, "four": 4}
BENT = {"child": "children", "freshman": "freshmen", "craftsman": "craftsmen", "baby": "babies"}
BENT |= {"secretary": "secretaries"}


def _kinds(table: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Give for each word what it is a kind of, itself where it is general."""
    return {word: head for head, members in table.items() for word in (head, *members)}


PERSONS = _kinds(lexicon.PEOPLE)
NOUNS = {**PERSONS, **_kinds(lexicon.ANIMALS)}
PLURALS = {BENT.get(word, word + "s"): word for word in PERSONS}
VERBS = {
    tuple(form.replace("_", " ") for form in word.split()): head.replace("_", " ")
    for word, head in _kinds(lexicon.VERBS).items()
}
BASES, PASTS = ({forms[i]: forms for forms in VERBS} for i in (0, 1))


@dataclass(kw_only=True)
class Models:
    """Many models at once: which individuals are what, drawn when a word is first met."""

    rng: np.random.Generator
    models: int
    size: int
    drawn: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def extension(self, name: str, sort: str) -> np.ndarray:
        """Give a set of shape (models, size), or a relation of shape (models, size, size)."""
        if (name, sort) not in self.drawn:
            shape = (self.models, self.size) if sort == "set" else (self.models, self.size, self.size)
            # Most words hold of nearly all, so that a single exception can tell two sentences apart.
            rates = self.rng.choice(
                [0.0, 0.1, 0.5, 0.97, 1.0], p=[0.1, 0.1, 0.15, 0.15, 0.5], size=self.models
            )
            rates = rates.reshape(-1, *[1] * (len(shape) - 1))
            self.drawn[name, sort] = self.rng.random(shape) < rates
        return self.drawn[name, sort]


def true(text: str, models: Models) -> np.ndarray:
    """Say in which models a sentence is true, shape (models,)."""
    words = text.rstrip(".").replace(",", "").split()
    words[0] = words[0].lower()
    denied = words[:5] == ["it", "is", "not", "true", "that"]
    words = words[5:] if denied else words
    quantifier, words = _quantifier(words)
    subject, words = _noun(words, models)
    if words[0] == "that":
        clause, words = _clause(words[1:], models)
        subject = subject & clause
    predicate, words = _clause(words, models)
    assert not words, text
    some, all_of = (subject & predicate).sum(axis=1), subject.sum(axis=1)
    name, number = quantifier
    result = {
        "some": some >= 1,
        "no": some == 0,
        "every": some == all_of,
        "all": some == all_of,
        "not every": some < all_of,
        "not all": some < all_of,
        "at least": some >= number,
        "more than": some > number,
        "fewer than": some < number,
        "at most": some <= number,
    }[name]
    return ~result if denied else result


def _quantifier(words: list[str]) -> tuple[tuple[str, int], list[str]]:
    if words[2] in COUNTS:
        return (" ".join(words[:2]), COUNTS[words[2]]), words[3:]
    long = 2 if words[0] == "not" else 1
    return (" ".join(words[:long]), 0), words[long:]


def _noun(words: list[str], models: Models) -> tuple[np.ndarray, list[str]]:
    found = np.ones((models.models, models.size), dtype=bool)
    place = 0
    while words[place] in lexicon.ADJECTIVES:
        found = found & models.extension(words[place], "set")
        place += 1
    noun = PLURALS.get(words[place], words[place])
    for name in {noun, NOUNS[noun]}:
        found = found & models.extension(name, "set")
    return found, words[place + 1 :]


def _clause(words: list[str], models: Models) -> tuple[np.ndarray, list[str]]:
    negated = words[:2] == ["did", "not"]
    words = words[2:] if negated else words
    relation = np.ones((models.models, models.size, models.size), dtype=bool)
    while words[0] in lexicon.ADVERBS or words[0] == "and":
        if words[0] != "and":
            relation = relation & models.extension(words[0], "relation")
        words = words[1:]
    forms = BASES if negated else PASTS
    long = next(n for n in (3, 2, 1) if " ".join(words[:n]) in forms)
    verb = forms[" ".join(words[:long])]
    for name in {" ".join(verb), VERBS[verb]}:
        relation = relation & models.extension(name, "relation")
    assert words[long] in ({"any"} if negated else {"a", "an"})
    things, words = _noun(words[long + 1 :], models)
    reached = (relation & things[:, None, :]).any(axis=2)
    return reached != negated, words


@pytest.fixture(scope="module")
def task():
    return build(ENTAILMENT)


def test_the_checker_knows_what_it_should() -> None:
    models = Models(rng=np.random.default_rng(0), models=3000, size=5)

    def follows(premise: str, hypothesis: str) -> bool:
        return not (true(premise, models) & ~true(hypothesis, models)).any()

    assert follows("Some violinist chased a wet poodle.", "Some musician followed a dog.")
    assert not follows("Some musician followed a dog.", "Some violinist followed a dog.")
    assert follows("Every musician chased a dog.", "Every shy violinist followed a dog.")
    assert not follows("Every violinist chased a dog.", "Every musician chased a dog.")
    assert follows("No boy that saw a dog hugged a poet.", "No boy that saw a poodle hugged a poet.")
    assert not follows("At least two boys saw a dog.", "At least three boys saw a dog.")
    assert follows("It is not true that some boy saw a dog.", "No boy saw a dog.")
    assert follows("No boy saw a dog.", "It is not true that some boy saw a dog.")


@pytest.mark.parametrize("split", ["train", "validation", "held_out"])
def test_labels_hold_in_finite_models(task, split: str) -> None:
    rng = np.random.default_rng(0)
    for item in task.split(split).items[:250]:
        models = Models(rng=rng, models=3000, size=6)
        premise, hypothesis = (true(text, models) for text in item.texts)
        assert premise.any(), item
        assert (premise & ~hypothesis).any() == bool(item.target), item


def test_labels_hold_in_all_models_of_two(task) -> None:
    # Nothing is left to chance here: every way in which the words can apply to two individuals.
    checked = []
    for item in task.split("train"):
        if any(number in item.texts[0] for number in COUNTS) or " that " in item.texts[0].lower():
            continue
        models = every_model(item.texts, bits=16)
        if models is None:
            continue
        premise, hypothesis = (true(text, models) for text in item.texts)
        assert (premise & ~hypothesis).any() == bool(item.target), item
        checked.append(item.target)
        if len(checked) == 120:
            break
    assert min(checked.count(0), checked.count(1)) > 20


def every_model(texts: tuple[str, ...], bits: int) -> Models | None:
    met = Models(rng=np.random.default_rng(0), models=1, size=2)
    for text in texts:
        true(text, met)
    lengths = [extension.size for extension in met.drawn.values()]
    if sum(lengths) > bits:
        return None
    table = (np.arange(2 ** sum(lengths))[:, None] >> np.arange(sum(lengths))) & 1
    parts = np.split(table.astype(bool), np.cumsum(lengths)[:-1], axis=1)
    shapes = [(len(table), *extension.shape[1:]) for extension in met.drawn.values()]
    drawn = {key: part.reshape(shape) for key, part, shape in zip(met.drawn, parts, shapes, strict=True)}
    return Models(rng=met.rng, models=len(table), size=2, drawn=drawn)


def test_the_hypothesis_is_written_before_the_label_is_known() -> None:
    words = vocabulary(ENTAILMENT, held_out=False)
    for place in range(300):
        entailed, other = (ENTAILMENT.draft(words, label, draws(place, "pair")) for label in (0, 1))
        assert entailed.texts[1] == other.texts[1]
        assert entailed.texts[0] != other.texts[0]


def test_overlap_and_length_say_nothing(task) -> None:
    items = task.split("train").items
    error = 4 * np.sqrt(0.25 / len(items))
    targets = np.array([item.target for item in items], dtype=bool)
    sets = [[set(text.lower().strip(".").replace(",", "").split()) for text in i.texts] for i in items]
    contained = np.array([hypothesis <= premise for premise, hypothesis in sets])
    longer = np.array([len(i.texts[0].split()) > len(i.texts[1].split()) for i in items])
    for guess in (contained, longer):
        assert 0.1 < guess.mean() < 0.9
        assert abs((guess == targets).mean() - 0.5) < error


@pytest.mark.parametrize("sides", [("both",), ("premise", "hypothesis"), ("premise",), ("hypothesis",)])
def test_counting_words_is_little_help(task, sides: tuple[str, ...]) -> None:
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    def told(item, side: str) -> str:
        return {"both": " ".join(item.texts), "premise": item.texts[0], "hypothesis": item.texts[1]}[side]

    train, test = task.split("train"), task.split("test")
    bags = {side: CountVectorizer().fit([told(i, side) for i in train]) for side in sides}

    def features(split) -> csr_matrix:
        return csr_matrix(hstack([bags[side].transform([told(i, side) for i in split]) for side in sides]))

    model = LogisticRegression(max_iter=1000).fit(features(train), [i.target for i in train])
    assert model.score(features(test), [i.target for i in test]) <= 0.56
