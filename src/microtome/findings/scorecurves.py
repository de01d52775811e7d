"""Score curves and span maps computed from the answers of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import must
from ..inference.answers import Answers
from ..inference.bands import Bands, difference_bands, score_bands
from ..scores.declare import Score
from ..scores.table import find_score
from .results import Curve, SpanMap, X
from .words import Unit

Asked = str | Score | Iterable[str | Score]
_ENDS = ("values", "low", "high")
Failed = tuple[X, int | str, str]  # the point, the seed, and why the run must not be averaged


def score_curve(
    name: str,
    x: Sequence[X],
    answers: Sequence[Answers | None],
    score: Asked,
    labels: Sequence[str] = (),
    *,
    axis: str,
    level: float = 0.95,
    pair_seeds: bool = True,
    failed: Iterable[Failed] = (),
    **facts: Any,
) -> Curve:
    """
    Score the answers at each point of an axis.

    Parameters
    ----------
    name : str
        Of the curve.
    x : sequence of int, float or str
        Positions of the points, without duplicates.
    answers : sequence of (Answers or None)
        One per point, all to the same examples, with one seed or several. None where no run is sound.
    score : str, Score or several
        Of several scores the mean is taken.
    labels : sequence of str
    axis : str
        What x is, such as "layers kept".
    level : float
        Of the intervals and of the band.
    pair_seeds : bool
        Whether all points share their seeds, as with truncations of one tuned model. False for models that
        were trained separately.
    failed : iterable of (x, seed, reason)
        Runs that diverged or collapsed. They are named in the reasons of their point and never averaged,
        even where `answers` contains them.
    **facts
        Further fields of the curve, such as its note, role or model.

    Returns
    -------
    Curve

    Examples
    --------
    >>> ids, right = [str(i) for i in range(8)], [1] * 8
    >>> layers = [Answers(ids=ids, targets=right, predictions=[[1] * k + [0] * (8 - k)]) for k in (2, 4, 7)]
    >>> curve = score_curve("UNTUNED", [1, 2, 3], layers, "accuracy", axis="layers kept")
    >>> curve.values.tolist(), curve.low.round(2).tolist()
    ([0.25, 0.5, 0.875], [0.07, 0.22, 0.53])
    """
    sound, reasons = _sound(x, answers, failed)
    points = [point for point in sound if point is not None]
    bands = score_bands(score, points, labels, level=level, pair_seeds=pair_seeds) if points else None
    return _curve(sound, reasons, bands, name=name, axis=axis, x=tuple(x), level=level, **facts)


def difference_curve(
    name: str,
    x: Sequence[X],
    answers: Sequence[Answers | None],
    reference: Answers,
    score: Asked,
    labels: Sequence[str] = (),
    *,
    axis: str,
    level: float = 0.95,
    pair_seeds: bool = True,
    failed: Iterable[Failed] = (),
    **facts: Any,
) -> Curve:
    """
    Subtract the score of a reference from that of each point, example by example.

    Parameters
    ----------
    name, x, answers
        As in `score_curve`. A point whose answers are the reference itself differs by exactly 0.
    reference : Answers
        Such as those of the complete model.
    score, labels, axis, level
        As in `score_curve`.
    pair_seeds : bool
        Whether a seed of a point is paired with the same seed of the reference. Pairs without a sound run on
        both sides are left out, and the reasons of the point name them.
    failed, **facts
        As in `score_curve`; the role is "difference".

    Returns
    -------
    Curve
        Values are score(point) - score(reference), in units of the score.
    """
    sound, reasons = _sound(x, answers, failed)
    # The reference is used as it is, also where some of its seeds failed.
    points = [
        reference if point is reference else sound_point
        for point, sound_point in zip(answers, sound, strict=True)
        if sound_point is not None
    ]
    bands = None
    if points:
        if pair_seeds and not any(_share_seeds(point, reference) for point in points):
            seed_names = f"{[list(point.seeds) for point in points]} and {list(reference.seeds)}"
            raise must("seeds to pair", "named alike on both sides", seed_names)
        bands = difference_bands(score, points, reference, labels, level=level, pair_seeds=pair_seeds)
    facts = {"role": "difference", **facts}
    return _curve(sound, reasons, bands, name=name, axis=axis, x=tuple(x), level=level, **facts)


def paired_curve(
    x: Sequence[X],
    answers: Sequence[Answers],
    references: Sequence[Answers],
    *,
    level: float = 0.95,
    failed: Iterable[Failed] = (),
    **options: Any,
) -> Curve:
    """
    Subtract from the score at each point that of a reference of its own, example by example.

    Parameters
    ----------
    x, answers, level, failed
        As in `score_curve`.
    references : sequence of Answers
        One per point.
    **options
        Further arguments of `difference_curve`.

    Returns
    -------
    Curve
        No reference is shared by all points, so the band is made of intervals with Bonferroni's correction
        for the number of points. Seeds count with as many degrees of freedom as there are, also at a point
        where they agree by luck.
    """
    failures: dict[X, list[Failed]] = {}
    for failure in failed:
        failures.setdefault(failure[0], []).append(failure)
    pointwise, banded = (
        [
            difference_curve(
                x=[at], answers=[a], reference=b, level=coverage, failed=failures.get(at, ()), **options
            )
            for at, a, b in zip(x, answers, references, strict=True)
        ]
        for coverage in (level, 1 - (1 - level) / len(x))
    )
    ends = {end: np.array([getattr(curve, end)[0] for curve in pointwise]) for end in _ENDS}
    ends |= {f"band_{end}": np.array([getattr(curve, end)[0] for curve in banded]) for end in _ENDS[1:]}
    return replace(
        pointwise[0],
        x=tuple(x),
        **ends,
        unit=max((curve.unit for curve in pointwise), key=lambda unit: bool(unit.runs)),
        n=max(curve.n for curve in pointwise),
        seeds=tuple(curve.seeds[0] for curve in pointwise),
        reasons=tuple(curve.reasons[0] for curve in pointwise),
    )


def span_map(
    name: str,
    depth: int,
    answers: Mapping[tuple[int, int], Answers],
    reference: Answers,
    score: Asked,
    labels: Sequence[str] = (),
    *,
    level: float = 0.95,
    pair_seeds: bool = True,
    **facts: Any,
) -> SpanMap:
    """
    Compute the cost of skipping each span of blocks.

    Parameters
    ----------
    name : str
    depth : int
        Number of blocks of the model, which are numbered from 1.
    answers : mapping of (first, last) to Answers
        Without the blocks first..last. Missing spans are NaN.
    reference : Answers
        Of the complete model.
    score, labels, level, pair_seeds, **facts
        As in `difference_curve`.

    Returns
    -------
    SpanMap
        Costs in units of the score, positive where the model gets worse, also where lower scores are better.
    """
    metric = find_score(score)
    for span in answers:
        if not 1 <= span[0] <= span[1] <= depth:
            raise must("a span", f"first and last of the blocks 1 to {depth}", span)
    if not answers:
        raise must("the number of spans", "at least 1", 0)
    spans = sorted(answers)
    points = [answers[span] for span in spans]
    bands = difference_bands(metric, points, reference, labels, level=level, pair_seeds=pair_seeds)
    # A difference is point minus reference; a cost reverses its sign where higher is better.
    sign = -1.0 if metric.higher_is_better else 1.0
    ends = ("low", "high", "band_low", "band_high")
    sources = ("high", "low", "band_high", "band_low") if sign < 0 else ends
    cells = np.array(spans) - 1
    filled = {}
    for name_of_end, source in zip(("values", *ends), ("values", *sources), strict=True):
        square = np.full((depth, depth), np.nan)
        square[cells[:, 0], cells[:, 1]] = sign * getattr(bands, source)
        filled[name_of_end] = square + 0.0  # no -0.0
    full = [metric.compute(run, reference.targets, labels) for run in reference.predictions]
    remarks = [f"{_span(span)}: {why}." for span, why in zip(spans, bands.reasons, strict=True) if why]
    return SpanMap(
        name=name,
        depth=depth,
        **filled,
        full=float(np.mean(full)),
        level=level,
        unit=Unit(bands.unit),
        n=bands.n,
        seeds=max(bands.seeds),
        note=" ".join(remarks),
        **facts,
    )


def _span(span: tuple[int, int]) -> str:
    first, last = span
    return f"Without block {first}" if first == last else f"Without blocks {first} to {last}"


def _sound(
    x: Sequence[X], answers: Sequence[Answers | None], failed: Iterable[Failed]
) -> tuple[list[Answers | None], list[str | None]]:
    """Select the answers of sound runs at each point, and name the runs that were left out."""
    if len(x) != len(answers):
        raise must("answers", f"one for each of the {len(x)} points", len(answers))
    if len(set(x)) != len(x):
        raise must("points of a curve", "each there once", list(x))
    if not len(x):
        raise must("the number of points", "at least 1", 0)
    by_point: dict[X, dict[int | str, str]] = {}
    for point, seed, reason in failed:
        if point not in x:
            raise must("the point of a failed run", f"one of {list(x)}", point)
        by_point.setdefault(point, {})[seed] = reason
    sound: list[Answers | None] = []
    reasons: list[str | None] = []
    for point, at_point in zip(x, answers, strict=True):
        failures = by_point.get(point, {})
        runs = [] if at_point is None else _sound_runs(at_point, failures)
        sound.append(at_point.take(runs) if at_point is not None and runs else None)
        named = ", ".join(f"seed {seed} ({why})" for seed, why in failures.items())
        if not runs:
            reasons.append(f"no sound run: {named}" if named else "no sound run")
        elif failures:
            verb = "was" if len(failures) == 1 else "were"
            total = len(failures) + len(runs)
            reasons.append(f"{len(failures)} of {total} runs {verb} left out: {named}")
        else:
            reasons.append(None)
    return sound, reasons


def _sound_runs(answers: Answers, failures: Mapping[int | str, str]) -> list[int]:
    """Indices of the runs that did not fail; all where seeds have no names."""
    names = answers.seeds if len(answers.seeds) else (None,) * len(answers.predictions)
    return [index for index, name in enumerate(names) if name not in failures]


def _share_seeds(answers: Answers, reference: Answers) -> bool:
    if len(answers.predictions) == len(reference.predictions) == 1:
        return not (answers.seeds and reference.seeds) or answers.seeds[0] == reference.seeds[0]
    return bool(set(answers.seeds) & set(reference.seeds))


def _curve(
    sound: Sequence[Answers | None], run_reasons: Sequence[str | None], bands: Bands | None, **facts: Any
) -> Curve:
    indices = [index for index, point in enumerate(sound) if point is not None]
    filled = {
        name: np.full(len(sound), np.nan) for name in ("values", "low", "high", "band_low", "band_high")
    }
    seeds, reasons = [0] * len(sound), list(run_reasons)
    if bands is not None:
        for name, line in filled.items():
            line[indices] = getattr(bands, name)
        for index, count, why in zip(indices, bands.seeds, bands.reasons, strict=True):
            point = sound[index]
            seeds[index] = count if point is None else min(count, len(point.predictions))
            reasons[index] = "; ".join(text for text in (reasons[index], why) if text) or None
    return Curve(
        **filled,
        unit=Unit("example" if bands is None else bands.unit),
        n=0 if bands is None else bands.n,
        seeds=tuple(seeds),
        reasons=tuple(reasons),
        **facts,
    )
