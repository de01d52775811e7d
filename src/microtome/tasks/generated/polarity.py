"""The shallow task: polarity of reviews by counts of sentiment words, with known label noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..task import Task
from .draws import Draws, chance, pick, several
from .english import part, sentence
from .grammar import Draft, Grammar, build
from .polarity_words import (
    BLAME,
    DAYS,
    DISLIKED,
    DISPLEASED,
    LIKED,
    MONTHS,
    PEOPLE,
    PLEASED,
    PRAISE,
    STRENGTHS,
    SUBJECTS,
)

# The numbers of opinions in a review, and of minority opinions among them.
COUNTS = ((1, 0), (2, 0), (2, 0), (3, 0), (3, 1), (3, 1))

OPENINGS = (
    "I {did} with my {person} on {day}",
    "Last {month} my {person} and I {did}",
    "My {person} and I {did} on {day}",
    "On {day} I {did} with a friend of my {person}",
    "We {did} in {month}",
    "I {did} one {day} in {month}",
    "I {did} because my {person} told me about it",
)
CLOSINGS = (
    "My {person} took some pictures",
    "I am writing this on {day}",
    "My {person} was there too",
    "I told my {person} about it on {day}",
    "We talked about it with my {person}",
    "It was the idea of my {person}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolarityWords:
    """The words of reviews; of each pair, the negative ones come first, in the order of the labels."""

    subjects: tuple[tuple[str, tuple[str, ...]], ...]
    adjectives: tuple[tuple[str, ...], tuple[str, ...]]
    felt: tuple[tuple[str, ...], tuple[str, ...]]
    caused: tuple[tuple[str, ...], tuple[str, ...]]


def words(held_out: bool) -> PolarityWords:
    """Return the training words, or the held-out ones."""
    return PolarityWords(
        subjects=part(tuple(SUBJECTS.items()), held_out),
        adjectives=(part(BLAME, held_out), part(PRAISE, held_out)),
        felt=(part(DISLIKED, held_out), part(LIKED, held_out)),
        caused=(part(DISPLEASED, held_out), part(PLEASED, held_out)),
    )


def draft(words: PolarityWords, label: int, numbers: Draws) -> Draft:
    """
    Generate a review with a majority of opinions of a given polarity.

    Parameters
    ----------
    words : PolarityWords
    label : int
        0 for negative, 1 for positive.
    numbers : iterator of float

    Returns
    -------
    Draft
        One text.
    """
    did, aspects = pick(words.subjects, numbers)
    count, minority = pick(COUNTS, numbers)
    # Each opinion is about a different aspect, so that no review contradicts itself.
    parts = several(aspects, count, numbers)
    odd = int(next(numbers) * count) if minority else count
    kinds = [1 - label if i == odd else label for i in range(count)]
    opinions = [_opinion(words, kind, aspect, numbers) for kind, aspect in zip(kinds, parts, strict=True)]
    lines: list[str] = []
    if chance(0.85, numbers):
        lines.append(_filler(OPENINGS, did, numbers))
    # Two opinions may share a sentence; "but" reveals that they differ, not which one is the majority.
    if count > 1 and chance(0.6, numbers):
        joint = "and" if kinds[0] == kinds[1] else "but"
        opinions[:2] = [f"{opinions[0]}, {joint} {opinions[1]}"]
    lines.extend(opinions)
    if chance(0.5, numbers):
        lines.append(_filler(CLOSINGS, did, numbers))
    text = " ".join(sentence(line) for line in lines)
    return Draft(key=text, texts=(text,))


def _opinion(words: PolarityWords, kind: int, aspect: str, numbers: Draws) -> str:
    form = next(numbers)
    strength = f"{pick(STRENGTHS, numbers)} " if chance(0.3, numbers) else ""
    if form < 0.2:
        return f"I {strength}{pick(words.felt[kind], numbers)} the {aspect}"
    if form < 0.4:
        return f"the {aspect} {strength}{pick(words.caused[kind], numbers)} me"
    lead = "I thought the" if form < 0.5 else "the"
    return f"{lead} {aspect} was {strength}{pick(words.adjectives[kind], numbers)}"


def _filler(forms: tuple[str, ...], did: str, numbers: Draws) -> str:
    return pick(forms, numbers).format(
        did=did, person=pick(PEOPLE, numbers), day=pick(DAYS, numbers), month=pick(MONTHS, numbers)
    )


POLARITY = Grammar(
    name="polarity",
    title="Polarity of generated reviews",
    tests="shallow: whether words of praise outnumber words of blame; there is no negation",
    labels=("negative", "positive"),
    noise=0.05,
    version=1,
    words=words,
    draft=draft,
)


def polarity(seed: int = 0, sizes: Mapping[str, int] | None = None) -> Task:
    """
    Generate the shallow task: short reviews, negative or positive.

    A review has one to three opinions, whose majority is the label; one label in twenty is then flipped, so
    that the Bayes accuracy is 0.95.

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
    >>> task = polarity(sizes={"validation": 10})
    >>> len(task.split("validation")), task.card["bayes"]
    (10, 0.95)
    """
    return build(POLARITY, seed, sizes)
