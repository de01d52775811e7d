"""The shallow task: polarity of reviews by counts of sentiment words, with known label noise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .grammar import Draft, Draws, Grammar, chance, pick, sentence, several, words_in

# Subjects of reviews with their aspects. No aspect belongs to two subjects, because whole subjects are held
# out: every fifth.
SUBJECTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ate at this restaurant": words_in(
            "soup salad dessert menu waiter kitchen bread coffee steak sauce breakfast terrace pasta"
        ),
        "stayed at this hotel": words_in(
            "room lobby bed pool shower balcony receptionist hallway view minibar elevator mattress bathroom"
        ),
        "watched this movie": words_in(
            "plot ending acting soundtrack script cast dialogue camerawork editing director scenery "
            "villain trailer"
        ),
        "read this novel": words_in(
            "cover story prose narrator setting title introduction translation prologue epilogue "
            "heroine printing binding"
        ),
        "took this train": words_in(
            "seat carriage conductor platform ticket timetable compartment driver journey announcement "
            "window table"
        ),
        "bought this phone": words_in(
            "screen battery keyboard camera speaker case charger design manual software microphone packaging"
        ),
        "took this course": words_in(
            "teacher classroom homework textbook lecture exam schedule material exercise tutor "
            "syllabus feedback"
        ),
        "went to this concert": words_in(
            "singer band stage sound lighting drummer audience hall encore guitarist choir venue"
        ),
        "shopped at this store": words_in(
            "cashier parking selection entrance delivery manager checkout display stock website layout bakery"
        ),
        "joined this gym": words_in(
            "trainer locker treadmill sauna equipment membership coach yoga music rower bench reception"
        ),
    }
)

PRAISE = words_in(
    "wonderful excellent superb fantastic great amazing brilliant delightful lovely perfect outstanding "
    "terrific marvelous magnificent splendid fabulous impressive remarkable charming pleasant good "
    "exceptional stunning beautiful awesome incredible phenomenal flawless admirable enjoyable satisfying "
    "exquisite sublime heavenly glorious sensational divine likable impeccable commendable praiseworthy "
    "extraordinary enchanting nice spectacular"
)
BLAME = words_in(
    "terrible awful horrible dreadful poor bad disappointing dismal lousy mediocre unpleasant annoying "
    "disgusting pathetic horrid atrocious abysmal appalling ghastly miserable inferior unacceptable "
    "ridiculous useless worthless frustrating irritating tedious inadequate shoddy sloppy unbearable "
    "shameful laughable lamentable hideous nasty revolting repulsive deplorable wretched depressing "
    "underwhelming woeful disastrous"
)

# "I loved the soup."
LIKED = words_in("loved enjoyed liked adored admired appreciated treasured praised cherished valued")
DISLIKED = words_in("hated disliked despised detested loathed resented deplored criticized regretted scorned")

# "The soup delighted me."
PLEASED = words_in("delighted impressed pleased thrilled charmed amazed captivated enchanted dazzled cheered")
DISPLEASED = words_in(
    "disappointed annoyed bored irritated disgusted frustrated upset bothered appalled angered"
)

# The following words carry no information about the label.
PEOPLE = words_in(
    "sister brother mother father cousin neighbor roommate colleague aunt uncle grandmother daughter son"
)
DAYS = words_in("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = words_in("January February March April May June July August September October November December")
STRENGTHS = ("really", "truly", "simply", "absolutely")

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


def draft(words: Any, label: int, numbers: Draws) -> Draft:
    """
    Generate a review with a majority of opinions of a given polarity.

    Parameters
    ----------
    words : vocabulary
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


def _opinion(words: Any, kind: int, aspect: str, numbers: Draws) -> str:
    form = next(numbers)
    strength = f"{pick(STRENGTHS, numbers)} " if chance(0.3, numbers) else ""
    if form < 0.2:
        return f"I {strength}{pick((words.disliked, words.liked)[kind], numbers)} the {aspect}"
    if form < 0.4:
        return f"the {aspect} {strength}{pick((words.displeased, words.pleased)[kind], numbers)} me"
    lead = "I thought the" if form < 0.5 else "the"
    return f"{lead} {aspect} was {strength}{pick((words.blame, words.praise)[kind], numbers)}"


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
    lexicon={
        "subjects": SUBJECTS,
        "praise": PRAISE,
        "blame": BLAME,
        "liked": LIKED,
        "disliked": DISLIKED,
        "pleased": PLEASED,
        "displeased": DISPLEASED,
    },
    draft=draft,
)
