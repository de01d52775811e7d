"""Sections of the page and their statements; those of a result: curves by their axis, and spans of blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..experiments.table import entry_of, is_layered
from ..figures.curves import by_panel
from ..findings.claims.claim import Claim
from ..findings.claims.render import evidence, headline
from ..findings.results import Curve, Result, SpanMap, plain
from ..findings.words import coverage, listed, over, score_label, wide_for_seeds

# Probes that nothing is drawn for, so that there are no seeds that could be covered.
_UNSEEDED = ("linear", "online code")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """
    One sentence, and how it is to be read.

    Parameters
    ----------
    text : str
    evidence : str
        The numbers behind it, which the page folds.
    sure : {"shown", "inconclusive", "note"}
        Whether the data show it; a note is no claim.
    layers : tuple of str
        Names of the layers it speaks of, as a map calls them.
    top : bool
        Whether it stands among the findings of all results; otherwise it stands below its figure.
    about : str
        Model and task, written before it among the findings of all results.
    """

    text: str
    evidence: str = ""
    sure: Literal["shown", "inconclusive", "note"] = "note"
    layers: tuple[str, ...] = ()
    top: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """
    A section of the page, and what it states.

    Parameters
    ----------
    document : mapping
        Without its id.
    statements : tuple of Statement
    """

    document: Mapping[str, Any]
    statements: tuple[Statement, ...]


def section(
    kind: str,
    *,
    title: str,
    basis: str,
    file: str,
    task: str | None = None,
    model: str | None = None,
    statements: Sequence[Statement] = (),
    **more: Any,
) -> Section:
    """
    Put a section together.

    Parameters
    ----------
    kind : {"map", "curves", "spans", "scores", "lines"}
    title : str
    basis : str
        What the numbers rest on.
    file : str
        Where they came from.
    task, model : str, optional
    statements : sequence of Statement
    **more
        Content of this kind of section.

    Returns
    -------
    Section
        With plain data only: lists for arrays, None for what is undefined.
    """
    # A damaged file may call a model by anything.
    names = {"task": None if task is None else str(task), "model": None if model is None else str(model)}
    head = {"kind": kind, "title": title, **names, "basis": basis, "file": file}
    sentences = [f"{entry.text} {entry.evidence}".rstrip() for entry in statements]
    below = [{"text": entry.text, "evidence": entry.evidence} for entry in statements if not entry.top]
    document = {**head, "sentences": sentences, "below": below, **more}
    return Section(document=plain(document), statements=tuple(statements))


def claim_statement(
    claim: Claim, layers: Sequence[str] = (), *, about: str = "", top: bool = True
) -> Statement:
    """A claim as the page writes it: the headline, and the evidence behind it."""
    return Statement(
        text=headline(claim),
        evidence=evidence(claim),
        sure="inconclusive" if claim.verdict == "inconclusive" else "shown",
        layers=tuple(layers),
        top=top,
        about=about,
    )


def result_parts(result: Result, file: str, label: str) -> list[Section]:
    """
    Make the sections of an experiment.

    Parameters
    ----------
    result : Result
    file : str
    label : str
        What tells it from others of the same model and task; empty where there are none.

    Returns
    -------
    list of Section
        Scores and differences apart, each by its axis; then spans.
    """
    statements = _own_statements(result, label)
    parts: list[Section] = []
    for differences in (False, True):
        curves_of_kind = [curve for curve in result.curves if (curve.role == "difference") == differences]
        for (_, reading), curves in by_panel(result, curves_of_kind).items():
            kind = f", {reading}" if reading else ", differences" if differences else ""
            first = [] if parts else statements
            parts.append(_curves(result, curves, file, label, first, kind, differences=differences))
    if result.spans:
        parts.append(_spans(result, result.spans[0], file, label, [] if parts else statements))
    return parts


def _own_statements(result: Result, label: str) -> list[Statement]:
    """The claims of a result, and its sentences that are no claims."""
    model, folder = f"{model_of(result)}{label}", label.strip(" ()")
    statements = []
    for claim in result.claims:
        about = model if claim.task else f"{model} on {result.task}"
        named = claim.subject and headline(claim).startswith(claim.subject)
        statements.append(claim_statement(claim, about=folder if named else about))
    for k, text in enumerate(result.findings[len(statements) :]):
        top = not result.claims and k == 0
        statements.append(Statement(text=text, top=top, about=f"{model} on {result.task}"))
    return statements


def title_of(result: Result, label: str) -> str:
    """What a section of a result is called."""
    entry = entry_of(result.experiment)
    name = result.experiment.replace("_", " ").capitalize() if entry is None else entry.title
    where = f" on {result.task}" if result.about == result.task else f", {result.about}"
    return f"{name}: {model_of(result)}{where}{label}"


def tuned_name(model: str, task: str) -> str:
    """
    Call a tuned model by what was tuned, where the task is named beside it.

    Examples
    --------
    >>> tuned_name("bert-rte", "rte"), tuned_name("bert", "rte")
    ('bert', 'bert')
    """
    return model.removesuffix(f"-{task}") or model


def model_of(result: Result) -> str:
    """What the model of a result is called in sentences about it."""
    entry = entry_of(result.experiment)
    # Of an experiment on tuned models only, no other model of the name could be meant.
    tuned = entry is not None and entry.takes == "tuned"
    return tuned_name(str(result.model), str(result.task)) if tuned else result.model


def _curves(
    result: Result,
    curves: Sequence[Curve],
    file: str,
    label: str,
    statements: Sequence[Statement],
    kind: str,
    *,
    differences: bool,
) -> Section:
    axis = curves[0].axis
    few = all(_tells_nothing(curve, result.points, differences=differences) for curve in curves)
    lines = {name: value for name, value in result.lines.items() if math.isfinite(value)}
    return section(
        "curves",
        title=title_of(result, label) + kind,
        task=result.task,
        model=model_of(result),
        basis=_basis(result, curves, few=few),
        file=file,
        statements=statements,
        few=few,
        x_label=axis,
        y_label=score_label(result.score),  # the page itself says that it is of differences
        points=result.points,
        x_is_layer=is_layered(result.experiment, axis),
        lines={} if differences else lines,
        curves=[
            {
                "name": curve.label,
                "x": list(curve.x),
                **{end: getattr(curve, end) for end in ("values", "low", "high", "band_low", "band_high")},
                "n": curve.n,
                "note": "; ".join(_notes(curve)),
                "difference": differences,
            }
            for curve in curves
        ],
    )


def _tells_nothing(curve: Curve, points: float, *, differences: bool) -> bool:
    """Whether seeds are too few for most intervals of a curve, and none of them excludes 0."""
    if differences and ((curve.band_low > 0) | (curve.band_high < 0)).any():
        return False
    wide = [
        wide_for_seeds(points * float(low), points * float(high), seeds, curve.unit, points)
        for low, high, seeds in zip(curve.band_low, curve.band_high, curve.seeds, strict=True)
        if math.isfinite(low) and math.isfinite(high)
    ]
    return sum(wide) > len(wide) / 2


def _notes(curve: Curve) -> list[str]:
    notes = [curve.note] if curve.note else []
    return [*notes, *(f"{x}: {why}" for x, why in zip(curve.x, curve.reasons, strict=True) if why)]


def _basis(result: Result, curves: Sequence[Curve], *, few: bool) -> str:
    counts = sorted({curve.n for curve in curves if curve.n})
    runs = sorted({count for curve in curves for count in curve.seeds if count})
    where = result.split if result.split.startswith(result.task) else f"{result.task}/{result.split}"
    parts = [f"{result.score} on {where}"]
    if counts:
        parts.append(f"n = {_span(counts)} examples")
    parts.append(f"intervals {' or '.join(dict.fromkeys(over(curve.unit) for curve in curves))}")
    if runs and runs[-1] > 1:
        parts.append(f"{_span(runs)} runs per point")
    elif runs and result.more.get("probe") not in _UNSEEDED:
        parts.append("1 run per point: other seeds are not covered")
    if few:
        parts[-1] += ": few, so that intervals are wide; they are in the data and are not drawn"
        return "; ".join(parts)
    if any(np.isfinite(curve.low).any() for curve in curves):
        parts.append(f"intervals: {coverage(curves[0].level)} for each point alone")
    if any(np.isfinite(curve.band_low).any() for curve in curves):
        parts.append(f"bands: {coverage(curves[0].level)} for all points of a curve at once")
    return "; ".join(parts)


def _span(counts: Sequence[int]) -> str:
    low, high = f"{counts[0]:,}", f"{counts[-1]:,}"
    return low if low == high else f"{low} to {high}"


def _spans(
    result: Result, span_map: SpanMap, file: str, label: str, statements: Sequence[Statement]
) -> Section:
    further = [further_map.name for further_map in result.spans[1:]]
    note = "; ".join(
        part for part in (span_map.note, f"{file} also has {listed(further)}" if further else "") if part
    )
    seeds = "1 seed: other seeds are not covered" if span_map.seeds == 1 else f"{span_map.seeds} seeds"
    return section(
        "spans",
        title=title_of(result, label),
        task=result.task,
        model=model_of(result),
        basis=f"{result.score} lost on {result.task}/{result.split}; n = {span_map.n:,} examples; {seeds}; "
        f"intervals {over(span_map.unit)}: {coverage(span_map.level)} for each span alone; "
        "bands: for all spans at once",
        file=file,
        statements=statements,
        depth=span_map.depth,
        score=result.score,
        points=result.points,
        full=span_map.full,
        values=span_map.values,
        low=span_map.low,
        high=span_map.high,
        band_low=span_map.band_low,
        band_high=span_map.band_high,
        n=span_map.n,
        seeds=span_map.seeds,
        note=note,
    )
