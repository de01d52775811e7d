"""Monotonicity of similarity in the distance of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import checked
from ..errors import must
from .squares import read_map
from .words import check_names, layer_list, number, percent


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
