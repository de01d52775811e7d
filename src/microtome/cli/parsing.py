"""Parsing of commands: options of the parser are derived from declared ones, and read into values."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..checks import real_number, whole_number
from ..options import PANELS, Option, as_typed, default_of, flag_of, help_of, is_required, type_of
from ..reading import read_names, read_number, read_numbers, read_pairs, read_values

Declared = Mapping[str, tuple[Field[Any], Option]]


class Verbs(TyperGroup):
    """Commands that are listed by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into the help, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, verb in self.commands.items():
            panels.setdefault(getattr(verb, "rich_help_panel", None) or "Commands", []).append(
                (name, verb.help or "")
            )
        _write_panels(formatter, panels)


class Verb(TyperCommand):
    """A command that refuses a second value for an option of one value, where the parser keeps the last."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What is typed behind the name of the command."""
        arguments = [p for p in self.params if p.param_type_name == "argument"]
        return ["[OPTIONS]", *(str(p.metavar) if p.required else f"[{p.metavar}]" for p in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options into the help, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", *PANELS, "Options")}
        for parameter in self.get_params(ctx):
            flags = [*sorted(parameter.opts, key=len), *parameter.secondary_opts]
            metavar = "" if getattr(parameter, "is_flag", False) else parameter.metavar or ""
            panel, typed = getattr(parameter, "rich_help_panel", None), f"{', '.join(flags)} {metavar}"
            if parameter.param_type_name == "argument":
                panel, typed = "Arguments", metavar
            required = " [required]" if parameter.required else ""
            panels[panel or "Options"].append((typed.strip(), f"{getattr(parameter, 'help', '')}{required}"))
        _write_panels(formatter, panels)

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


def _write_panels(formatter: Any, panels: Mapping[str, list[tuple[str, str]]]) -> None:
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


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


# What stands for a value in `--help`, by the type of the option.
_METAVARS = {
    "int": "N",
    "float": "X",
    "Sequence[int]": "N,...",
    "Sequence[float]": "X,...",
    "Sequence[str]": "NAME,...",
}


def _parameter(option_field: Field[Any], facts: Option, *, panels: bool) -> inspect.Parameter:
    """The parameter of the parser for a declared option."""
    annotation, flag = type_of(option_field), flag_of(option_field, facts)
    kind: Any = list[str] if facts.repeated else str
    default = inspect.Parameter.empty if is_required(option_field) else default_of(option_field)
    metavar = facts.metavar or _METAVARS.get(annotation, "NAME")
    if annotation == "bool":
        kind, metavar = bool, ""
        flag = flag if default is False else f"{flag}/--no-{flag[2:]}"
    elif default is not inspect.Parameter.empty:
        default = [] if facts.repeated else as_typed(default)
    typed: dict[str, Any] = {"help": help_of(option_field, facts), "metavar": metavar}
    if facts.argument:
        declared = typer.Argument(**typed)
    else:
        names = [flag, facts.short] if facts.short else [flag]
        declared = typer.Option(*names, rich_help_panel=facts.panel if panels else None, **typed)
    return inspect.Parameter(
        option_field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, declared],
    )


def _read(option_field: Field[Any], facts: Option, value: Any) -> Any:
    """The value of an option from what was typed; MISSING where nothing was."""
    flag, annotation = flag_of(option_field, facts), type_of(option_field)
    default = None if is_required(option_field) else default_of(option_field)
    if value in (None, []) or value == as_typed(default):
        return MISSING
    if isinstance(value, bool):
        return value
    if annotation == "int":
        return whole_number(flag, read_number(value), facts.least, facts.most)
    if annotation == "float":
        return real_number(flag, read_number(value), facts.least)
    if facts.read is not None:
        return [facts.read(part) for part in value] if facts.repeated else facts.read(value)
    if annotation == "Sequence[int]":
        return tuple(read_numbers(flag, value))
    if annotation == "Sequence[str]" and not facts.repeated:
        return read_names(flag, value, facts.choices)
    if annotation == "Mapping[str, str]":
        return read_pairs(flag, value, facts.example)
    if annotation == "Mapping[str, Any]":
        return read_values(value, flag, facts.example)
    return value
