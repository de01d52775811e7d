"""Do the layers of one stack form two blocks, where is the border, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, must
from ..inference.estimate import Interval
from .words import check_names, layer_list, number, with_interval

# The rule's thresholds. Significance alone cannot decide: with hundreds of rows, every stack whose steps are
# not exactly equal is "significant". Half a gap was calibrated on simulated Markov chains of layers
# (benchmarks/blocks_simulation.py), not on trained networks.
STEP_CONTRAST = 0.5
BLOCK_CONTRAST = 1.0
LEAST_Z = 1.64
LEAST_SIDE = 3

Verdict = Literal["two blocks", "step", "none", "undefined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFinding:
    """
    Whether a border between layers stands out, with every number the verdict rests on.

    Parameters
    ----------
    verdict : {"two blocks", "step", "none", "undefined"}
    reason : str or None
        Why the finding is undefined.
    layers : int
        Layers of the map; indices below count from 0 in its order.
    used, left_out : tuple of int
        Layers that were read, and those whose similarities are undefined.
    border : int or None
        Last layer below the border that the first half of the examples chooses.
    border_other : int or None
        The same, chosen by the second half.
    contrast : float
        The contrast at `border` in the second half, in mean adjacent gaps.
    standard_error, z : float
        By the jackknife over groups of the second half.
    interval : Interval or None
        Of the contrast.
    gap : float
        The unit: mean of 1 - s over adjacent layers.
    gap_ratio : float
        The gap at the border over the median of the other adjacent gaps; NaN where the two layers at the
        border are not adjacent because one between them is left out.
    borders : tuple of int
        Every border that could be tested.
    contrasts : tuple of float
        The second half's contrast at each of them, in mean adjacent gaps.
    plain_border, plain_contrast, plain_sharpness : int or None, float, float
        For comparison, on the second half: the border with the largest mean similarity inside minus across,
        that difference (positive for every smooth decay), and s(b-1, b) + s(b+1, b+2) - 2 s(b, b+1).
    """

    verdict: Verdict
    reason: str | None = None
    layers: int
    used: tuple[int, ...]
    left_out: tuple[int, ...]
    border: int | None = None
    border_other: int | None = None
    contrast: float = float("nan")
    standard_error: float = float("nan")
    z: float = float("nan")
    interval: Interval | None = None
    gap: float = float("nan")
    gap_ratio: float = float("nan")
    borders: tuple[int, ...] = ()
    contrasts: tuple[float, ...] = ()
    plain_border: int | None = None
    plain_contrast: float = float("nan")
    plain_sharpness: float = float("nan")

    @property
    def lower(self) -> tuple[int, ...]:
        """Layers below the border."""
        return () if self.border is None else tuple(i for i in self.used if i <= self.border)

    @property
    def upper(self) -> tuple[int, ...]:
        """Layers above the border."""
        return () if self.border is None else tuple(i for i in self.used if i > self.border)

    @property
    def agree(self) -> bool:
        """Whether both halves of the examples choose the same border."""
        return self.border is not None and self.border == self.border_other

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Say the finding, with layers called by `names` (one a layer of the map) or by their indices."""
        check_names(names, self.layers)
        kept = f" Left out as undefined: {layer_list(self.left_out, names)}." if self.left_out else ""
        if self.border is None or self.border_other is None:
            return f"Blocks are undefined: {self.reason}.{kept}"
        here, there = self._between(self.border, names), self._between(self.border_other, names)
        if self.verdict == "two blocks":
            start = f"Two blocks, {layer_list(self.lower, names)} and {layer_list(self.upper, names)}: the"
        elif self.verdict == "step":
            start = f"A step stands out {here}: the"
        else:
            start = f"No step stands out: at the chosen border, {here}, the"
        parts = [
            f"{start} contrast is {with_interval(self.contrast, self.interval, noun='adjacent gaps')}",
            f"z = {number(self.z, 1)} (the rule: a step has a contrast above {STEP_CONTRAST:g} and z above "
            f"{LEAST_Z:g}, two blocks one from {BLOCK_CONTRAST:g} on)",
            self._gap_there(),
            "both halves of the examples choose this border"
            if self.agree
            else f"the other half of the examples chooses {there}",
        ]
        single = f" With {len(self.used)} layers only this one border can be tested."
        only = single if len(self.borders) == 1 else ""
        return f"{', '.join(parts)}.{only}{kept}"

    def _gap_there(self) -> str:
        """Say how the gap at the border compares; it has no part in the rule, and may point the other way."""
        if math.isnan(self.gap_ratio):
            return "the gap there is undefined"
        said = f"the gap there is {number(self.gap_ratio, 1)} times the median of the others"
        against = " (which decides nothing: the contrast is of all pairs across the border)"
        return said if (self.gap_ratio > 1) == (self.verdict != "none") else f"{said}{against}"

    def _between(self, border: int, names: Sequence[str] | None) -> str:
        return f"between {layer_list((border, self.used[self.used.index(border) + 1]), names)}"


def read_map(name: str, values: ArrayLike, *, ndim: int = 2) -> NDArray[np.float64]:
    """
    Read a map of one stack with itself: square in its last two axes, the two directions averaged.

    Parameters
    ----------
    name : str
        What the error calls it.
    values : array of shape (..., layers, layers)
    ndim : int
        How many axes there must be.

    Returns
    -------
    array of shape (..., layers, layers), float64, symmetric
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != ndim or array.shape[-1] != array.shape[-2]:
        shape = "[layers, layers]" if ndim == 2 else "[groups, layers, layers]"
        raise must(f"the shape of {name}", shape, array.shape)
    return (array + np.swapaxes(array, -1, -2)) / 2


def usable_layers(*maps: NDArray[np.float64]) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """
    Find the layers among which every similarity is defined, leaving out as few as a greedy search can.

    Parameters
    ----------
    *maps : array of shape (..., layers, layers)
        Diagonals are not read.

    Returns
    -------
    used : array of int
    left_out : tuple of int
    """
    size = maps[0].shape[-1]
    undefined = np.zeros((size, size), dtype=bool)
    for values in maps:
        undefined |= ~np.isfinite(values).reshape(-1, size, size).all(axis=0)
    np.fill_diagonal(undefined, False)
    left_out: list[int] = []
    while undefined.any():
        worst = int(undefined.sum(axis=1).argmax())
        left_out.append(worst)
        undefined[worst], undefined[:, worst] = False, False
    return np.setdiff1d(np.arange(size), left_out), tuple(sorted(left_out))


def block_structure(
    select: ArrayLike,
    evaluate: ArrayLike,
    jackknife: ArrayLike,
    *,
    level: float = 0.95,
    select_other: ArrayLike | None = None,
    unit: str = "example",
) -> BlockFinding:
    """
    Test whether a border between layers stands out of the smooth course of the similarities.

    For every pair of layers the similarity is freed of its distance |i - j| and of a course over depth that
    is quadratic in the pair's midpoint and may change with distance. The contrast of a border is then the
    similarity inside the two sides minus that across, taken within each distance and averaged with weights
    n_w n_b / (n_w + n_b), in units of the mean adjacent gap 1 - s(l, l+1). One half of the examples chooses
    the border, the other half says how large the contrast is there. A step stands out when the contrast is
    above 0.5 and z above 1.64; from 1.0 on it is called two blocks.

    Parameters
    ----------
    select : array of shape (layers, layers)
        Map of a stack with itself on half of the examples; it chooses the border. The diagonal is not read,
        and the two directions of a directed measure are averaged.
    evaluate : array of shape (layers, layers)
        The same map on the other half.
    jackknife : array of shape (groups, layers, layers)
        The map on the other half without each of its groups (ten are usual) in turn.
    level : float
        Coverage promised by the interval.
    select_other : array of shape (layers, layers), optional
        The map by which the second half chooses a border; `evaluate` without it.
    unit : str
        What was put into halves and groups: "example", "sentence".

    Returns
    -------
    BlockFinding

    Raises
    ------
    InputError
        With fewer than six layers whose similarities are defined.
    """
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    first, second = read_map("select", select), read_map("evaluate", evaluate)
    groups = read_map("jackknife", jackknife, ndim=3)
    third = second if select_other is None else read_map("select_other", select_other)
    if not first.shape == second.shape == third.shape == groups.shape[1:]:
        raise must(
            "the maps", f"all of select's shape {first.shape}", [second.shape, groups.shape, third.shape]
        )
    if len(groups) < 2:
        raise must("jackknife", "the maps without each of at least two groups", f"{len(groups)} map")
    used, left_out = usable_layers(first, second, third, groups)
    ends, weights, (i, j) = _contrast_weights(used)
    below = tuple(used[ends - 1].tolist())
    known = {"layers": len(first), "used": tuple(used.tolist()), "left_out": left_out, "borders": below}

    def cells(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[..., used[i], used[j]]

    adjacent = used[j] - used[i] == 1
    if not len(ends) or not adjacent.any():
        reason = "too many layers are left out to compare pairs of equal distance inside and across a border"
        return BlockFinding(verdict="undefined", reason=reason, **known)
    y, y_groups = cells(second), cells(groups)
    gap, group_gaps = 1 - y[adjacent].mean(), 1 - y_groups[:, adjacent].mean(axis=1)
    if min(gap, group_gaps.min()) <= 1e-9:
        reason = "adjacent layers do not differ (their mean gap is 0), so there is no unit to count in"
        return BlockFinding(verdict="undefined", reason=reason, gap=float(gap), **known)

    chosen, chosen_other = (int(np.argmax(weights @ cells(half))) for half in (first, third))
    contrasts = weights @ y / gap
    contrast = float(contrasts[chosen])
    error, interval = _jackknife(contrast, y_groups @ weights[chosen] / group_gaps, level, unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = float(np.divide(contrast, error))
    stands = contrast > STEP_CONTRAST and z > LEAST_Z
    plain, plain_contrast, plain_sharpness = _plain(second[np.ix_(used, used)], ends)
    return BlockFinding(
        verdict=("two blocks" if contrast >= BLOCK_CONTRAST else "step") if stands else "none",
        border=below[chosen],
        border_other=below[chosen_other],
        contrast=contrast,
        standard_error=error,
        z=z,
        interval=interval,
        gap=float(gap),
        gap_ratio=_gap_ratio(1 - y[adjacent], used[i[adjacent]] == below[chosen]),
        contrasts=tuple(contrasts.tolist()),
        plain_border=below[plain],
        plain_contrast=plain_contrast,
        plain_sharpness=plain_sharpness,
        **known,
    )


def split_all(values: ArrayLike, k: int, *, least: int = LEAST_SIDE) -> tuple[tuple[int, ...], ...]:
    """
    Cut a stack into k runs of layers that scatter least, by dynamic programming.

    Layers are taken as points with squared distances 2 (1 - s); a block's scatter is the sum of squared
    distances from its center. This describes: some cut is always best, and nothing is tested.

    Parameters
    ----------
    values : array of shape (layers, layers)
        Map of a stack with itself; the diagonal is not read.
    k : int
        How many blocks.
    least : int
        Fewest layers of a block.

    Returns
    -------
    tuple of tuple of int
        Indices of the layers of each block; layers whose similarities are undefined are in none.
    """
    s = read_map("values", values)
    used, _ = usable_layers(s)
    size = len(used)
    if k < 1 or least < 1 or k * least > size:
        raise must("k", f"such that {size} defined layers make k blocks of at least {least}", k)
    far = 1 - s[np.ix_(used, used)]
    np.fill_diagonal(far, 0)
    total = np.zeros((size + 1, size + 1))
    total[1:, 1:] = far.cumsum(axis=0).cumsum(axis=1)

    def scatter(start: int, stop: int) -> float:
        inside = total[stop, stop] - total[start, stop] - total[stop, start] + total[start, start]
        return float(inside / (stop - start))

    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for _ in range(k):
        reached: dict[int, tuple[float, tuple[int, ...]]] = {}
        for start, (cost, cuts) in best.items():
            for stop in range(start + least, size + 1):
                offer = cost + scatter(start, stop)
                if stop not in reached or offer < reached[stop][0]:
                    reached[stop] = (offer, (*cuts, stop))
        best = reached
    cuts = best[size][1]
    return tuple(tuple(used[a:b].tolist()) for a, b in zip((0, *cuts[:-1]), cuts, strict=True))


def _plain(s: NDArray[np.float64], borders: NDArray[np.intp]) -> tuple[int, float, float]:
    i, j = np.triu_indices(len(s), 1)
    y, inside = s[i, j], (i < borders[:, None]) == (j < borders[:, None])
    contrasts = (inside @ y) / inside.sum(axis=1) - (~inside @ y) / (~inside).sum(axis=1)
    best = int(np.argmax(contrasts))
    b = borders[best] - 1
    return best, float(contrasts[best]), float(s[b - 1, b] + s[b + 1, b + 2] - 2 * s[b, b + 1])


def _contrast_weights(
    used: NDArray[np.intp],
) -> tuple[NDArray[np.intp], NDArray[np.float64], tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Write each border's contrast as weights on the pairs i < j: stratified contrast of the residuals."""
    if len(used) < 2 * LEAST_SIDE:
        raise InputError(
            f"blocks need at least {2 * LEAST_SIDE} layers with defined similarities, {LEAST_SIDE} on each"
            f" side of a border, but got {len(used)}."
        )
    ends = np.arange(LEAST_SIDE, len(used) - LEAST_SIDE + 1)
    i, j = np.triu_indices(len(used), 1)
    distance = used[j] - used[i]
    depth = (used[i] + used[j]) / 2
    # Centering and scaling depth changes no residual (the distances' own columns take up the difference) and
    # keeps the columns of one size.
    m = (depth - depth.mean()) / max(len(used) / 2, 1)
    far = distance / distance.max()
    strata = (distance[:, None] == np.unique(distance)).astype(np.float64)
    design = np.column_stack([strata, m, m**2, m * far, m**2 * far])
    basis, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * sizes[0]]

    inside = (i < ends[:, None]) == (j < ends[:, None])
    n_within, n_between = inside @ strata, ~inside @ strata
    mass = n_within * n_between / (n_within + n_between)
    # With layers left out, a border may share no distance between its inside and its outside.
    testable = mass.sum(axis=1) > 0
    ends, inside, mass = ends[testable], inside[testable], mass[testable]
    mass = mass / mass.sum(axis=1, keepdims=True)
    within, between = (mass / np.maximum(count[testable], 1) for count in (n_within, n_between))
    share = np.where(inside, within @ strata.T, -between @ strata.T)
    return ends, share - share @ basis @ basis.T, (i, j)


def _jackknife(
    value: float, replicates: NDArray[np.float64], level: float, unit: str
) -> tuple[float, Interval]:
    from scipy.special import stdtrit

    count = len(replicates)
    error = float(np.sqrt((count - 1) / count * ((replicates - replicates.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, (1 + level) / 2)) * error
    interval = Interval(
        low=value - reach,
        high=value + reach,
        level=level,
        method=f"jackknife over {count} groups, t with {count - 1} degrees of freedom",
        unit=unit,
        target="population value",
    )
    return error, interval


def _gap_ratio(gaps: NDArray[np.float64], here: NDArray[np.bool_]) -> float:
    if not here.any() or here.all():
        return float("nan")
    middle = float(np.median(gaps[~here]))
    return float(gaps[here][0]) / middle if middle > 0 else float("nan")
