"""Order of layers in similarity maps: matching by depth, monotonicity in distance, agreement of two maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import checked
from ..checks import check_level
from ..errors import must
from ..inference.estimate import Interval
from ..inference.scoring import wilson
from ..randomness import generator
from .squares import read_map, read_numbers, usable_layers
from .words import at_least, at_most, check_names, coverage, layer_list, number, over, p_value, percent

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatching:
    """
    How often the most similar layer of the other network is at the same relative depth.

    Parameters
    ----------
    accuracy : float
        Share of layers whose most similar layer is within half a layer of the same relative depth; between
        networks of equal depth, the one with the same index. A layer with t equally similar best layers
        counts by the share of those t that match.
    within_one : float
        The same, within one layer.
    chance : float
        Expected `accuracy` if the most similar layer were random.
    interval : Interval
        Wilson's, for `accuracy`, with layers treated as independent.
    best : tuple of (int or None)
        The most similar layer of the other network (the first of ties), None for layers left out.
    expected : tuple of float
        The same relative depth in the other network, as an index.
    ties : tuple of int
        Layers with more than one most similar layer.
    left_out : tuple of int
        Layers without a defined similarity to the layer at their depth.
    """

    accuracy: float
    within_one: float
    chance: float
    interval: Interval
    best: tuple[int | None, ...]
    expected: tuple[float, ...]
    ties: tuple[int, ...]
    left_out: tuple[int, ...]

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """State how often layers match, with the left network's layers labeled by `names` or indices."""
        check_names(names, len(self.best))
        count = len(self.best) - len(self.left_out)
        low, high = at_least(100 * self.interval.low, 0), at_most(100 * self.interval.high, 0)
        parts = [
            f"Of {count} layers {percent(self.accuracy)} [{low} %, {high} %] "
            f"({coverage(self.interval.level)}, {over(self.interval.unit)}) are most similar to the layer at "
            f"their own depth, and {percent(self.within_one)} to one within a layer of it; chance is "
            f"{percent(self.chance)}."
        ]
        if self.ties:
            parts.append(f"Ties: {layer_list(self.ties, names)}.")
        if self.left_out:
            parts.append(f"Left out as undefined: {layer_list(self.left_out, names)}.")
        return " ".join(parts)


@checked
def layer_matching(values: ArrayLike, *, level: float = 0.95, tolerance: float = 1e-12) -> LayerMatching:
    """
    Compute how many layers are most similar to the layer of the same depth in another network.

    Parameters
    ----------
    values : array of shape (layers, other_layers)
        Similarities between two networks, lowest layers first; the largest value of every row is its match.
        The transpose gives the other direction.
    level : float
        Coverage of the interval.
    tolerance : float
        Values this close to the largest are equal to it.

    Returns
    -------
    LayerMatching

    References
    ----------
    Kornblith et al. (2019), Similarity of Neural Network Representations Revisited.

    Examples
    --------
    >>> import microtome as mt
    >>> values = [[0.9, 0.2, 0.1], [0.3, 0.8, 0.4], [0.1, 0.7, 0.6]]
    >>> mt.analysis.layer_matching(values).best
    (0, 1, 1)
    """
    s = read_numbers("values", values)
    if s.ndim != 2 or min(s.shape, default=0) < 2:
        raise must("the shape of values", "at least two layers by two layers", s.shape)
    check_level(level)
    if not tolerance >= 0:
        raise must("tolerance", "at least 0", tolerance)
    rows, columns = s.shape
    expected = np.arange(rows) * (columns - 1) / (rows - 1)
    # Rounding must not decide whether an offset is still within half a layer.
    off = np.abs(np.arange(columns) - expected[:, None]) - 1e-9
    defined = np.isfinite(s)
    used = (defined & (off <= 0.5)).any(axis=1)
    if not used.any():
        raise must("values", "defined for at least one pair of layers of equal depth", "none defined")
    filled = np.where(defined, s, -np.inf)
    top = defined & (filled >= filled.max(axis=1, keepdims=True) - tolerance)
    count = np.maximum(top.sum(axis=1), 1)

    def share(reach: float) -> float:
        return float(((top & (off <= reach)).sum(axis=1) / count)[used].mean())

    accuracy = share(0.5)
    low, high = wilson(accuracy, int(used.sum()), level)
    by_chance = (defined & (off <= 0.5)).sum(axis=1)[used] / defined.sum(axis=1)[used]
    return LayerMatching(
        accuracy=accuracy,
        within_one=share(1.0),
        chance=float(by_chance.mean()),
        interval=Interval(
            low=low,
            high=high,
            level=level,
            method="Wilson",
            unit="layer",
            target="share of layers that match",
        ),
        best=tuple(int(row.argmax()) if use else None for row, use in zip(filled, used, strict=True)),
        expected=tuple(expected.tolist()),
        ties=tuple(np.flatnonzero(used & (top.sum(axis=1) > 1)).tolist()),
        left_out=tuple(np.flatnonzero(~used).tolist()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotonicity:
    """
    How well similarities reflect the order of the layers.

    Parameters
    ----------
    tau : float
        Kendall's tau-b between depth l and the similarity s(l, last), over the layers below the last one
        with a defined similarity: 1 when similarity grows at every step. NaN with a reason where undefined.
    violated : float
        Share of the triples i < j < k in which the outer pair is more similar than one of the inner pairs:
        s(i, k) > s(i, j) + tolerance or s(i, k) > s(j, k) + tolerance. NaN when no triple is defined.
    triples : int
        Triples whose three similarities are defined.
    layers : int
    last : int or None
        The reference layer of tau: the last one with defined similarities.
    left_out : tuple of int
        Layers without any defined similarity.
    reason : str or None
        Why tau is undefined.
    """

    tau: float
    violated: float
    triples: int
    layers: int
    last: int | None
    left_out: tuple[int, ...]
    reason: str | None = None

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Describe the monotonicity, with layers labeled by `names` or by their indices."""
        check_names(names, self.layers)
        left_out_note = (
            f" Left out as undefined: {layer_list(self.left_out, names)}." if self.left_out else ""
        )
        broken = (
            f"of {self.triples} triples of layers {percent(self.violated)} break the order"
            if self.triples
            else "no triple of layers is defined"
        )
        if self.reason is not None or self.last is None:
            return f"Kendall's tau is undefined: {self.reason}; {broken}.{left_out_note}"
        return (
            f"Kendall's tau of depth with similarity to {layer_list([self.last], names)} is "
            f"{number(self.tau)}; {broken}.{left_out_note}"
        )


@checked
def monotonicity(values: ArrayLike, *, tolerance: float = 0.0) -> Monotonicity:
    """
    Measure how monotonically similarity falls with the distance of layers.

    Parameters
    ----------
    values : array of shape (layers, layers)
        Map of a stack with itself; the two directions of an asymmetric measure are averaged, the diagonal is
        not used.
    tolerance : float
        By how much a similarity must exceed another to count as larger in a triple.

    Returns
    -------
    Monotonicity

    Examples
    --------
    >>> import microtome as mt
    >>> values = [[1.0, 0.8, 0.3], [0.8, 1.0, 0.7], [0.3, 0.7, 1.0]]
    >>> mt.analysis.monotonicity(values).violated
    0.0
    """
    if not tolerance >= 0:
        raise must("tolerance", "at least 0", tolerance)
    s = read_map("values", values)
    np.fill_diagonal(s, np.nan)
    s[~np.isfinite(s)] = np.nan
    present = np.isfinite(s).any(axis=1)
    left_out = tuple(np.flatnonzero(~present).tolist())
    last = int(np.flatnonzero(present)[-1]) if present.any() else None
    tau, reason = float("nan"), "no similarity is defined"
    if last is not None:
        below = s[:last, last]
        tau, reason = _kendall(np.flatnonzero(np.isfinite(below)), below[np.isfinite(below)])

    triples, broken = 0, 0
    for middle in range(1, len(s) - 1):
        outer = s[:middle, middle + 1 :]
        inner = np.minimum(s[:middle, middle, None], s[None, middle, middle + 1 :])  # NaN if either is
        triples += int(np.isfinite(outer + inner).sum())
        broken += int((outer > inner + tolerance).sum())
    return Monotonicity(
        tau=tau,
        violated=broken / triples if triples else float("nan"),
        triples=triples,
        layers=len(s),
        last=last,
        left_out=left_out,
        reason=reason,
    )


def _kendall(x: np.ndarray, y: np.ndarray) -> tuple[float, str | None]:
    if len(x) < 2:
        return float("nan"), "fewer than two layers have a similarity to the last one"
    a, b = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[b] - x[a]), np.sign(y[b] - y[a])
    if not dy.any():
        return float("nan"), "all layers are equally similar to the last one"
    return float((dx * dy).sum() / np.sqrt(np.abs(dx).sum() * np.abs(dy).sum())), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mantel:
    """
    Correlation of two maps, and its permutation p-value.

    Parameters
    ----------
    correlation : float
        Pearson's, over the pairs i < j; NaN with a reason where undefined.
    p : float
        One-sided, from the permutations including the observed order.
    permutations : int
    layers : int
        Layers used.
    left_out : tuple of int
        Layers whose similarities are undefined in one of the maps.
    reason : str or None
    """

    correlation: float
    p: float
    permutations: int
    layers: int
    left_out: tuple[int, ...]
    reason: str | None = None

    def sentence(self) -> str:
        """State how far the maps agree."""
        left_out_note = f" Left out as undefined: {layer_list(self.left_out)}." if self.left_out else ""
        if self.reason is not None:
            return f"The correlation of the maps is undefined: {self.reason}.{left_out_note}"
        return (
            f"The maps correlate with r = {number(self.correlation, 3)} over {self.layers} layers "
            f"({p_value(self.p)}, {self.permutations} permutations of the layers).{left_out_note}"
        )


@checked
def mantel(map_a: ArrayLike, map_b: ArrayLike, permutations: int = 999, seed: int = 0) -> Mantel:
    """
    Correlate two maps of the same layers, and permute the layers of one of them.

    The null hypothesis is that the maps agree no more than maps of unrelated layers. Similarity falls with
    distance in almost every stack, so a small p is expected; the correlation is the finding.

    Parameters
    ----------
    map_a, map_b : array of shape (layers, layers)
        Maps with the same layers in the same order; the two directions are averaged, diagonals are not used.
    permutations : int
        Number of random permutations of the layers.
    seed : int

    Returns
    -------
    Mantel

    References
    ----------
    Mantel (1967), The Detection of Disease Clustering and a Generalized Regression Approach.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.arange(6)
    >>> values = 1 / (1 + abs(layers[:, None] - layers))
    >>> round(mt.analysis.mantel(values, 2 * values).correlation, 2)
    1.0
    """
    a, b = read_map("map_a", map_a), read_map("map_b", map_b)
    if a.shape != b.shape:
        raise must("the shape of map_b", f"that of map_a {a.shape}", b.shape)
    if permutations < 1:
        raise must("permutations", "at least 1", permutations)
    used, left_out = usable_layers(a, b)
    if len(used) < 4:
        raise must("the maps", "defined for at least four layers", f"{len(used)} defined")
    fields = {"permutations": permutations, "layers": len(used), "left_out": left_out}
    i, j = np.triu_indices(len(used), 1)
    x, y = a[used[i], used[j]], b[used[i], used[j]]
    x, y = x - x.mean(), y - y.mean()
    if min(np.abs(x).max(), np.abs(y).max()) <= _ROUNDING:
        reason = "all similarities of one map are equal"
        return Mantel(correlation=float("nan"), p=float("nan"), reason=reason, **fields)
    scale = np.sqrt((x @ x) * (y @ y))
    observed = float(x @ y / scale)
    square = np.zeros((len(used), len(used)))
    square[i, j] = square[j, i] = y
    rng = generator(seed, "mantel")
    as_large = 0
    for _ in range(permutations):
        order = rng.permutation(len(used))
        # The same set of numbers in another order: mean and scale do not change.
        as_large += x @ square[order[i], order[j]] / scale >= observed - _ROUNDING
    return Mantel(correlation=observed, p=(1 + int(as_large)) / (1 + permutations), **fields)
