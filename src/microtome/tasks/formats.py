"""Original files of tasks: their location, and parsers that turn them into records with named columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..corpora.conllu import read_conllu
from ..corpora.files import COMPRESSED
from ..corpora.jsonl import read_objects
from ..corpora.lines import Lines, opened
from ..corpora.separated import named_rows, split_quoted, split_tabs
from ..errors import InputError
from .card import Card

ENDINGS = ("", *COMPRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFile:
    """
    A file of a split.

    Parameters
    ----------
    path : Path
    named : str
        The file name in the card that matched.
    official : bool
        Whether it has an official name; otherwise it is a sample or another version.
    comparable : bool
        Whether the published size refers to this file.
    """

    path: Path
    named: str
    official: bool
    comparable: bool = True


def find_files(card: Card, data: str | Path) -> tuple[Path, Mapping[str, SplitFile]]:
    """
    Find the files of a task.

    Parameters
    ----------
    card : Card
    data : path
        The folder of the task, or one that contains it under its usual name.

    Returns
    -------
    folder : Path
    files : mapping of str to SplitFile
        The existing files, by split.
    """
    root = Path(data)
    if not root.is_dir():
        raise InputError(f"data must be a folder that exists for {card.name}, but got {str(data)!r}.")
    folders = [root, *(root / name for name in card.local.folders)]
    for folder in folders:
        if folder.is_dir():
            files = {
                split: match
                for split, names in card.local.files.items()
                if (match := _pick(folder, names)) is not None
            }
            if files:
                return folder, files
    names = ", ".join(name for several in card.local.files.values() for name in several)
    under = " or ".join(card.local.folders)
    raise InputError(
        f"data must be a folder with files of {card.name} ({names}; packed or not), or have it as {under}, "
        f"but {root} has none of them."
    )


def find_whole(card: Card, data: str | Path) -> Path | None:
    """Find the single file to divide into splits, if the card allows one."""
    root = Path(data)
    if root.is_file():
        return root if card.local.whole else None
    for folder in (root, *(root / name for name in card.local.folders)):
        if folder.is_dir():
            for name in card.local.whole:
                matching = _matching(_listed(folder), name)
                if len(matching) == 1:
                    return folder / matching[0]
    return None


def beside(file: SplitFile, ending: str) -> Path | None:
    """Find the file with the labels of another file."""
    stem = file.named.rpartition(".")[0]
    for packed in ENDINGS:
        path = file.path.parent / f"{stem}{ending}{packed}"
        if path.is_file():
            return path
    return None


def _pick(folder: Path, names: Sequence[str]) -> SplitFile | None:
    for official in (True, False):
        for name in names:
            # A name may include a subfolder.
            inside, last = (folder / name).parent, Path(name).name
            if not inside.is_dir():
                continue
            # A sample or another version: the name has an infix between the official stem and suffix.
            stem, dot, ending = last.rpartition(".")
            matching = _matching(_listed(inside), last if official else f"{stem}.*{dot}{ending}")
            if matching:
                path = inside / _only(inside, matching)
                return SplitFile(path=path, named=last, official=official, comparable="*" not in name)
    return None


def _listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _matching(filenames: Sequence[str], name: str) -> list[str]:
    return [file for file in filenames if any(fnmatchcase(file, name + packed) for packed in ENDINGS)]


def _only(folder: Path, names: Sequence[str]) -> str:
    # A compressed file beside its own decompressed copy is no ambiguity.
    plain = {name.removesuffix(packed) for name in names for packed in COMPRESSED if name.endswith(packed)}
    plain |= {name for name in names if not name.endswith(COMPRESSED)}
    if len(plain) > 1:
        raise InputError(f"{folder} must have one file for a split, but it has {' and '.join(names)}.")
    return min(names, key=len)


Record = Mapping[str, Any]

_SENTENCE = re.compile(r'([0-9]+)\t"?(.*?)"?\s*')


@dataclass(slots=True, kw_only=True)
class Records:
    """
    The records of a file, reread on each iteration, with the position of the current one.

    Parameters
    ----------
    path : Path
    format : str
    header : tuple of str
        Names of the columns of a table; empty if the first line has them.
    broken : str
        "refuse" or "skip" rows with a wrong number of columns.
    labels : Path, optional
        A file with the label of each record, one per line.
    label_column : str
        The column for these labels.
    skipped : int
        The number of broken rows skipped in the last iteration.
    """

    path: Path
    format: str
    header: tuple[str, ...] = ()
    broken: str = "refuse"
    labels: Path | None = None
    label_column: str = ""
    skipped: int = 0
    _lines: Lines | None = None

    def __iter__(self) -> Iterator[Record]:
        self.skipped = 0
        with opened(self.path) as lines:
            self._lines = lines
            records = READ[self.format](lines, self)
            yield from records if self.labels is None else _labeled(self.labels, self.label_column, records)

    def skip(self) -> None:
        """Count a broken row."""
        self.skipped += 1

    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current line."""
        if self._lines is None:
            return InputError(f"{self.path} must {must}, but {but}.")
        return self._lines.refuse(must, but)

    def lacks(self, column: str, record: Record) -> InputError:
        """Return the error about a column that is not in a record."""
        names = ", ".join(record)
        return self.refuse(f"have the column {column!r}", f"its columns are {names}")


def _labeled(path: Path, column: str, records: Iterator[Record]) -> Iterator[Record]:
    """Add the labels from a separate file."""
    if not path.is_file():
        raise InputError(f"{path.parent} must have {path.name} with the labels, but it has not.")
    with opened(path) as lines:
        labels = [line.strip() for line in lines if line.strip()]
    count = 0
    for count, record in enumerate(records, start=1):
        if count <= len(labels):
            yield {**record, column: labels[count - 1]}
    if count != len(labels):
        raise InputError(f"{path} must have a label for each of {count} examples, but it has {len(labels)}.")


def _table(rows: Iterator[list[str]], lines: Lines, records: Records) -> Iterator[Record]:
    skip = records.skip if records.broken == "skip" else None
    return named_rows(rows, list(records.header) or "yes", lines, skip)


def _squad(lines: Lines, records: Records) -> Iterator[Record]:
    try:
        document = json.loads("".join(lines.whole()))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{lines.name} must be JSON, but got: {problem}.") from problem
    try:
        for article in document["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = question.get("answers")
                    if answers is not None:
                        answers = {key: [a[key] for a in answers] for key in ("text", "answer_start")}
                    yield {
                        "id": str(question["id"]),
                        "question": question["question"],
                        "context": paragraph["context"],
                        "answers": answers,
                    }
    except (KeyError, TypeError, AttributeError) as problem:
        raise InputError(
            f"{lines.name} must have SQuAD's layout (data, paragraphs, qas, answers), but got: {problem}."
        ) from problem


def _conllu(lines: Lines, records: Records) -> Iterator[Record]:
    for sentence in read_conllu(lines, {"units": "words"}):
        yield {"id": sentence.id, "words": list(sentence.words or ()), **sentence.marks}


def _conll(lines: Lines, records: Records) -> Iterator[Record]:
    words: list[str] = []
    tags: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith("-DOCSTART-"):
            cells = re.split("[ \t]+", line.strip(" \t"))
            if len(cells) < 2:
                raise lines.refuse("have a word and its tag", f"got {line!r}")
            words.append(cells[0])
            tags.append(cells[-1])
        elif words:
            yield {"words": words, "tags": tags}
            words, tags = [], []
    if words:
        yield {"words": words, "tags": tags}


def _semeval(lines: Lines, records: Records) -> Iterator[Record]:
    current: dict[str, Any] | None = None
    for line in lines:
        match = _SENTENCE.fullmatch(line)
        if match:
            if current is not None:
                yield current
            current = {"sentence": match[2], "relation": None}
        elif line.strip() and not line.startswith("Comment"):
            if current is None or current["relation"] is not None:
                raise lines.refuse("be a numbered sentence, its relation or a comment", f"got {line!r}")
            current["relation"] = line.strip()
    if current is not None:
        yield current


READ: Mapping[str, Callable[[Lines, Records], Iterator[Record]]] = MappingProxyType(
    {
        "tsv": lambda lines, records: _table(split_tabs(lines, {}), lines, records),
        "csv": lambda lines, records: _table(split_quoted(lines, {"delimiter": ","}), lines, records),
        "jsonl": lambda lines, records: read_objects(lines),
        "squad": _squad,
        "conllu": _conllu,
        "conll": _conll,
        "semeval": _semeval,
        "text": lambda lines, records: ({"text": line} for line in lines),
    }
)
