"""Which verbs are there? The parser, made without importing what the verbs need."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..experiments.table import EXPERIMENTS
from ..version import VERSION
from .compare import compare
from .demo import demo
from .extract import extract
from .finetune import evaluate, finetune
from .ls import ls
from .parsing import Verb
from .pretrain import pretrain
from .prune import prune
from .report import report
from .sharing import taken_apart
from .similarity import similarity
from .store import store
from .verbs import verb as derived


def command() -> Any:
    """Build the command that parses the words of a user and calls a verb."""
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
    verbs = (similarity, extract, compare, finetune, evaluate)
    verbs += (prune,)
    for verb in (*verbs, report, pretrain, ls, demo):
        app.command(cls=Verb, no_args_is_help=verb is not demo)(taken_apart(verb))
    for entry in EXPERIMENTS.values():
        if entry.path:
            app.command(name=entry.verb, cls=Verb, no_args_is_help=True)(derived(entry.load(), entry.verb))
    app.add_typer(store)
    return typer.main.get_command(app)


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
