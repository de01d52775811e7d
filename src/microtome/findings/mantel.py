"""Mantel test of the agreement of two maps of the same layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import checked
from ..errors import must
from ..randomness import generator
from .squares import read_map, usable_layers
from .words import layer_list, number, p_value

_ROUNDING = 1e-12


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
