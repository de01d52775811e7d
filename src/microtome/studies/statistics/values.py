"""Values that a statistic has in each result, and their mean over tasks with an interval."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import MicrotomeError
from ...inference.estimate import quantile

if TYPE_CHECKING:
    from ..results import StudyResult, StudyResults

NOTHING: Mapping[str, Any] = MappingProxyType({})


BASELINE = "the fine-tuned model does not beat the majority baseline"


class NotMeasuredError(MicrotomeError):
    """A result does not have what a statistic reads; the message states why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """
    A statistic in one result.

    Parameters
    ----------
    value : float
    low, high : float
        The result's own interval; NaN without one.
    level : float
        Of that interval.
    unit : str
        What it is over, such as "example and seed".
    task : str
    n : int
        Examples or rows.
    seeds : int
    by_seed : mapping of int to float
        Value of each seed, where available.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    unit: str = ""
    task: str = ""
    n: int = 0
    seeds: int = 1
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether it has an interval of its own."""
        return math.isfinite(self.low + self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """
    A quantity over all tasks of one model.

    Parameters
    ----------
    value, low, high : float
        NaN where there is none.
    unit : str
        What the interval is over: "task", or the unit of a single result.
    n : int
        Examples or rows of the smallest result.
    seeds : int
        Of the result with the fewest.
    tasks : tuple of str
    by_task : mapping of str to float
    note : str
        Why there is no value or no interval.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    unit: str = ""
    n: int = 0
    seeds: int = 0
    tasks: tuple[str, ...] = ()
    by_task: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """
    A function from one result, or from all results of a model, to values.

    Parameters
    ----------
    name : str
    compute : callable
        From a `StudyResult`, and arguments by name, to a `Value` or several; raises `NotMeasuredError` where
        it cannot. One that has a second argument `beside` takes a result of another experiment there.
    share : bool
        Whether values are 0 or 1, so that their mean over tasks is a share.
    allowed : mapping of str to collection of str
        Values of arguments; of an argument that is a table, its keys with their values, or with their type.
    """

    name: str
    compute: Callable[..., Value | list[Value]]
    share: bool = False
    allowed: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def summary(self) -> str:
        """The first sentence on it."""
        return (inspect.getdoc(self.compute) or "").partition("\n")[0]

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What it takes, beside results."""
        parameters = inspect.signature(self.compute).parameters.values()
        return [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]

    @property
    def pairs(self) -> bool:
        """Whether it takes a result of another experiment, too."""
        return "beside" in inspect.signature(self.compute).parameters

    def values(
        self,
        results: Iterable[StudyResult],
        arguments: Mapping[str, Any],
        refused: Callable[[StudyResult], str] = lambda _: "",
        beside: StudyResults | None = None,
    ) -> tuple[list[Value], list[str]]:
        """
        Compute the statistic in every result.

        Parameters
        ----------
        results : iterable of StudyResult
        arguments : mapping
        refused : callable
            Why nothing is concluded from a result; empty where something is.
        beside : StudyResults, optional
            Of the other experiment, for a statistic of two.

        Returns
        -------
        values : list of Value
        reasons : list of str
            Why other results have none.
        """
        values: list[Value] = []
        reasons: list[str] = []
        for result in results:
            try:
                if reason := refused(result):
                    raise NotMeasuredError(reason)
                computed = self.compute(result, *self._partner(result, beside), **arguments)
                computed = computed if isinstance(computed, list) else [computed]
                defined = [value for value in computed if math.isfinite(value.value)]
                if not defined:
                    raise NotMeasuredError("undefined")
                values += defined
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as problem:
                # Of a result that was changed, or a claim on a curve of another kind.
                reasons.append(f"{result.task}: it cannot be computed: {problem!r}".removeprefix(": "))
            except NotMeasuredError as problem:
                reasons.append(f"{result.task}: {problem}" if result.task else str(problem))
        return values, reasons

    def _partner(self, result: StudyResult, beside: StudyResults | None) -> list[StudyResult]:
        """The result of the other experiment of the same model and task."""
        if not self.pairs:
            return []
        partner = None if beside is None else beside.one(model=(result.model, ""), task=(result.task, ""))
        if partner is None:
            raise NotMeasuredError("the other experiment has no result")
        return [partner]


@dataclass(frozen=True, slots=True)
class Coverage:
    """
    How intervals are made, with how much coverage.

    Parameters
    ----------
    level : float

    Examples
    --------
    >>> over = Coverage(0.95)
    >>> [round(end, 3) for end in over.mean([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    >>> [round(end, 3) for end in over.jackknife(2.0, [2.5, 2.0, 1.5])]
    [-0.484, 4.484]
    >>> [round(end, 3) for end in over.share(5, 5)]
    [0.478, 1.0]
    """

    level: float

    def mean(self, values: Sequence[float]) -> tuple[float, float]:
        """Of a mean, by t; NaN for fewer than two values, and for values that are all the same."""
        if len(values) < 2 or np.ptp(values) == 0:
            return math.nan, math.nan
        critical = quantile(self.level, len(values) - 1)
        mean, reach = (
            float(np.mean(values)),
            critical * float(np.std(values, ddof=1)) / math.sqrt(len(values)),
        )
        return mean - reach, mean + reach

    def jackknife(self, value: float, replicates: Sequence[float]) -> tuple[float, float]:
        """Of a value, from those without each unit in turn; t with a degree of freedom less than units."""
        count = len(replicates)
        low, high = self.mean([count * value - (count - 1) * part for part in replicates])
        return value - (high - low) / 2, value + (high - low) / 2

    def share(self, passed: int, total: int) -> tuple[float, float]:
        """Of a share, exactly (Clopper-Pearson)."""
        from scipy.special import betaincinv

        tail = (1 - self.level) / 2
        low = float(betaincinv(passed, total - passed + 1, tail)) if passed else 0.0
        high = float(betaincinv(passed + 1, total - passed, 1 - tail)) if passed < total else 1.0
        return low, high

    def over_tasks(self, values: Sequence[Value], *, share: bool = False, note: str = "") -> Measured:
        """
        Average values over tasks.

        Parameters
        ----------
        values : sequence of Value
        share : bool
            Whether values are 0 or 1.
        note : str

        Returns
        -------
        Measured
            Over several tasks with an interval by t, or exact for shares; one task has the interval of its
            result, or, without one, t over seeds.
        """
        if not values:
            return Measured(note=note or "no result")
        by_task: dict[str, list[float]] = {}
        for value in values:
            by_task.setdefault(value.task, []).append(value.value)
        means = {task: float(np.mean(numbers)) for task, numbers in by_task.items()}
        mean, why = float(np.mean(list(means.values()))), ""
        if share:
            passed = sum(part > 0.5 for part in means.values())
            mean, (low, high), unit = passed / len(means), self.share(passed, len(means)), "task"
        elif len(means) > 1:
            (low, high), unit, why = self.mean(list(means.values())), "task", "all tasks have the same value"
        elif len(values) == 1 and values[0].level == self.level and values[0].bounded:
            low, high, unit = values[0].low, values[0].high, values[0].unit
        else:
            runs = [run for value in values for run in value.by_seed.values()]
            (low, high), unit = self.mean(runs), "seed"
            why = "all seeds have the same value" if len(runs) > 1 else "one seed of one task"
        if not math.isfinite(low + high):
            unit, note = "", "; ".join(filter(None, (note, f"no interval: {why}")))
        return Measured(
            value=mean,
            low=low,
            high=high,
            unit=unit,
            n=min(value.n for value in values),
            seeds=min(value.seeds for value in values),
            tasks=tuple(means),
            by_task=MappingProxyType(means),
            note=note,
        )


def difference(value: Value, other: Value) -> Value:
    """
    Subtract a value of another model or result.

    Parameters
    ----------
    value, other : Value
        The task is that of the first.

    Returns
    -------
    Value
        Own intervals are combined end by end, which is never too narrow.
    """
    return replace(
        value,
        value=value.value - other.value,
        low=value.low - other.high,
        high=value.high - other.low,
        level=value.level if value.level == other.level else math.nan,
        n=min(value.n, other.n),
        seeds=min(value.seeds, other.seeds),
        by_seed={},
    )
