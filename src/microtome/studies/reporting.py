"""A study's results in a folder: files, tables, scoreboard and the report."""

from __future__ import annotations

import datetime
import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, must
from ..figures.layouts.tables import write_tables
from ..findings.words import coverage
from ..report.collecting import collect
from ..report.sections import Statement, section
from ..report.writing import PAGE, write_page
from ..store.files import disk
from ..store.outfolder import RESULT
from ..store.shelf import Shelf
from .board import ALL, Row, Scoreboard
from .grid import FINETUNE
from .headlines import STAND, headlines
from .results import INDEX, StudyResults, open_results, read_results, write_results
from .scoreboard import scoreboard
from .values import Study

BOARD = "s0"  # the section of the scoreboard


def write_report(study: Study, out: str | os.PathLike[str], shelf: Shelf) -> tuple[Path, StudyResults]:
    """
    Write what the store has of a study into a folder.

    Parameters
    ----------
    study : Study
    out : path
        New, or of an earlier report of the same study, whose files are replaced.
    shelf : Shelf

    Returns
    -------
    page : Path
    results : StudyResults
    """
    with disk(Path(out)):
        return _write(study, Path(out), shelf)


def _write(study: Study, folder: Path, shelf: Shelf) -> tuple[Path, StudyResults]:
    if folder.exists():
        earlier = open_results(folder) if (folder / INDEX).is_file() else None
        if earlier is None and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{folder} must be a new or empty folder, or one of an earlier report of a study."
            )
        if earlier is not None and earlier.name != study.name:
            raise must(f"the study of the report in {folder}", f"{study.name!r}", earlier.name)
    results = read_results(study, shelf)
    if not len(results):
        raise InputError(
            f"a report of {study.name} must have at least one result, but the store has none; "
            "`microtome study run` computes them."
        )
    folder.mkdir(parents=True, exist_ok=True)
    # Results that the study no longer asks for would be taken for its own.
    for result in open_results(folder) if (folder / INDEX).is_file() else ():
        if (result.folder / RESULT).is_file():
            shutil.rmtree(result.folder)
    write_results(results, folder)
    write_tables(results, folder)
    document = {**collect(folder, date=datetime.date.today().isoformat()), "title": study.title}
    document["sections"] = _grouped(document["sections"], results)
    if study.claims:
        board = scoreboard(results, level=study.level)
        board.save(folder / "scoreboard")
        document["sections"] = [{"id": BOARD, **_board_section(board)}, *document["sections"]]
        document["findings"] = [*headlines(board, BOARD), *document["findings"]]
    return write_page(document, folder / PAGE), results


def _grouped(sections: Sequence[dict[str, Any]], results: StudyResults) -> list[dict[str, Any]]:
    """Sections by experiment, in the order of the study, and fine-tunings last."""
    tables = {f"{result.name}/{RESULT}": result.table for result in results}
    order = sorted(dict.fromkeys(tables.values()), key=lambda table: table == FINETUNE)
    grouped = [{**part, "group": tables[part["file"]]} for part in sections]
    return sorted(grouped, key=lambda part: order.index(part["group"]))


def _board_section(board: Scoreboard) -> dict[str, Any]:
    """The claims that could be judged, as a table of the page."""
    # The verdict stands where a narrow page still shows it.
    head, rows, notes = board.table()
    shown = ("model", "verdict", "ours", "holds where", "n/seeds/tasks")
    judged = [
        [_stated(row), *(cells[head.index(name)] for name in shown)]
        for row, cells in zip(board.rows, rows, strict=True)
        # Over too few models there is no mean.
        if row.verdict != "not run" and (row.model != ALL or math.isfinite(row.measured.value))
    ]
    part = section(
        "scores",
        title="Scoreboard of claims",
        basis=f"{board.sentence} A claim holds where the whole interval ({coverage(board.level)}) is within "
        f"its bounds; published numbers are in parentheses; claims that were not run are below. {STAND}",
        file="scoreboard/scoreboard.json",
        statements=[Statement(text=note) for note in notes if note.startswith("Not run")],
        columns=["claim", "model", "verdict", "measured here", "holds where", "examples/seeds/tasks"],
        rows=judged,
    )
    return dict(part.document)


def _stated(row: Row) -> str:
    """The claim of a row, with its id, and the published number where there is one."""
    claim = row.claim
    published = "" if isinstance(claim.published, str) else f" ({claim.published:g})"
    return f"{claim.id}: {claim.statement}{published}"
