"""Declared options: fields of dataclasses with their help, from which functions and commands are derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, get_args

Panel = Literal["Input", "Rows", "Model", "Statistics", "Output"]
PANELS: Sequence[str] = get_args(Panel)
_KEY = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """
    What help, command line and checks need to know of one option, beside its type and default.

    Parameters
    ----------
    help : str
        One sentence.
    python : str
        What only Python takes, which `--help` leaves out.
    example : str
        A value as it is typed.
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
    empty : bool
        Whether none of the choices may be taken.
    least, most : int, optional
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
    python: str = ""
    example: str = ""
    panel: Panel = "Model"
    argument: bool = False
    positional: bool = False
    name: str | None = None
    choices: Sequence[str] = ()
    empty: bool = False
    least: int | None = None
    most: int | None = None
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


def type_of(option_field: Field[Any]) -> str:
    """The type of an option, beside None."""
    return str(option_field.type).removesuffix(" | None")


def flag_of(option_field: Field[Any], facts: Option) -> str:
    """The name of an option as it is typed."""
    return "--" + (facts.name or option_field.name).replace("_", "-")


def as_typed(default: Any) -> str | None:
    """A default as a user would type it; None where there is none to show."""
    if isinstance(default, tuple | list):
        return ",".join(str(part) for part in default)
    value = getattr(default, "name", default)
    return f"{value:g}" if isinstance(value, float) else str(value) if value or value == 0 else None


def help_of(option_field: Field[Any], facts: Option) -> str:
    """What `--help` says of an option: its sentence, what may be typed, and its default."""
    number = "One or more of" if "Seq" in type_of(option_field) else "One of"
    choices = f" {number} {', '.join(facts.choices)}." if facts.choices else ""
    ends = {"at least": facts.least, "at most": facts.most}
    limits = [f"{words} {end:,}" for words, end in ends.items() if end is not None]
    default = None if is_required(option_field) else default_of(option_field)
    if default is not False and (shown := "on" if default is True else as_typed(default)):
        limits.append(f"default: {shown.replace(',', ', ')}")
    return f"{facts.help}{choices}" + (f" [{'; '.join(limits)}]" if limits else "")
