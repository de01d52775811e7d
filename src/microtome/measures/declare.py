"""Declaration of measures: properties, invariances and options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ..errors import InputError, must, unknown

# Transformations of one side for the invariance table. Each name is a transformation of the rows-by-features
# array; the contract tests apply each of them.
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
class MeasureOption:
    """
    One option of a measure.

    Parameters
    ----------
    default : object
        The default value.
    choices : tuple, optional
        The allowed values; without them, any value between `low` and `high`.
    low, high : float, optional
        Inclusive bounds of a number.
    meaning : str
        One line for the table of measures.
    """

    default: Any
    choices: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None
    meaning: str

    def read(self, name: str, raw: Any) -> Any:
        """Parse and validate the user's value or its text, or raise an error with the allowed values."""
        value = _from_text(raw, self.default) if isinstance(raw, str) else raw
        if self.choices is not None:
            if not any(value == c and type(value) is type(c) for c in self.choices):
                raise must(f"option {name}", f"one of {', '.join(map(str, self.choices))}", raw)
            return value
        if isinstance(self.default, (int, float)) and not isinstance(self.default, bool):
            integer = isinstance(self.default, int)
            value = value.item() if hasattr(value, "item") else value
            numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not numeric or math.isinf(value) or (integer and not float(value).is_integer()):
                raise must(f"option {name}", "a whole number" if integer else "a number", raw)
            if not ((self.low is None or value >= self.low) and (self.high is None or value <= self.high)):
                bounds = [f"at least {self.low:g}"] if self.low is not None else []
                bounds += [f"at most {self.high:g}"] if self.high is not None else []
                raise must(f"option {name}", " and ".join(bounds), raw)
            return int(value) if integer else float(value)
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
    """The transformations of the left and of the right side under which the value is invariant."""

    left: frozenset[str]
    right: frozenset[str]

    def __post_init__(self) -> None:
        for name in self.left | self.right:
            if name not in TRANSFORMATIONS:
                raise unknown("transformation", name, TRANSFORMATIONS)


def invariant(*both: str, left: tuple[str, ...] = (), right: tuple[str, ...] = ()) -> Invariances:
    """Declare invariances: those of both sides, then those of only one side."""
    return Invariances(left=frozenset(both + left), right=frozenset(both + right))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """
    A similarity measure of two layers with its properties.

    Higher always means more similar. A directed measure's value at (i, j) is how well the left layer i is
    matched in, or predicted from, the right layer j.

    Parameters
    ----------
    name : str
        The name in the table.
    title : str
        The name in figures.
    summary : str
        One sentence.
    formula : str
        The definition, in plain text.
    citations : tuple of str
        Keys of `microtome.measures.citations.CITATIONS`.
    range : tuple of float
        The smallest and the largest possible value.
    symmetric : bool
        Whether the value is the same when the sides are swapped.
    invariances : Invariances
        See `TRANSFORMATIONS`.
    needs : {"moments", "rows", "attention"}
        The input of `compute`: only second moments, the rows themselves, or attention maps.
    compute : callable
        For moments: `compute(strip, options) -> Cells`, one left layer against several right ones, see
        `microtome.moments.strip`. For rows: `compute(prepared_left, prepared_right, options)` returns
        the value and None, or NaN and the reason why it is undefined.
    prepare : callable, optional
        For rows: `prepare(x, options)` does the work that is needed once per layer on its rows, a float64
        tensor of shape (rows, features); it returns `Undefined` for a layer that cannot be compared.
    options : mapping of str to MeasureOption
        The options of the measure, by name.
    varying : mapping of str to callable, optional
        Declarations that depend on the options: field name to a function of the options.
    subspace : callable, optional
        `subspace(options)` names the whitened directions that are compared (see
        `microtome.moments.strip.basis`): their number is then reported, and n is checked against it.
    null : str, optional
        The formula for the expected value of unrelated rows; see `microtome.comparison.nulls`.
    interval : {"debiased", "biased", "halves"}
        The interval of `certainty=True`: from influence scores of the debiased or of the biased norms (CKA),
        or from half-sampling.
    influence : callable, optional
        `influence(strip, options)` returns what each row adds to the value in either direction, as a
        `microtome.moments.whitened.QuadraticForm` each; the interval then needs no half-samples.
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
    options: Mapping[str, MeasureOption] = field(default_factory=dict)
    varying: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    subspace: Callable[[Mapping[str, Any]], Any] | None = None
    null: str | None = None
    interval: Literal["debiased", "biased", "halves"] = "halves"
    influence: Callable[..., Any] | None = None
    self_value: float = 1.0

    def __post_init__(self) -> None:
        for name in ("options", "varying"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


@dataclass(frozen=True, slots=True)
class Undefined:
    """Why a layer cannot be compared: what `prepare` returns in place of the prepared layer."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A measure with a value for every option."""

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

    def pair(self, left: Any, right: Any) -> tuple[float, str | None]:
        """Compare two prepared layers: the value and None, or NaN and the reason why it is undefined."""
        for side, layer in (("left", left), ("right", right)):
            if isinstance(layer, Undefined):
                return math.nan, f"the {side} layer {layer.reason}"
        return self.declared("compute")(left, right, self.options)


def choose(measure: Measure, values: Mapping[str, Any] | None = None) -> Chosen:
    """
    Fix the options of a measure.

    Parameters
    ----------
    measure : Measure
    values : mapping, optional
        Option names to values, or to their text; other options keep their defaults.
    """
    options = {name: option.default for name, option in measure.options.items()}
    for name, value in (values or {}).items():
        if name not in options:
            if not options:
                raise InputError(f"{measure.name} has no options, but got {name!r}.")
            raise unknown(f"option of {measure.name}", name, options)
        options[name] = measure.options[name].read(name, value)
    return Chosen(measure=measure, options=MappingProxyType(options))


def parse(text: str) -> tuple[str, dict[str, str]]:
    """
    Parse the text form of a measure.

    Examples
    --------
    >>> parse("svcca:scaling=standardize:threshold=0.95")
    ('svcca', {'scaling': 'standardize', 'threshold': '0.95'})
    """
    name, *parts = text.strip().split(":")
    options: dict[str, str] = {}
    for part in parts:
        match = re.fullmatch(r"(\w+)=([^=]+)", part.strip())
        if match is None:
            raise must("a measure", "written name:option=value:option=value", text)
        options[match[1]] = match[2]
    return name, options
