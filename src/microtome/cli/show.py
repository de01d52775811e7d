"""Output of the verbs: tables on a terminal, JSON, files in a folder, and progress."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..context import ProgressLines
from ..options import option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Report = Callable[[str, int, int], None]
# A table: its head, its rows, and sentences below it.
Table = tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]

Columns = Mapping[str, str | Callable[[Any], str]]


def table(entries: Iterable[Any], columns: Columns, notes: Sequence[str] = ()) -> Table:
    """A table with one row per entry; a column is a key of the entries, or a function of an entry."""
    rows = [
        [str(entry[column]) if isinstance(column, str) else column(entry) for column in columns.values()]
        for entry in entries
    ]
    return list(columns), rows, notes


def picked(entry: Any, *names: str) -> dict[str, Any]:
    """Some attributes of an entry, as JSON can hold them."""
    values = {name: getattr(entry, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


# When the output goes to a file or another program, lines are not broken.
UNBROKEN = 10_000


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """The option to print JSON."""

    json: bool = option(
        "Print the result as JSON on standard output, and nothing else there.", False, panel="Output"
    )


@dataclass(frozen=True, kw_only=True)
class QuietOption:
    """The option to print the result only."""

    quiet: bool = option("Print the result only: no notes, no progress.", False, panel="Output")


class Screen:
    """
    Where a verb shows its result: standard output for the result, standard error for everything else.

    Parameters
    ----------
    json : bool
        Whether the result is printed as JSON.
    quiet : bool
        Whether notes and progress are left out.
    verbose : bool
        Whether the evidence behind findings is printed, too.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False, verbose: bool = False) -> None:
        self.json, self.quiet, self.verbose = json, quiet, verbose

    def note(self, sentence: str) -> None:
        """Tell the user something beside the result."""
        if not self.quiet:
            sys.stderr.write(plain(sentence) + "\n")
            sys.stderr.flush()

    def document(self, document: Mapping[str, Any]) -> None:
        """Print a result as JSON."""
        import json

        sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")

    def rows(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        notes: Sequence[str] = (),
        right: Collection[str] = (),
    ) -> None:
        """Print a table of texts, where it has rows, and sentences below it."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(Text(name), overflow="fold", justify="right" if name in right else "left")
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        if rows:
            console().print(table)
        self.sentences(notes)

    def listing(self, document: Mapping[str, Any], *tables: Table) -> None:
        """Print tables, or the document that they are of as JSON."""
        if self.json:
            self.document(document)
            return
        for k, (head, rows, notes) in enumerate(tables):
            between = [""] if k < len(tables) - 1 else []
            self.rows(head, rows, [*notes, *between])

    def sentences(self, sentences: Sequence[str]) -> None:
        """Print sentences, each on its own line; broken between words where the terminal ends."""
        from rich.text import Text

        terminal = console()
        for sentence in sentences:
            terminal.print(Text(plain(sentence)))

    @contextmanager
    def working(self) -> Iterator[Report | None]:
        """Show progress while the work runs, and its warnings as sentences when it is done."""
        bar = None if self.quiet else _Bar() if sys.stderr.isatty() else ProgressLines(self.note)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield None if bar is None else bar.report
            finally:
                if isinstance(bar, _Bar):
                    bar.stop()
        from ..errors import SmallSampleWarning

        # Those of small samples come again with each map that they are about.
        messages = [str(w.message) for w in caught if not issubclass(w.category, SmallSampleWarning)]
        for sentence in dict.fromkeys(messages):
            self.note(f"warning: {sentence}")


class _Bar:
    """A progress bar on standard error: owns the screen line while it runs."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.tasks: dict[str, Any] = {}

    def report(self, what: str, done: int, total: int) -> None:
        """Take what the engine says of its progress."""
        if self.bar is None:
            self.bar = _progress()
            self.bar.start()
        if what not in self.tasks:
            for task in self.tasks.values():
                self.bar.update(task, visible=False)
            self.tasks[what] = self.bar.add_task(plain(what), total=total or None)
        # Who does not know how many there are says 0, and a bar of 97 of 0 would be nonsense.
        self.bar.update(self.tasks[what], completed=done, total=total or None)

    def stop(self) -> None:
        """Give the line back."""
        if self.bar is not None:
            self.bar.stop()


def _progress() -> Progress:
    from rich import progress as parts
    from rich.console import Console
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        """How many a second."""

        def render(self, task: parts.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2f}/s")

    return parts.Progress(
        parts.TextColumn("{task.description}", markup=False),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        Rate(),
        parts.TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    )


def plain(text: str) -> str:
    """Take out what a terminal would obey instead of show."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def console() -> Console:
    """Standard output, where nothing is obeyed that is printed."""
    from rich.console import Console

    broken = sys.stdout.isatty()
    return Console(
        file=sys.stdout, width=None if broken else UNBROKEN, highlight=False, markup=False, emoji=False
    )
