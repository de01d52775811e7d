"""Commands that are no experiments: how one is declared; the report, the demonstration and a single call."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from ..context import Context
from ..errors import WorkError, must
from ..executors.base import PERFORM, ExecutorSettings, Resources
from ..executors.table import open_executor
from ..options import option, options_of
from ..store.files import as_written
from .parsing import command_of
from .show import JsonOption, QuietOption, Screen

# Findings that are printed beside the path of the page.
SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Tool(ABC):
    """One command; a subclass declares its options and what it does."""

    @property
    def screen(self) -> Screen:
        """Where the result is shown."""
        return Screen(json=getattr(self, "json", False), quiet=getattr(self, "quiet", False))

    @abstractmethod
    def run(self, context: Context) -> None:
        """Do it, and show the result; the context has the command that was typed."""


def tool(kind: type[Tool]) -> Callable[..., None]:
    """Make the command of a tool."""
    options = {f.name: (f, facts) for f, facts in options_of(kind)}
    summary = inspect.cleandoc(kind.__doc__ or "")

    def call(values: dict[str, Any], command: str) -> None:
        kind(**values).run(Context(command=command))

    return command_of(options, call, summary, panels=False)


@dataclass(frozen=True, kw_only=True)
class Report(QuietOption, JsonOption, Tool):
    """Write one page on all results of a folder: what was found, maps and curves, and how to repeat it."""

    folder: Path = option(
        "What verbs wrote with --out, at any depth.", argument=True, metavar="DIR", read=Path
    )
    out: Path | None = option(
        "The page; report.html in the folder when absent.", None, metavar="FILE", read=Path
    )
    show: bool = option("Open the page in the browser.", False, name="open")

    def run(self, context: Context) -> None:
        """Write the page, and print the first findings."""
        import datetime

        from ..report.collecting import collect
        from ..report.writing import PAGE, write_page

        screen = self.screen
        document = collect(self.folder, date=datetime.date.today().isoformat())
        page = write_page(document, self.folder / PAGE if self.out is None else self.out)
        for source in document["provenance"]:
            problem = dict(source["facts"]).get("problem")
            if problem:
                screen.note(f"warning: {source['file']} was left out. {problem}")
        if self.show:
            import webbrowser

            if not webbrowser.open(page.resolve().as_uri()):
                screen.note("warning: no browser could be opened.")
        sentences = [finding["text"] for finding in document["findings"]]
        count = len(sentences) - SHOWN
        more = [f"More on the page: {count} {'finding' if count == 1 else 'findings'}."] if count > 0 else []
        screen.listing(document, ([], [], [f"Written to {page}", *sentences[:SHOWN], *more]))


@dataclass(frozen=True, kw_only=True)
class Demo(QuietOption, JsonOption, Tool):
    """Fine-tune a small encoder of the package, compare, cut and prune it, and write a report."""

    out: Path = option(
        "Folder; what it has already is not computed again.", Path("demo"), metavar="DIR", read=Path
    )
    encoders: Sequence[str] = option("Encoders of the package, as masked,replaced,every.", ("masked",))
    seeds: Sequence[int] = option("Seeds of fine-tuning, as 1,2 or 1-3.", (1,))
    threads: int = option("Number of CPU threads; more gain such small encoders little.", 1, least=1)

    def run(self, context: Context) -> None:
        """Run the demonstration, and print its main findings."""
        from ..demonstration.plan import DemoPlan, document_of, sentences_of
        from ..demonstration.running import demonstrate
        from ..runtime import using_threads

        screen = self.screen
        plan = DemoPlan(encoders=tuple(self.encoders), seeds=tuple(self.seeds))
        with screen.working() as progress, using_threads(self.threads):
            demonstration = demonstrate(self.out, plan, tell=screen.note, context=context.reporting(progress))
        screen.listing(document_of(demonstration), ([], [], sentences_of(demonstration)))
        if not self.json:
            more = "Other seeds and encoders: the same with --seeds 1,2 or --encoders masked,replaced."
            screen.note(f"Done in {demonstration.seconds:.0f} s. {more}")


@dataclass(frozen=True, kw_only=True)
class CallTool(QuietOption, Tool):
    """Compute pieces of experiments, and leave their outcomes in the store."""

    text: str = option(
        "A piece in JSON, as docs/tasks.md describes it, a list of them, or @FILE.",
        argument=True,
        metavar="JSON",
    )
    store: str | None = option("Folder of the store.", None, metavar="DIR")
    processes: int = option("How many pieces of a list are computed at once.", 1, least=1)
    function: str = option("What computes a piece, as module:function.", PERFORM, metavar="NAME")

    def run(self, context: Context) -> None:
        """Compute the pieces; of a list, also those after one that fails."""
        text = self.text
        if text.startswith("@"):
            with as_written(path := Path(text[1:])):
                text = path.read_text(encoding="utf-8")
        try:
            request = json.loads(text)
        except ValueError as problem:
            raise must("a call", f"JSON ({problem})", text) from problem
        if request == []:
            raise must("a call", "an object, or a list of one or more", text)
        with self.screen.working() as progress:
            if isinstance(request, list):
                self._perform_all(request, context.reporting(progress))
            else:
                resolve_name(self.function)(request, replace(context, store=self.store, progress=progress))

    def _perform_all(self, calls: list[Any], context: Context) -> None:
        # A single worker sees all GPUs. It is another process, since one call may break them for the next.
        options: dict[str, Any] = {"store": self.store, "workers": self.processes, "perform": self.function}
        settings = ExecutorSettings(**options, gpus=None if self.processes > 1 else 0)
        left, problems = len(calls), []
        with open_executor("processes" if len(calls) > 1 else "inline", settings) as executor:
            executor.submit(calls, Resources())
            while left:
                for outcome in executor.outcomes(60.0):
                    left -= 1
                    context.report("calls", len(calls) - left, len(calls))
                    problems += [] if outcome.state == "done" else [outcome.message]
        if problems:
            raise WorkError(
                f"all {len(calls)} calls must succeed, but {len(problems)} did not: {problems[0]}"
            )
