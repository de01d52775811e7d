"""Tables as CSV, LaTeX and Markdown: of the results of a study, and the freezing table of Wu et al. 2020."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import must
from ...findings.maps import Map
from ...findings.record import Maps
from ...findings.results import Curve, Result, SpanMap
from ...findings.words import coverage, number, score_label
from ...store.files import as_written, write_whole
from .sheet import write_caption
from .sources import (
    LayoutSource,
    StudyResultsLike,
    TunedModel,
    model_labels,
    source_command,
    spread,
    tuned_models,
)

KINDS = ("csv", "tex", "md")
SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
SPECIAL |= {"^": r"\textasciicircum{}", "×": r"$\times$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$"}
_BOUNDS = ("low", "high", "band_low", "band_high")
WIDE = 8  # columns that fit into a page
INTERVALS = "{level} intervals in brackets"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """
    A table of texts and numbers.

    Parameters
    ----------
    columns : sequence of str
    rows : sequence of sequence of (str, int, float or None)
        As CSV has them; a number that is not finite is left empty.
    caption : str
    short : sequence of sequence of str, optional
        The rows of LaTeX and Markdown, where they differ, with `heads` as their columns.
    heads : sequence of str
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str
    heads: Sequence[str] = ()
    short: Sequence[Sequence[str]] = ()

    def csv(self) -> str:
        """The table as CSV, numbers with all digits."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if _is_empty(cell) else cell for cell in row] for row in self.rows])
        return text.getvalue()

    def tex(self) -> str:
        """The table as LaTeX with rules of the package booktabs."""
        heads, rows = self._shown()
        body = [" & ".join(map(_escape, row)) + r" \\" for row in rows]
        numeric = [all(not row[k] or row[k][0] in "-−0123456789–" for row in rows) for k in range(len(heads))]
        lines = [
            rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
            r"\toprule",
            " & ".join(map(_escape, heads)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if len(heads) > WIDE:
            lines = [r"\resizebox{\textwidth}{!}{%", *lines, "}"]
        caption = rf"\caption{{{_escape(self.caption)}}}"
        return "\n".join([r"\begin{table}", r"\centering", *lines, caption, r"\end{table}", ""])

    def md(self) -> str:
        """The table as Markdown."""
        heads, rows = self._shown()
        lines = [heads, ["---"] * len(heads), *rows]
        return (
            "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines) + "\n"
        )

    def save(self, path: Path, command: str = "") -> tuple[Path, ...]:
        """Write the table in the form that the name ends in, and its caption beside it."""
        kind = path.suffix[1:]
        if kind not in KINDS:
            raise must("--out", f"a file that ends in {', '.join(f'.{k}' for k in KINDS)}", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, [getattr(self, kind)().encode()])
        return path, write_caption(path, self.caption, command)

    def _shown(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        if self.heads:
            return self.heads, self.short
        return self.columns, [[_text(cell) for cell in row] for row in self.rows]


def write_tables(results: StudyResultsLike, folder: Path) -> tuple[Path, ...]:
    """
    Write every result of a study as CSV and LaTeX.

    Parameters
    ----------
    results : StudyResults
    folder : Path

    Returns
    -------
    tuple of Path
        `table.csv` and `table.tex` in a folder for each result, and those of all fine-tunings.
    """
    written: list[Path] = []
    with as_written(Path(f"a result of {results.name}")):
        tuned = tuned_models(results)
        tables = [
            (result.name, table_of(result.content, tuned)) for result in results if result.verb != "finetune"
        ]
        scores = tuning_table(results)
    for name, table in [("finetune", scores), *tables]:
        if table is not None:
            place = folder / name
            place.mkdir(parents=True, exist_ok=True)
            for kind in ("csv", "tex"):
                write_whole(place / f"table.{kind}", [getattr(table, kind)().encode()])
                written.append(place / f"table.{kind}")
    return tuple(written)


def table_of(content: Any, tuned: Mapping[str, TunedModel]) -> ResultTable | None:
    """The table of a result or of maps; None for what has neither curves nor maps."""
    if isinstance(content, Maps):
        return _map_table(content, tuned)
    if isinstance(content, Result) and (content.curves or content.spans):
        return _result_table(content, tuned)
    return None


def _result_table(result: Result, tuned: Mapping[str, TunedModel]) -> ResultTable:
    columns = ("curve", "role", "axis", "x", "value", *_BOUNDS, "runs", "n", "unit")
    rows = [*_points(result.curves), *(row for span_map in result.spans for row in _spans(span_map))]
    caption = f"{result.experiment.replace('_', ' ').capitalize()} of {result.model}, {result.about}"
    level = next((coverage(part.level) for part in (*result.curves, *result.spans)), "")
    caption = f"{caption}: {score_label(result.score)}, {INTERVALS.format(level=level)}."
    scores = [curve for curve in result.curves if curve.role == "score"] or list(result.curves)
    if not scores:
        span_map = result.spans[0]
        numbers = [str(k + 1) for k in range(span_map.depth)]
        short = [
            [numbers[i], *("" if math.isnan(v) else number(result.points * v, 1) for v in row)]
            for i, row in enumerate(span_map.values.tolist())
        ]
        heads = ["first skipped", *numbers]
        caption = f"{caption} Cost in points; columns: last skipped block."
        return ResultTable(columns=columns, rows=rows, caption=caption, heads=heads, short=short)
    xs = list(dict.fromkeys((curve.axis, x) for curve in scores for x in curve.x))
    cells = {
        (curve.axis, x, curve.name): _with_interval(curve, k)
        for curve in scores
        for k, x in enumerate(curve.x)
    }
    short = [[str(x), *(cells.get((axis, x, curve.name), "") for curve in scores)] for axis, x in xs]
    labels = model_labels(dict.fromkeys(curve.model for curve in scores), tuned)
    heads = [
        " or ".join(dict.fromkeys(axis for axis, _ in xs)),
        *(f"{labels[c.model]}: {c.arm}" if c.model and c.arm else c.name for c in scores),
    ]
    return ResultTable(columns=columns, rows=rows, caption=caption, heads=heads, short=short)


def _points(curves: Sequence[Curve]) -> Iterator[Sequence[Any]]:
    for curve in curves:
        bounds = [curve.values, *(getattr(curve, name) for name in _BOUNDS)]
        for k, x in enumerate(curve.x):
            ends = [float(bound[k]) for bound in bounds]
            yield (curve.name, curve.role, curve.axis, x, *ends, curve.seeds[k], curve.n, str(curve.unit))


def _spans(span_map: SpanMap) -> Iterator[Sequence[Any]]:
    bounds = [span_map.values, *(getattr(span_map, name) for name in _BOUNDS)]
    for i, j in zip(*np.triu_indices(span_map.depth), strict=True):
        ends = [float(bound[i, j]) for bound in bounds]
        place = (span_map.name, "cost", "blocks skipped", f"{i + 1}-{j + 1}")
        yield (*place, *ends, span_map.seeds, span_map.n, str(span_map.unit))


def _map_table(maps: Maps, tuned: Mapping[str, TunedModel]) -> ResultTable:
    columns = ("measure", "left", "right", "value", "low", "high", "n")
    rows = [
        [record.get(name, similarity_map.n) for name in columns]
        for similarity_map in maps.values()
        for record in similarity_map.rows()
    ]
    first: Map = next(iter(maps.values()))
    names = dict.fromkeys(name.rpartition("/")[0] for name in (*first.left, *first.right))
    labels = model_labels(names, tuned)
    heads = ["", *(_layer(name, labels) for name in first.right)]
    short = [
        [_layer(name, labels), *("" if math.isnan(v) else number(v) for v in row)]
        for name, row in zip(first.left, first.values.tolist(), strict=True)
    ]
    caption = f"{first.title} between layers, n = {first.n:,} rows; {first.estimator}."
    return ResultTable(columns=columns, rows=rows, caption=caption, heads=heads, short=short)


def _layer(name: str, labels: Mapping[str, str]) -> str:
    model, slash, layer = name.rpartition("/")
    return f"{labels[model]}{slash}{layer}"


def tuning_table(results: StudyResultsLike) -> ResultTable | None:
    """Scores of all fine-tunings; None where there are none."""
    rows = []
    for result in results.select(verb="finetune"):
        for run in result.document.get("runs", ()):
            score = run["evaluation"]["score"]
            bounds = (score[name] for name in ("measure", "value", "low", "high", "n"))
            rows.append((result.model, result.task, run["seed"], *bounds, run.get("failure") or ""))
    if not rows:
        return None
    columns = ("model", "task", "seed", "score", "value", "low", "high", "n", "failure")
    caption = "Scores of fine-tuned models, one line per seed, with intervals over examples."
    return ResultTable(columns=columns, rows=rows, caption=caption)


def freezing_table(source: LayoutSource) -> ResultTable:
    """Scores with the top or bottom blocks frozen, for every model and task, beside published ones."""
    scores: dict[tuple[str, str, int], dict[str, tuple[Curve, int, Result]]] = {}
    for (model, task), results in source.contents("freeze").items():
        for result in results:
            for curve in result.curves:
                if curve.role == "score":
                    for place, k in enumerate(curve.x):
                        part = curve.arm if k else ""
                        scores.setdefault((model, part, int(k)), {}).setdefault(task, (curve, place, result))
    if not scores:
        raise source.missing()
    published = published_scores(source.claims)
    tasks = list(dict.fromkeys(task for by in scores.values() for task in by))
    order = list(dict.fromkeys(model for model, *_ in scores))
    keys = sorted(scores, key=lambda key: (order.index(key[0]), key[2], key[1] != "top"))
    columns = ("model", "frozen", "task", "score", "value", "low", "high", "runs", "published")
    rows, short = [], []
    for model, part, k in keys:
        frozen = f"{part} {k}".strip()
        cells = []
        for task in tasks:
            curve, place, result = scores[model, part, k].get(task, (None, 0, None))
            reference = published.get((model, frozen, task))
            if curve is None or result is None:
                cells.append("–")
                continue
            ends = [result.points * float(b[place]) for b in (curve.values, curve.low, curve.high)]
            rows.append((model, frozen, task, result.score, *ends, curve.seeds[place], reference))
            beside = "" if reference is None else f" ({reference:g})"
            cells.append(f"{_bracketed(ends, 1)}{beside}")
        short.append([model, frozen, *cells])
    first = next(iter(scores.values()))
    results = list({id(result): result for by in scores.values() for *_, result in by.values()}.values())
    curve = next(iter(first.values()))[0]
    seeds = sorted({entry[0].seeds[entry[1]] for by in scores.values() for entry in by.values()})
    caption = (
        f"Scores in points with the top or bottom blocks frozen during fine-tuning, "
        f"{INTERVALS.format(level=coverage(curve.level))}, {spread(seeds)} runs per score"
        f"{', published scores in parentheses' if published else ''}.{source_command(results)}"
    )
    heads = ["model", "frozen", *tasks]
    return ResultTable(columns=columns, rows=rows, caption=caption, heads=heads, short=short)


def published_scores(claims: Any) -> dict[tuple[str, str, str], float]:
    """
    Look up the published scores of claims on single points of curves.

    Parameters
    ----------
    claims : ClaimSet or None

    Returns
    -------
    dict
        By model, frozen part, and task, as they are called in the study.
    """
    published: dict[tuple[str, str, str], float] = {}
    if claims is None:
        return published
    for claim in claims.claims:
        place = claim.arguments.get("point", {})
        if claim.statistic != "score" or isinstance(claim.published, str) or not {"arm", "x"} <= {*place}:
            continue
        frozen = f"{place['arm']} {place['x']}" if int(place["x"]) else "0"
        for model, task in product(claims.expand(claim.models), claims.expand(claim.tasks)):
            published[model, frozen, task] = float(claim.published)
    return published


def _with_interval(curve: Curve, place: int) -> str:
    return _bracketed([float(bound[place]) for bound in (curve.values, curve.low, curve.high)], 3)


def _bracketed(ends: Sequence[float], digits: int) -> str:
    value, low, high = ends
    if not math.isfinite(value):
        return "–"
    inside = f" [{number(low, digits)}, {number(high, digits)}]" if math.isfinite(low + high) else ""
    return f"{number(value, digits)}{inside}"


def _text(cell: Any) -> str:
    if _is_empty(cell):
        return ""
    return number(cell, 3) if isinstance(cell, float) else str(cell)


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))


def _escape(text: str) -> str:
    return re.sub("|".join(map(re.escape, SPECIAL)), lambda match: SPECIAL[match[0]], text)
