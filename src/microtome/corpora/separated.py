"""Readers of TSV (split at tabs, without quoting) and CSV (with quoting)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..errors import must
from .examples import Example, Reader, ReaderOption
from .lines import Lines, by_file
from .records import COLUMNS, to_examples

Rows = Callable[[Lines, Mapping[str, Any]], Iterator[list[str]]]


def read_separated(rows: Rows, lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the rows of one file."""
    records = named_rows(rows(lines, options), options["header"], lines)
    return to_examples(records, options["columns"], lines.refuse)


def named_rows(
    rows: Iterator[list[str]],
    header: str | list[str],
    lines: Lines,
    skip: Callable[[], None] | None = None,
) -> Iterator[dict[str, str]]:
    """
    Name the columns of rows.

    Parameters
    ----------
    rows : iterator of (list of str)
    header : {"yes", "no"} or list of str
        Whether the first row has the names, or the names.
    lines : Lines
    skip : callable, optional
        Called for each row with a wrong number of columns, which is then left out; an error otherwise.
    """
    names = header if isinstance(header, list) else None
    for row in rows:
        if names is None:
            names = row if header == "yes" else [str(i + 1) for i in range(len(row))]
            if len(set(names)) < len(names):
                raise lines.refuse("name every column once", f"got {', '.join(names)}")
            if header == "yes":
                continue
        if len(row) != len(names):
            if skip is not None:
                skip()
                continue
            raise lines.refuse(f"have {len(names)} columns", f"it has {len(row)}")
        yield dict(zip(names, row, strict=True))


def split_tabs(lines: Lines, options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Split lines at tabs; quotes have no special meaning."""
    for line in lines:
        if line:
            yield line.split("\t")


def split_quoted(lines: Lines, options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Split records at the delimiter, except inside quotes, which may contain line ends."""
    delimiter = options["delimiter"]
    source = lines.whole()
    for line in source:
        if not line.strip("\r\n"):
            continue
        row: list[str] = []
        continues = True
        while continues:
            if line.startswith('"'):
                value, line = _quoted(line, source, lines)
                if line.strip("\r\n") and not line.startswith(delimiter):
                    raise lines.refuse(f"have {delimiter!r} after a closed quote", f"got {line[0]!r}")
                continues, line = line.startswith(delimiter), line[1:]
            else:
                value, separator, line = line.partition(delimiter)
                value, continues = (
                    (value, True) if separator else (value.removesuffix("\n").removesuffix("\r"), False)
                )
            row.append(value)
        yield row


def _quoted(line: str, source: Iterator[str], lines: Lines) -> tuple[str, str]:
    """Return the quoted value at the start of the line, and the remainder after it."""
    pieces, start = [], lines.number
    line = line[1:]
    while True:
        piece, quote, remainder = line.partition('"')
        pieces.append(piece)
        if quote and not remainder.startswith('"'):
            return "".join(pieces), remainder
        if quote:
            pieces.append('"')
            line = remainder[1:]
        else:
            line = next(source, "")
            if not line:
                raise lines.refuse("close the quote it opens", "the file ends before", start)


def check_header(value: Any) -> str | list[str]:
    """Validate the option `header`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value in ("yes", "no"):
        return value
    names = list(value) if isinstance(value, (list, tuple)) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise must("option header", "yes, no or a list of different names", value)
    return names


HEADER = ReaderOption(
    default="yes",
    check=check_header,
    meaning="whether the first line names the columns: yes, no (they are called 1, 2, ...), or their names",
)

TSV = Reader(
    name="tsv",
    suffixes=(".tsv",),
    summary="Columns between tabs, one example per line, quotes being characters like all others; the id is "
    "the example's number unless a column gives it.",
    read=partial(by_file, partial(read_separated, split_tabs)),
    options={"columns": COLUMNS, "header": HEADER},
)

CSV = Reader(
    name="csv",
    suffixes=(".csv",),
    summary="Columns between commas with quotes as in RFC 4180, one example per record; the id is the "
    "example's number unless a column gives it.",
    read=partial(by_file, partial(read_separated, split_quoted)),
    options={
        "columns": COLUMNS,
        "header": HEADER,
        "delimiter": ReaderOption(
            default=",", choices=(",", ";", "|", "\t"), meaning="what stands between columns"
        ),
    },
)
