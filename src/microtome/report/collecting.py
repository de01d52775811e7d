"""Collection of all results below a folder into one document."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import InputError, MicrotomeError, check_plain, must
from ..experiments.table import EXPERIMENTS
from ..findings.record import FORMAT as MAPS
from ..findings.record import Maps, from_json
from ..findings.results import Result, from_document, plain
from ..reading import names_apart
from ..store.outfolder import RESULT
from ..version import VERSION
from .courses import course_parts
from .maps import map_parts
from .sections import Section, result_parts
from .tables import evaluate_parts, finetune_parts, more_parts, prune_parts

FORMAT = "microtome/report/1"
# Results that are read as documents, and what makes sections of them.
DOCUMENTS: Mapping[str, Callable[[Mapping[str, Any], str, str], list[Section]]] = MappingProxyType(
    {
        "microtome/finetune/1": finetune_parts,
        "microtome/evaluate/1": evaluate_parts,
        "microtome/prune/1": prune_parts,
    }
)
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError, RecursionError)
# A number such as 1e25 in the place of a count, and a claim without its estimate.
_UNREADABLE += (ArithmeticError, MemoryError, AssertionError)
# How findings are marked, in the order in which they are listed.
SURE = ("shown", "note", "inconclusive")
BEHIND = "It lies behind a link, and links are not followed."
# Characters of a value among the facts of a file.
LONGEST = 200
# Versions, which stand in one row of the provenance.
SOFTWARE = ("microtome", "python", "torch", "transformers", "numpy", "scipy")
HASH = re.compile(r"[0-9a-f]{16,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """
    One file of results.

    Parameters
    ----------
    file : str
        Relative to the folder, with slashes.
    format : str
        Empty where it is not known.
    content : Maps, Result, mapping or None
        What it holds; None where it could not be read.
    problem : str
        Why, in one sentence.
    """

    file: str
    format: str
    content: Any = None
    problem: str = ""


def collect(folder: str | os.PathLike[str], *, date: str = "") -> dict[str, Any]:
    """
    Gather every result below a folder into one document: findings, sections, and where they came from.

    Parameters
    ----------
    folder : path
        Every `result.json` below it is read, at any depth; links are not followed.
    date : str
        The date, such as "2026-01-31".

    Returns
    -------
    dict
        Of the format "microtome/report/1", as plain data that strict JSON can hold. A file that cannot be
        read is named in the provenance with the reason, and the rest goes on.

    Raises
    ------
    InputError
        Where there is no result at all.
    """
    place = Path(folder)
    if not place.is_dir():
        raise must("the folder of a report", "a folder with results", str(folder))
    files, links = _files(place)
    sources = [_read(place, file) for file in files]
    sources += [ResultFile(file=file, format="", problem=BEHIND) for file in links]
    if not any(source.content is not None for source in sources):
        why = f" ({sources[0].file}: {sources[0].problem})" if sources else ""
        raise InputError(
            f"the folder of a report must hold at least one {RESULT} that can be read, but "
            f"{place} has none{why}."
        )
    order = [f"microtome/{entry.name}/1" for entry in EXPERIMENTS.values()]
    sources.sort(
        key=lambda source: (order.index(source.format) if source.format in order else len(order), source.file)
    )
    labels = _labels(sources)
    findings, sections, provenance = [], [], []
    for source in sources:
        parts: list[Section] = []
        problem = source.problem
        if source.content is not None:
            try:
                parts = _parts(source, labels[source.file])
            except (MicrotomeError, *_UNREADABLE) as error:
                problem = f"It could not be read: {error!r}."
        for part in parts:
            name = f"s{len(sections) + 1}"
            sections.append({"id": name, **part.document})
            for statement in part.statements:
                if not statement.top:
                    continue
                about = f"{statement.about}: " if statement.about else ""
                entry = {
                    "text": f"{about}{statement.text}",
                    "evidence": statement.evidence,
                    "section": name,
                    "layers": list(statement.layers),
                    "sure": statement.sure,
                }
                findings.append((source.format, entry))
        try:
            provenance.append(_provenance(source, problem))
        except _UNREADABLE:
            entry = [["problem", problem or "It does not say how it was made."]]
            provenance.append({"file": source.file, "format": source.format, "command": "", "facts": entry})
    return plain(
        {
            "format": FORMAT,
            "title": f"Report on {place.resolve().name or 'results'}",
            "version": VERSION,
            "made": date,
            "findings": in_turns(findings),
            "sections": sections,
            "provenance": provenance,
        }
    )


def in_turns(findings: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The first of each kind of result, then the second of each; of each kind, what is shown comes first."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for kind, finding in findings:
        kinds.setdefault(kind, []).append(finding)
    for group in kinds.values():
        group.sort(key=lambda finding: SURE.index(finding["sure"]))
    # A reader who stops early has met all kinds.
    return [finding for turn in zip_longest(*kinds.values()) for finding in turn if finding is not None]


def _files(place: Path) -> tuple[list[str], list[str]]:
    """Every result below a folder, sorted: plain files, and those behind links, which may lie anywhere."""
    plain_files, linked = [], []
    for current, folders, files in os.walk(place, followlinks=False):
        # Hidden folders are those of writers that are at work, or of tools.
        folders[:] = sorted(folder_name for folder_name in folders if not folder_name.startswith("."))
        if RESULT in files:
            (linked if (Path(current) / RESULT).is_symlink() else plain_files).append(Path(current) / RESULT)
        links = [
            Path(current) / folder_name / RESULT
            for folder_name in folders
            if (Path(current) / folder_name).is_symlink()
        ]
        linked += [path for path in links if path.is_file()]
    lists = [sorted(path.relative_to(place).as_posix() for path in paths) for paths in (plain_files, linked)]
    return lists[0], lists[1]


def _read(place: Path, file: str) -> ResultFile:
    try:
        check_plain(place / file)
        content = (place / file).read_bytes()
        document = json.loads(content)
    except _UNREADABLE as error:
        return ResultFile(file=file, format="", problem=f"It is not readable as JSON: {error}.")
    kind = str(document.get("format", "")) if isinstance(document, dict) else ""
    try:
        if kind in DOCUMENTS:
            return ResultFile(file=file, format=kind, content=document)
        if kind == MAPS:
            maps = from_json(content)
            return ResultFile(
                file=file, format=kind, content=maps or None, problem="" if maps else "It holds no map."
            )
        if kind.startswith("microtome/") and "experiment" in document:
            # The long table beside it is for those who compute; a page shows what the document holds.
            return ResultFile(file=file, format=kind, content=from_document(document))
    except (MicrotomeError, *_UNREADABLE) as error:
        return ResultFile(file=file, format=kind, problem=f"It could not be read: {error}")
    problem = f"Its format, {kind!r}, is not one that a report knows." if kind else "It names no format."
    return ResultFile(file=file, format=kind, problem=problem)


def _about(source: ResultFile) -> tuple[str, ...]:
    """What a result is about: two of the same need something to tell them apart."""
    content = source.content
    if isinstance(content, Maps):
        first = next(iter(content.values()))
        return (MAPS, *map(str, first.left), "", *map(str, first.right))
    if isinstance(content, Result):
        return (source.format, str(content.model), str(content.task))
    if isinstance(content, Mapping):
        record = (content.get("runs") or [content])[0]
        return (source.format, str(record.get("name", record.get("model"))), str(record.get("task")))
    return (source.file,)


def _labels(sources: Iterable[ResultFile]) -> dict[str, str]:
    """The shortest name of the folder of each result that another one shares its model and task with."""
    about = {}
    for source in sources:
        try:
            about[source.file] = _about(source)
        except _UNREADABLE:
            about[source.file] = (source.file,)
    counts = Counter(about.values())
    labels = dict.fromkeys(about, "")
    for what in (what for what, count in counts.items() if count > 1):
        same = [file for file, other in about.items() if other == what]
        folders = names_apart([Path(file).parent.parts or (".",) for file in same])
        labels |= {file: f" ({folder})" for file, folder in zip(same, folders, strict=True)}
    return labels


def _parts(source: ResultFile, label: str) -> list[Section]:
    content, file = source.content, source.file
    if isinstance(content, Maps):
        return map_parts(content, file, label)
    if isinstance(content, Result):
        return [
            *result_parts(content, file, label),
            *course_parts(content, file, label),
            *more_parts(content, file, label),
        ]
    return DOCUMENTS[source.format](content, file, label)


def _provenance(source: ResultFile, problem: str) -> dict[str, Any]:
    record: Mapping[str, Any] = {}
    content = source.content
    if isinstance(content, Maps):
        record = next(iter(content.values())).provenance
    elif isinstance(content, Result):
        record = {**content.provenance, **({"warnings": list(content.warnings)} if content.warnings else {})}
    elif isinstance(content, Mapping):
        record = content.get("provenance") or {}
    facts = [["problem", problem]] if problem else []
    facts += _facts(record)
    command = record.get("command", "")
    return {"file": source.file, "format": source.format, "command": str(command or ""), "facts": facts}


def _facts(record: Mapping[str, Any]) -> list[list[str]]:
    """
    Write provenance as names and short texts; `result.json` has all of it.

    Hashes are left out, and options where the command has them.
    """
    left_out = {*SOFTWARE, "command", *(["options"] if record.get("command") else [])}
    facts = [[name, _text(value)] for name, value in record.items() if name not in left_out]
    software = ", ".join(f"{name} {record[name]}" for name in SOFTWARE if record.get(name))
    return [[name.replace("_", " "), text] for name, text in (*facts, ["software", software]) if text]


def _text(value: Any) -> str:
    """A value of a provenance in a few words; empty for hashes and for nothing."""
    if isinstance(value, Mapping):
        parts = {str(name): _text(item) for name, item in value.items() if name != "name"}
        texts = [f"{name.replace('_', ' ')} {text}" for name, text in parts.items() if text]
        if "name" in value:
            return str(value["name"]) + (f" ({parts['source']})" if parts.get("source") else "")
        return ", ".join(texts) or ", ".join(parts)
    if isinstance(value, list | tuple):
        texts = dict.fromkeys(text for text in map(_text, value) if text)
        return ("; " if any(" " in text for text in texts) else ", ").join(texts)
    if value is None or HASH.fullmatch(str(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
