"""The command-line parser: one command per experiment, and those that list, report and keep the store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from ..experiments.table import EXPERIMENTS, Entry
from ..version import VERSION
from .figure import Figure
from .ls import Ls
from .parsing import Verb, Verbs
from .store import STORE
from .study import STUDY
from .tools import CallTool, Demo, Report, Tool, tool

TOOLS: Mapping[str, type[Tool]] = MappingProxyType(
    {"report": Report, "figure": Figure, "demo": Demo, "ls": Ls, "call": CallTool}
)
# Commands that have commands of their own.
GROUPS: Mapping[str, tuple[Mapping[str, type[Tool]], str]] = MappingProxyType(
    {
        "study": (STUDY, "Whole papers and other studies as one file: plan, run, status, report."),
        "store": (STORE, "The store of finished work: ls, show, verify, rm, gc."),
    }
)
PANEL = "Reports and tools"
WIDEST = 100  # columns of help; longer lines are hard to read


def command(verb: str | None = None) -> Any:
    """
    Build the command that parses what a user types and calls a verb.

    Parameters
    ----------
    verb : str, optional
        The one that is called: options of the others are left out, so that their modules are not imported.

    Returns
    -------
    click.Group
    """
    app = typer.Typer(
        name="microtome",
        cls=Verbs,
        rich_markup_mode=None,  # its tables break names of options at 80 columns
        help="Take Transformer text encoders apart, layer by layer.",
        epilog="Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
    )
    app.callback()(_start)
    for entry in EXPERIMENTS.values():
        _add(
            app, entry.verb, _call(entry) if verb in (None, entry.verb) else _stub, entry.group, entry.summary
        )
    for name, kind in TOOLS.items():
        _add(app, name, tool(kind), PANEL)
    for name, (tools, summary) in GROUPS.items():
        group = typer.Typer(name=name, cls=Verbs, rich_markup_mode=None, help=summary, no_args_is_help=True)
        for command_name, kind in tools.items():
            _add(group, command_name, tool(kind))
        app.add_typer(group, rich_help_panel=PANEL)
    return typer.main.get_command(app)


def _add(
    app: typer.Typer,
    name: str,
    call: Callable[..., None],
    panel: str | None = None,
    summary: str | None = None,
) -> None:
    required = any(p.default is p.empty for p in list(inspect.signature(call).parameters.values())[1:])
    app.command(name, cls=Verb, help=summary, rich_help_panel=panel, no_args_is_help=required)(call)


def _call(entry: Entry) -> Callable[..., None]:
    from .verbs import verb

    return verb(entry.load())


def _stub() -> None:
    """A command that is listed, and not called."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"microtome {VERSION}")
        raise typer.Exit()


VersionOption = typer.Option(
    "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
)


def _start(version: Annotated[bool, VersionOption] = False) -> None:
    """Take Transformer text encoders apart, layer by layer."""
