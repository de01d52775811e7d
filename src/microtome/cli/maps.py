"""Similarity maps on a terminal: their values where they fit, and the pairs of layers that matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..findings.words import coverage
from .show import Screen, console, plain, table

if TYPE_CHECKING:
    from rich.console import Console

    from ..findings.maps import Map

Pair = tuple[int, int]
# A map with more columns is summarized.
MOST_COLUMNS = 14
# Five colors of viridis from low to high, and what is readable on each.
SHADES = (
    ("#440154", "white"),
    ("#3b528b", "white"),
    ("#21918c", "white"),
    ("#5ec962", "black"),
    ("#fde725", "black"),
)


def print_map(similarity_map: Map, out: Path | None = None) -> None:
    """
    Print a map: its values where they fit, and the pairs of layers that matter with their intervals.

    Parameters
    ----------
    similarity_map : Map
    out : Path, optional
        Where the whole of it was written.
    """
    from rich.text import Text

    from ..findings.methods import cite, declared, null_range

    terminal, size = console(), similarity_map.values.size
    title = f"{similarity_map.measure}: {similarity_map.estimator}, n = {similarity_map.n:,} rows"
    terminal.print(Text(plain(title), style="bold"))
    complete = size > 1 and _print_matrix(terminal, similarity_map)
    if not complete or similarity_map.low is not None or similarity_map.p_map is not None:
        _print_pairs(similarity_map, best=not complete)
    lines = []
    if null := null_range(similarity_map):
        how = "that is" if similarity_map.p_map is not None else "no z:"
        note = f"; {how} {similarity_map.null_note}" if similarity_map.null_note else ""
        lines.append(f"Unrelated rows would give {null}{note}.")
    else:
        lines.append("What unrelated rows would give is not known; --permutations finds it.")
    reasons = [plain(reason) for row in similarity_map.reasons for reason in row if reason is not None]
    if unique := [reason for reason in dict.fromkeys(reasons) if reason]:
        lines.append(f"{len(reasons):,} of {size:,} cells are undefined: {'; '.join(unique)}.")
    if not complete and size > 1:
        place = f"in {out / 'result.json'}" if out else "printed with --json, or written with --out"
        lines.append(f"All {size:,} cells are {place}.")
    if choice := declared(similarity_map):
        lines.append(f"Source: {'; '.join(cite(key) for key in choice.measure.citations)}.")
    Screen().sentences([*lines, ""])


def _print_matrix(terminal: Console, similarity_map: Map) -> bool:
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
        if max(map(len, rows)) + sum(w + 1 for w in widths) <= terminal.width:
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
        terminal.print(Text(f"rows: {left or 'left'}; columns: {right or 'right'}", style="dim"))
    terminal.print(table)
    return True


def _shade(value: float) -> str:
    if value != value:
        return "dim"
    back, front = SHADES[min(max(int(value * len(SHADES)), 0), len(SHADES) - 1)]
    return f"{front} on {back}"


def chosen_pairs(similarity_map: Map) -> tuple[str, list[Pair]]:
    """
    Choose the pairs of layers that a reader looks for first, and say which they are.

    Each layer of the first model with the same layer of the others in a map of several models, neighbors in
    a map of a stack with itself, layers of equal number in a square map, and else the best match of each
    left layer.
    """
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


def _print_pairs(similarity_map: Map, *, best: bool) -> None:
    from ..findings.words import between, number

    what, pairs = chosen_pairs(similarity_map)
    left, right, low, high = (getattr(similarity_map, name) for name in ("left", "right", "low", "high"))
    filled = np.where(np.isfinite(similarity_map.values), similarity_map.values, -np.inf)

    def defined(write: Callable[[Pair], str]) -> Callable[[Pair], str]:
        """Of an undefined cell, the value alone is shown."""
        return lambda pair: "" if similarity_map.reasons[pair[0]][pair[1]] else write(pair)

    def of(array: np.ndarray, write: Callable[[float], str]) -> Callable[[Pair], str]:
        return defined(lambda pair: write(float(array[pair])))

    columns: dict[str, Callable[[Pair], str]] = {
        what: lambda pair: plain(left[pair[0]]),
        "": lambda pair: plain(right[pair[1]]),
        "value": lambda pair: number(float(similarity_map.values[pair]), 3),
    }
    if low is not None and high is not None:
        head = f"{coverage(similarity_map.level or 0.95)} interval ({similarity_map.unit})"
        columns[head] = defined(lambda pair: between(float(low[pair]), float(high[pair]), 3))
    for name, array, write in (
        ("unrelated", similarity_map.null_mean, lambda value: number(value, 3)),
        ("z", similarity_map.z, lambda value: number(value, 1)),
        ("p", similarity_map.p, _p),
        ("p in the map", similarity_map.p_map, _p),
    ):
        if array is not None and np.isfinite(array).any():
            columns[name] = of(array, write)
    if best and what == "matching layers":
        tops = filled.max(axis=1)
        columns["best match"] = lambda pair: (
            plain(right[int(filled[pair[0]].argmax())]) if np.isfinite(tops[pair[0]]) else ""
        )
        columns["its value"] = lambda pair: number(float(top), 3) if np.isfinite(top := tops[pair[0]]) else ""
    numbers = set(columns) - {what, "", "best match"}
    Screen().rows(*table(pairs, columns), right=numbers)


def _p(value: float) -> str:
    from ..findings.words import number

    return "< 0.001" if value < 0.001 else number(value, 3)
