"""How is a compositional task written? As pairs whose one change is sound or not by where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..task import Task
from .draws import Draws, chance, pick, several
from .english import part, sentence, with_article, with_s
from .entailment_words import ADJECTIVES, ADVERBS, ANIMALS, PEOPLE, VERBS
from .grammar import Draft, Grammar, build

Family = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """
    How a sentence begins, and what that makes of the rest.

    Parameters
    ----------
    opening : str
        The quantifier; {} is a number.
    plural, negated : bool
        Whether the subject is in the plural, and whether the main verb has a "not".
    """

    opening: str
    plural: bool = False
    negated: bool = False


# By whether a more general word may replace another one in the subject, and in the predicate; where it
# may not, a more special one may. The four are equally likely, so each place is of each kind in half of
# all sentences, whatever the words.
FRAMES: tuple[tuple[bool, bool, tuple[Frame, ...]], ...] = (
    (
        True,
        True,
        (
            Frame(opening="some"),
            Frame(opening="at least {}", plural=True),
            Frame(opening="more than {}", plural=True),
        ),
    ),
    (
        False,
        False,
        (
            Frame(opening="no"),
            Frame(opening="fewer than {}", plural=True),
            Frame(opening="at most {}", plural=True),
            Frame(opening="it is not true that some"),
        ),
    ),
    (
        False,
        True,
        (
            Frame(opening="every"),
            Frame(opening="all", plural=True),
            Frame(opening="it is not true that some", negated=True),
        ),
    ),
    (
        True,
        False,
        (
            Frame(opening="not every"),
            Frame(opening="not all", plural=True),
            Frame(opening="it is not true that every"),
            Frame(opening="some", negated=True),
        ),
    ),
)
NUMBERS = ("two", "three", "four")

# Of the five places of a sentence: subject, relative verb and object, main verb and object.
VERB_PLACES = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A word of a family, its general word unless a member is named, with what restricts it."""

    family: Family
    member: str = ""
    modifiers: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The word that is written."""
        return self.member or self.family[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of the sentences, nouns and verbs in families."""

    people: tuple[Family, ...]
    anybody: tuple[Family, ...]
    verbs: tuple[Family, ...]
    adjectives: tuple[str, ...]
    adverbs: tuple[str, ...]


def words(held_out: bool) -> Words:
    """Give the words of training, or those that are held out: whole families."""
    people = part(tuple(PEOPLE.items()), held_out)
    return Words(
        people=people,
        anybody=(*people, *part(tuple(ANIMALS.items()), held_out)),
        verbs=part(tuple(VERBS.items()), held_out),
        adjectives=part(ADJECTIVES, held_out),
        adverbs=part(ADVERBS, held_out),
    )


def draft(words: Words, label: int, numbers: Draws) -> Draft:
    """
    Write a hypothesis, and a premise that differs from it in one place or two.

    In each of these the premise is one step more general or more special. The hypothesis is written
    before the label is looked at, so alone it says nothing of the label. Which step is sound depends on
    the quantifier and on every negation above the place, and over all sentences each step is as often
    sound as not; so neither does it help to know which words came or went.

    Parameters
    ----------
    words : Words
    label : int
        0 where the premise entails the hypothesis.
    numbers : iterator of float

    Returns
    -------
    Draft
        The premise and the hypothesis, which is the key.
    """
    up_subject, up_predicate, frames = pick(FRAMES, numbers)
    frame = pick(frames, numbers)
    opening = frame.opening.format(pick(NUMBERS, numbers))
    relative = chance(0.65, numbers)
    not_in_relative = chance(0.5, numbers)

    # Where a more general word may replace another, place by place.
    inside = up_subject != not_in_relative
    upward = [up_subject, inside, inside, up_predicate, up_predicate]
    changed = several(range(5) if relative else (0, 3, 4), 2 if chance(0.35, numbers) else 1, numbers)

    # The label is not looked at before this line is done.
    used: list[str] = []
    hypothesis = _phrases(words, changed, used, numbers)
    sound = _soundness(label, len(changed), numbers)
    premise = list(hypothesis)
    for place, right in zip(changed, sound, strict=True):
        if upward[place] == right:
            modifier = _modifier(words, place, used, numbers)
            premise[place] = _special(hypothesis[place], modifier, numbers)
        else:
            premise[place] = _general(hypothesis[place], numbers)
    written = [
        _write(opening, frame, phrases, relative, not_in_relative) for phrases in (premise, hypothesis)
    ]
    return Draft(key=written[1], texts=(written[0], written[1]))


def _soundness(label: int, count: int, numbers: Draws) -> list[bool]:
    # Of two changes, one that is not sound is enough.
    if label == 0:
        return [True] * count
    if count == 1:
        return [False]
    return list(pick(((False, True), (True, False), (False, False)), numbers))


def _phrases(words: Words, changed: list[int], used: list[str], numbers: Draws) -> list[Phrase]:
    # Families differ from place to place, as modifiers do, so no two places can depend on each other.
    subject, first, second = pick(words.people, numbers), *several(words.anybody, 2, numbers)
    while subject in (first, second):
        first, second = several(words.anybody, 2, numbers)
    verbs = several(words.verbs, 2, numbers)
    phrases: list[Phrase] = []
    for place, family in enumerate((subject, verbs[0], first, verbs[1], second)):
        member = pick(family[1], numbers) if chance(0.7, numbers) else ""
        many = next(numbers)
        if place not in changed:
            count = (many < 0.45) + (many < 0.1)
        else:
            # A general word alone could not become more general, nor one with two modifiers more special.
            count = int(not member or many < 0.45)
        modifiers = tuple(_modifier(words, place, used, numbers) for _ in range(count))
        phrases.append(Phrase(family=family, member=member, modifiers=modifiers))
    return phrases


def _modifier(words: Words, place: int, used: list[str], numbers: Draws) -> str:
    options = words.adverbs if place in VERB_PLACES else words.adjectives
    new = pick(options, numbers)
    while new in used:
        new = pick(options, numbers)
    used.append(new)
    return new


def _general(phrase: Phrase, numbers: Draws) -> Phrase:
    if phrase.member and (not phrase.modifiers or chance(0.5, numbers)):
        return replace(phrase, member="")
    return replace(phrase, modifiers=())


def _special(phrase: Phrase, modifier: str, numbers: Draws) -> Phrase:
    if not phrase.member and chance(0.5, numbers):
        return replace(phrase, member=pick(phrase.family[1], numbers))
    pair = (modifier, *phrase.modifiers)
    return replace(phrase, modifiers=pair[::-1] if chance(0.5, numbers) else pair)


def _write(opening: str, frame: Frame, phrases: list[Phrase], relative: bool, negated: bool) -> str:
    subject, relative_verb, relative_object, verb, object_ = phrases
    clause = f" that {_clause(relative_verb, relative_object, negated)}" if relative else ""
    return sentence(
        f"{opening} {_noun(subject, frame.plural)}{clause} {_clause(verb, object_, frame.negated)}"
    )


def _noun(phrase: Phrase, plural: bool = False) -> str:
    noun = with_s(phrase.word) if plural else phrase.word
    return f"{', '.join(phrase.modifiers)} {noun}" if phrase.modifiers else noun


def _clause(verb: Phrase, object_: Phrase, negated: bool) -> str:
    base, past = (form.replace("_", " ") for form in verb.word.split())
    manner = f"{' and '.join(verb.modifiers)} " if verb.modifiers else ""
    if negated:
        # "any" leaves no second reading: there was none, not: there was one that was spared.
        return f"did not {manner}{base} any {_noun(object_)}"
    return f"{manner}{past} {with_article(_noun(object_))}"


ENTAILMENT = Grammar(
    name="entailment",
    title="Entailment between generated sentences",
    tests="compositional: whether a change of one or two phrases is sound below quantifiers and negations",
    labels=("entailment", "not_entailment"),
    version=1,
    words=words,
    draft=draft,
)


def entailment(seed: int = 0, sizes: Mapping[str, int] | None = None) -> Task:
    """
    Make the compositional task: a premise and a hypothesis, entailment or not_entailment.

    Parameters
    ----------
    seed : int
    sizes : mapping of str to int, optional
        Of the splits train, validation, test and held_out.

    Returns
    -------
    Task

    Examples
    --------
    >>> task = entailment(sizes={"validation": 10})
    >>> len(task.split("validation")), task.card["bayes"]
    (10, 1.0)
    """
    return build(ENTAILMENT, seed, sizes)
