"""What a user is told when something is wrong: one sentence with what must hold, what came, and a guess."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

MOST_GUESSES = 4  # more names that share a word or a beginning are no guess


class MicrotomeError(Exception):
    """The base of every error this package raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a sentence should stay a sentence, and on one line.
        text = str(self.args[0]) if self.args else self.__class__.__name__
        return re.sub(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*", " ", text)


class InputError(MicrotomeError, ValueError):
    """A value that was handed in cannot be used."""


class UnknownNameError(MicrotomeError, KeyError):
    """A name that is in no table."""


class MissingExtraError(MicrotomeError, ImportError):
    """A feature needs a package that an extra installs."""


class WorkError(MicrotomeError, RuntimeError):
    """The request was right, and the work failed all the same."""


class SmallSampleWarning(UserWarning):
    """There are too few rows for the number to mean what it seems to mean."""


class DamageWarning(UserWarning):
    """Something in the store is not as it was written."""


def sentence_of(error: BaseException) -> str:
    """
    Write what went wrong: the sentence of an error of this package, and others with their kind.

    Examples
    --------
    >>> sentence_of(ValueError("too large"))
    'ValueError: too large'
    """
    return str(error) if isinstance(error, MicrotomeError) else f"{type(error).__name__}: {error}"


def must(argument: str, allowed: str, got: object) -> InputError:
    """
    Write the house sentence for a bad value.

    Examples
    --------
    >>> str(must("threshold", "between 0 and 1", 3))
    'threshold must be between 0 and 1, but got 3.'
    """
    return InputError(f"{argument} must be {allowed}, but got {shown(got)}.")


def listed(names: Iterable[object]) -> str:
    """
    Join names as an enumeration.

    Examples
    --------
    >>> listed(["npy", "csv", "tsv"])
    'npy, csv or tsv'
    """
    *most, last = map(str, names)
    return f"{', '.join(most)} or {last}" if most else last


def shown(value: object) -> str:
    """
    Write a value as it may stand in a sentence: on one line, and not too long.

    Examples
    --------
    >>> shown([1, 2])
    '[1, 2]'
    >>> len(shown("a" * 5000))
    203
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:200]}..."


def check_plain(path: str | os.PathLike[str]) -> None:
    """Refuse a pipe or a device in the place of a file: reading it would wait without an end."""
    place = Path(path)
    if place.exists() and not place.is_file() and not place.is_dir():
        raise InputError(f"{place} must be a plain file, but it is a pipe or a device.")


def unknown(kind: str, name: object, allowed: Iterable[str]) -> UnknownNameError:
    """
    Write the house sentence for a name that is in no table, with the nearest allowed name.

    Examples
    --------
    >>> str(unknown("measure", "svca", ["svcca", "pwcca", "rsa"]))
    "measure must be one of pwcca, rsa, svcca, but got 'svca'. Did you mean svcca?"
    """
    names = sorted(allowed)
    return UnknownNameError(
        f"{kind} must be one of {', '.join(names)}, but got {shown(name)}.{guess(str(name), names)}"
    )


def unreachable(what: str, name: str) -> WorkError:
    """
    Write the house sentence for a hub that cannot be reached, and that may have what was asked for.

    Examples
    --------
    >>> str(unreachable("a dataset", "owner/name")).partition("but ")[2]
    "there is no folder 'owner/name', and the hub cannot be reached."
    """
    return WorkError(
        f"{what} must be a folder that exists or one on the hub, but there is no folder {name!r}, and the "
        "hub cannot be reached."
    )


def guess(name: str, allowed: Iterable[str], prefix: str = "") -> str:
    """
    Ask whether one of the allowed names was meant: one with the same word or beginning, or the nearest.

    Examples
    --------
    >>> guess("wu", ["tamkin2020", "wu2020"]), guess("cka", ["linear_cka", "rbf_cka", "svcca"])
    (' Did you mean wu2020?', ' Did you mean linear_cka or rbf_cka?')
    >>> guess("learning", ["wu2020"])
    ''
    """
    names = list(allowed)
    same = [other for other in names if name in re.split("[-_]", other)]
    same = same or [other for other in names if name and other.startswith(name)]
    close = same if 0 < len(same) <= MOST_GUESSES else difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {listed(prefix + other for other in close)}?" if close else ""
