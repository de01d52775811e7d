"""Tables of results: score curves, costs of spans, scores of models, and tests of cuts."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..findings.words import coverage
from ..rounding import at_least, at_most, between
from .maps import MOST_COLUMNS
from .show import Columns, Table, table

if TYPE_CHECKING:
    from ..findings.results import Curve, Result, SpanMap, X
    from ..inference.estimate import Estimate
    from ..pruning.pruning import Pruned
    from ..training.evaluation import Evaluation
    from ..training.tuned import TunedRuns

# A span whose cost is not 0 by the band of all spans at once.
SURE = "*"


def tables_of(result: Any) -> Iterable[Table]:
    """The tables of a result; none for maps, which are printed in their own way."""
    from ..findings.results import Result

    if isinstance(result, Result):
        return (*_curve_tables(result), *_saving_tables(result), *_span_tables(result))
    make = TABLES.get(getattr(result, "kind", ""))
    return () if make is None else make(result)


def _curve_tables(result: Result) -> Iterable[Table]:
    from ..figures.curves import basis, by_panel
    from ..findings.words import score_label

    # They stand once, below the first table.
    lines = [f"{name}: {value:.4f}." for name, value in result.lines.items() if math.isfinite(value)]
    # The one value of a mix of all layers stands at no layer.
    curves = [replace(curve, x=("all",)) if curve.arm == "mix" else curve for curve in result.curves]
    score = score_label(result.score)
    for differences in (False, True):
        selected = [curve for curve in curves if (curve.role == "difference") == differences]
        scale = result.points if differences else 1.0
        what = f"differences in {_unit(result, score)}" if differences else score
        for (axis, _), panel in by_panel(result, selected).items():
            places = _places(axis, panel)
            cells = [[_at(curve, x, scale, signed=differences) for curve in panel] for x in places]
            head = [axis, *(curve.label for curve in panel)]
            rows = [[str(x), *row] for x, row in zip(places, cells, strict=True)]
            if not _fits([head, *rows]):
                rows = [
                    [row[0], name, text]
                    for row in rows
                    for name, text in zip(head[1:], row[1:], strict=True)
                    if text
                ]
                head = [axis, "", what]
            caption = f"{what[:1].upper()}{what[1:]} on {_where(result)}: {basis(panel, table=True)}."
            yield head, rows, [caption, *lines]
            lines = []


def _unit(result: Result, score: str) -> str:
    return "points" if result.points == 100 else score


def _places(axis: str, curves: Sequence[Curve]) -> list[X]:
    """Where any curve has a value; layers from the bottom, whichever curve comes first, and then words."""
    places = list(dict.fromkeys(x for curve in curves for x in curve.x))
    if axis != "layer":
        return places
    return sorted(places, key=lambda x: (isinstance(x, str), 0 if isinstance(x, str) else x))


def _where(result: Result) -> str:
    """The task and its split; one of them, where the other contains it."""
    if not result.split or result.split.startswith(result.task):
        return result.split or result.task
    return f"{result.task}/{result.split}"


def _at(curve: Curve, x: object, scale: float, *, signed: bool) -> str:
    """The value of a curve at a point with its interval; empty where the curve has no such point."""
    if x not in curve.x:
        return ""
    place = curve.x.index(x)  # pyright: ignore[reportArgumentType]
    value, low, high = (scale * float(v[place]) for v in (curve.values, curve.low, curve.high))
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

    records = [
        {**record, "part": part}
        for part, records in savings_of(result).items()
        for record in records
        if record["blocks"]
    ]
    columns: Columns = {
        "blocks frozen": "blocks",
        "": "part",
        "backward pass": lambda record: f"{record['backward_ratio']:.2f}",
        "whole update": lambda record: f"{record['update_ratio']:.2f}",
        "memory": lambda record: f"{record['memory_ratio']:.2f}",
    }
    if records:
        note = "Time and memory of activations, relative to an update with nothing frozen."
        yield table(records, columns, [note])


def _span_tables(result: Result) -> Iterable[Table]:
    from ..figures.spans import basis

    if not result.spans:
        return
    spans, *others = result.spans
    depth = spans.depth
    notes = [
        f"Cost in {_unit(result, result.score)} of skipping blocks first to last on {_where(result)}.",
        f"{basis(spans, result.score, table=True)}; {SURE}: not 0 by a {coverage(spans.level)} band of "
        "all spans at once.",
    ]
    blocks = range(1, depth + 1)
    if depth <= MOST_COLUMNS:
        head = ["first, last", *map(str, blocks)]
        rows = [
            [str(first), *(_cost(spans, first, last, result.points) for last in blocks)] for first in blocks
        ]
    else:
        head = ["block", "cost"]
        rows = [[str(block), _cost(spans, block, block, result.points)] for block in blocks]
        notes.append("Only single blocks are shown; --json and --out give all spans.")
    if others:
        notes.append(f"--json and --out also give: {'; '.join(other.name for other in others)}.")
    yield head, rows, notes


def _cost(spans: SpanMap, first: int, last: int, points: float) -> str:
    from ..figures.spans import short

    if last < first:
        return ""
    at = first - 1, last - 1
    if not math.isfinite(spans.values[at]):
        return "-"
    clear = spans.band_low[at] > 0 or spans.band_high[at] < 0
    return short(points * float(spans.values[at])).replace("−", "-") + (SURE if clear else "")


def _tuned(result: TunedRuns) -> Iterable[Table]:
    """The scores of every seed."""

    columns: Columns = {
        "seed": lambda run: str(run.seeds.order),
        **{n: lambda run, n=n: _interval(run.scores[n]) for n in result.runs[0].scores},
        "updates": lambda run: f"{run.course['updates']:,}",
        "seconds": lambda run: f"{run.course['seconds']:.0f}",
        "failure": lambda run: run.failure or "",
    }
    baseline = ", ".join(f"{name} {value:.4f}" for name, value in result.runs[0].evaluation.baseline.items())
    notes = [f"Majority baseline: {baseline}."] if baseline else []
    notes += [f"Seed {run.seeds.order}: {run.folder}" for run in result.runs]
    yield table(result.runs, columns, notes)


def _evaluated(result: Evaluation) -> Iterable[Table]:
    """Every score with its interval and the majority baseline."""
    columns: Columns = {
        "score": lambda name: name,
        "value": lambda name: f"{result.scores[name].value:.4f}",
        f"{coverage(result.level)} interval over examples": lambda name: _ends(result.scores[name]),
        "majority baseline": lambda name: f"{result.baseline[name]:.4f}" if name in result.baseline else "",
    }
    examples = f"{len(result.ids):,} examples of {result.task}/{result.split}."
    yield table(result.scores, columns, [examples])


def _pruned(result: Pruned) -> Iterable[Table]:
    """The tested sequence of cuts, and times of both models."""
    from ..interventions.declare import named

    columns: Columns = {
        "without": lambda step: named(result.without(step.candidate.what)),
        "cost (choosing)": lambda step: f"{step.candidate.cost:.2f}",
        "drop (certifying)": lambda step: f"{step.found.drop:.2f}",
        "at most": lambda step: at_most(step.found.upper),
        "p": lambda step: f"{step.found.p:.3g}",
        f"margin {result.max_drop:g}": lambda step: "safe" if step.found.safe else "not shown to be safe",
    }
    scored = f"{result.scored} cuts were scored: {result.tried}."
    yield table(result.steps, columns, [scored, f"{result.chosen_on}. {result.certified_on}."])
    if result.speed is not None:
        yield ["", "before", "after", "ratio [range]"], result.speed.table(), []


# By the kind of a result that is no `Result`.
TABLES: Mapping[str, Callable[[Any], Iterable[Table]]] = MappingProxyType(
    {"finetune": _tuned, "evaluate": _evaluated, "prune": _pruned}
)


def _interval(score: Estimate) -> str:
    ends = "" if score.low is None or score.high is None else f" {between(score.low, score.high, 4)}"
    return f"{score.value:.4f}{ends}"


def _ends(score: Estimate) -> str:
    if score.low is None or score.high is None:
        return ""
    return f"{at_least(score.low, 4)} to {at_most(score.high, 4)}"
