"""Localization of information in single neurons (Wu et al. 2020), and its rotation-corrected form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..errors import must, unknown
from .squares import read_numbers
from .words import check_names, layer_list, number

Direction = Literal["in", "out"]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Localization:
    """
    Localization scores of all layers of all compared models; they are comparable only within this set.

    Parameters
    ----------
    scores : array of shape (layers,)
        NaN for a layer without defined similarities.
    neuron, svcca : array of shape (layers,)
        The two means over the other layers, before any z-score.
    direction : {"in", "out"}
        "in": how well the neurons of other layers are found in this one; "out": how well its neurons are
        found in the others.
    zscore : bool
        Whether the two means were standardized over the set before they were subtracted.
    compared : int
        How many layers have a score: the set on which every score depends.
    """

    scores: Array
    neuron: Array
    svcca: Array
    direction: Direction
    zscore: bool
    compared: int

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """State which layers are most and least localized, with layers labeled by `names` or indices."""
        check_names(names, len(self.scores))
        high, low = int(np.nanargmax(self.scores)), int(np.nanargmin(self.scores))
        scaled = "z-scored" if self.zscore else "not z-scored"
        return (
            f"Localization ({self.direction}, {scaled}) is highest in {layer_list([high], names)} "
            f"({number(self.scores[high])}) and lowest in {layer_list([low], names)} "
            f"({number(self.scores[low])}); scores depend on the set of {self.compared} layers compared "
            f"and mean nothing beside those of another set."
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RotationLocalization:
    """
    How much better single neurons match than they would in randomly rotated layers.

    Parameters
    ----------
    value : array
        Neuron similarity minus its mean over rotations; it does not depend on which other layers exist.
    standard_error : array
        Monte Carlo error of that mean, which decreases with the number of rotations.
    rotated_mean, rotated_sd : array
        Mean and standard deviation over rotations.
    rotations : int
    """

    value: Array
    standard_error: Array
    rotated_mean: Array
    rotated_sd: Array
    rotations: int


@checked
def localization(
    neuron: ArrayLike, svcca: ArrayLike, *, direction: Direction = "in", zscore: bool = True
) -> Localization:
    """
    Score how much of each layer's similarity to the others is due to single neurons.

    The score is the mean neuron similarity to all other layers minus the mean SVCCA similarity to them. The
    paper subtracts the raw means, with SVCCA on centered neurons (`svcca`). Its code uses the target's side,
    standardizes each of the two means over all layers first, and computes SVCCA of standardized neurons with
    one component less: `direction="in", zscore=True` and the map of
    `svcca:scaling=standardize:inclusive=False`.

    Parameters
    ----------
    neuron, svcca : array of shape (layers, layers)
        Maps over all layers of all models; `neuron[i, j]` is how well the neurons of i are matched in j. The
        diagonals are not used, and a cell that is undefined in one map is left out of both means.
    direction : {"in", "out"}
        "in": mean over the layers whose neurons are looked for in this one; "out": over those in which its
        neurons are looked for.
    zscore : bool
        Standardize both means over all layers, with the sample standard deviation.

    Returns
    -------
    Localization

    References
    ----------
    Wu et al. (2020), Similarity Analysis of Contextual Word Representation Models.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> neuron, svcca = np.random.default_rng(0).random((2, 4, 4))
    >>> mt.analysis.localization(neuron, svcca).scores.shape
    (4,)
    """
    if direction not in ("in", "out"):
        raise unknown("direction", direction, ("in", "out"))
    a, b = read_numbers("neuron", neuron), read_numbers("svcca", svcca)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or a.shape != b.shape:
        raise must("the two maps", "of one shape [layers, layers]", (a.shape, b.shape))
    defined = np.isfinite(a) & np.isfinite(b)
    means = [_over_others(np.where(defined, table, np.nan), direction) for table in (a, b)]
    compared = int(np.isfinite(means[0]).sum())
    if compared < 2:
        raise must("the two maps", "defined for at least two layers", f"{compared} defined")
    parts = [_standardize(mean) if zscore else mean for mean in means]
    return Localization(
        scores=parts[0] - parts[1],
        neuron=means[0],
        svcca=means[1],
        direction=direction,
        zscore=zscore,
        compared=compared,
    )


def localization_rotation(neuron_value: ArrayLike, rotated_values: ArrayLike) -> RotationLocalization:
    """
    Subtract from a neuron similarity its mean over random rotations of the layers.

    Rotations preserve the geometry of both layers and remove the information in single neurons.

    Parameters
    ----------
    neuron_value : float or array
        Neuron similarity of X in Y: one pair, or a map.
    rotated_values : array of shape (rotations, ...)
        The same of X Q in Y Q' for independent random rotations Q and Q'.

    Returns
    -------
    RotationLocalization
    """
    value, rotated = np.asarray(neuron_value, np.float64), np.asarray(rotated_values, np.float64)
    if rotated.ndim != value.ndim + 1 or rotated.shape[1:] != value.shape:
        raise must("the shape of rotated_values", f"(rotations, *{value.shape})", rotated.shape)
    if len(rotated) < 2:
        raise must("rotated_values", "those of at least two rotations", len(rotated))
    mean, sd = np.asarray(rotated.mean(axis=0)), np.asarray(rotated.std(axis=0, ddof=1))
    return RotationLocalization(
        value=np.asarray(value - mean),
        standard_error=np.asarray(sd / np.sqrt(len(rotated))),
        rotated_mean=mean,
        rotated_sd=sd,
        rotations=len(rotated),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Localizations:
    """
    The published scores of every layer, and the neuron similarity in excess of random rotations.

    Parameters
    ----------
    described, coded : Localization
        As the paper describes the score, and as its code computes it, which has the direction "in" only.
    beyond : array of shape (layers,)
        Mean over the other layers of the neuron similarity minus its mean over rotations: there is no
        z-score, and the bias of a largest correlation with many neurons or few rows is subtracted. NaN for a
        layer without defined similarities.
    monte_carlo : array of shape (layers,)
        Upper bound of its Monte Carlo error: all pairs share the rotations.
    direction : {"in", "out"}
    agreement : float
        Spearman's correlation of `beyond` and the published code's scores over layers.
    agreement_described : float
        The same with the score as the paper describes it.
    """

    described: Localization
    coded: Localization
    beyond: Array
    monte_carlo: Array
    direction: Direction
    agreement: float
    agreement_described: float


def localizations(
    svcca: ArrayLike,
    coded_svcca: ArrayLike,
    rotation: RotationLocalization,
    *,
    direction: Direction = "in",
) -> Localizations:
    """
    Compute the published localization scores and the one corrected by random rotations.

    Parameters
    ----------
    svcca, coded_svcca : array of shape (layers, layers)
        Maps over all layers of all models: of centered neurons, as the paper describes it, and as its code
        computes it.
    rotation : RotationLocalization
        Of the neuron similarities of the same layers; see `find_localization`.
    direction : {"in", "out"}
        As in `localization`.

    Returns
    -------
    Localizations
    """
    neuron = rotation.value + rotation.rotated_mean
    described = localization(neuron, svcca, direction=direction, zscore=False)
    coded = localization(neuron, coded_svcca, direction="in", zscore=True)
    beyond, error = (_over_others(table, direction) for table in (rotation.value, rotation.standard_error))
    return Localizations(
        described=described,
        coded=coded,
        beyond=beyond,
        monte_carlo=error,
        direction=direction,
        agreement=_ranked(beyond, coded.scores),
        agreement_described=_ranked(beyond, described.scores),
    )


def _ranked(values: Array, scores: Array) -> float:
    """Spearman's correlation over the layers that have both; NaN for few layers or constant values."""
    from scipy.stats import spearmanr

    defined = np.isfinite(values) & np.isfinite(scores)
    if defined.sum() < 3 or min(np.ptp(values[defined]), np.ptp(scores[defined])) <= 0:
        return float("nan")
    return float(spearmanr(values[defined], scores[defined]).statistic)  # pyright: ignore[reportAttributeAccessIssue]


def _over_others(values: Array, direction: Direction) -> Array:
    """Mean of a map over the other layers, without the diagonal and undefined cells; NaN where none is."""
    others = np.where(np.eye(len(values), dtype=bool), np.nan, values)
    defined, axis = np.isfinite(others), 0 if direction == "in" else 1
    count = defined.sum(axis=axis)
    return np.where(defined, others, 0).sum(axis=axis) / np.where(count > 0, count, np.nan)


def _standardize(series: Array) -> Array:
    spread = np.nanstd(series, ddof=1)
    if spread <= 1e-12:
        raise must(
            "a series to be z-scored",
            "different between layers; more rows may make it so",
            "the same value everywhere",
        )
    return (series - np.nanmean(series)) / spread
