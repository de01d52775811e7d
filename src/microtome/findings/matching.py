"""Layer matching: whether the most similar layer of another network has the same depth."""

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
from .squares import read_numbers
from .words import at_least, at_most, check_names, layer_list, percent


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
            f"Of {count} layers {percent(self.accuracy)} [{low}%, {high}%] "
            f"({self.interval.level * 100:g}%, unit: {self.interval.unit}) are most similar to the layer at "
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
