"""What a user is told when something is wrong: one sentence with what must hold, what came, and a guess."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MicrotomeError(Exception):
    """The base of every error this package raises on purpose."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; a sentence should stay a sentence.
        return str(self.args[0]) if self.args else self.__class__.__name__


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


def must(argument: str, allowed: str, got: object) -> InputError:
    """
    Write the house sentence for a bad value.

    Examples
    --------
    >>> str(must("threshold", "between 0 and 1", 3))
    'threshold must be between 0 and 1, but got 3.'
    """
    return InputError(f"{argument} must be {allowed}, but got {got!r}.")


def unknown(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """
    Write the house sentence for a name that is in no table, with the nearest known names.

    Examples
    --------
    >>> str(unknown("measure", "svca", ["svcca", "pwcca", "rsa"]))
    "measure must be one of pwcca, rsa, svcca, but got 'svca'. Did you mean svcca?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return UnknownNameError(f"{kind} must be one of {', '.join(names)}, but got {name!r}.{guess}")
