"""The check of the arguments of public functions against the types of their signatures."""

from __future__ import annotations

import functools
import inspect
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from .checks import is_countable
from .errors import InputError, listed, must
from .runtime import find_device

P = ParamSpec("P")
R = TypeVar("R")
Test = Callable[[Any], bool]


def _of(*kinds: type[Any]) -> Test:
    return lambda value: isinstance(value, kinds)


def _several(test: Test) -> Test:
    def check(value: Any) -> bool:
        several = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return several and all(map(test, value))

    return check


def _is_truth(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")


_is_whole, _is_number = _of(Integral), _of(Real)

# By what stands in an annotation: the words for it, and the test.
_SIMPLE: Mapping[str, tuple[str, Test]] = {
    "None": ("None", lambda value: value is None),
    "int": ("a whole number", _is_whole),
    "float": ("a number", _is_number),
    "bool": ("true or false", _is_truth),
    "str": ("a string", _of(str)),
    "os.PathLike[str]": ("a path", _of(str, os.PathLike)),
    "Mapping[str, Any]": ("a mapping", _of(Mapping)),
    "Mapping[str, str]": ("a mapping", _of(Mapping)),
    "Sequence[int]": ("whole numbers", _several(lambda value: _is_whole(value) and not _is_truth(value))),
    "Sequence[int | None]": ("whole numbers", _several(_of(Integral, type(None)))),
    "Sequence[float]": ("numbers", _several(_is_number)),
    # A name alone stands for a list of it, and layers may be named by numbers.
    "Sequence[str]": ("strings", lambda value: isinstance(value, str) or _several(_of(str, Integral))(value)),
    "Sequence[Sequence[int]]": ("lists of whole numbers", _several(_several(_is_whole))),
    "tuple[int, ...]": ("whole numbers", _several(_is_whole)),
}
# Above which a number of repetitions is a mistake, and would only be noticed after days.
LARGEST: Mapping[str, int] = {
    "halves": 100_000,
    "permutations": 10_000_000,
    "rotations": 10_000,
    "random_draws": 10_000,
    "draws": 1_000_000,
    "repeats": 10_000,
}
_LONGEST = 4_000  # characters of a path; systems take no more
# Classes of the package, known by what they have, so that nothing is imported for a check.
_CLASSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Task": ("a task of mt.task", ("readers", "kind")),
    "Encoder": ("an encoder of mt.load", ("layers", "texts", "run")),
    "Recipe": ("a recipe", ("rate", "batch")),
    "Head": ("a head", ("reads", "dense")),
    "Context": ("a context", ("store", "report")),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """
    Refuse arguments of other types than the annotations of a function say, in one sentence.

    Parameters
    ----------
    function : callable
        What its annotations leave open is not looked at.

    Returns
    -------
    callable
        The same function behind the check.

    Examples
    --------
    >>> @checked
    ... def half(size: int, name: str = "") -> float:
    ...     return size / 2
    >>> half("three")
    Traceback (most recent call last):
    microtome.errors.InputError: size must be a whole number, but got 'three'.
    """
    signature = inspect.signature(function)
    rules = {
        n: rule for n, parameter in signature.parameters.items() if (rule := _rule(parameter.annotation))
    }
    look = _check

    def call(*arguments: Any, **named: Any) -> Any:
        look(function, signature, rules, arguments, named)
        return function(*arguments, **named)

    # As a function of the same module, where doctest looks for examples.
    behind = types.FunctionType(
        call.__code__, function.__globals__, function.__name__, None, call.__closure__
    )
    return functools.update_wrapper(behind, function)


def taking(*kinds: type[Any], without: Collection[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """
    Show the fields of dataclasses in the signature of a function, which takes them as other keywords.

    Parameters
    ----------
    *kinds : type
        Dataclasses, all of whose fields have defaults.
    without : collection of str
        Fields that the function does not take.

    Returns
    -------
    callable
        Decorates the function.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = signature.parameters
        options = {
            f.name: inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type
            )
            for kind in kinds
            for f in fields(kind)
            if f.name not in (*own, *without)
        }
        parameters = sorted((*own.values(), *options.values()), key=lambda parameter: parameter.kind)
        function.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return decorate


def _check(
    function: Callable[..., Any],
    signature: inspect.Signature,
    rules: Mapping[str, list[tuple[str, Test]]],
    arguments: tuple[Any, ...],
    named: Mapping[str, Any],
) -> None:
    try:
        bound = signature.bind(*arguments, **named).arguments
    except TypeError as problem:
        raise TypeError(f"{function.__name__}: {problem}.") from None
    if bound.get("device") not in (None, "cpu"):
        find_device(bound["device"])
    for name, rule in rules.items():
        if name in bound and bound[name] is not signature.parameters[name].default:
            _check_one(name, rule, bound[name])


def _fits(value: Any) -> bool:
    """Whether whole numbers fit into 64 bits."""
    numbers = value if isinstance(value, list | tuple) else [value]
    return all(is_countable(int(number)) for number in numbers if _is_whole(number))


def check_value(name: str, annotation: str, value: Any) -> None:
    """
    Refuse a value of another type than an annotation says, in one sentence.

    Parameters
    ----------
    name : str
    annotation : str
        What it leaves open is not looked at.
    value : object

    Examples
    --------
    >>> check_value("seeds", "Sequence[int]", (1, "two"))
    Traceback (most recent call last):
    microtome.errors.InputError: seeds must be whole numbers, but got (1, 'two').
    """
    if rule := _rule(annotation):
        _check_one(name, rule, value)


def _check_one(name: str, rule: list[tuple[str, Test]], value: Any) -> None:
    if not any(test(value) for _, test in rule):
        words = dict.fromkeys(words for words, _ in rule)
        raise must(name, listed(word for word in words if word != "a string" or "a path" not in words), value)
    if name in LARGEST and _is_whole(value) and value > LARGEST[name]:
        raise must(name, f"at most {LARGEST[name]:,}", value)
    if not _fits(value):
        raise must(name, "within 64 bits", value)
    if (name.endswith("seed") or name in LARGEST) and _is_whole(value) and value < 0:
        raise must(name, "a whole number of at least 0", value)
    if name.endswith("seeds") and _several(_is_whole)(value) and any(seed < 0 for seed in value):
        raise must(name, "whole numbers of at least 0", value)
    if len(str(value)) > _LONGEST and any(words == "a path" for words, _ in rule):
        raise must(name, f"a path of at most {_LONGEST:,} characters", value)
    if isinstance(value, str) and not value:
        raise InputError(f"{name} must not be empty, but got ''; leave it out for its default.")
    if isinstance(value, (str, os.PathLike)) and "\0" in str(value):
        raise InputError(f"{name} must have no zero byte in it, but got {value!r}.")


def _rule(annotation: Any) -> list[tuple[str, Test]]:
    """The tests of which one must hold; none where the annotation leaves something open."""
    if not isinstance(annotation, str):
        return []
    rule = []
    for member in re.split(r" \| (?![^\[]*\])", annotation):
        if member in _CLASSES:
            words, names = _CLASSES[member]
            rule.append((words, lambda value, names=names: all(hasattr(value, name) for name in names)))
        elif member in _SIMPLE:
            rule.append(_SIMPLE[member])
        else:
            return []
    return rule
