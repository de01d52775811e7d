"""Declared options: fields of dataclasses with their help, from which functions and commands are derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal

Panel = Literal["Input", "Rows", "Model", "Statistics", "Output"]
_KEY = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """
    What help, command line and checks need to know of one option, beside its type and default.

    Parameters
    ----------
    help : str
        One sentence.
    panel : str
        Where `--help` shows it.
    argument : bool
        Whether it is typed without a name on the command line.
    positional : bool
        Whether Python takes it without its name, although it has a default.
    name : str, optional
        On the command line, where it is not that of the field.
    choices : sequence of str
        The values, or the parts of a value, that are allowed; any when empty.
    least, most : float, optional
    repeated : bool
        Whether the command line takes it several times, once per value.
    short : str, optional
        A second flag on the command line, such as "-m".
    metavar : str, optional
        What stands for the value in `--help`.
    read : callable, optional
        Reads what was typed, where the type alone does not say how.
    """

    help: str
    panel: Panel = "Model"
    argument: bool = False
    positional: bool = False
    name: str | None = None
    choices: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    repeated: bool = False
    short: str | None = None
    metavar: str | None = None
    read: Callable[[str], Any] | None = None


def option(help: str, default: Any = MISSING, **facts: Any) -> Any:
    """
    Declare one option of an experiment; one without a default is required.

    Parameters
    ----------
    help : str
        One sentence: the Python docstring and `--help` show it.
    default : object
    **facts
        Of `Option`.

    Returns
    -------
    dataclasses.Field
    """
    metadata = {_KEY: Option(help=help, **facts)}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def options_of(kind: type[Any]) -> Iterator[tuple[Field[Any], Option]]:
    """List the options of an experiment: required ones first, arguments before them, then its own."""
    declared = [(f, f.metadata[_KEY]) for f in fields(kind) if _KEY in f.metadata]
    own = vars(kind).get("__annotations__", {})
    yield from sorted(
        declared, key=lambda pair: (not is_required(pair[0]), not pair[1].argument, pair[0].name not in own)
    )


def is_required(option_field: Field[Any]) -> bool:
    """Whether an option has no default."""
    return option_field.default is MISSING and option_field.default_factory is MISSING


def default_of(option_field: Field[Any]) -> Any:
    """The default of an option."""
    if option_field.default_factory is not MISSING:
        return option_field.default_factory()
    return option_field.default
