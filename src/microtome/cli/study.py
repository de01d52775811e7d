"""The verbs `study plan|run|status|report`: papers and other studies as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import WorkError
from ..executors.table import EXECUTORS
from ..options import option
from .show import JsonOption, QuietOption, Table
from .tools import Tool

if TYPE_CHECKING:
    from ..studies.status import StudyStatus
    from ..studies.values import Study


@dataclass(frozen=True, kw_only=True)
class StudyTool(QuietOption, JsonOption, Tool):
    """A command on a study."""

    study: str = option(
        "Study: a name of `microtome ls studies`, or a TOML file.", argument=True, metavar="STUDY"
    )
    size: str | None = option(
        "Size of a study of the package: small, core, available or full [default: small].",
        None,
        metavar="SIZE",
    )
    data: str | None = option(
        "Folder with the original files of tasks; the hub when absent.", None, metavar="DIR"
    )
    model: Mapping[str, str] = option(
        "Another source of a model of the study. May be repeated.",
        {},
        repeated=True,
        metavar="NAME=SOURCE",
        example="mine=my/folder",
    )
    store: str | None = option(
        "Folder of the store; MICROTOME_STORE or microtome in the cache folder when absent.",
        None,
        metavar="DIR",
    )

    def opened(self) -> Study:
        """The study, with the models and data that were asked for."""
        from ..studies.file import study

        return study(self.study, size=self.size, data=self.data, models=self.model)


@dataclass(frozen=True, kw_only=True)
class StudyPlan(StudyTool):
    """Say what a study will run, what the store already has, and what it will take; load no model."""

    def run(self, context: Context) -> None:
        """Print the plan."""
        status = self.opened().plan(self.store)
        self.screen.listing({**status.document(), "format": "microtome/study-plan/1"}, *_tables(status))


@dataclass(frozen=True, kw_only=True)
class StudyStatusTool(StudyTool):
    """Say which results of a study are done, running, failed or waiting, while it runs or afterwards."""

    def run(self, context: Context) -> None:
        """Print the status."""
        status = self.opened().status(self.store)
        self.screen.listing(status.document(), *_tables(status))


@dataclass(frozen=True, kw_only=True)
class StudyRun(StudyTool):
    """Run what the store does not have yet of a study; it can be stopped and goes on from there."""

    on: str = option("Where calls run.", "inline", choices=tuple(EXECUTORS), metavar="EXECUTOR")
    workers: int | None = option("Number of calls at once; chosen when absent.", None, least=1)
    ray_address: str | None = option("Address of a Ray cluster; a local one when absent.", None)
    partition: str | None = option("Partition of Slurm.", None)
    pack: int = option("Number of calls in one job of Slurm.", 1, least=1)

    def run(self, context: Context) -> None:
        """Run the study, and print what was done and what failed."""
        study, screen = self.opened(), self.screen
        status = study.plan(self.store)
        screen.note(f"{study.title}: {status.estimate.sentence}")
        names = ("workers", "ray_address", "partition", "pack")
        settings = {name: getattr(self, name) for name in names}
        with screen.working() as progress:
            reporting = replace(context, progress=progress)
            outcome = study.run(self.store, self.on, context=reporting, note=screen.note, **settings)
        failed = [f"{name} failed: {message}" for name, message in outcome.failures.items()]
        if outcome.left_out:
            failed.append(f"Not run, since they need a failed result: {', '.join(outcome.left_out)}.")
        total = f"{outcome.done} results computed, {outcome.before} were in the store already."
        screen.listing(outcome.document(), ([], [], [total, *failed]))
        if failed:
            count = len(outcome.failures) + len(outcome.left_out)
            raise WorkError(f"all results of {study.name} must be computed, but {count} are not: {failed[0]}")


@dataclass(frozen=True, kw_only=True)
class StudyReport(StudyTool):
    """Write the results that the store has, tables, scoreboard and report into a folder; at any time."""

    out: Path = option("Folder.", metavar="DIR", read=Path)
    show: bool = option("Open the page in the browser.", False, name="open")

    def run(self, context: Context) -> None:
        """Write the report, and print the scoreboard."""
        from ..store.shelf import Shelf
        from ..studies.reporting import write_report
        from ..studies.scoreboard import open_scoreboard

        study = self.opened()
        page, results = write_report(study, self.out, Shelf(self.store))
        board = open_scoreboard(self.out / "scoreboard") if study.claims else None
        document: dict[str, Any] = {
            "format": "microtome/study-report/1",
            "study": study.name,
            "page": str(page),
            "results": len(results),
            "scoreboard": None if board is None else board.document(),
        }
        lines = [] if board is None else [board.table()]
        self.screen.listing(document, *lines, ([], [], [f"Written to {page}"]))
        if self.show:
            import webbrowser

            webbrowser.open(page.resolve().as_uri())


def _tables(status: StudyStatus) -> Sequence[Table]:
    """Counts by experiment, what runs and what failed, and what is left."""
    document = status.document()
    states = [state for state, count in status.counts.items() if count]
    rows = [
        [name, f"{sum(counts.values()):,}", *(f"{counts.get(state, 0):,}" for state in states)]
        for name, counts in document["experiments"].items()
    ]
    notes = [f"{entry['job']} runs on {entry['message']}" for entry in document["running"]]
    notes += [f"{entry['job']} failed: {entry['message']}" for entry in document["failed"]]
    notes.append(status.estimate.sentence)
    return ((["experiment", "results", *states], rows, notes),)


STUDY: Mapping[str, type[Tool]] = MappingProxyType(
    {"plan": StudyPlan, "run": StudyRun, "status": StudyStatusTool, "report": StudyReport}
)
