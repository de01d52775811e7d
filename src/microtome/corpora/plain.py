"""Reader of plain text, one example per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from .examples import Example, Reader, ReaderOption
from .lines import Lines, by_file


def read_text(lines: Lines, options: Mapping[str, Any]) -> Iterator[Example]:
    """Read the lines of one file."""
    blank_lines = options["blank_lines"]
    number, document, inside = 0, 0, False
    for line in lines:
        if not line.strip() and blank_lines != "keep":
            inside = False
            continue
        if not inside:
            inside, document = True, document + 1
        number += 1
        yield Example(id=str(number), text=line, group=str(document) if blank_lines == "documents" else "")


TEXT = Reader(
    name="text",
    suffixes=(".txt", ".text"),
    summary="Plain text, one example per line; the id is the example's number.",
    read=partial(by_file, read_text),
    options={
        "blank_lines": ReaderOption(
            default="skip",
            choices=("skip", "keep", "documents"),
            meaning="skip blank lines, keep them as examples, or let them part documents, which are groups",
        )
    },
)
