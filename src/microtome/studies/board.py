"""What a scoreboard holds, and its forms: JSON, a table on the terminal, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from ..errors import must
from ..findings.claims.claim import read_number
from ..findings.results import plain
from ..findings.words import between, number
from ..store.files import as_written, read_json, write_whole
from .claims import StudyClaim, read_claim
from .statistics.values import Measured

FORMAT = "microtome/scoreboard/1"
FILE = "scoreboard.json"
MOST_NAMES = 6
ALL = "over models"
Verdict = Literal["holds", "does not hold", "inconclusive", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One claim for one model, or over models.

    Parameters
    ----------
    claim : StudyClaim
    model : str
        A name of the study, `ALL`, or empty where a result is of all models at once.
    measured : Measured
    verdict : {"holds", "does not hold", "inconclusive", "not run"}
    """

    claim: StudyClaim
    model: str
    measured: Measured
    verdict: Verdict

    def document(self) -> dict[str, Any]:
        """Convert to JSON-compatible data; absent numbers are None."""
        facts = {"claim": self.claim.id, "model": self.model, "verdict": self.verdict}
        return plain(
            {**facts, **{entry.name: getattr(self.measured, entry.name) for entry in fields(Measured)}}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoreboard:
    """
    Claims of a paper and what a study found of them.

    Parameters
    ----------
    name, title : str
        Of the study.
    source : str
        Name of the claims.
    version : int
    digest : str
        Of the claims, which are fixed before anything is run.
    level : float
        Coverage of intervals.
    rows : tuple of Row
    """

    name: str
    title: str
    source: str = ""
    version: int = 0
    digest: str = ""
    level: float = 0.95
    rows: tuple[Row, ...] = field(default=(), repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows of single models have each verdict."""
        verdicts = [row.verdict for row in self.rows if row.model != ALL]
        names = ("holds", "does not hold", "inconclusive", "not run")
        return {name: verdicts.count(name) for name in names}

    def document(self) -> dict[str, Any]:
        """Convert to JSON-compatible data."""
        facts = ("name", "title", "source", "version", "digest", "level")
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in facts},
            "counts": self.counts,
            "claims": list({row.claim.id: plain(row.claim.document()) for row in self.rows}.values()),
            "rows": [row.document() for row in self.rows],
        }

    @property
    def sentence(self) -> str:
        """What the claims are and how many hold."""
        if not self.rows:
            return "The study has no claims."
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"Claims of {self.source}, version {self.version} ({self.digest}), model by model: {counts}."

    def table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """
        Head, rows and notes of a table for the terminal.

        Returns
        -------
        tuple of list
        """
        head = ["claim", "model", "published", "holds where", "ours", "n/seeds/tasks", "verdict"]
        rows = [
            [
                row.claim.id,
                row.model or "all",
                "" if isinstance(row.claim.published, str) else f"{row.claim.published:g}",
                row.claim.holds_where,
                ours(row.measured),
                "/".join(_counts(row.measured)).strip("/"),
                row.verdict,
            ]
            for row in self.rows
        ]
        stated = {row.claim.id: _stated(row.claim) for row in self.rows}
        reasons: dict[str, list[str]] = {}
        for row in self.rows:
            if row.verdict == "not run" and row.model != ALL:
                reasons.setdefault(row.measured.note, []).append(f"{row.claim.id} {row.model}".strip())
        notes = [self.sentence, *(f"{name}: {text}" for name, text in stated.items())]
        return head, rows, [*notes, *(f"Not run, {why}: {_first(some)}." for why, some in reasons.items())]

    def csv(self) -> str:
        """One line per row, with all fields."""
        records = []
        for row in self.rows:
            claim, record = plain(row.claim.document()), row.document()
            record["tasks"] = " ".join(record["tasks"])
            record["by_task"] = " ".join(f"{task}={value:g}" for task, value in record["by_task"].items())
            names = ("statement", "published", "source", "statistic", "reading", "least", "most")
            records.append(record | {name: claim[name] for name in names})
        text = io.StringIO()
        names = list(records[0]) if records else ["claim"]
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def latex(self) -> str:
        """A table for a paper, which needs booktabs."""
        head = ["Claim", "Model", "Published", "Holds where", "Ours", "$n$", "Seeds", "Tasks", "Verdict"]
        lines = []
        for row in self.rows:
            published = (
                row.claim.published if isinstance(row.claim.published, str) else f"{row.claim.published:g}"
            )
            measured = (row.claim.holds_where, ours(row.measured), *_counts(row.measured), row.verdict)
            cells = (row.claim.id, row.model or "all", published, *measured)
            lines.append(" & ".join(map(escaped, cells)) + r" \\")
        top = [r"\begin{tabular}{llllrrrrl}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
        return "\n".join([*top, *lines, r"\bottomrule", r"\end{tabular}", ""])

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `scoreboard.json`, `scoreboard.csv` and `scoreboard.tex`; earlier ones are replaced.

        Parameters
        ----------
        folder : path

        Returns
        -------
        tuple of Path
        """
        document = json.dumps(self.document(), indent=1, allow_nan=False)
        contents = {FILE: document + "\n", "scoreboard.csv": self.csv(), "scoreboard.tex": self.latex()}
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            write_whole(place / name, [text.encode()])
        return tuple(place / name for name in contents)


def open_scoreboard(folder: str | os.PathLike[str]) -> Scoreboard:
    """
    Read a scoreboard from a folder that `Scoreboard.save` wrote.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Scoreboard
    """
    file = Path(folder) / FILE
    document = read_json(file) if file.is_file() else None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise must("a scoreboard", f"a folder with {FILE}, as `Scoreboard.save` writes", os.fspath(folder))
    names = ("name", "title", "source", "version", "digest", "level")
    with as_written(file):
        claims = {record["id"]: read_claim(record) for record in document["claims"]}
        rows = tuple(
            Row(
                claim=claims[record["claim"]],
                model=record["model"],
                measured=_measured(record),
                verdict=record["verdict"],
            )
            for record in document["rows"]
        )
        board = Scoreboard(**{name: document[name] for name in names}, rows=rows)
        # What cannot be shown is not as it was written.
        _ = board.document(), board.table(), board.csv(), board.latex()
    return board


def _measured(record: Mapping[str, Any]) -> Measured:
    numbers = {name: read_number(record[name]) for name in ("value", "low", "high")}
    rest = {name: record[name] for name in ("unit", "n", "seeds", "by_task", "note")}
    return Measured(**numbers, **rest, tasks=tuple(record["tasks"]))


def _stated(claim: StudyClaim) -> str:
    """A claim, with what was published and where."""
    published = "" if claim.published == "" else f" Published: {claim.published}"
    source = f" ({claim.source})" if claim.source else ""
    return f"{claim.statement}{published}{source}{'.' if published or source else ''}"


def ours(measured: Measured) -> str:
    """The value with its interval, to three decimals where all are below 1."""
    if not math.isfinite(measured.value):
        return ""
    ends = [end for end in (measured.value, measured.low, measured.high) if math.isfinite(end)]
    digits = 3 if max(map(abs, ends)) < 1 else 2
    interval = between(measured.low, measured.high, digits) if len(ends) == 3 else "no interval"
    return f"{number(measured.value, digits)} {interval}"


def _first(names: Sequence[str]) -> str:
    """The first names of many."""
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _counts(measured: Measured) -> list[str]:
    return [str(count) if count else "" for count in (measured.n, measured.seeds, len(measured.tasks))]


def escaped(text: str) -> str:
    """
    Escape a text for LaTeX.

    Examples
    --------
    >>> escaped("50 % of A_1 & B")
    '50 \\\\% of A\\\\_1 \\\\& B'
    """
    special = {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
    special["\\"] = r"\textbackslash{}"
    special["−"] = "$-$"
    return "".join(special.get(mark, mark) for mark in text)
