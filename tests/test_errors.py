"""Is a user told in one sentence what must hold, what came, and what was meant?"""

from __future__ import annotations

import pickle

import pytest

from microtome.errors import (
    InputError,
    MicrotomeError,
    MissingExtraError,
    SmallSampleWarning,
    UnknownNameError,
    WorkError,
    must,
    unknown,
)


@pytest.mark.parametrize(
    "kind, usual",
    [
        (InputError, ValueError),
        (UnknownNameError, KeyError),
        (MissingExtraError, ImportError),
        (WorkError, RuntimeError),
    ],
)
def test_errors_are_the_package_s_own_and_of_the_usual_kind(
    kind: type[MicrotomeError], usual: type[Exception]
) -> None:
    error = kind("rows must be at least 4, but got 3.")
    assert isinstance(error, MicrotomeError)
    assert isinstance(error, usual)
    assert str(error) == "rows must be at least 4, but got 3."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(kind()) == kind.__name__


def test_a_warning_can_be_turned_off_by_its_kind() -> None:
    assert issubclass(SmallSampleWarning, UserWarning)


def test_a_bad_value() -> None:
    error = must("threshold", "between 0 and 1", "high")
    assert isinstance(error, InputError)
    assert str(error) == "threshold must be between 0 and 1, but got 'high'."


def test_an_unknown_name() -> None:
    error = unknown("measure", "svca", ["svcca", "pwcca"])
    assert isinstance(error, UnknownNameError)
    assert str(error) == "measure must be one of pwcca, svcca, but got 'svca'. Did you mean svcca?"
    assert str(unknown("measure", 3, ["svcca"])) == "measure must be one of svcca, but got 3."
