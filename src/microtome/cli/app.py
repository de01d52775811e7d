"""The command-line parser: one command per experiment, and those that list, report and keep the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..experiments.table import EXPERIMENTS, Entry
from ..version import VERSION
from .call import call
from .demo import demo
from .ls import ls
from .parsing import Verb
from .report import report
from .store import store


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
        help="Take Transformer text encoders apart, layer by layer.",
        epilog="Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 interrupted.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_start)
    for entry in EXPERIMENTS.values():
        options = {
            "cls": Verb,
            "no_args_is_help": True,
            "help": entry.summary,
            "rich_help_panel": entry.group,
        }
        app.command(entry.verb, **options)(_call(entry) if verb in (None, entry.verb) else _stub)
    for tool in (report, demo, ls, call):
        app.command(cls=Verb, no_args_is_help=tool is not demo, rich_help_panel=TOOLS)(tool)
    app.add_typer(store, rich_help_panel=TOOLS)
    return typer.main.get_command(app)


TOOLS = "Reports and tools"


def _call(entry: Entry) -> Callable[..., None]:
    from .verbs import verb

    return verb(entry.load(), entry.verb)


def _stub() -> None:
    """A command that is listed, and not called."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"microtome {VERSION}")
        raise typer.Exit()


def _start(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Print the version and stop.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Take Transformer text encoders apart, layer by layer."""
