"""Errors of numbers made of many cells: what each document or sentence adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..findings.claims.claim import Quantity
from ..findings.maps import Map
from ..findings.paired import ENOUGH_CLUSTERS, cell_errors
from ..findings.results import Curve, X
from ..findings.words import Unit
from ..inference.estimate import Confidence
from ..inference.simultaneous import Spread, band_arms, spread

Array = NDArray[np.float64]
Reasons = tuple[str | None, ...]
UNDEFINED = "the similarity is undefined"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """
    Numbers at several points, of one model or of several of one kind, and their errors.

    Parameters
    ----------
    values : ndarray of shape (models, points)
    errors : ndarray of shape (models, points, units)
        What each document or sentence, or each resample, adds to the error of each number. What is linear in
        the numbers is the same linear function of the errors.
    dof : float
        Degrees of freedom of a standard error over the units.
    reasons : tuple of tuple of (str or None)
        Why each number of each model is undefined, where that is known; empty where nothing is.
    """

    values: Array
    errors: Array
    dof: float
    reasons: tuple[Reasons, ...] = ()

    @property
    def why(self) -> Reasons:
        """The first reason of any model why each point is undefined."""
        reasons = self.reasons or ((None,) * self.values.shape[1],)
        return tuple(_first(point) for point in zip(*reasons, strict=True))

    @property
    def parts(self) -> list[Sample]:
        """Each of the models."""
        return [
            replace(
                self,
                values=self.values[place][None],
                errors=self.errors[place][None],
                reasons=self.reasons[place : place + 1],
            )
            for place in range(len(self.values))
        ]

    def mean(self) -> Sample:
        """The mean over the points that are defined, as one point."""
        defined = np.isfinite(self.values).all(axis=0)
        if not defined.any():
            blank = np.full((len(self.values), 1), np.nan)
            errors, why = np.zeros((*blank.shape, self.errors.shape[2])), (_first(self.why),)
            return Sample(values=blank, errors=errors, dof=self.dof, reasons=(why,) * len(blank))
        values = self.values[:, defined].mean(axis=1, keepdims=True)
        errors = self.errors[:, defined].mean(axis=1, keepdims=True)
        return Sample(values=values, errors=errors, dof=self.dof)

    def together(self) -> Sample:
        """The mean over models that do not vary independently: what is left to vary are the texts."""
        return Sample(
            values=self.values.mean(axis=0, keepdims=True),
            errors=self.errors.mean(axis=0, keepdims=True),
            dof=self.dof,
            reasons=(self.why,),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """
    Means over models with intervals.

    Parameters
    ----------
    values, low, high, band_low, band_high : ndarray of shape (points,)
        An interval for each point alone, and a band for all of them at once.
    p : ndarray of shape (points,)
        Two-sided probability of such a value where the truth is 0.
    level : float
    models : int
    reasons : tuple of (str or None)
        Why each point is undefined, where that is known; empty where nothing is.
    """

    values: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array
    p: Array
    level: float
    models: int
    reasons: Reasons = ()

    def unit(self, rows: str) -> Unit:
        """What was taken as independent, of rows with this unit."""
        return Unit(rows, "model" if self.models > 1 else "")

    def plain(self, *, tested: bool = False) -> dict[str, float]:
        """The first point as plain data, with its p where the question is whether it is 0."""
        names = ("value", "low", "high", *(["p"] if tested else []))
        lines = {"value": self.values, "low": self.low, "high": self.high, "p": self.p}
        return {name: float(lines[name][0]) for name in names}

    def quantity(self, rows: str, place: int = 0) -> Quantity:
        """One point with its interval, of rows with this unit."""
        value, low, high = (float(line[place]) for line in (self.values, self.low, self.high))
        unit = self.unit(rows)
        return Quantity(value=value, low=low, high=high, level=self.level, unit=unit, seeds=self.models)


def apart(first: Sample, second: Sample) -> tuple[Sample, Sample]:
    """
    Put the units of two samples that have none in common beside each other.

    Parameters
    ----------
    first, second : Sample
        Of shape (models, points, units), each with units of its own.

    Returns
    -------
    tuple of Sample
        Over all units: those of the other sample add nothing. Standard errors stay what they were.
    """
    sizes = [side.errors.shape[2] for side in (first, second)]
    total = sum(sizes)
    samples = []
    for place, (side, size) in enumerate(zip((first, second), sizes, strict=True)):
        # k / (k - 1) times a sum of squares is a squared standard error, and k is now the number of all.
        scaled = side.errors * np.sqrt(size / (size - 1) * (total - 1) / total)
        blank = np.zeros((*side.errors.shape[:2], total - size))
        parts = [scaled, blank] if place == 0 else [blank, scaled]
        samples.append(replace(side, errors=np.concatenate(parts, axis=2)))
    return samples[0], samples[1]


def errors_of(layer_map: Map) -> tuple[Array, float]:
    """
    Find what each unit adds to the error of each cell of a map.

    Parameters
    ----------
    layer_map : Map
        Computed with certainty.

    Returns
    -------
    errors : ndarray of shape (left, right, units)
        k / (k - 1) times the sum of their squares over k units is the squared standard error of the map's
        own interval. Units are clusters, groups of them that were left out, or half-samples.
    dof : float
    """
    resamples = layer_map.resamples
    if resamples is None:
        raise InputError("a map must be computed with certainty=True to have errors, but it was not.")
    errors, dof = cell_errors(resamples, layer_map.values, shares=True)
    normal = resamples.kind == "scores" and len(errors) >= ENOUGH_CLUSTERS
    return np.moveaxis(errors, 0, -1), float("inf") if normal else dof


def points_of(
    sample: Sample,
    minus: Sample | None = None,
    *,
    level: float = 0.95,
    pair_models: bool = True,
    bounds: tuple[float, float] | None = None,
) -> Points:
    """
    Average over models, or subtract the averages of two samples, with intervals and a band.

    With several models the spread between them counts beside that of the documents or sentences.

    Parameters
    ----------
    sample : Sample
    minus : Sample, optional
        To be subtracted; over the same units.
    level : float
    pair_models : bool
        Whether each model of one sample belongs to that of the other in the same place.
    bounds : pair of float, optional
        Where intervals end.

    Returns
    -------
    Points
    """
    sides = [sample] if minus is None else [sample, minus]
    paired = pair_models and (minus is None or len(sample.values) == len(minus.values))
    means = [side.values.mean(axis=0) for side in sides]
    values = means[0] if minus is None else means[0] - means[1]
    errors = sample.errors.mean(axis=0) - (0 if minus is None else minus.errors.mean(axis=0))
    dof = min(side.dof for side in sides)
    spreads = [
        spread(
            [side.errors[:, k] for side in sides],
            [side.values[:, k] for side in sides],
            dof,
            pair_seeds=paired,
        )
        if np.isfinite(value)
        else Spread.of_examples(float("nan"), dof)
        for k, value in enumerate(values)
    ]
    defined = np.array([np.isfinite(point.se) for point in spreads])
    confidence = Confidence(level=level, pair_seeds=False)
    arms = np.array([point.arm(confidence.reach) for point in spreads])
    wide = np.full(len(values), np.nan)
    if defined.any():
        points = [point for point in spreads if np.isfinite(point.se)]
        wide[defined] = band_arms(points, errors[defined], confidence)
    ends = values - arms, values + arms, values - wide, values + wide
    low, high, band_low, band_high = ends if bounds is None else (np.clip(end, *bounds) for end in ends)
    return Points(
        values=values,
        low=low,
        high=high,
        band_low=band_low,
        band_high=band_high,
        # What is 0 without any doubt is no surprise where the truth is 0.
        p=np.array(
            [1.0 if v == e.se == 0 else e.p(v) for v, e in zip(values.tolist(), spreads, strict=True)]
        ),
        level=level,
        models=max(len(side.values) for side in sides),
        reasons=tuple(_first(point) for point in zip(*(side.why for side in sides), strict=True)),
    )


def curve_of(
    name: str, axis: str, x: Sequence[X], points: Points, *, unit: str, n: int, **facts: Any
) -> Curve:
    """
    Make a curve of points.

    Parameters
    ----------
    name, axis, x, unit, n, **facts
        As in `Curve`.
    points : Points

    Returns
    -------
    Curve
    """
    return Curve(
        name=name,
        axis=axis,
        x=tuple(x),
        values=points.values,
        low=points.low,
        high=points.high,
        band_low=points.band_low,
        band_high=points.band_high,
        level=points.level,
        unit=Unit(unit),
        n=n,
        seeds=(points.models,) * len(x),
        reasons=tuple(
            None if np.isfinite(value) else why or UNDEFINED
            for value, why in zip(points.values, points.reasons or (None,) * len(x), strict=True)
        ),
        **facts,
    )


def center_of(similar: Sample, positions: Sequence[float]) -> Sample | None:
    """
    Find the center of the change of each model: the mean layer, weighted by 1 - similarity.

    Parameters
    ----------
    similar : Sample
        Similarity of each layer before and after.
    positions : sequence of float
        Where the layers stand.

    Returns
    -------
    Sample or None
        With one point; None where a model did not change at all. Layers that are undefined in a model are
        left out of all.
    """
    defined = np.isfinite(similar.values).all(axis=0)
    places = np.asarray(positions, dtype=np.float64)[defined]
    weights = np.maximum(1 - similar.values[:, defined], 0)
    total = weights.sum(axis=1)
    if not defined.any() or (total <= 1e-9).any():
        return None
    center = weights @ places / total
    # A layer beyond 1 has no weight, whatever its error.
    slopes = -np.where(weights > 0, places - center[:, None], 0.0) / total[:, None]
    errors = np.einsum("ml,mlu->mu", slopes, similar.errors[:, defined])
    return Sample(values=center[:, None], errors=errors[:, None], dof=similar.dof)


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
