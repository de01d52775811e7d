"""Parsing of commands: options of the parser are derived from declared ones, and read into values."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..options import Option, default_of, is_required
from ..reading import read_names, read_numbers, read_pairs, read_values

Declared = Mapping[str, tuple[Field[Any], Option]]


class Verb(TyperCommand):
    """A command that refuses a second value for an option of one value, where the parser keeps the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """
        Read the words of a user.

        Parameters
        ----------
        ctx : typer.Context
        args : list of str
            What follows the name of the command.

        Returns
        -------
        list of str
            What is left over.
        """
        from ..errors import InputError

        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, count in Counter(order).items():
            several = getattr(option, "multiple", False) or option.param_type_name == "argument"
            # The same switch twice says nothing else; one that can be turned off again does.
            switch = getattr(option, "is_flag", False) and not option.secondary_opts
            if count > 1 and not several and not switch:
                raise InputError(
                    f"{max(option.opts, key=len)} must be given once, but it was given {count} times; leave "
                    "one of them, or run the command once for each."
                )
        return super().parse_args(ctx, args)


def command_of(
    options: Declared, call: Callable[[dict[str, Any], str], None], summary: str, *, panels: bool = True
) -> Callable[..., None]:
    """
    Make a command of declared options.

    Parameters
    ----------
    options : mapping of str to (Field, Option)
    call : callable
        Called with the values that were typed, and with the whole command.
    summary : str
    panels : bool
        Whether help shows the options in panels.

    Returns
    -------
    callable
        With the signature that the parser reads.
    """

    def parse(parsed: typer.Context, **typed: Any) -> None:
        values = {key: _read(*options[key], value) for key, value in typed.items()}
        call({key: value for key, value in values.items() if value is not MISSING}, parsed.obj or "")

    context = inspect.Parameter("parsed", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [_parameter(*pair, panels=panels) for pair in options.values()]
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    parse.__signature__ = inspect.Signature([context, *parameters])  # pyright: ignore[reportFunctionMemberAccess]
    parse.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *parameters)}
    parse.__doc__ = summary
    return parse


_NUMBERS: Mapping[str, Any] = {"int": int, "float": float}
# What stands for a value in `--help`, by the type of the option.
_METAVARS = {"int": "N", "float": "X", "Sequence[int]": "N,...", "Sequence[float]": "X,...", "str": "NAME"}


def _parameter(option_field: Field[Any], facts: Option, *, panels: bool) -> inspect.Parameter:
    """The parameter of the parser for a declared option."""
    annotation, flag = _annotation(option_field), _flag(option_field, facts)
    kind: Any = list[str] if facts.repeated else _NUMBERS.get(annotation, str)
    default = inspect.Parameter.empty if is_required(option_field) else default_of(option_field)
    metavar = facts.metavar or _METAVARS.get(annotation, "NAME,..." if facts.choices else "NAME")
    if annotation == "bool":
        kind, metavar = bool, ""
        flag = f"{flag}/--no-{flag[2:]}" if default else flag
    elif default is not inspect.Parameter.empty and kind not in (int, float):
        default = [] if facts.repeated else _typed(default)
    number = "One or more of" if "Seq" in annotation else "One of"
    choices = f" {number} {', '.join(facts.choices)}." if facts.choices else ""
    shown = default not in (None, "", [], inspect.Parameter.empty)
    given: dict[str, Any] = {"help": facts.help + choices, "metavar": metavar, "show_default": shown}
    if facts.argument:
        declared = typer.Argument(**given)
    else:
        limits = {"min": facts.least, "max": facts.most} if kind in (int, float) else {}
        names = [flag, facts.short] if facts.short else [flag]
        declared = typer.Option(*names, rich_help_panel=facts.panel if panels else None, **limits, **given)
    return inspect.Parameter(
        option_field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, declared],
    )


def _annotation(option_field: Field[Any]) -> str:
    return str(option_field.type).removesuffix(" | None")


def _flag(option_field: Field[Any], facts: Option) -> str:
    return "--" + (facts.name or option_field.name).replace("_", "-")


def _typed(default: Any) -> Any:
    """A default as a user would type it; nothing where there is none to show."""
    if isinstance(default, tuple | list):
        return ",".join(str(part) for part in default)
    name = getattr(default, "name", default)
    return name if isinstance(name, str) and name else None


def _read(option_field: Field[Any], facts: Option, value: Any) -> Any:
    """The value of an option from what was typed; MISSING where nothing was."""
    flag, annotation = _flag(option_field, facts), _annotation(option_field)
    default = None if is_required(option_field) else default_of(option_field)
    if value in (None, []) or value == _typed(default):
        return MISSING
    if isinstance(value, bool | int | float):
        return value
    if facts.read is not None:
        return [facts.read(part) for part in value] if facts.repeated else facts.read(value)
    if annotation == "Sequence[int]":
        return tuple(read_numbers(flag, value))
    if annotation == "Sequence[str]" and not facts.repeated:
        return read_names(flag, value, facts.choices)
    if annotation == "Mapping[str, str]":
        return read_pairs(flag, value)
    if annotation == "Mapping[str, Any]":
        return read_values(value, flag, facts.metavar or "name=value")
    return value
