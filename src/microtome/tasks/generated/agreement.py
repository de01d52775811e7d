"""The structural task: subject-verb agreement across relative clauses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..task import Task
from .agreement_words import DID, DOES, LOOKS, PEOPLE, PLACES, STATES
from .draws import Draws, chance, pick, several
from .english import part, sentence, with_s
from .grammar import Draft, Grammar, build

WHERE = ("near", "behind", "outside", "opposite")
OFTEN = ("often", "rarely", "always", "usually", "sometimes", "never")
JOINTS = (" while", ", and", ", but", " because")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementWords:
    """The words of the sentences: nouns in the singular, verbs in the base form or, in `did`, the past."""

    people: tuple[str, ...]
    did: tuple[str, ...]
    does: tuple[str, ...]
    states: tuple[str, ...]
    looks: tuple[str, ...]
    places: tuple[str, ...]


def words(held_out: bool) -> AgreementWords:
    """Return the training words, or the held-out ones."""
    return AgreementWords(
        people=part(PEOPLE, held_out),
        did=part(DID, held_out),
        does=part(DOES, held_out),
        states=part(STATES, held_out),
        looks=part(LOOKS, held_out),
        places=part(PLACES, held_out),
    )


def draft(words: AgreementWords, label: int, numbers: Draws) -> Draft:
    """
    Generate a sentence of two clauses, one with a singular and one with a plural subject.

    Both verbs agree, or each has the number of the other. Swapping the verbs of a sentence flips its label,
    changes no word, and is equally likely; so a bag of words carries no information about the label. All
    nouns but the two subjects have independent numbers, so neither does the last noun before a verb; and
    the first noun of a sentence is often not a subject.

    Parameters
    ----------
    words : AgreementWords
    label : int
        1 if both verbs agree.
    numbers : iterator of float

    Returns
    -------
    Draft
        One text; its key is the acceptable sentence, so that a minimal pair stays in one split.
    """
    first = chance(0.5, numbers)
    people = several(words.people, 4, numbers)
    subjects = (
        _subject(words, people[0], people[1], first, numbers),
        _subject(words, people[2], people[3], not first, numbers),
    )
    verbs = (_predicate(words, numbers), _predicate(words, numbers))
    front = ""
    if chance(0.5, numbers):
        front = f"{_place(words, numbers)}, "
    joint = pick(JOINTS, numbers)
    acceptable, unacceptable = (
        sentence(f"{front}{subjects[0]} {verbs[0][plural]}{joint} {subjects[1]} {verbs[1][not plural]}")
        for plural in (first, not first)
    )
    return Draft(key=acceptable, texts=(acceptable if label else unacceptable,))


def _subject(words: AgreementWords, head: str, embedded: str, plural: bool, numbers: Draws) -> str:
    look = f"{pick(words.looks, numbers)} " if chance(0.25, numbers) else ""
    noun = with_s(head) if plural else head
    between = with_s(embedded) if chance(0.5, numbers) else embedded
    did = pick(words.did, numbers)
    form = next(numbers)
    if form < 0.4:
        clause = f"that the {between} {did}"
    elif form < 0.6:
        clause = f"the {between} {did}"
    else:
        clause = f"that {did} the {between}"
    place = f" {_place(words, numbers)}" if chance(0.25, numbers) else ""
    return f"the {look}{noun} {clause}{place}"


def _predicate(words: AgreementWords, numbers: Draws) -> tuple[str, str]:
    # The singular and the plural form.
    form = next(numbers)
    if form < 0.5:
        often = f"{pick(OFTEN, numbers)} " if chance(0.3, numbers) else ""
        verb = pick(words.does, numbers)
        return f"{often}{with_s(verb)}", f"{often}{verb}"
    state = pick(words.states, numbers)
    if form < 0.7:
        return f"is {state}", f"are {state}"
    if form < 0.9:
        return f"was {state}", f"were {state}"
    return f"has been {state}", f"have been {state}"


def _place(words: AgreementWords, numbers: Draws) -> str:
    place = pick(words.places, numbers)
    return f"{pick(WHERE, numbers)} the {with_s(place) if chance(0.5, numbers) else place}"


AGREEMENT = Grammar(
    name="agreement",
    title="Agreement across a relative clause in generated sentences",
    tests="structural: whether verbs agree with their subjects across a relative clause, whose noun often "
    "has the other number",
    labels=("unacceptable", "acceptable"),
    version=1,
    words=words,
    draft=draft,
)


def agreement(seed: int = 0, sizes: Mapping[str, int] | None = None) -> Task:
    """
    Generate the structural task: sentences, unacceptable or acceptable.

    Parameters
    ----------
    seed : int
    sizes : mapping of str to int, optional
        Sizes of the splits train, validation, test and held_out.

    Returns
    -------
    Task

    Examples
    --------
    >>> task = agreement(sizes={"validation": 10})
    >>> len(task.split("validation")), task.card["bayes"]
    (10, 1.0)
    """
    return build(AGREEMENT, seed, sizes)
