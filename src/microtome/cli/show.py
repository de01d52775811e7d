"""Output of the verbs: tables on a terminal, JSON, files in a folder, and progress."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ..findings.maps import Map

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", metavar="", help="Print the result as JSON on standard output, and nothing else there."
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", metavar="", help="Print the result only: no notes, no progress.")
]

ThreadsOption = Annotated[int | None, typer.Option(help="Threads of the processor.", show_default=False)]
Report = Callable[[str, int, int], None]

# A map with more columns is summarized.
MOST_COLUMNS = 14
# When the output goes to a file or another program, lines are not broken.
UNBROKEN = 10_000
# Five colors of viridis from low to high, and what is readable on each.
SHADES = (
    ("#440154", "white"),
    ("#3b528b", "white"),
    ("#21918c", "white"),
    ("#5ec962", "black"),
    ("#fde725", "black"),
)


class Screen:
    """
    Where a verb shows its result: standard output for the result, standard error for everything else.

    Parameters
    ----------
    json : bool
        Whether the result is printed as JSON.
    quiet : bool
        Whether notes and progress are left out.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet = json, quiet

    def note(self, sentence: str) -> None:
        """Tell the user something beside the result."""
        if not self.quiet:
            sys.stderr.write(plain(sentence) + "\n")
            sys.stderr.flush()

    def result(self, document: Mapping[str, Any], text: str) -> None:
        """Print a result that is one sentence, or as JSON."""
        import json

        sys.stdout.write((json.dumps(document, allow_nan=False) if self.json else plain(text)) + "\n")

    def rows(self, head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> None:
        """Print a table of texts, and sentences below it."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(Text(name), overflow="fold")
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        _console().print(table)
        self.sentences(notes)

    def sentences(self, sentences: Sequence[str]) -> None:
        """Print sentences, each on its own line; broken between words where the terminal ends."""
        from rich.text import Text

        console = _console()
        for sentence in sentences:
            console.print(Text(plain(sentence)))

    @contextmanager
    def working(self) -> Iterator[Report | None]:
        """Show progress while the work runs, and its warnings as sentences when it is done."""
        bar = None if self.quiet or not sys.stderr.isatty() else _Bar()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield None if bar is None else bar.report
            finally:
                if bar is not None:
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


def _console() -> Console:
    from rich.console import Console

    broken = sys.stdout.isatty()
    return Console(
        file=sys.stdout, width=None if broken else UNBROKEN, highlight=False, markup=False, emoji=False
    )


def print_map(similarity_map: Map, out: Path | None = None) -> None:
    """
    Print a map: its values where they fit, and the pairs of layers that matter with their doubt.

    Parameters
    ----------
    similarity_map : Map
    out : Path, optional
        Where the whole of it was written.
    """
    from rich.text import Text

    from ..findings.methods import cite, declared, null_range

    console = _console()
    choice = declared(similarity_map)
    console.print(
        Text(
            plain(f"{similarity_map.measure}: {similarity_map.estimator}, n = {similarity_map.n:,} rows"),
            style="bold",
        )
    )
    complete = similarity_map.values.size > 1 and _print_matrix(console, similarity_map)
    if not complete or similarity_map.low is not None or similarity_map.p_map is not None:
        _print_pairs(console, similarity_map, best=not complete)
    null = null_range(similarity_map)
    if not null:
        console.print(Text("What unrelated rows would give is not known; --permutations finds it."))
    else:
        note = (
            f"; that is {similarity_map.null_note}"
            if similarity_map.p_map is not None
            else f"; no z: {similarity_map.null_note}"
        )
        console.print(
            Text(plain(f"Unrelated rows would give {null}{note if similarity_map.null_note else ''}."))
        )
    reasons = list(dict.fromkeys(plain(r) for row in similarity_map.reasons for r in row if r))
    if reasons:
        count = sum(r is not None for row in similarity_map.reasons for r in row)
        console.print(
            Text(f"{count} of {similarity_map.values.size} cells are undefined: {'; '.join(reasons)}.")
        )
    if not complete and similarity_map.values.size > 1:
        place = (
            f"in {out / 'result.json'}" if out is not None else "printed with --json, or written with --out"
        )
        console.print(Text(plain(f"All {similarity_map.values.size:,} cells are {place}.")))
    if choice is not None:
        console.print(Text(f"Source: {'; '.join(cite(key) for key in choice.measure.citations)}."))
    console.print()


def _print_matrix(console: Console, similarity_map: Map) -> bool:
    """Print all values if they fit, with as many decimals as fit."""
    from rich.table import Table
    from rich.text import Text

    from ..findings.methods import split_names
    from ..findings.words import number

    if similarity_map.shape[1] > MOST_COLUMNS:
        return False
    (left, rows), (right, columns) = split_names(similarity_map.left), split_names(similarity_map.right)
    for digits in (3, 2):
        cells = [
            [number(float(v), digits).replace("undefined", "-") for v in row] for row in similarity_map.values
        ]
        widths = [max(len(t) for t in (name, *texts)) for name, *texts in zip(columns, *cells, strict=True)]
        if max(map(len, rows)) + sum(w + 1 for w in widths) <= console.width:
            break
    else:
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", style="dim")
    for name in columns:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name, texts, values in zip(rows, cells, similarity_map.values, strict=True):
        shaded = (Text(t, style=_shade(float(v))) for t, v in zip(texts, values, strict=True))
        table.add_row(Text(name), *shaded)
    if not similarity_map.symmetric:
        console.print(Text(f"rows: {left or 'left'}; columns: {right or 'right'}", style="dim"))
    console.print(table)
    return True


def _shade(value: float) -> str:
    if value != value:
        return "dim"
    back, front = SHADES[min(max(int(value * len(SHADES)), 0), len(SHADES) - 1)]
    return f"{front} on {back}"


def chosen_pairs(similarity_map: Map) -> tuple[str, list[tuple[int, int]]]:
    """
    Choose the pairs of layers that a reader looks for first, and say which they are.

    Each layer of the first model with the same layer of the others in a map of several models, neighbors in
    a map of a stack with itself, layers of equal number in a square map, and else the best match of each
    left layer.
    """
    import numpy as np

    from ..findings.methods import model_borders

    rows, columns = similarity_map.shape
    if similarity_map.symmetric and len(models := model_borders(similarity_map.left)) > 1:
        place = {name: k for k, name in enumerate(similarity_map.left)}
        first, *following = models
        depths = [name.rsplit("/", 1)[1] for name in similarity_map.left[: models[following[0]]]]
        pairs = [(f"{first}/{depth}", f"{model}/{depth}") for model in following for depth in depths]
        return "same layers", [(place[a], place[b]) for a, b in pairs if b in place]
    if similarity_map.symmetric and rows > 1:
        return "neighbors", [(i, i + 1) for i in range(rows - 1)]
    if rows == columns:
        return "matching layers" if rows > 1 else "layers", [(i, i) for i in range(rows)]
    filled = np.where(np.isfinite(similarity_map.values), similarity_map.values, -np.inf)
    return "best matches", [(i, int(filled[i].argmax())) for i in range(rows)]


def _print_pairs(console: Console, similarity_map: Map, *, best: bool) -> None:
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from ..findings.words import between, number

    what, pairs = chosen_pairs(similarity_map)
    has_values = [
        bool(np.isfinite(t).any()) for t in (similarity_map.null_mean, similarity_map.z, similarity_map.p)
    ]
    map_known = similarity_map.p_map is not None and bool(np.isfinite(similarity_map.p_map).any())
    best = best and what == "matching layers"
    head = [what, "", "value"]
    head += (
        [f"{(similarity_map.level or 0.95) * 100:g}% interval ({similarity_map.unit})"]
        if similarity_map.low is not None
        else []
    )
    head += [name for name, has_value in zip(("unrelated", "z", "p"), has_values, strict=True) if has_value]
    head += ["p in the map"] if map_known else []
    head += ["best match", "its value"] if best else []
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, name in enumerate(head):
        table.add_column(Text(name), justify="left" if position < 2 or name == "best match" else "right")
    for i, j in pairs:
        row = [
            plain(similarity_map.left[i]),
            plain(similarity_map.right[j]),
            number(float(similarity_map.values[i, j]), 3),
        ]
        if similarity_map.low is not None and similarity_map.high is not None:
            row.append(between(float(similarity_map.low[i, j]), float(similarity_map.high[i, j]), 3))
        texts = (
            number(float(similarity_map.null_mean[i, j]), 3),
            number(float(similarity_map.z[i, j]), 1),
            _p(float(similarity_map.p[i, j])),
        )
        row += [text for text, has_value in zip(texts, has_values, strict=True) if has_value]
        row += (
            [_p(float(similarity_map.p_map[i, j]))] if map_known and similarity_map.p_map is not None else []
        )
        if similarity_map.reasons[i][j] is not None:
            row[3:] = [""] * len(row[3:])
        if best:
            finite = np.isfinite(similarity_map.values[i])
            filled = np.where(finite, similarity_map.values[i], -np.inf)
            match = plain(similarity_map.right[int(filled.argmax())]), number(float(filled.max()), 3)
            row += match if finite.any() else ("", "")
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _p(value: float) -> str:
    from ..findings.words import number

    return "< 0.001" if value < 0.001 else number(value, 3)
