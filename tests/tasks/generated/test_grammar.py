"""None"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from functools import cache
from itertools import islice, product

import numpy as np
import pytest

from microtome.errors import InputError, UnknownNameError
from microtome.tasks.generated import agreement, entailment, polarity
from microtome.tasks.generated.agreement import AGREEMENT
from microtome.tasks.generated.entailment import ENTAILMENT
from microtome.tasks.generated.grammar import (
    Draft,
    Grammar,
    build,
    draws,
    part,
    vocabulary,
    with_article,
    with_s,
)
from microtome.tasks.generated.polarity import POLARITY
from microtome.tasks.generated.table import GENERATED
from microtome.tasks.task import Task

GRAMMARS: dict[str, Grammar] = {grammar.name: grammar for grammar in (POLARITY, ENTAILMENT, AGREEMENT)}
SPLITS = ("train", "validation", "test", "held_out")

# Whoever changes a sentence raises the version of its grammar, and writes both here.
PINNED = {
    "polarity": (1, "ad22feeb3d7ddb514e5d1962caa4a71c93aa11f0"),
    "entailment": (1, "1142748f0f64a98c815a94daa1cbd897da65bf5a"),
    "agreement": (1, "23f38943bd888e00748f88ebe0ed409289ac8dd4"),
}

# The grammar itself, and for reviews what is said beside opinions.
SHARED = {
    "polarity": "a about absolutely am and because but friend i idea in it last me my of on one pictures "
    "really simply some talked the there this thought told too took truly was we with writing "
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july "
    "august september october november december sister brother mother father cousin neighbor roommate "
    "colleague aunt uncle grandmother daughter son",
    "entailment": "a all an and any at did every fewer four is it least more most no not some than that "
    "three to true two",
    "agreement": "always and are because been behind but has have is near never often opposite outside "
    "rarely sometimes that the usually was were while",
}

every_task = pytest.mark.parametrize("name", GENERATED)


@cache
def made(name: str) -> Task:
    return GENERATED[name]()


def texts(name: str, split: str) -> list[tuple[str, ...]]:
    return [item.texts for item in made(name).split(split)]


def vocabulary_of(name: str, split: str) -> set[str]:
    return {word.strip(".,").lower() for each in texts(name, split) for t in each for word in t.split()}


@every_task
def test_the_task_says_what_it_is(name: str) -> None:
    task = made(name)
    assert (task.name, task.kind, task.splits) == (name, "classification", SPLITS)
    assert (task.scores, task.main) == (("accuracy", "mcc"), ("accuracy",))
    assert task.source == "generated, seed 0"
    assert set(task.card) == {"license", "tests", "bayes", "version"}
    assert task.card["bayes"] == (0.95 if name == "polarity" else 1.0)


@every_task
def test_sizes_and_targets(name: str) -> None:
    task = made(name)
    assert [len(task.split(split)) for split in SPLITS] == [8000, 1000, 1000, 1000]
    assert {item.target for split in SPLITS for item in task.split(split, labeled=True)} == {0, 1}


@every_task
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    sizes = dict.fromkeys(SPLITS, 60)
    once, again, other = (GENERATED[name](seed, sizes).digest(*SPLITS) for seed in (3, 3, 4))
    assert once == again
    assert once != other


@every_task
def test_sentences_change_only_with_the_version(name: str) -> None:
    task = GENERATED[name](sizes=dict.fromkeys(SPLITS, 200))
    assert (task.card["version"], task.digest(*SPLITS)) == PINNED[name]


@every_task
def test_a_smaller_split_is_the_beginning_of_a_larger_one(name: str) -> None:
    few = GENERATED[name](sizes={"train": 101}).split("train")
    assert few.items == made(name).split("train").items[:101]


@every_task
def test_labels_are_balanced(name: str) -> None:
    for split in SPLITS:
        targets = [item.target for item in made(name).split(split)]
        noise = 1 - made(name).card["bayes"]
        # Exact but for noise, which turns labels round one by one.
        assert abs(sum(targets) - len(targets) / 2) <= 4 * np.sqrt(len(targets) * noise * (1 - noise))


@every_task
def test_no_text_is_shared_or_stands_twice(name: str) -> None:
    for split in SPLITS:
        assert Counter(texts(name, split)).most_common(1)[0][1] == 1
    for one, other in product(SPLITS, SPLITS):
        if one < other:
            assert not set(texts(name, one)) & set(texts(name, other))
    # Nor does a split of another seed hold what this one trains on.
    later = {item.texts for item in GENERATED[name](1).split("test")}
    assert not later & set(texts(name, "train"))


@every_task
def test_there_are_far_more_sentences_than_training_needs(name: str) -> None:
    # As many pairs agree as if all sentences were equally likely and there were this many of them; where
    # some are likelier, there are more.
    grammar = GRAMMARS[name]
    words, numbers = vocabulary(grammar, held_out=False), draws(0, "variety")
    drawn = [grammar.draft(words, i % 2, numbers).key for i in range(20_000)]
    pairs = sum(count * (count - 1) / 2 for count in Counter(drawn).values())
    effective = len(drawn) * (len(drawn) - 1) / 2 / max(pairs, 1)
    assert effective >= 100 * 8000


@every_task
def test_held_out_words_are_not_in_train(name: str) -> None:
    held, seen = vocabulary_of(name, "held_out"), vocabulary_of(name, "train")
    assert len(held - seen) > 50
    assert held & seen <= set(SHARED[name].split())


@every_task
def test_splits_are_written_quickly(name: str) -> None:
    def once() -> float:
        start = time.process_time()
        GENERATED[name](seed=9).split("train")
        return time.process_time() - start

    assert min(once() for _ in range(3)) < 1


def test_nothing_is_written_before_it_is_read() -> None:
    def refuse(words: None, label: int, numbers: object) -> Draft:
        raise AssertionError

    grammar = Grammar(
        name="never",
        title="",
        tests="",
        labels=("no", "yes"),
        version=1,
        lexicon={},
        draft=refuse,
    )
    assert build(grammar).splits == SPLITS


def test_a_grammar_that_runs_dry_says_so() -> None:
    grammar = Grammar(
        name="digits",
        title="",
        tests="",
        labels=("no", "yes"),
        version=1,
        lexicon={},
        draft=lambda words, label, numbers: Draft(key=(t := str(int(next(numbers) * 10))), texts=(t,)),
    )
    with pytest.raises(InputError, match=r"sizes\['held_out'\] must be at most about 10 for digits"):
        build(grammar, sizes={"held_out": 11}).split("held_out")


@every_task
def test_bad_input_is_told(name: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"split of {name} must be one of .* Did you mean train\?"):
        GENERATED[name](sizes={"trian": 3})
    with pytest.raises(InputError, match=r"sizes\['train'\] must be a whole number above 0, but got 0"):
        GENERATED[name](sizes={"train": 0})
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, but got -1"):
        GENERATED[name](seed=-1)


def test_no_heavy_package_is_needed() -> None:
    code = (
        "import sys; from microtome.tasks.generated.table import GENERATED\n"
        "[make(sizes={'test': 2}).split('test') for make in GENERATED.values()]\n"
        "print(*{'torch', 'transformers', 'datasets', 'scipy', 'sklearn', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_draws_are_uniform_and_endless() -> None:
    numbers = np.fromiter(islice(draws(0, "uniform"), 10_000), dtype=float)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 10_000)


@pytest.mark.parametrize(
    "word, bent",
    [
        ("author", "authors"),
        ("secretary", "secretaries"),
        ("princess", "princesses"),
        ("coach", "coaches"),
        ("child", "children"),
        ("craftsman", "craftsmen"),
        ("boy", "boys"),
        ("relax", "relaxes"),
        ("cry", "cries"),
        ("ski", "skis"),
        ("lie", "lies"),
    ],
)
def test_with_s(word: str, bent: str) -> None:
    assert with_s(word) == bent


def test_no_word_needs_a_rule_that_is_missing() -> None:
    nouns = (*agreement.PEOPLE, *agreement.PLACES, *entailment.PEOPLE)
    members = [word for family in entailment.PEOPLE.values() for word in family]
    for word in (*nouns, *members, *agreement.DOES):
        assert not word.endswith(("o", "lf", "fe", "quy"))
        assert not word.endswith("man") or with_s(word).endswith("men")


def test_articles_follow_the_sound() -> None:
    words = [*entailment.ADJECTIVES]
    for families in (entailment.PEOPLE, entailment.ANIMALS):
        words += [*families, *(word for family in families.values() for word in family)]
    assert with_article("owl") == "an owl"
    for word in words:
        # A vowel that sounds as a consonant, or the other way round.
        assert not word.startswith(("uni", "use", "eu", "one", "hour", "honest", "heir"))


def test_lexicons_have_no_word_twice() -> None:
    opinions = ("PRAISE", "BLAME", "LIKED", "DISLIKED", "PLEASED", "DISPLEASED")
    lists = [
        [word for name in opinions for word in getattr(polarity, name)],
        [word for aspects in polarity.SUBJECTS.values() for word in aspects],
        [*agreement.PEOPLE],
        [*agreement.DOES],
        [*agreement.DID],
        [*agreement.STATES, *agreement.LOOKS],
        [*agreement.PLACES],
        [*entailment.ADJECTIVES],
        [*entailment.ADVERBS],
        [
            word
            for table in (entailment.PEOPLE, entailment.ANIMALS, entailment.VERBS)
            for head, members in table.items()
            for word in (head, *members)
        ],
    ]
    for words in lists:
        assert len(words) == len(set(words))


def test_parts_share_nothing_and_lose_nothing() -> None:
    words = agreement.PEOPLE
    seen, held = part(words, False), part(words, True)
    assert not set(seen) & set(held)
    assert sorted((*seen, *held)) == sorted(words)
    assert len(held) == len(words) // 5
