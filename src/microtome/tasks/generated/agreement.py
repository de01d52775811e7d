"""The structural task: subject-verb agreement across relative clauses."""

from __future__ import annotations

from typing import Any

from .grammar import Draft, Draws, Grammar, chance, pick, sentence, several, with_s, words_in

PEOPLE = words_in(
    "author critic teacher pilot lawyer nurse farmer painter singer dancer waiter banker driver guard "
    "judge king queen doctor dentist surgeon actor baker barber butcher builder carpenter cashier chef "
    "child clerk coach cook customer designer diplomat director editor engineer expert explorer gardener "
    "guest guide hunter inspector janitor jeweler journalist juggler knight landlord leader lecturer "
    "librarian magician manager mayor mechanic merchant minister model musician neighbor novelist officer "
    "owner passenger patient pharmacist philosopher photographer physicist pianist plumber poet "
    "president priest prince princess professor programmer publisher reporter researcher runner sailor "
    "scientist sculptor secretary senator servant sheriff shopkeeper soldier student swimmer tailor "
    "tourist traveler tutor violinist visitor wizard worker writer"
)

# Verbs that take a clause or a bare verb, such as see and believe, are left out: "the author that saw
# the critics laugh" and "the author that the critics believed laughs" have a second reading.
DID = words_in(
    "admired met praised visited phoned trusted followed greeted thanked blamed ignored invited avoided "
    "hired paid liked loved hated envied teased respected recognized scolded obeyed consulted called "
    "interviewed criticized defended insulted welcomed married supported entertained amused annoyed bored "
    "confused surprised contacted photographed painted mocked approached passed chased guided rescued "
    "impressed questioned tricked copied congratulated hugged accused adored betrayed "
    "comforted described disliked cheered"
)

DOES = words_in(
    "laugh sing sleep dance smile wait work cook travel walk run swim read write listen study whisper "
    "shout yawn sneeze cough cry argue complain relax exercise practice rest jog hike paint draw knit "
    "sew ski skate drive juggle hum whistle mumble stutter snore dream worry hesitate panic celebrate "
    "volunteer commute daydream gamble gossip grumble joke meditate giggle climb eat lie apologize "
    "shiver tremble wander"
)

STATES = words_in(
    "tired hungry happy sad angry calm busy late sick rich poor famous proud shy lonely bored nervous "
    "quiet polite rude clever curious honest lazy punctual brave jealous cheerful thirsty sleepy careful "
    "careless confident generous grateful greedy healthy helpful kind lucky modest noisy serious strong "
    "stubborn sure talented thoughtful tidy weak wise worried excited friendly furious "
    "anxious ready safe alone"
)

LOOKS = words_in(
    "old young tall short thin blond bearded local foreign retired elegant gentle wealthy mysterious "
    "popular skillful ambitious charming eager ordinary"
)

PLACES = words_in(
    "museum station garden hotel school market library theater bridge hospital office restaurant castle "
    "tower park harbor airport bank bakery factory farm forest fountain gate island kitchen lake mill "
    "palace river shop stadium temple tunnel village"
)
WHERE = ("near", "behind", "outside", "opposite")
OFTEN = ("often", "rarely", "always", "usually", "sometimes", "never")
JOINTS = (" while", ", and", ", but", " because")


def draft(words: Any, label: int, numbers: Draws) -> Draft:
    """
    Generate a sentence of two clauses, one with a singular and one with a plural subject.

    Both verbs agree, or each has the number of the other. Swapping the verbs of a sentence flips its label,
    changes no word, and is equally likely; so a bag of words carries no information about the label. All
    nouns but the two subjects have independent numbers, so neither does the last noun before a verb; and
    the first noun of a sentence is often not a subject.

    Parameters
    ----------
    words : vocabulary
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


def _subject(words: Any, head: str, embedded: str, plural: bool, numbers: Draws) -> str:
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


def _predicate(words: Any, numbers: Draws) -> tuple[str, str]:
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


def _place(words: Any, numbers: Draws) -> str:
    place = pick(words.places, numbers)
    return f"{pick(WHERE, numbers)} the {with_s(place) if chance(0.5, numbers) else place}"


AGREEMENT = Grammar(
    name="agreement",
    title="Agreement across a relative clause in generated sentences",
    tests="structural: whether verbs agree with their subjects across a relative clause, whose noun often "
    "has the other number",
    labels=("unacceptable", "acceptable"),
    version=1,
    lexicon={
        "people": PEOPLE,
        "did": DID,
        "does": DOES,
        "states": STATES,
        "looks": LOOKS,
        "places": PLACES,
    },
    draft=draft,
)
