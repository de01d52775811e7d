"""Which claims about tuned layers hold for one model? Each with a number and a bound; for tuned_layers.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from curve_agreement import agreement_difference
from phang_claims import Verdict, judged, together
from tuned_layers_curves import SOLVERS
from tuned_layers_job import MEASURES, PARSING, SPANS

from microtome.findings.change import change_profile

# What words of the papers are taken to mean; their abstracts give no numbers.
LARGE = 0.2  # the last layer changed much from here on: 1 - similarity
MOVED = 0.05  # a layer changed at all from here on; most of the model did where its middle layer has
FORGOTTEN = -2.0  # points that a readout may lose and nothing is forgotten, over all layers and over the top
SEEDS = 3  # that intervals are taken to rest on, where they must be made wider
PUBLISHED = MEASURES[0]
TAMKIN = "T"

Ends = Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """
    A number with its interval; NaN where there is none.

    Parameters
    ----------
    value, low, high : float
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @staticmethod
    def of(found: Ends | None, scale: float = 1.0) -> Number:
        """Take it from a file."""
        told = [
            math.nan if found is None or found.get(n) is None else found[n] for n in ("value", "low", "high")
        ]
        value, low, high = (float(each) * abs(scale) for each in told if each is not None)
        return Number(value=value, low=low, high=high)

    @property
    def change(self) -> Number:
        """1 minus it."""
        return Number(value=1 - self.value, low=1 - self.high, high=1 - self.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    One number that a claim needs on one side of a bound.

    Parameters
    ----------
    what : str
    number : Number
    side : {"above", "below"}
    bound : float
    digits : int
    group : str
        What it is a number of, where a claim says several things.
    """

    what: str
    number: Number
    side: Literal["above", "below"]
    bound: float
    digits: int = 2
    group: str = ""

    def verdict(self, among: int = 1) -> Verdict:
        """
        Whether the interval lies on the claimed side, on the other one, or on both.

        Parameters
        ----------
        among : int
            Parts of the claim. All must hold for it to hold, but one is enough against it, so that the
            interval of each must be wider for that.
        """
        found = judged(self.number.low, self.number.high, self.side, self.bound)
        if found != "does not hold":
            return found
        wide = widened(self.number, among)
        return judged(wide.low, wide.high, self.side, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    A published claim, and what one model says of it.

    Parameters
    ----------
    name, text, model : str
    by : str
        What it is measured by.
    parts : tuple of Part
        All must be on their side.
    why : str
        Why there are none.
    """

    name: str
    text: str
    model: str
    by: str
    parts: tuple[Part, ...]
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        """It holds when all parts do, and does not when one does not."""
        return together(self.verdicts)

    @property
    def verdicts(self) -> list[Verdict]:
        """What is found of each part."""
        return [part.verdict(len(self.parts)) for part in self.parts]

    @property
    def by_group(self) -> dict[str, Verdict]:
        """What is found of each thing that it says."""
        found: dict[str, list[Verdict]] = {}
        for part, verdict in zip(self.parts, self.verdicts, strict=True):
            found.setdefault(part.group, []).append(verdict)
        return {name: together(each) for name, each in found.items()}


def mean_of(numbers: Sequence[Number]) -> Number:
    """
    The mean of numbers that may be correlated, as those of one set of sentences: its ends are their means.

    Examples
    --------
    >>> mean_of([Number(value=1.0, low=0.0, high=3.0), Number(value=2.0, low=2.0, high=2.0)])
    Number(value=1.5, low=1.0, high=2.5)
    """
    if not numbers:
        return Number(value=math.nan)
    value = sum(each.value for each in numbers) / len(numbers)
    down = sum(each.value - each.low for each in numbers) / len(numbers)
    up = sum(each.high - each.value for each in numbers) / len(numbers)
    return Number(value=value, low=value - down, high=value + up)


def minus(one: Number, other: Number) -> Number:
    """
    The difference of two numbers that err independently, its ends from theirs (Donner and Zou 2012).

    Examples
    --------
    >>> minus(Number(value=5.0, low=2.0, high=9.0), Number(value=1.0, low=-2.0, high=5.0))
    Number(value=4.0, low=-1.0, high=9.0)
    """
    value = one.value - other.value
    down = math.hypot(one.value - one.low, other.high - other.value)
    up = math.hypot(one.high - one.value, other.value - other.low)
    return Number(value=value, low=value - down, high=value + up)


def widened(number: Number, among: int) -> Number:
    """
    Make an interval of 95 % one that holds for several numbers at once (Bonferroni).

    How far it must reach depends on its degrees of freedom, which are not told: those of three seeds are
    taken, which is more than enough where documents count too.

    Examples
    --------
    >>> wide = widened(Number(value=0.0, low=-1.0, high=2.0), 2)
    >>> round(wide.low, 2), round(wide.high, 2)
    (-1.44, 2.88)
    """
    from scipy.stats import t

    factor = float(t.ppf(1 - 0.025 / among, SEEDS - 1) / t.ppf(0.975, SEEDS - 1))
    return Number(
        value=number.value,
        low=number.value - factor * (number.value - number.low),
        high=number.value + factor * (number.high - number.value),
    )


def equal_steps(depth: int) -> float:
    """
    Which share of the change the upper third holds where every block adds as much, and nothing lies below.

    Examples
    --------
    >>> round(equal_steps(6), 3), round(equal_steps(12), 3)
    (0.587, 0.573)
    """
    return change_profile(1 - np.linspace(0, 0.5, depth + 1)).top_third


def learned(document: Mapping[str, Any]) -> bool:
    """Whether the mean score of a task is surely above a guess, on other examples and with other seeds."""
    told = document.get("tuned", {})
    low = told.get("mean", {}).get("low")
    return low is not None and low > told["guess"]


def learned_curve(document: Mapping[str, Any]) -> bool:
    """Whether the whole model, nothing redrawn, is above a guess on other examples."""
    told = document["curves"]
    ends = [run["low"] for run in told["runs"]]
    return all(end is not None for end in ends) and float(np.mean(ends)) > told["guess"]


def claims(documents: Iterable[Mapping[str, Any]]) -> list[Claim]:
    """
    Judge the claims for every model alone.

    Parameters
    ----------
    documents : iterable of mapping
        Files of jobs.

    Returns
    -------
    list of Claim
    """
    every = list(documents)
    found: list[Claim] = []
    for model in dict.fromkeys(one["job"]["model"] for one in every):
        mine = [one for one in every if one["job"]["model"] == model]
        tried = [one for one in mine if one["job"]["kind"] == "task"]
        tasks = {one["job"]["what"]: one for one in tried if learned(one)}
        for measure in MEASURES if tried else ():
            found += _merchant(model, measure, tasks)
        found += _tamkin(model, mine)
    order = list(dict.fromkeys(one.name for one in found))
    return sorted(found, key=lambda one: order.index(one.name))


def _merchant(model: str, measure: str, tasks: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    moved = {task: one["change"]["measures"][measure] for task, one in tasks.items() if "change" in one}

    def last(task: str) -> Number:
        return Number.of(moved[task]["last"]).change

    def share(task: str) -> Number:
        return Number.of(moved[task]["top_share"])

    def mean(task: str) -> Number:
        return Number.of(moved[task]["mean"]["tuned"]).change

    forgot = [
        Part(
            what=f"{target} after tuning on {task} minus before, points, mean over {where}",
            number=Number.of(told[key], told["points"]),
            side="above",
            bound=FORGOTTEN,
            group="nothing forgotten",
        )
        for task, one in tasks.items()
        for target, told in {**one.get("probe", {}), **one.get("structural", {})}.items()
        for key, where in (("mean", "layers"), ("top", "the upper third"))
    ]
    large = [
        Part(
            what=f"change of the last layer, {task}",
            number=last(task),
            side="above",
            bound=LARGE,
            group="large changes",
        )
        for task in moved
    ]
    shallow = [task for task in moved if task != PARSING]
    deep = []
    if PARSING in moved and shallow:
        deep.append(
            Part(
                what="change of the middle layer, parsing",
                number=Number.of(moved[PARSING]["middle"]).change,
                side="above",
                bound=MOVED,
                group="most of the model",
            )
        )
        for task in shallow:
            deep += [
                Part(
                    what=f"mean change over layers, parsing minus {task}",
                    number=minus(mean(PARSING), mean(task)),
                    side="above",
                    bound=0.0,
                    digits=3,
                    group="more change",
                ),
                Part(
                    what=f"share of the change in the upper third, parsing minus {task}",
                    number=minus(share(PARSING), share(task)),
                    side="below",
                    bound=0.0,
                    group="deeper down",
                ),
            ]
    outside = [
        Part(
            what=f"similarity to the base out of domain minus in domain, mean over layers, {task}",
            number=Number.of(one["domains"]["average"][measure]["difference"]),
            side="above",
            bound=0.0,
            digits=3,
        )
        for task, one in tasks.items()
        if "domains" in one
    ]
    top = mean_of([share(task) for task in moved])
    mainly = (
        []
        if not moved
        else [
            Part(
                what=f"share of the change in the upper third, mean of {', '.join(moved)}",
                number=top,
                side="above",
                bound=equal_steps(next(iter(tasks.values()))["depth"]),
                digits=3,
            )
        ]
    )
    none = "" if tasks else "no task was learned"
    told: list[tuple[str, str, Sequence[Part], str]] = [
        (
            "M1",
            "large changes, but nothing linguistic is forgotten",
            [*large, *forgot] if large and forgot else [],
            none or "change or probes were not measured",
        ),
        ("M2", "mainly the top layers change", mainly, none or "change was not measured"),
        (
            "M3",
            "parsing reconfigures most of the model, pairs and spans are shallow",
            deep,
            none or "parsing and another task must both be learned",
        ),
        (
            "M4",
            "less effect on sentences out of domain",
            outside,
            none or f"neither pairs nor {SPANS} were learned",
        ),
    ]
    return [
        Claim(name=name, text=text, model=model, by=measure, parts=tuple(parts), why="" if parts else why)
        for name, text, parts, why in told
    ]


def _tamkin(model: str, documents: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """As the set to tune on shrinks, the curve of redrawn blocks comes closer to the probing curve."""
    reads = next((one["curves"] for one in documents if one["job"]["kind"] == "reads"), None)
    redrawn = [one for one in documents if one["job"]["kind"] == "redrawn"]
    found = []
    for scheme in dict.fromkeys(one["job"]["what"] for one in redrawn):
        mine = {one["job"]["size"]: one for one in redrawn if one["job"]["what"] == scheme}
        sizes = [size for size in sorted(mine) if learned_curve(mine[size])]
        for solver in SOLVERS:
            parts, why = [], ""
            if reads is None:
                why = "the probing curve was not measured"
            elif len(sizes) < 2:
                bad = ", ".join(f"{size:,}" for size in sorted(mine) if size not in sizes)
                why = f"not learned from {bad} examples" if bad else "one size alone"
            else:
                few, many = (redrawn_table(mine[size]) for size in (sizes[0], sizes[-1]))
                change = closer(np.array(reads["base"][solver], dtype=float), few, many)
                parts = [
                    Part(
                        what=f"rank agreement of the curves, {sizes[0]:,} minus {sizes[-1]:,} examples",
                        number=change,
                        side="above",
                        bound=0.0,
                    )
                ]
            found.append(
                Claim(
                    name=TAMKIN,
                    text="with fewer examples, re-initialization runs more like probing",
                    model=model,
                    by=f"{solver} probes, {scheme}",
                    parts=tuple(parts),
                    why=why,
                )
            )
    return found


def closer(reads: np.ndarray, few: np.ndarray, many: np.ndarray) -> Number:
    """
    How much more the curve of few examples runs like the probing curve than that of many does.

    Seeds differ more where examples are few, which alone makes curves run less alike. So the interval reaches
    as far as the difference that is left without that noise.

    Parameters
    ----------
    reads, few, many : ndarray of shape (seeds, layers)
        Seeds whose scores are known at every layer.

    Returns
    -------
    Number
    """
    known = [each[np.isfinite(each).all(axis=1)] for each in (reads, few, many)]
    if not all(map(len, known)):
        return Number(value=math.nan)
    found = agreement_difference(*known)
    if found.low is None or found.high is None:
        return Number(value=found.value)
    ends = [found.low, found.high]
    free = found.details["corrected"]
    ends += [free] if math.isfinite(free) else []
    return Number(value=found.value, low=min(ends), high=max(ends))


def redrawn_table(document: Mapping[str, Any]) -> np.ndarray:
    """Scores with 1 block kept and more, shape (seeds, layers): with none there is nothing to read."""
    return np.array([run["scores"][1:] for run in document["curves"]["runs"]], dtype=float)
