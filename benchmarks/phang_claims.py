"""Published claims judged on matched encoders, each with its estimate and interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paired_settings import LEVEL, MARGIN, Effect, Setting, block_and_cut, mean_effect, paired_effect

from microtome.findings.words import between, number

Verdict = Literal["holds", "does not hold", "inconclusive"]
# What words of the papers are taken to mean where the papers give no numbers.
ALIKE = 0.8  # adjacent layers are alike from here on
UNLIKE = 0.5  # layers are unlike below it
MOST = 0.5  # share of models from which on models "have" something
COLLAPSE = 0.5  # share of the score, above the most frequent answer, that a collapse loses

# Encoders that stand for the published ones, and the dense stages behind each in the library they used.
MASKED, SHARED, REPLACED = "masked", "shared", "replaced"
TWO_STAGES, ONE_STAGE = "cls2", "cls1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    One number that a claim needs on one side of a bound.

    Parameters
    ----------
    what : str
        The number, in words.
    effect : Effect
    side : {"above", "below"}
    bound : float
    digits : int
    """

    what: str
    effect: Effect
    side: Literal["above", "below"]
    bound: float
    digits: int = 2

    @property
    def verdict(self) -> Verdict:
        """Whether the interval over tasks lies on the claimed side, on the other one, or on both."""
        return judged(self.effect.low, self.effect.high, self.side, self.bound)

    @property
    def verdict_here(self) -> Verdict:
        """The same on these tasks and encoders alone, with seeds as all that is drawn."""
        return judged(self.effect.here_low, self.effect.here_high, self.side, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    A published claim, and what is found of it.

    Parameters
    ----------
    name, text : str
    parts : tuple of Part
        All must be on their side.
    """

    name: str
    text: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> Verdict:
        """It holds when all parts do, and does not when one does not."""
        return together([part.verdict for part in self.parts])

    @property
    def verdict_here(self) -> Verdict:
        """The same on these tasks and encoders alone."""
        return together([part.verdict_here for part in self.parts])


def judged(low: float, high: float, side: str, bound: float) -> Verdict:
    """
    Judge an interval by a bound.

    Examples
    --------
    >>> judged(0.6, 0.9, "above", 0.5), judged(0.4, 0.9, "above", 0.5), judged(0.1, 0.4, "above", 0.5)
    ('holds', 'inconclusive', 'does not hold')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return "inconclusive"
    over, under = low > bound, high < bound
    if not over and not under:
        return "inconclusive"
    return "holds" if over == (side == "above") else "does not hold"


def together(found: Sequence[Verdict]) -> Verdict:
    """What several parts say of a claim."""
    if "does not hold" in found:
        return "does not hold"
    return "holds" if found and set(found) == {"holds"} else "inconclusive"


def pick(settings: Sequence[Setting], designs: Sequence[str], head: str | None = None) -> list[Setting]:
    """Settings of some encoders, under one head where it is named."""
    return [one for one in settings if one.design in designs and head in (None, one.head)]


def claims(
    settings: Sequence[Setting],
    *,
    originals: Sequence[Setting] = (),
    seed_pairs: Sequence[Setting] = (),
    encoder_pairs: Sequence[Setting] = (),
    level: float = LEVEL,
) -> list[Claim]:
    """
    Check the claims C1 to C7 of Phang et al. 2021, those of their truncation, and whether cuts follow blocks.

    Parameters
    ----------
    settings : sequence of Setting
        Tuned models.
    originals, seed_pairs, encoder_pairs : sequence of Setting
        Encoders before tuning, maps of two seeds, maps of two encoders.
    level : float

    Returns
    -------
    list of Claim

    Notes
    -----
    The masked encoder stands for RoBERTa, the one whose layers share a block for ALBERT, replaced-token
    detection for ELECTRA; where the published encoders had different heads, each has its own here: two dense
    stages behind the first two, one behind the third.
    """
    three = (MASKED, SHARED, REPLACED)
    two = pick(settings, (MASKED, SHARED), TWO_STAGES)
    electra = pick(settings, (REPLACED,), ONE_STAGE)

    def mean(some: Sequence[Setting], value: str) -> Effect:
        return mean_effect(some, value, level=level)

    def against(value: str, one: str, other: str) -> Effect:
        return paired_effect(settings, value, {"design": one}, {"design": other}, level=level)

    def part(
        what: str, effect: Effect, side: Literal["above", "below"], bound: float, digits: int = 2
    ) -> Part:
        return Part(what=what, effect=effect, side=side, bound=bound, digits=digits)

    before = pick(originals, three)
    second = "margin of the second of two separate runs"
    sharper = against("sharpness", MASKED, SHARED)
    follows = block_and_cut(settings, level=level)
    correlation = Effect(
        value=follows.value, low=follows.low, high=follows.high, n=follows.n, tasks=follows.tasks, level=level
    )
    found: list[tuple[Any, ...]] = [
        (
            "C1",
            "before tuning, adjacent layers are alike and similarity falls with distance",
            part("mean similarity of adjacent layers", mean(before, "adjacent"), "above", ALIKE),
            part("rank correlation of similarity and distance", mean(before, "decay"), "below", 0.0),
        ),
        (
            "C2",
            "late tuned layers are unlike every layer before tuning, early ones are alike",
            part("best match of the top third", mean(pick(settings, three), "late_match"), "below", UNLIKE),
            part(
                "best match of the lowest third", mean(pick(settings, three), "early_match"), "above", UNLIKE
            ),
        ),
        (
            "C3",
            "tuned masked encoders, with and without shared layers, have two blocks",
            part(second, mean(two, "second_margin"), "above", 0.0),
        ),
        (
            "C4",
            "blocks are sharper where layers do not share weights",
            part("margin of the sharpest block, masked minus shared", sharper, "above", 0.0, 3),
        ),
        (
            "C5",
            "replaced-token detection shows no such blocks, and late layers are unlike even the one below",
            part(second, mean(electra, "second_margin"), "below", 0.0),
            part("similarity of the last two layers", mean(electra, "penultimate"), "below", UNLIKE),
        ),
        (
            "C6",
            "maps of two seeds show blocks where each seed does",
            part(
                "share of such maps with a block",
                mean(pick(seed_pairs, (MASKED, SHARED), TWO_STAGES), "repeated"),
                "above",
                MOST,
            ),
            part("the same, of all encoders and heads", mean(seed_pairs, "repeated"), "above", MOST),
        ),
        (
            "C7",
            "maps of two encoders show early and late blocks too",
            part(second, mean(encoder_pairs, "second_margin"), "above", 0.0),
        ),
        (
            "P-E2 a",
            "masked encoders lose next to nothing without their top third (UNTUNED)",
            part("points lost", mean(two, "cost_third"), "below", MARGIN),
        ),
        (
            "P-E2 b",
            "there, tuning the head further adds next to nothing",
            part("points gained by TUNED", mean(two, "gain_third"), "below", MARGIN),
        ),
        (
            "P-E2 c",
            "more layers can go where all share one block",
            part(
                "layer UNTUNED is flat from, shared minus masked",
                against("flat_from", SHARED, MASKED),
                "below",
                0.0,
            ),
        ),
        (
            "P-E2 d",
            "linear probes before tuning are below those after it at every layer",
            part(
                "points at the layer of the least gain",
                mean(pick(settings, three), "readout_least"),
                "above",
                0.0,
            ),
        ),
        (
            "P-E2 e",
            "replaced-token detection collapses without almost any layer (UNTUNED)",
            part("share lost without the top two", mean(electra, "share_2"), "above", COLLAPSE),
        ),
        (
            "P-E2 f",
            "and falls after one or two layers with its head tuned further (TUNED)",
            part("points lost without the top two", mean(electra, "tuned_2"), "above", MARGIN),
        ),
        (
            "B-3",
            "truncation follows the blocks",
            part("rank correlation of top block and flat layer", correlation, "above", 0.0),
        ),
    ]
    return [Claim(name=name, text=text, parts=tuple(parts)) for name, text, *parts in found]


# What is compared: a name, one side, the other side.
COMPARED: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("objective: replaced tokens minus masked", {"design": REPLACED}, {"design": MASKED}),
    ("objective: masked scored on every token minus masked", {"design": "every"}, {"design": MASKED}),
    ("objective: replaced tokens minus every token", {"design": REPLACED}, {"design": "every"}),
    ("objective: causal minus masked", {"design": "causal"}, {"design": MASKED}),
    ("sharing: one block minus twelve", {"design": SHARED}, {"design": MASKED}),
    ("head: 1 dense stage minus 0", {"head": ONE_STAGE}, {"head": "cls0"}),
    ("head: 2 dense stages minus 1", {"head": TWO_STAGES}, {"head": ONE_STAGE}),
    ("head: mean minus first token", {"head": "mean"}, {"head": ONE_STAGE}),
    (
        "as published: replaced, 1 stage, minus masked, 2 stages",
        {"design": REPLACED, "head": ONE_STAGE},
        {"design": MASKED, "head": TWO_STAGES},
    ),
    (
        "of it the objective: replaced minus masked, 2 stages",
        {"design": REPLACED, "head": TWO_STAGES},
        {"design": MASKED, "head": TWO_STAGES},
    ),
    (
        "of it the head: 1 stage minus 2, replaced",
        {"design": REPLACED, "head": ONE_STAGE},
        {"design": REPLACED, "head": TWO_STAGES},
    ),
)


def effects(
    settings: Sequence[Setting], values: Sequence[str], *, level: float = LEVEL
) -> dict[str, dict[str, Effect]]:
    """
    Compare objectives, sharing, heads and rates.

    Parameters
    ----------
    settings : sequence of Setting
    values : sequence of str
    level : float

    Returns
    -------
    dict of str to dict of str to Effect
        By what is compared and by value; comparisons without a single pair are left out.
    """
    rates = sorted({one.rate for one in settings})
    compared = list(COMPARED)
    if len(rates) > 1:
        name = f"rate: {rates[-1]:g} minus {rates[0]:g}"
        compared.insert(8, (name, {"rate": rates[-1]}, {"rate": rates[0]}))
    found = {}
    for name, one, other in compared:
        told = {value: paired_effect(settings, value, one, other, level=level) for value in values}
        if any(effect.n for effect in told.values()):
            found[name] = told
    return found


def said(effect: Effect, digits: int = 2, *, here: bool = False) -> str:
    """
    Write an effect with its interval.

    Examples
    --------
    >>> said(Effect(value=0.5, low=0.25, high=0.75, n=6, tasks=2))
    '0.50 [0.25, 0.75]'
    """
    low, high = (effect.here_low, effect.here_high) if here else (effect.low, effect.high)
    if not effect.n or math.isnan(effect.value):
        return ""
    if not (math.isfinite(low) and math.isfinite(high)):
        return number(effect.value, digits)
    return f"{number(effect.value, digits)} {between(low, high, digits)}"


def answer(question: str, name: str, effect: Effect, noun: str) -> str:
    """
    Answer whether something depends on what was compared.

    Parameters
    ----------
    question : str
        Such as "Do blocks depend on the objective?".
    name : str
        What was compared.
    effect : Effect
    noun : str
        What the effect is of.

    Returns
    -------
    str
    """
    if not effect.n:
        return f"{question} Not measured: no pairs of {name}."
    told = (
        f"{noun} {said(effect)}; on these tasks alone {said(effect, here=True)} "
        f"({effect.level * 100:g} %; {_counted(effect.n, 'pair')}, {_counted(effect.tasks, 'task')}, "
        f"{_counted(effect.seeds, 'seed')}, {_counted(effect.draws, 'pretraining')})"
    )
    for verdict, (low, high) in (
        ("", (effect.low, effect.high)),
        (" on these tasks", (effect.here_low, effect.here_high)),
    ):
        if low > 0 or high < 0:
            more = "larger" if low > 0 else "smaller"
            return f"{question} Yes{verdict}, it is {more} ({name}): {told}."
    return f"{question} Inconclusive ({name}): {told}."


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
