"""Lexicon of the polarity task: subjects with their aspects, and positive and negative words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .english import words_in

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
