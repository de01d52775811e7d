"""What does a measure say of itself? Its formula's promises, as data that tests and reports read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ..errors import InputError, must, unknown

# What a change to one side may be, for the invariance table. Each name is a transformation of the
# rows-by-features array; the contract suite knows how to apply each of them.
TRANSFORMATIONS = (
    "orthogonal",  # X Q, Q orthogonal
    "isotropic_scale",  # a X, a > 0
    "invertible_linear",  # X A, A invertible
    "translation",  # X + 1 b'
    "neuron_permutation",  # columns in another order
    "neuron_scale",  # X diag(s), s of either sign
)

Needs = Literal["moments", "rows", "attention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """
    One option of a measure.

    Parameters
    ----------
    default : object
        The value when the user says nothing.
    choices : tuple, optional
        The allowed values; without them, any value between `low` and `high`.
    low, high : float, optional
        Bounds of a number, both allowed.
    meaning : str
        One line for the table of measures.
    """

    default: Any
    choices: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    meaning: str

    def read(self, name: str, given: Any) -> Any:
        """Turn what the user gave (a value, or its text) into a value, or say what is allowed."""
        value = _from_text(given, self.default) if isinstance(given, str) else given
        if self.choices is not None:
            if not any(value == c and type(value) is type(c) for c in self.choices):
                raise must(f"option {name}", f"one of {', '.join(map(str, self.choices))}", given)
            return value
        if isinstance(self.default, (int, float)) and not isinstance(self.default, bool):
            whole = isinstance(self.default, int)
            value = value.item() if hasattr(value, "item") else value
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or math.isinf(value) or (whole and not float(value).is_integer()):
                raise must(f"option {name}", "a whole number" if whole else "a number", given)
            if not ((self.low is None or value >= self.low) and (self.high is None or value <= self.high)):
                bounds = [f"at least {self.low:g}"] if self.low is not None else []
                bounds += [f"at most {self.high:g}"] if self.high is not None else []
                raise must(f"option {name}", " and ".join(bounds), given)
            return int(value) if whole else float(value)
        return value


def _from_text(text: str, like: Any) -> Any:
    if isinstance(like, bool):
        return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower(), text)
    if isinstance(like, (int, float)):
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if isinstance(like, int) and number.is_integer() else number
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariances:
    """Which transformations of the left and of the right side leave the value as it is."""

    left: frozenset[str]
    right: frozenset[str]

    def __post_init__(self) -> None:
        for name in self.left | self.right:
            if name not in TRANSFORMATIONS:
                raise unknown("transformation", name, TRANSFORMATIONS)


def invariant(*both: str, left: tuple[str, ...] = (), right: tuple[str, ...] = ()) -> Invariances:
    """Declare invariances: those of both sides, then those of one side alone."""
    return Invariances(left=frozenset(both + left), right=frozenset(both + right))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """
    A similarity of two layers, and what it promises.

    Higher always means more similar. A directed measure's value at (i, j) says how well the left layer
    i is found in, or predicted from, the right layer j.

    Parameters
    ----------
    name : str
        The name in the table.
    title : str
        What a figure calls it.
    summary : str
        One sentence.
    formula : str
        The definition, in plain text.
    citations : tuple of str
        Keys of `microtome.measures.citations.CITATIONS`.
    range : tuple of float
        Smallest and largest value it can take.
    symmetric : bool
        Whether swapping the sides changes nothing.
    invariances : Invariances
        See `TRANSFORMATIONS`.
    needs : {"moments", "rows", "attention"}
        What `compute` reads: second moments alone, the rows themselves, or attention maps.
    compute : callable
        For moments: `compute(strip, options) -> Cells`, one left layer against several right ones, see
        `microtome.moments.strip`. For rows: `compute(prepared_left, prepared_right, options) -> float`.
    prepare : callable, optional
        For rows: `prepare(x, options)` does the work that is needed once a layer on its rows, a float64
        tensor of shape (rows, features).
    options : mapping of str to Option
        What can be chosen.
    varying : mapping of str to callable, optional
        Declarations that depend on the options: field name to a function of the options.
    subspace : callable, optional
        `subspace(options)` names the whitened directions that are compared (see
        `microtome.moments.strip.basis`): their number is then reported, and n is checked against it.
    null : str, optional
        Which formula gives the value that unrelated rows would have; see `microtome.comparison.nulls`.
    interval : {"debiased", "biased", "halves"}
        Which interval `certainty=True` gives: influence scores of the debiased or of the biased norms
        (CKA), or half-sampling.
    self_value : float
        The value of a layer with itself, where it is defined.
    """

    name: str
    title: str
    summary: str
    formula: str
    citations: tuple[str, ...]
    range: tuple[float, float]
    symmetric: bool
    invariances: Invariances
    needs: Needs
    compute: Callable[..., Any]
    prepare: Callable[..., Any] | None = None
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    varying: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    subspace: Callable[[Mapping[str, Any]], Any] | None = None
    null: str | None = None
    interval: Literal["debiased", "biased", "halves"] = "halves"
    self_value: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A measure with every option given a value: what is computed, and what the result names."""

    measure: Measure
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name, followed by the options that differ from their defaults: `svcca:threshold=0.9`."""
        parts = [f"{k}={v}" for k, v in self.options.items() if v != self.measure.options[k].default]
        return ":".join([self.measure.name, *parts])

    def declared(self, name: str) -> Any:
        """Look up a declaration, taking the options into account."""
        if name in self.measure.varying:
            return self.measure.varying[name](self.options)
        return getattr(self.measure, name)


def choose(measure: Measure, given: Mapping[str, Any] | None = None) -> Chosen:
    """
    Fix the options of a measure.

    Parameters
    ----------
    measure : Measure
    given : mapping, optional
        Option names to values, or to their text; the rest keep their defaults.
    """
    options = {name: option.default for name, option in measure.options.items()}
    for name, value in (given or {}).items():
        if name not in options:
            if not options:
                raise InputError(f"{measure.name} has no options, but got {name!r}.")
            raise unknown(f"option of {measure.name}", name, options)
        options[name] = measure.options[name].read(name, value)
    return Chosen(measure=measure, options=MappingProxyType(options))


def parse(text: str) -> tuple[str, dict[str, str]]:
    """
    Split the written form of a measure.

    Examples
    --------
    >>> parse("svcca:scaling=standardize:threshold=0.95")
    ('svcca', {'scaling': 'standardize', 'threshold': '0.95'})
    """
    name, *parts = text.strip().split(":")
    given: dict[str, str] = {}
    for part in parts:
        match = re.fullmatch(r"(\w+)=([^=]+)", part.strip())
        if match is None:
            raise must("a measure", "written name:option=value:option=value", text)
        given[match[1]] = match[2]
    return name, given
