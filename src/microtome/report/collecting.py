"""What lies below a folder, and what does it say? Every result of it, as one document."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import InputError, MicrotomeError, check_plain, must
from ..findings.maps import Maps
from ..findings.record import FORMAT as MAPS
from ..findings.record import from_json
from ..findings.results import RESULT, Result, from_document, plain
from ..version import VERSION
from .courses import course_parts
from .panels import map_parts
from .sections import Part, result_parts
from .tables import evaluate_parts, finetune_parts, more_parts, prune_parts

FORMAT = "microtome/report/1"
FINETUNE, EVALUATE, PRUNE = "microtome/finetune/1", "microtome/evaluate/1", "microtome/prune/1"
# In which order a reader meets the kinds of results; others come last.
ORDER = (
    *(FINETUNE, EVALUATE, MAPS),
    *(f"microtome/{name}/1" for name in ("truncation", "skipping", "freezing", "reinitialization")),
    *(f"microtome/{name}/1" for name in ("permutation", "dropping")),
    PRUNE,
)
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError, RecursionError)
# A number such as 1e25 in the place of a count.
_UNREADABLE += (ArithmeticError, MemoryError)
# How a finding is marked; of those of other experiments it is not known here whether they were shown.
SURE: Mapping[bool | None, str] = MappingProxyType({True: "shown", None: "said", False: "open"})
BEHIND = "It lies behind a link, and links are not followed."
# Characters of a value among the facts of a file.
LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    One file of results.

    Parameters
    ----------
    file : str
        Relative to the folder, with slashes.
    format : str
        Empty where it is not known.
    found : Maps, Result, mapping or None
        What it holds; None where it could not be read.
    problem : str
        Why, in one sentence.
    """

    file: str
    format: str
    found: Any = None
    problem: str = ""


def collect(folder: str | os.PathLike[str], *, made: str = "") -> dict[str, Any]:
    """
    Gather every result below a folder into one document: findings, sections, and where they came from.

    Parameters
    ----------
    folder : path
        Every `result.json` below it is read, at any depth; links are not followed.
    made : str
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
    sources += [Source(file=file, format="", problem=BEHIND) for file in links]
    if not any(source.found is not None for source in sources):
        why = f" ({sources[0].file}: {sources[0].problem})" if sources else ""
        raise InputError(
            f"the folder of a report must hold at least one {RESULT} that can be read, but "
            f"{place} has none{why}."
        )
    sources.sort(key=lambda one: (_rank(one.format), one.file))
    labels = _labels(sources)
    findings, sections, provenance = [], [], []
    for source in sources:
        parts: list[Part] = []
        problem = source.problem
        if source.found is not None:
            try:
                parts = _parts(source, labels[source.file])
            except (MicrotomeError, *_UNREADABLE) as error:
                problem = f"It could not be read: {error!r}."
        for part in parts:
            name = f"s{len(sections) + 1}"
            sections.append({"id": name, **part.document})
            for one in part.said:
                if not one.headline:
                    continue
                told = {"text": one.text, "section": name, "layers": list(one.layers), "sure": SURE[one.sure]}
                findings.append((source.format, told))
        try:
            provenance.append(_provenance(source, problem))
        except _UNREADABLE:
            told = [["problem", problem or "It does not tell how it was made."]]
            provenance.append({"file": source.file, "format": source.format, "command": "", "facts": told})
    return plain(
        {
            "format": FORMAT,
            "title": f"Report on {place.resolve().name or 'results'}",
            "version": VERSION,
            "made": made,
            "findings": _in_turns(findings),
            "sections": sections,
            "provenance": provenance,
        }
    )


def _in_turns(findings: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The first of each kind of result, then the second of each; of each kind, what is shown comes first."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for kind, told in findings:
        kinds.setdefault(kind, []).append(told)
    for each in kinds.values():
        each.sort(key=lambda told: list(SURE.values()).index(told["sure"]))
    # A reader who stops early has met all kinds.
    return [told for turn in zip_longest(*kinds.values()) for told in turn if told is not None]


def _files(place: Path) -> tuple[list[str], list[str]]:
    """Every result below a folder, sorted: plain files, and those behind links, which may lie anywhere."""
    found, linked = [], []
    for here, folders, files in os.walk(place, followlinks=False):
        # Hidden folders are those of writers that are at work, or of tools.
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        if RESULT in files:
            (linked if (Path(here) / RESULT).is_symlink() else found).append(Path(here) / RESULT)
        links = [Path(here) / one / RESULT for one in folders if (Path(here) / one).is_symlink()]
        linked += [path for path in links if path.is_file()]
    both = [sorted(path.relative_to(place).as_posix() for path in paths) for paths in (found, linked)]
    return both[0], both[1]


def _read(place: Path, file: str) -> Source:
    try:
        check_plain(place / file)
        content = (place / file).read_bytes()
        document = json.loads(content)
    except _UNREADABLE as error:
        return Source(file=file, format="", problem=f"It is not readable as JSON: {error}.")
    kind = str(document.get("format", "")) if isinstance(document, dict) else ""
    try:
        if kind in (FINETUNE, EVALUATE, PRUNE):
            return Source(file=file, format=kind, found=document)
        if kind == MAPS:
            maps = from_json(content)
            return Source(
                file=file, format=kind, found=maps or None, problem="" if maps else "It holds no map."
            )
        if kind.startswith("microtome/") and "experiment" in document:
            # The long table beside it is for those who compute; a page shows what the document holds.
            return Source(file=file, format=kind, found=from_document(document))
    except (MicrotomeError, *_UNREADABLE) as error:
        return Source(file=file, format=kind, problem=f"It could not be read: {error}")
    told = f"Its format, {kind!r}, is not one that a report knows." if kind else "It names no format."
    return Source(file=file, format=kind, problem=told)


def _rank(kind: str) -> int:
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


def _about(source: Source) -> tuple[str, ...]:
    """What a result is about: two of the same need something to tell them apart."""
    found = source.found
    if isinstance(found, Maps):
        first = next(iter(found.values()))
        return (MAPS, *map(str, first.left), "", *map(str, first.right))
    if isinstance(found, Result):
        return (source.format, str(found.model), str(found.task))
    if isinstance(found, Mapping):
        runs = found.get("runs") or [{}]
        told = found if source.format != FINETUNE else runs[0]
        return (source.format, str(told.get("name", told.get("model"))), str(told.get("task")))
    return (source.file,)


def _labels(sources: Iterable[Source]) -> dict[str, str]:
    """The folder of each result that another one shares its model and task with."""
    about = {}
    for source in sources:
        try:
            about[source.file] = _about(source)
        except _UNREADABLE:
            about[source.file] = (source.file,)
    counts = Counter(about.values())
    return {
        file: f" ({Path(file).parent.as_posix()})" if counts[what] > 1 else "" for file, what in about.items()
    }


def _parts(source: Source, label: str) -> list[Part]:
    found, file = source.found, source.file
    if isinstance(found, Maps):
        return map_parts(found, file, label)
    if isinstance(found, Result):
        return [
            *result_parts(found, file, label),
            *course_parts(found, file, label),
            *more_parts(found, file, label),
        ]
    makers = {FINETUNE: finetune_parts, EVALUATE: evaluate_parts, PRUNE: prune_parts}
    return makers[source.format](found, file, label)


def _provenance(source: Source, problem: str) -> dict[str, Any]:
    told: Mapping[str, Any] = {}
    found = source.found
    if isinstance(found, Maps):
        told = next(iter(found.values())).provenance
    elif isinstance(found, Result):
        told = {**found.provenance, **({"warnings": list(found.warnings)} if found.warnings else {})}
    elif isinstance(found, Mapping):
        run = (found.get("runs") or [{}])[0]
        told = found.get("provenance") or {
            name: run[name] for name in ("microtome", "device", "precision", "recipe_values") if name in run
        }
    facts = [[name, _short(value)] for name, value in told.items() if name != "command"]
    if problem:
        facts.insert(0, ["problem", problem])
    command = told.get("command", "")
    return {"file": source.file, "format": source.format, "command": str(command or ""), "facts": facts}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
