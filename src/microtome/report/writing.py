"""The page of a report, in one file that needs nothing else: style, script and numbers."""

from __future__ import annotations

import base64
import datetime
import gzip
import html
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..errors import InputError, must, unknown
from ..store.files import write_whole
from .collecting import collect

FORMAT = "microtome/report/1"
# How a page names its maker; those of earlier versions only name their format.
MARKS = (b'<meta name="generator" content="microtome">', f'"format":"{FORMAT}"'.encode())
PAGE = "report.html"
KINDS = ("map", "curves", "spans", "scores", "lines")
# Names of elements of the page itself.
RESERVED = (
    *("cell", "contents", "document", "findings", "hatch", "main"),
    *("picked", "provenance", "readout", "theme", "tip", "top"),
)
MOST_BYTES = 5_000_000
# Digits of a number, fewer where the page would grow too large; the results themselves keep all.
DIGITS = (7, 5, 4, 3)
# Parts of the script in one scope: what a part does when it is read may use only the parts before it.
SCRIPTS = (
    "script/elements.js",
    "script/numbers.js",
    "script/scales.js",
    "script/pointing.js",
    "script/grid.js",
    "script/maps.js",
    "script/layers.js",
    "script/chart.js",
    "script/curves.js",
    "script/spans.js",
    "script/data.js",
    "script/sections.js",
    "page.js",
)
# Inside a script element these could end it, or end a line for an old parser.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_SLOT = re.compile(r"\{\{(title|style|coding|document|script|findings)\}\}")


def write_page(document: Mapping[str, Any], file: str | os.PathLike[str]) -> Path:
    """
    Write a report as one HTML file that needs no other file and no network.

    Parameters
    ----------
    document : mapping
        Of the format "microtome/report/1". Numbers keep 7 digits, or fewer where the page would exceed 5 MB;
        those that are not finite are written as null.
    file : path
        Its folder is made if it is not there.

    Returns
    -------
    Path
        Where the page is.
    """
    _check(document)
    path, page = Path(file), _fitting(document)
    if path.exists() and not _is_ours(path):
        raise InputError(
            f"a page must be a new file or replace an earlier report, but {path} is neither; name another."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise must("file", f"in a folder that can be made ({error})", str(path)) from error
    write_whole(path, [page])
    return path


def _is_ours(path: Path) -> bool:
    """Whether a file is a page that was written here, which names its maker."""
    try:
        return path.is_file() and any(mark in path.read_bytes() for mark in MARKS)
    except OSError:
        return False


def _check(document: Mapping[str, Any]) -> None:
    if document.get("format") != FORMAT:
        raise must("format of a report", f'"{FORMAT}"', document.get("format"))
    for part in ("title", "findings", "sections", "provenance"):
        if part not in document:
            raise InputError(f"a report must have {part}, but this one has none.")
    for section in document["sections"]:
        if section.get("kind") not in KINDS:
            raise unknown("kind of section", section.get("kind"), KINDS)
    twice = [name for name, count in Counter(s["id"] for s in document["sections"]).items() if count > 1]
    if twice:
        raise must("ids of sections", "different from one another", twice[0])
    for section in document["sections"]:
        if section["id"] in RESERVED:
            raise must("id of a section", f"none of the page's own ({', '.join(RESERVED)})", section["id"])


def _fitting(document: Mapping[str, Any]) -> bytes:
    """Make the page plain where it is small enough, else packed, and with fewer digits if it must be."""
    page = b""
    for digits in DIGITS:
        text = _json(document, digits)
        page = _page(document, text.translate(_UNSAFE))
        if len(page) > MOST_BYTES:
            page = _page(document, _packed(text), ' data-coding="gzip"')
        if len(page) <= MOST_BYTES:
            break
    return page


def _page(document: Mapping[str, Any], embedded: str, coding: str = "") -> bytes:
    """Fill the page's slots, in one pass, so that what is put in is never taken for a slot."""
    sentences = "".join(f"<li>{html.escape(str(finding['text']))}</li>" for finding in document["findings"])
    parts = {
        "title": html.escape(str(document["title"])),
        "style": _read("page.css"),
        "script": "".join(_read(name) for name in SCRIPTS),
        "document": embedded,
        "coding": coding,
        "findings": sentences,
    }
    return _SLOT.sub(lambda slot: parts[slot[1]], _read("page.html")).encode("utf-8", "replace")


def _read(name: str) -> str:
    return (files("microtome.report") / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Compress a text into letters; a browser unpacks a hundred sections in less than a second."""
    # Without the time of day the same report gives the same bytes.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def _json(document: Mapping[str, Any], digits: int) -> str:
    try:
        return json.dumps(_rounded(document, digits), ensure_ascii=False, separators=(",", ":"))
    except TypeError as error:
        raise InputError(f"a report must hold texts, numbers, lists and mappings, but: {error}.") from error


def _rounded(value: Any, digits: int) -> Any:
    """Round every number to some digits, and put null where a number is not finite."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _rounded(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item, digits) for item in value]
    return value


@checked
def report(
    folder: str | os.PathLike[str],
    file: str | os.PathLike[str] | None = None,
    *,
    date: str | None = None,
) -> Path:
    """
    Write one HTML page on every result below a folder, with what was found at the top.

    Parameters
    ----------
    folder : path
        What verbs wrote with `--out`, at any depth below it.
    file : path, optional
        The page; `report.html` in the folder when absent.
    date : str, optional
        The date on the page; today when absent.

    Returns
    -------
    Path
        Where the page is. It needs no other file and no network.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.random.default_rng(0).normal(size=(3, 100, 4))
    >>> _ = mt.similarity_matrix(layers).save("results/maps")
    >>> mt.report("results").name
    'report.html'
    """
    day = datetime.date.today().isoformat() if date is None else date
    document = collect(folder, date=day)
    return write_page(document, Path(folder) / PAGE if file is None else Path(file))
