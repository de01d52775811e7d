"""The compositional task: entailment under quantifiers and negation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from .grammar import Draft, Draws, Grammar, chance, pick, sentence, several, with_article, with_s, words_in

# Strict hyponymy: each violinist is a musician.
PEOPLE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "musician": ("violinist", "pianist", "drummer", "guitarist", "cellist"),
        "doctor": ("surgeon", "psychiatrist", "pediatrician", "cardiologist"),
        "scientist": ("chemist", "biologist", "physicist", "geologist", "astronomer"),
        "athlete": ("gymnast", "sprinter", "wrestler", "boxer", "footballer"),
        "writer": ("poet", "novelist", "journalist", "playwright", "columnist"),
        "artist": ("sculptor", "illustrator", "cartoonist"),
        "child": ("boy", "girl", "toddler", "baby"),
        "teacher": ("professor", "tutor", "lecturer"),
        "politician": ("senator", "mayor", "governor"),
        "craftsman": ("carpenter", "potter", "blacksmith", "weaver"),
        "traveler": ("tourist", "pilgrim", "hitchhiker", "backpacker"),
        "student": ("freshman", "undergraduate", "sophomore", "schoolgirl"),
        "performer": ("actor", "dancer", "comedian", "magician", "juggler", "acrobat"),
        "ruler": ("king", "queen", "emperor", "sultan"),
        "employee": ("cashier", "receptionist", "secretary", "janitor"),
        "lawyer": ("prosecutor", "barrister", "solicitor"),
        "relative": ("aunt", "uncle", "cousin", "nephew"),
    }
)
ANIMALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dog": ("poodle", "beagle", "terrier", "spaniel", "bulldog"),
        "bird": ("robin", "sparrow", "parrot", "eagle", "owl", "pigeon"),
        "horse": ("pony", "stallion", "mare", "foal"),
        "reptile": ("lizard", "snake", "turtle", "crocodile"),
        "insect": ("beetle", "ant", "butterfly", "wasp", "cricket"),
        "cat": ("kitten", "tabby", "tomcat"),
        "rodent": ("mouse", "rat", "squirrel", "hamster", "beaver"),
        "ape": ("gorilla", "chimpanzee", "orangutan"),
        "fish": ("salmon", "trout", "shark", "goldfish"),
        "deer": ("stag", "fawn", "doe"),
    }
)

# Each as "base past"; a member entails its family: whoever chases follows. Multiword verbs join their words
# with "_".
VERBS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "follow followed": ("chase chased", "pursue pursued", "shadow shadowed"),
        "touch touched": ("hug hugged", "pat patted", "tickle tickled", "kiss kissed", "stroke stroked"),
        "see saw": ("spot spotted", "glimpse glimpsed", "notice noticed"),
        "move moved": ("carry carried", "lift lifted", "drag dragged", "haul hauled"),
        "clean cleaned": ("wash washed", "scrub scrubbed", "rinse rinsed", "bathe bathed"),
        "talk_to talked_to": (
            "chat_with chatted_with",
            "whisper_to whispered_to",
            "gossip_with gossiped_with",
        ),
        "depict depicted": ("paint painted", "sketch sketched", "photograph photographed"),
        "help helped": ("rescue rescued", "save saved", "comfort comforted", "protect protected"),
        "teach taught": ("train trained", "coach coached", "tutor tutored"),
        "praise praised": ("applaud applauded", "compliment complimented", "glorify glorified"),
        "criticize criticized": ("scold scolded", "ridicule ridiculed", "denounce denounced"),
        "approach approached": ("run_up_to ran_up_to", "walk_up_to walked_up_to", "creep_up_on crept_up_on"),
        "frighten frightened": ("terrify terrified", "startle startled", "spook spooked"),
        "imitate imitated": ("parody parodied", "impersonate impersonated"),
        "greet greeted": ("salute saluted", "welcome welcomed", "bow_to bowed_to"),
        "please pleased": ("delight delighted", "thrill thrilled", "enchant enchanted"),
        "anger angered": ("infuriate infuriated", "enrage enraged"),
    }
)

# No two are incompatible, since a contradictory premise would entail everything; and none is a hyponym of
# another.
ADJECTIVES = words_in(
    "hungry thirsty sleepy wet muddy dusty lost lonely nervous cheerful shy silent curious proud jealous "
    "confused sick cold trembling yawning limping lucky stranded masked bandaged sunburned "
    "frightened injured sneezing friendly impatient suspicious stubborn clumsy blindfolded dizzy homesick "
    "forgetful freckled breathless"
)
ADVERBS = words_in(
    "secretly quietly stubbornly proudly curiously suddenly carefully deliberately repeatedly gently "
    "nervously cheerfully eagerly patiently politely shyly thoughtfully immediately playfully briefly"
)

Family = tuple[str, tuple[str, ...]]


class Frame(NamedTuple):
    """
    The quantifier of a sentence, with its number and negation.

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


# By monotonicity: whether a more general word may replace another in the subject, and in the predicate;
# otherwise a more specific one may. The four are equally likely, so each position is of each kind in half
# of all sentences, whatever the words.
_SOME = (Frame("some"), Frame("at least {}", plural=True), Frame("more than {}", plural=True))
_NO = (Frame("no"), Frame("fewer than {}", plural=True), Frame("at most {}", plural=True))
_EVERY = (Frame("every"), Frame("all", plural=True), Frame("it is not true that some", negated=True))
_NOT_EVERY = (Frame("not every"), Frame("not all", plural=True), Frame("it is not true that every"))
FRAMES: tuple[tuple[bool, bool, tuple[Frame, ...]], ...] = (
    (True, True, _SOME),
    (False, False, (*_NO, Frame("it is not true that some"))),
    (False, True, _EVERY),
    (True, False, (*_NOT_EVERY, Frame("some", negated=True))),
)
NUMBERS = ("two", "three", "four")

# Of the five positions of a sentence: subject, relative verb and object, main verb and object.
VERB_PLACES = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A word of a family, its general word unless a member is named, with its modifiers."""

    family: Family
    member: str = ""
    modifiers: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The word that is written."""
        return self.member or self.family[0]


def draft(words: Any, label: int, numbers: Draws) -> Draft:
    """
    Generate a hypothesis, and a premise that differs from it in one or two positions.

    In each of these the premise is one step more general or more specific. The hypothesis is generated
    independently of the label, so alone it carries no information about it. Which step is sound depends on
    the quantifier and on every negation above the position, and over all sentences each step is sound in
    half of the cases; so the words that were added or removed carry none either.

    Parameters
    ----------
    words : vocabulary
    label : int
        0 if the premise entails the hypothesis.
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

    # Whether a more general word may replace another, by position.
    inside = up_subject != not_in_relative
    upward = [up_subject, inside, inside, up_predicate, up_predicate]
    changed = several(range(5) if relative else (0, 3, 4), 2 if chance(0.35, numbers) else 1, numbers)

    # The label is not used before the hypothesis is complete.
    used: list[str] = []
    hypothesis = _phrases(words, changed, used, numbers)
    sound = _soundness(label, len(changed), numbers)
    premise = list(hypothesis)
    for position, is_sound in zip(changed, sound, strict=True):
        if upward[position] == is_sound:
            modifier = _modifier(words, position, used, numbers)
            premise[position] = _special(hypothesis[position], modifier, numbers)
        else:
            premise[position] = _general(hypothesis[position], numbers)
    written = [
        _write(opening, frame, phrases, relative, not_in_relative) for phrases in (premise, hypothesis)
    ]
    return Draft(key=written[1], texts=(written[0], written[1]))


def _soundness(label: int, count: int, numbers: Draws) -> list[bool]:
    # Of two changes, one unsound change is enough.
    if label == 0:
        return [True] * count
    if count == 1:
        return [False]
    return list(pick(((False, True), (True, False), (False, False)), numbers))


def _phrases(words: Any, changed: list[int], used: list[str], numbers: Draws) -> list[Phrase]:
    # Families and modifiers differ between positions, so no two positions can depend on each other.
    nouns = (*words.people, *words.animals)
    subject, first, second = pick(words.people, numbers), *several(nouns, 2, numbers)
    while subject in (first, second):
        first, second = several(nouns, 2, numbers)
    verbs = several(words.verbs, 2, numbers)
    phrases: list[Phrase] = []
    for position, family in enumerate((subject, verbs[0], first, verbs[1], second)):
        member = pick(family[1], numbers) if chance(0.7, numbers) else ""
        draw = next(numbers)
        if position not in changed:
            count = (draw < 0.45) + (draw < 0.1)
        else:
            # A bare general word could not become more general, nor one with two modifiers more specific.
            count = int(not member or draw < 0.45)
        modifiers = tuple(_modifier(words, position, used, numbers) for _ in range(count))
        phrases.append(Phrase(family=family, member=member, modifiers=modifiers))
    return phrases


def _modifier(words: Any, position: int, used: list[str], numbers: Draws) -> str:
    options = words.adverbs if position in VERB_PLACES else words.adjectives
    modifier = pick(options, numbers)
    while modifier in used:
        modifier = pick(options, numbers)
    used.append(modifier)
    return modifier


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
        # "any" excludes the wide-scope reading of the object.
        return f"did not {manner}{base} any {_noun(object_)}"
    return f"{manner}{past} {with_article(_noun(object_))}"


ENTAILMENT = Grammar(
    name="entailment",
    title="Entailment between generated sentences",
    tests="compositional: whether a change of one or two phrases is sound below quantifiers and negations",
    labels=("entailment", "not_entailment"),
    version=1,
    lexicon={
        "people": PEOPLE,
        "animals": ANIMALS,
        "verbs": VERBS,
        "adjectives": ADJECTIVES,
        "adverbs": ADVERBS,
    },
    draft=draft,
)
