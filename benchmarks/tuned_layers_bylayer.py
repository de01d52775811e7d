"""How does each layer look before and after tuning? Tables with a column a layer; for tuned_layers.py."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from curve_agreement import curve_agreement
from tuned_layers_claims import Number, learned_curve, redrawn_table
from tuned_layers_curves import SOLVERS
from tuned_layers_job import MEASURES

from microtome.findings.words import number

Documents = Sequence[Mapping[str, Any]]


def shown(found: Number, digits: int = 2) -> str:
    """
    Write a number with its interval.

    Examples
    --------
    >>> shown(Number(value=0.5, low=0.25, high=0.75)), shown(Number(value=0.5))
    ('0.50 [0.25, 0.75]', '0.50')
    """
    if math.isnan(found.value):
        return "undefined"
    if math.isnan(found.low) or math.isnan(found.high):
        return number(found.value, digits)
    return f"{number(found.value, digits)} [{number(found.low, digits)}, {number(found.high, digits)}]"


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def head(cells: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [line(cells), line(["---"] * len(cells))]


def of_kind(documents: Documents, kind: str, part: str) -> list[Mapping[str, Any]]:
    """Jobs of a kind that have measured something."""
    return [one for one in documents if one["job"]["kind"] == kind and part in one]


def _layers(found: Documents, values: Any) -> str:
    """Tables with a column a layer, one for each depth."""
    parts = []
    for depth in sorted({one["depth"] for one in found}):
        lines = head(["model", "task", "what", *(str(layer) for layer in range(depth + 1))])
        for one in found:
            if one["depth"] == depth:
                start = [one["job"]["model"], one["job"]["what"] or "before tuning"]
                lines += [line([*start, what, *cells]) for what, cells in values(one)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _cells(values: Sequence[float | None], digits: int = 2, scale: float = 1.0) -> list[str]:
    return [number(math.nan if one is None else scale * one, digits) for one in values]


def _banded(curve: Mapping[str, Any], digits: int, scale: float = 1.0) -> list[str]:
    """Values, a star where the band for all layers leaves 0 out."""
    cells = _cells(curve["values"], digits, scale)
    ends = zip(curve["band_low"], curve["band_high"], strict=True)
    sure = [low is not None and high is not None and (low > 0 or high < 0) for low, high in ends]
    return [f"{cell} *" if mark else cell for cell, mark in zip(cells, sure, strict=True)]


def change_tables(documents: Documents) -> str:
    """Similarity of base and tuned by layer, with the ceiling and the floor; then where the change sits."""
    found = of_kind(documents, "task", "change")
    if not found:
        return ""
    names = {"tuned": "base and tuned", "seeds": "two seeds", "twin": "base and random baseline"}
    parts = []
    for measure in MEASURES:

        def values(one: Mapping[str, Any], measure: str = measure) -> list[tuple[str, list[str]]]:
            curves = one["change"]["measures"][measure]["curves"]
            return [(names[key], _cells(curve["values"])) for key, curve in curves.items()]

        parts.append(f"**{measure}**, similarity by layer\n\n{_layers(found, values)}")
    columns = ["mean change over layers", "change of the last layer", "share of the upper third", "center"]
    lines = head(["model", "task", "by", *columns])
    for one in found:
        for measure in MEASURES:
            told = one["change"]["measures"][measure]
            cells = [
                shown(Number.of(told["mean"]["tuned"]).change, 3),
                shown(Number.of(told["last"]).change, 3),
                shown(Number.of(told["top_share"])),
                shown(Number.of(told["center"]), 1),
            ]
            lines.append(line([one["job"]["model"], one["job"]["what"], measure, *cells]))
    return "\n\n".join([*parts, "\n".join(lines)])


def probe_tables(documents: Documents) -> str:
    """Readouts by layer before tuning, with what is no knowledge; then what tuning added, in points."""
    parts = []
    for part in ("probe", "structural"):
        base, tuned = of_kind(documents, "base", part), of_kind(documents, "task", part)
        targets = list(dict.fromkeys(target for one in (*base, *tuned) for target in one[part]))
        for target in targets:
            some = next(one[part][target] for one in (*base, *tuned) if target in one[part])
            lines = ", ".join(f"{name} {number(value, 3)}" for name, value in some["lines"].items())
            title = (
                f"**{target}** ({some['score']}; {some['train']:,} sentences to learn from, "
                f"{some['judged']:,} with {some['n']:,} examples to judge on; without any layer: {lines})"
            )
            made = []
            if base:

                def before(one: Mapping[str, Any], part: str = part, target: str = target) -> Any:
                    told = one[part][target]
                    kinds = (("base", "base"), ("twin", "random baseline"), ("control", "control task"))
                    return [(what, _cells(told[key], 3)) for key, what in kinds if key in told]

                made.append(_layers(base, before))
            if tuned:

                def after(one: Mapping[str, Any], part: str = part, target: str = target) -> Any:
                    told = one[part][target]
                    return [
                        ("tuned", _cells(np.mean(told["tuned"], axis=0).tolist(), 3)),
                        ("minus base, points", _banded(told["difference"], 1, told["points"])),
                    ]

                made.append(_layers(tuned, after))
                rows = head(["model", "task", "points, mean over layers", "last layer"])
                for one in tuned:
                    told = one[part][target]
                    cells = [shown(Number.of(told[key], told["points"])) for key in ("mean", "last")]
                    rows.append(line([one["job"]["model"], one["job"]["what"], *cells]))
                made.append("\n".join(rows))
            parts.append("\n\n".join([title, *made]))
    star = "\\* the band for all layers at once leaves 0 out."
    return "\n\n".join([*parts, star]) if parts else ""


def curves_table(documents: Documents) -> str:
    """Probing curves and curves of redrawn blocks, and how alike they run at each size."""
    reads = {one["job"]["model"]: one for one in of_kind(documents, "reads", "curves")}
    redrawn = sorted(
        of_kind(documents, "redrawn", "curves"),
        key=lambda one: (one["job"]["model"], one["job"]["what"], one["job"]["size"]),
    )
    every = [*reads.values(), *redrawn]
    if not every:
        return ""
    parts = []
    for depth in sorted({one["depth"] for one in every}):
        lines = head(["model", "curve", *(str(layer) for layer in range(depth + 1))])
        for model, one in reads.items():
            for side, solver in ((side, solver) for side in ("base", "twin") for solver in SOLVERS):
                if one["depth"] == depth:
                    name = f"read, {solver}{', random baseline' if side == 'twin' else ''}"
                    cells = _cells(np.mean(one["curves"][side][solver], axis=0).tolist(), 3)
                    lines.append(line([model, name, "", *cells]))
        for one in redrawn:
            if one["depth"] == depth:
                job, told = one["job"], one["curves"]
                note = "" if learned_curve(one) else " (not learned)"
                name = f"above re-initialized ({job['what']}), {job['size']:,} examples{note}"
                lines.append(line([job["model"], name, *_cells(told["means"], 3)]))
        parts.append("\n".join(lines))
    lines = head(
        ["model", "re-initialized", "examples", "probes", "rank agreement, 95 % over seeds", "points apart"]
    )
    for one in redrawn:
        job = one["job"]
        if job["model"] not in reads:
            continue
        drawn = redrawn_table(one)
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        for solver in SOLVERS:
            read_at = np.array(reads[job["model"]]["curves"]["base"][solver], dtype=float)
            if not len(drawn):
                continue
            found = curve_agreement(read_at, drawn)
            ends = Number.of({"value": found.value, "low": found.low, "high": found.high})
            apart = np.abs(read_at.mean(0) - drawn.mean(0)).mean() * one["curves"]["points"]
            cells = [
                job["model"],
                job["what"],
                f"{job['size']:,}",
                solver,
                shown(ends),
                number(float(apart), 1),
            ]
            lines.append(line(cells))
    told = every[0]["curves"]
    title = (
        f"Scores ({told['score']}) by the number of the layer that is read, or of blocks kept; a guess has "
        f"{number(told['guess'], 3)}."
    )
    return "\n\n".join([title, *parts, "\n".join(lines)])
