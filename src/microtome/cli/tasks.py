"""What if a verb is given several tasks? Each gets its own plan, result and folder, in the order given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .results import print_result, write_result
from .sharing import Shown, Working
from .surgery import Progress

if TYPE_CHECKING:
    from ..findings.results import Result

TasksOption = Annotated[
    list[str],
    typer.Option(
        "--task",
        help="A name of `microtome ls tasks`, a card (.toml), or a table of one's own; may be repeated.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    What a verb will do with one task, or with tasks that it takes together.

    Parameters
    ----------
    task : str
        The name of the task, which is that of its folder where there are several.
    document, sentence : dict, str
        What a dry run shows.
    run : callable
        Does it: takes what to tell of progress, gives the result.
    """

    task: str
    document: dict[str, Any]
    sentence: str
    run: Callable[[Progress | None], Result]


def run_plans(plans: Sequence[Plan], working: Working, shown: Shown, kind: str) -> None:
    """
    Show what would be done, or do it and show what came of it.

    Parameters
    ----------
    plans : sequence of Plan
        Nothing is run before all of them are made.
    working, shown
        What a user asked for.
    kind : str
        The experiment of the results.
    """
    from ..runtime import using_threads

    screen = shown.screen
    folders = _folders(plans, shown.out, kind)
    alone = len(plans) == 1
    if working.dry_run:
        planned = [{"task": plan.task, **plan.document} for plan in plans]
        document = {"format": "microtome/plans/1", "plans": planned}
        if alone or screen.json:
            screen.result(plans[0].document if alone else document, plans[0].sentence)
        else:
            screen.sentences([plan.sentence for plan in plans])
        return
    results: list[Result] = []
    for plan, folder in zip(plans, folders, strict=True):
        screen.note(plan.sentence)
        with screen.working() as progress, using_threads(working.threads):
            result = plan.run(progress)
        write_result(screen, result, folder)
        if not screen.json:
            print_result(screen, result)
        results.append(result)
    if screen.json:
        documents = [result.document() for result in results]
        several = {"format": "microtome/results/1", "results": documents}
        screen.result(documents[0] if alone else several, "")


def _folders(plans: Sequence[Plan], out: Path | None, kind: str) -> list[Path | None]:
    """Where each result goes: the folder itself for one, a folder in it for each of several."""
    from ..errors import InputError
    from ..findings.record import check_earlier

    names = ["".join(c if c.isalnum() or c in "-_." else "-" for c in plan.task) for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"--task must name each task once, since its name is that of its folder, but {name!r} stands "
                f"{names.count(name)} times."
            )
    if out is None or len(plans) == 1:
        return [out] * len(plans)
    for name in names:
        check_earlier(out / name, kind)
    return [out / name for name in names]
