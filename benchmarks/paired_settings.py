"""Which of several things makes the difference? Settings that differ in one of them, compared in pairs.

A setting is an encoder, a head, a task, a rate and a seed. Two settings that are equal in all but one of
these are a pair, and what they differ by is the effect of that one. Seeds of one task go together, so tasks
are the unit of the intervals; where encoders were pretrained several times, so are the pretrainings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from span_validity import rank_correlation

from microtome.errors import must, unknown
from microtome.inference.scoring import quantile

FACTORS = ("design", "draw", "head", "task", "rate", "seed")
MARGIN = 1.0  # points of 100 that a cut may lose and still count as free
LEAST_ROOM = 2.0  # points above the most frequent answer without which no share of them can be lost
THIRD = 3  # the top layers are the last of so many parts
LEVEL = 0.95

# What is known of a setting, in words.
VALUES: Mapping[str, str] = MappingProxyType(
    {
        "score": "score, points",
        "margin": "largest margin of a run of layers",
        "second_margin": "margin of the second of two separate runs",
        "block": "share with a block of layers",
        "two_blocks": "share with two or more separate blocks",
        "sharpness": "margin of the sharpest block, of models that have one",
        "top_block": "first layer of the block that holds the last layer",
        "top": "mean similarity within the top third of the layers",
        "penultimate": "similarity of the last two layers",
        "early_match": "best match before tuning, lowest third of the layers",
        "late_match": "best match before tuning, top third of the layers",
        "cost_third": "UNTUNED: points lost without the top third",
        "share_2": "UNTUNED: share of the score lost without the top two",
        "flat_from": "layer from which UNTUNED loses less than 1 point",
        "tuned_2": "TUNED: points lost without the top two",
        "gain_third": "points TUNED has over UNTUNED without the top third",
        "readout_least": "readout after minus before tuning, points, at the layer of the least gain",
    }
)

PAIR = "|"  # between the two of a pair, in the name of a seed or a design


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """
    One fine-tuned model, and what was measured of it.

    Parameters
    ----------
    design : str
        What the encoder learned, such as "masked".
    draw : int
        Which of several pretrainings of the design it is.
    head, task : str
    rate : float
    seed : int or str
        Of the fine-tuning; two of them where two tuned models are compared.
    values : mapping of str to float
        By the names of `VALUES`; NaN where undefined.
    """

    design: str
    draw: int = 0
    head: str
    task: str
    rate: float
    seed: int | str
    values: Mapping[str, float] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """
    A mean with its doubt.

    Parameters
    ----------
    value : float
    low, high : float
        Over other tasks and, where there are several, pretrainings; NaN with one task.
    here_low, here_high : float
        Over other seeds, for these tasks and encoders as they are; NaN with one seed.
    n : int
        Pairs, or settings.
    tasks, draws, seeds : int
        How many are among them.
    by_task : mapping of str to float
    level : float
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    here_low: float = math.nan
    here_high: float = math.nan
    n: int = 0
    tasks: int = 0
    draws: int = 0
    seeds: int = 0
    by_task: Mapping[str, float] = field(default_factory=dict, repr=False)
    level: float = LEVEL


def mean_effect(
    settings: Iterable[Setting], value: str, *, level: float = LEVEL, scale: float = 1.0
) -> Effect:
    """
    Average a value over settings, with tasks as the unit.

    Parameters
    ----------
    settings : iterable of Setting
    value : str
        One of those that settings have.
    level : float
    scale : float
        That values are multiplied by.

    Returns
    -------
    Effect

    Notes
    -----
    The mean of the means of tasks, in which designs count alike. Its variance is that of the tasks' means
    over their number, and, where encoders were pretrained several times, plus that of the pretrainings' means
    over theirs: what both share is then counted twice, so the interval is rather too wide. Degrees of freedom
    are Satterthwaite's.
    """
    rows = [
        _Row(one, one.design, scale * one.values.get(value, math.nan))
        for one in settings
        if math.isfinite(one.values.get(value, math.nan))
    ]
    return _effect(rows, level)


def paired_effect(
    settings: Sequence[Setting],
    value: str,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    *,
    level: float = LEVEL,
) -> Effect:
    """
    Compare settings that are equal in everything but what is named.

    Parameters
    ----------
    settings : sequence of Setting
    value : str
    one, other : mapping
        Factors and their values, such as {"design": "replaced"} and {"design": "masked"}; both name the same
        factors.
    level : float

    Returns
    -------
    Effect
        Of `one` minus `other`, over the pairs; see `mean_effect` for the interval.
    """
    if set(one) != set(other) or not one:
        raise must("what is compared", "the same factors on both sides", f"{sorted(one)} and {sorted(other)}")
    for name in one:
        if name not in FACTORS:
            raise unknown("factor", name, FACTORS)
    rest = [name for name in FACTORS if name not in one]

    def side(wanted: Mapping[str, Any]) -> dict[tuple[Any, ...], Setting]:
        return {
            tuple(getattr(each, name) for name in rest): each
            for each in settings
            if all(getattr(each, name) == wanted[name] for name in wanted)
        }

    left, right = side(one), side(other)
    rows = []
    for key, each in left.items():
        if key in right:
            difference = each.values.get(value, math.nan) - right[key].values.get(value, math.nan)
            if math.isfinite(difference):
                rows.append(_Row(each, "" if "design" in one else each.design, difference))
    return _effect(rows, level)


class _Row(NamedTuple):
    """A value, the setting it is of, and what is pretrained several times."""

    setting: Setting
    design: str
    value: float


def _effect(rows: Sequence[_Row], level: float) -> Effect:
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if not rows:
        return Effect(value=math.nan, level=level)
    names = list(dict.fromkeys(row.setting.task for row in rows))
    designs = list(dict.fromkeys(row.design for row in rows))
    tasks, within = {}, []
    for name in names:
        mine = [[row for row in rows if (row.setting.task, row.design) == (name, one)] for one in designs]
        mine = [some for some in mine if some]
        tasks[name] = float(np.mean([np.mean([row.value for row in some]) for some in mine]))
        for some in mine:
            # With the tasks as they are, only seeds are drawn: each task has a mean of its own.
            apart = _means(some, lambda row: (row.setting.draw, row.setting.seed))
            within.append(_part(apart, share=1 / len(names) / len(mine)))
    value = float(np.mean(list(tasks.values())))
    parts = [_part(list(tasks.values()))]
    for one in designs:
        mine = [row for row in rows if row.design == one]
        parts.append(_part(_means(mine, lambda row: row.setting.draw), share=len(mine) / len(rows)))
    low, high = _reach(value, parts if len(names) > 1 else [], level)
    # Pairs that share a model do not err independently, and what they share cannot be told from so few.
    shared = any(PAIR in f"{row.setting.seed}{row.design}" for row in rows)
    here = _reach(value, within if all(dof for _, dof in within) and not shared else [], level)
    return Effect(
        value=value,
        low=low,
        high=high,
        here_low=here[0],
        here_high=here[1],
        n=len(rows),
        tasks=len(tasks),
        draws=len({row.setting.draw for row in rows}),
        seeds=len({row.setting.seed for row in rows}),
        by_task=MappingProxyType(tasks),
        level=level,
    )


def _means(rows: Sequence[_Row], key: Callable[[_Row], Any]) -> list[float]:
    groups: dict[Any, list[float]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row.value)
    return [float(np.mean(values)) for values in groups.values()]


def _part(values: Sequence[float], *, share: float = 1.0) -> tuple[float, int]:
    """Variance of a mean, and its degrees of freedom; none with one value."""
    if len(values) < 2:
        return 0.0, 0
    return float(share**2 * np.var(values, ddof=1) / len(values)), len(values) - 1


def _reach(value: float, parts: Sequence[tuple[float, int]], level: float) -> tuple[float, float]:
    known = [(variance, dof) for variance, dof in parts if dof]
    if not known:
        return math.nan, math.nan
    total = sum(variance for variance, _ in known)
    shared = sum(variance**2 / dof for variance, dof in known)
    if shared == 0:
        # Values that are all alike do not tell how far others may lie from them.
        return math.nan, math.nan
    arm = quantile(level, total**2 / shared) * math.sqrt(total)
    return value - arm, value + arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """
    Whether one layer moves with another over settings.

    Parameters
    ----------
    value : float
        Spearman's correlation.
    low, high : float
        By leaving each task out in turn; NaN with fewer than three.
    distance : Effect
        Of how far apart they are, in layers.
    n, tasks : int
    """

    value: float
    low: float
    high: float
    distance: Effect
    n: int
    tasks: int


def block_and_cut(settings: Sequence[Setting], *, level: float = LEVEL) -> Following:
    """
    Ask whether truncation follows the blocks.

    Parameters
    ----------
    settings : sequence of Setting
        With `top_block` and `flat_from`; seeds of one setting are averaged, since they repeat it.
    level : float

    Returns
    -------
    Following
        Of the first layer of the top block and the layer from which UNTUNED loses less than 1 point.

    Notes
    -----
    The interval is a jackknife over tasks, t with one degree less than there are.
    """
    cells: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    apart = []
    for one in settings:
        first, flat = one.values.get("top_block", math.nan), one.values.get("flat_from", math.nan)
        if math.isfinite(first) and math.isfinite(flat):
            cells.setdefault((one.task, one.design, one.draw, one.head, one.rate), []).append((first, flat))
            apart.append(_Row(one, one.design, flat - first))
    keys = list(cells)
    points = np.array([np.mean(cells[key], axis=0) for key in keys]).reshape(-1, 2)
    of_task = np.array([key[0] for key in keys])
    tasks = sorted(set(of_task.tolist()))
    whole = _spearman(points)
    low = high = math.nan
    if len(tasks) >= THIRD:
        left = np.array([_spearman(points[of_task != task]) for task in tasks])
        if np.isfinite(left).all():
            count = len(tasks)
            error = math.sqrt((count - 1) / count * float(((left - left.mean()) ** 2).sum()))
            arm = quantile(level, count - 1) * error
            low, high = max(-1.0, whole - arm), min(1.0, whole + arm)
    return Following(
        value=whole, low=low, high=high, distance=_effect(apart, level), n=len(keys), tasks=len(tasks)
    )


def _spearman(points: np.ndarray) -> float:
    if len(points) < THIRD or np.ptp(points[:, 0]) == 0 or np.ptp(points[:, 1]) == 0:
        return math.nan
    return rank_correlation(points[:, 0], points[:, 1])


def flat_from(scores: Sequence[float], *, points: float = 100.0, higher_is_better: bool = True) -> float:
    """
    Find the layer from which on cutting costs less than 1 point.

    Parameters
    ----------
    scores : sequence of float
        Of the model cut after layer 1, 2, ...; the last is the whole model.
    points : float
        A unit of the score is worth.
    higher_is_better : bool

    Returns
    -------
    float
        Counted from 1; every layer above it loses less than 1 point too.

    Examples
    --------
    >>> flat_from([0.5, 0.795, 0.7, 0.799, 0.8])
    4.0
    """
    lost = lost_points(scores, points=points, higher_is_better=higher_is_better)
    if not np.isfinite(lost[-1]):
        return math.nan
    # A whole point is a whole point, however its difference was rounded.
    bad = np.flatnonzero(~(lost < MARGIN - 1e-9))
    return float(bad[-1] + 2 if len(bad) else 1)


def lost_points(scores: Sequence[Any], *, points: float, higher_is_better: bool) -> np.ndarray:
    """What is lost against the last of the scores, in points of 100; positive where something is."""
    found = np.array([math.nan if one is None else float(one) for one in scores])
    return points * (found[-1] - found) * (1.0 if higher_is_better else -1.0)


def encoder_parts(name: str) -> tuple[str, int]:
    """
    Take the name of an encoder apart: what it learned, and which of several pretrainings it is.

    Examples
    --------
    >>> encoder_parts("replaced-2"), encoder_parts("masked")
    (('replaced', 2), ('masked', 0))
    """
    design, mark, number = name.rpartition("-")
    return (design, int(number)) if mark and number.isdigit() else (name, 0)
