"""Results on the terminal and in folders: tables with intervals, findings, files, figures or JSON."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..rounding import between
from .model_results import FILES_OF, TABLES_OF
from .show import MOST_COLUMNS, Screen, print_map

if TYPE_CHECKING:
    from ..findings.results import Curve, Result, SpanMap, X

# A span whose cost is not 0 by the band of all spans at once.
SURE = "*"


def write_result(screen: Screen, result: Any, out: Path | None) -> Any:
    """Note the warnings of a result, and write its files and figures; rows then name the new folder."""
    for sentence in result.warnings:
        screen.note(f"warning: {sentence}{'' if sentence.endswith('.') else '.'}")
    if out is None:
        return result
    if kind_of(result) in FILES_OF:
        result.save(out)
        FILES_OF[kind_of(result)](screen, result, out)
        return result
    again = (out / "result.json").is_file()
    written = ", ".join(path.name for path in result.save(out))
    save_figures = _figures_of(result)
    if save_figures is None:
        return replace(result, folder=out)
    from ..figures.earlier import remove_earlier

    with screen.working():
        drawn = save_figures(result, out / "figures")
    if again:
        # Figures of the result that was here before would be taken for those of this one.
        remove_earlier(out / "figures", drawn)
    screen.note(f"Written to {out}: {written} and {len(drawn)} figures.")
    return result


def kind_of(result: Any) -> str:
    """The verb of a result that is no `Result` of an experiment; empty for one that is."""
    return getattr(result, "kind", "")


def _figures_of(result: Any) -> Callable[[Any, Path], Sequence[Path]] | None:
    """The function that draws a result; None for one that has no figures."""
    from ..findings.record import Maps
    from ..findings.results import Result

    if isinstance(result, Maps):
        from ..figures.heatmap import save_figures as save_maps

        return save_maps
    if isinstance(result, Result):
        from ..figures.panels import save_figures as save_panels

        return save_panels
    return None


def print_result(screen: Screen, result: Any, out: Path | None = None) -> None:
    """Print a result as tables and findings; maps name the folder that holds what does not fit."""
    from ..findings.record import Maps
    from ..findings.results import Result

    if kind_of(result) in TABLES_OF:
        TABLES_OF[kind_of(result)](screen, result)
        return
    if isinstance(result, Maps):
        for similarity_map in result.values():
            print_map(similarity_map, out)
    elif isinstance(result, Result):
        for head, rows, notes in (*_curve_tables(result), *_saving_tables(result), *_span_tables(result)):
            screen.rows(head, rows, [*notes, ""])
    screen.sentences(result.findings)


Table = tuple[list[str], list[list[str]], list[str]]


def _curve_tables(result: Result) -> Iterable[Table]:
    from ..figures.curves import basis, by_panel
    from ..findings.words import score_label

    # They are told once, below the first table.
    lines = [f"{name}: {value:.4f}." for name, value in result.lines.items() if math.isfinite(value)]
    for differences in (False, True):
        found = [one for one in _called_all(result) if (one.role == "difference") == differences]
        for (axis, _), curves in by_panel(result, found).items():
            scale = result.points if differences else 1.0
            score = score_label(result.score)
            unit = "points" if result.points == 100 else score
            what = f"differences in {unit}" if differences else score
            places = _places(axis, curves)
            cells = [[_at(one, x, scale, signed=differences) for one in curves] for x in places]
            head = [axis, *(one.label for one in curves)]
            rows = [[str(x), *row] for x, row in zip(places, cells, strict=True)]
            if not _fits([head, *rows]):
                head = [axis, "", what]
                rows = [
                    [str(x), one.label, text]
                    for x, row in zip(places, cells, strict=True)
                    for one, text in zip(curves, row, strict=True)
                    if text
                ]
            said = f"{what[:1].upper()}{what[1:]} on {_where(result)}: {_words(basis(curves))}."
            yield head, rows, [said, *lines]
            lines = []


def _called_all(result: Result) -> Iterable[Curve]:
    """The curves, where the one value of a mix of all layers stands at no layer."""
    return [replace(one, x=("all",)) if one.arm == "mix" else one for one in result.curves]


def _places(axis: str, curves: Sequence[Curve]) -> list[X]:
    """Where any curve has a value; layers from the bottom, whichever curve comes first, and then words."""
    found = list(dict.fromkeys(x for one in curves for x in one.x))
    if axis != "layer":
        return found
    numbers = sorted(x for x in found if not isinstance(x, str))
    return [*numbers, *(x for x in found if isinstance(x, str))]


def _where(result: Result) -> str:
    """The task and its split; one of them, where the other says it again."""
    if not result.split or result.split.startswith(result.task):
        return result.split or result.task
    return f"{result.task}/{result.split}"


def _words(basis: str) -> str:
    """What a figure rests on, as a table has it: intervals instead of bars."""
    kept = [part for part in basis.split("; ") if not part.startswith(("shaded", "thin bars"))]
    return "; ".join(kept).replace("thick bars:", "intervals:").replace("× undefined", "-: undefined")


def _at(one: Curve, x: object, scale: float, *, signed: bool) -> str:
    """The value of a curve at a point with its interval; empty where the curve has no such point."""
    if x not in one.x:
        return ""
    place = one.x.index(x)  # pyright: ignore[reportArgumentType]
    value, low, high = (scale * float(v[place]) for v in (one.values, one.low, one.high))
    if math.isnan(value):
        return "-"
    # Points of 100 need two digits, and a similarity four.
    digits = 2 if signed and scale == 100 else 4 if signed or abs(value) < 100 else 1
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if math.isnan(low) or math.isnan(high):
        return text
    return f"{text} {between(low, high, digits, signed=signed)}"


def _fits(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table is no wider than the terminal; elsewhere lines have no end."""
    if not sys.stdout.isatty():
        return True
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return sum(widths) + 2 * len(widths) <= shutil.get_terminal_size().columns


def _saving_tables(result: Result) -> Iterable[Table]:
    from ..figures.savings import savings_of

    found = savings_of(result)
    rows = [
        [
            str(one["blocks"]),
            part,
            *(f"{one[f'{name}_ratio']:.2f}" for name in ("backward", "update", "memory")),
        ]
        for part, some in found.items()
        for one in some
        if one["blocks"]
    ]
    if rows:
        head = ["blocks frozen", "", "backward pass", "whole update", "memory"]
        yield head, rows, ["Time and memory of activations, relative to an update with nothing frozen."]


def _span_tables(result: Result) -> Iterable[Table]:
    from ..figures.spans import basis

    if not result.spans:
        return
    one, *others = result.spans
    unit = "points" if result.points == 100 else result.score
    notes = [f"Cost in {unit} of skipping blocks first to last on {_where(result)}."]
    kept = [part for part in basis(one, result.score).split("; ") if not part.startswith(("dot", "hatched"))]
    notes.append(f"{'; '.join(kept)}; {SURE}: not 0 by a {one.level * 100:g}% band of all spans at once.")
    if one.depth <= MOST_COLUMNS:
        head = ["first, last", *(str(last) for last in range(1, one.depth + 1))]
        rows = [
            [str(first), *(_cost(one, first, last, result.points) for last in range(1, one.depth + 1))]
            for first in range(1, one.depth + 1)
        ]
    else:
        head = ["block", "cost"]
        rows = [[str(k), _cost(one, k, k, result.points)] for k in range(1, one.depth + 1)]
        notes.append("Only single blocks are shown; --json and --out give all spans.")
    if others:
        notes.append(f"--json and --out also give: {'; '.join(other.name for other in others)}.")
    yield head, rows, notes


def _cost(one: SpanMap, first: int, last: int, points: float) -> str:
    from ..figures.spans import short

    if last < first:
        return ""
    at = first - 1, last - 1
    if not math.isfinite(one.values[at]):
        return "-"
    sure = one.band_low[at] > 0 or one.band_high[at] < 0
    return short(points * float(one.values[at])).replace("−", "-") + (SURE if sure else "")
