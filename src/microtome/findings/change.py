"""Where in the stack did fine-tuning change the layers, and how far up is the center of that change?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import must
from .words import check_names, layer_list, number, percent, small_number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeProfile:
    """
    How much each layer changed, and where the change sits.

    Parameters
    ----------
    change : array of shape (layers,)
        1 - s(before, after) of each layer; NaN where undefined.
    low, high : array of shape (layers,) or None
        Bounds of the change, where bounds of the similarities were given.
    positions : array of shape (layers,)
        Where each layer stands.
    center : float
        Mean position, weighted by change; NaN when nothing changed.
    top_third : float
        Share of all change in the upper third of the defined layers; a layer that the third cuts through
        counts in part, so equal change everywhere gives exactly 1/3. NaN when nothing changed.
    left_out : tuple of int
        Layers whose change is undefined.
    reason : str or None
        Why the center is undefined.
    """

    change: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    positions: NDArray[np.float64]
    center: float
    top_third: float
    left_out: tuple[int, ...]
    reason: str | None = None

    @property
    def even(self) -> float:
        """Share of the upper third if every block changed as much again, counted from no change at 0."""
        places = self.positions[np.isfinite(self.change)]
        return float(upper_third(len(places)) @ places / places.sum()) if places.any() else float("nan")

    def sentence(
        self, names: Sequence[str] | None = None, *, center: str | None = None, share: str | None = None
    ) -> str:
        """
        Say where the change sits.

        Parameters
        ----------
        names : sequence of str, optional
            What layers are called; their indices when absent.
        center, share : str, optional
            The center and the share of the upper third in words, where intervals are known of them.

        Returns
        -------
        str
        """
        check_names(names, len(self.change))
        kept = f" Left out as undefined: {layer_list(self.left_out, names)}." if self.left_out else ""
        if self.reason is not None:
            return f"The center of change is undefined: {self.reason}.{kept}"
        most = int(np.nanargmax(self.change))
        defined = self.positions[np.isfinite(self.change)]
        return (
            f"{layer_list([most], names).replace('layer', 'Layer', 1)} changed most "
            f"({small_number(self.change[most])}); the center of change is at "
            f"{center or number(self.center, 1)} (layers from {defined.min():g} to {defined.max():g}), and "
            f"the upper third holds {share or percent(self.top_third)} of the change "
            f"({percent(self.even)} if every block added as much).{kept}"
        )


def change_profile(
    before_after: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    *,
    positions: ArrayLike | None = None,
) -> ChangeProfile:
    """
    Turn the similarities of each layer before and after training into a profile of change.

    Parameters
    ----------
    before_after : array of shape (layers,) or (layers, layers)
        Similarity of layer l before to layer l after; of a whole map the diagonal is read. NaN where it is
        undefined.
    low, high : array of the same shape, optional
        Bounds of these similarities, both or none.
    positions : array of shape (layers,), optional
        Where each layer stands, in increasing order; 0, 1, ... without it.

    Returns
    -------
    ChangeProfile
    """
    similar = _diagonal("before_after", before_after)
    if (low is None) != (high is None):
        raise must("low and high", "given together", "one of them")
    bounds = [None if b is None else 1 - _diagonal(n, b) for n, b in (("high", high), ("low", low))]
    places = np.arange(len(similar)) if positions is None else np.asarray(positions)
    places = places.astype(np.float64)
    for name, given in (("high", bounds[0]), ("low", bounds[1]), ("positions", places)):
        if given is not None and given.shape != similar.shape:
            raise must(f"the shape of {name}", f"one value a layer {similar.shape}", given.shape)
    if not (np.diff(places) > 0).all():
        raise must("positions", "in increasing order", places.tolist())
    change = 1 - similar
    defined = np.isfinite(change)
    if (change[defined] < -1e-9).any():
        raise must("a similarity", "at most 1", float(similar[defined].max()))
    weight = np.maximum(change[defined], 0)
    total = weight.sum()
    reason = None
    if not defined.any():
        reason = "no layer has a defined similarity"
    elif total <= 1e-9:
        reason = "no layer changed"
    inside = upper_third(len(weight))
    return ChangeProfile(
        change=change,
        low=bounds[0],
        high=bounds[1],
        positions=places,
        center=float("nan") if reason else float(weight @ places[defined] / total),
        top_third=float("nan") if reason else float(weight @ inside / total),
        left_out=tuple(np.flatnonzero(~defined).tolist()),
        reason=reason,
    )


def upper_third(layers: int) -> NDArray[np.float64]:
    """How much of each layer's unit of depth lies within the upper third."""
    above = np.arange(layers, dtype=np.float64)[::-1]
    return np.clip(layers / 3 - above, 0.0, 1.0)


def _diagonal(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1 and len(array):
        return array
    if array.ndim == 2 and array.shape[0] == array.shape[1] and len(array):
        return np.diagonal(array).copy()
    raise must(f"the shape of {name}", "[layers] or [layers, layers]", array.shape)
