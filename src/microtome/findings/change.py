"""Profile of the change of layers by fine-tuning, and its center in the stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..errors import must
from .squares import read_numbers
from .words import check_names, layer_list, number, percent, small_number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeProfile:
    """
    Change of each layer, and its distribution over the stack.

    Parameters
    ----------
    change : array of shape (layers,)
        1 - s(before, after) of each layer; NaN where undefined.
    low, high : array of shape (layers,) or None
        Bounds of the change, where bounds of the similarities were given.
    positions : array of shape (layers,)
        Position of each layer.
    center : float
        Mean position, weighted by change; NaN when nothing changed.
    top_third : float
        Share of all change in the upper third of the defined layers; a layer at the border counts in part,
        so equal change everywhere gives exactly 1/3. NaN when nothing changed.
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
        """Share of the upper third if change grew linearly with position, from none at 0."""
        positions = self.positions[np.isfinite(self.change)]
        return (
            float(upper_third(len(positions)) @ positions / positions.sum())
            if positions.any()
            else float("nan")
        )

    @property
    def span(self) -> tuple[float, float]:
        """Positions of the lowest and the highest layer whose change is defined."""
        positions = self.positions[np.isfinite(self.change)]
        return float(positions.min()), float(positions.max())

    def sentence(self, names: Sequence[str] | None = None, *, tuned: bool = True) -> str:
        """
        Describe where the change is located.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the layers; their indices when absent.
        tuned : bool
            Whether one model is known to be the other after training; otherwise the text is about a
            difference, not a change.

        Returns
        -------
        str
        """
        check_names(names, len(self.change))
        left_out_note = (
            f" Left out as undefined: {layer_list(self.left_out, names)}." if self.left_out else ""
        )
        noun, verb = ("change", "changed") if tuned else ("difference", "differs")
        if self.reason is not None:
            reason = self.reason if tuned else self.reason.replace("changed", "differs")
            return f"The center of {noun} is undefined: {reason}.{left_out_note}"
        most, (first, last) = int(np.nanargmax(self.change)), self.span
        return (
            f"{layer_list([most], names).replace('layer', 'Layer', 1)} {verb} most "
            f"({small_number(self.change[most])}); the center of {noun} is at {number(self.center, 1)} "
            f"(layers from {first:g} to {last:g}), and the upper third holds {percent(self.top_third)} "
            f"of the {noun} ({percent(self.even)} if every block added as much).{left_out_note}"
        )


@checked
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
        Similarity of layer l before to layer l after; of a map the diagonal is used. NaN where it is
        undefined.
    low, high : array of the same shape, optional
        Bounds of these similarities, both or none.
    positions : array of shape (layers,), optional
        Position of each layer, in increasing order; 0, 1, ... when absent.

    Returns
    -------
    ChangeProfile

    Examples
    --------
    >>> import microtome as mt
    >>> round(mt.analysis.change_profile([1.0, 0.9, 0.5]).center, 2)
    1.83
    """
    similar = _diagonal("before_after", before_after)
    if (low is None) != (high is None):
        raise must("low and high", "given together", "one of them")
    bounds = [
        None if end is None else 1 - _diagonal(name, end) for name, end in (("high", high), ("low", low))
    ]
    places = read_numbers("positions", np.arange(len(similar)) if positions is None else positions)
    for name, array in (("high", bounds[0]), ("low", bounds[1]), ("positions", places)):
        if array is not None and array.shape != similar.shape:
            raise must(f"the shape of {name}", f"one value per layer {similar.shape}", array.shape)
    if not (np.diff(places) > 0).all():
        raise must("positions", "in increasing order", places.tolist())
    change = 1 - similar
    defined = np.isfinite(change)
    if (change[defined] < -1e-9).any():
        raise must("a similarity", "at most 1", float(similar[defined].max()))
    weight = np.maximum(change[defined], 0)
    total = weight.sum()
    center, top_third, reason = float("nan"), float("nan"), None
    if not defined.any():
        reason = "no layer has a defined similarity"
    elif total <= 1e-9:
        reason = "no layer changed"
    else:
        center, top_third = (float(weight @ at / total) for at in (places[defined], upper_third(len(weight))))
    return ChangeProfile(
        change=change,
        low=bounds[0],
        high=bounds[1],
        positions=places,
        center=center,
        top_third=top_third,
        left_out=tuple(np.flatnonzero(~defined).tolist()),
        reason=reason,
    )


def upper_third(layers: int) -> NDArray[np.float64]:
    """Fraction of each layer that lies within the upper third of the stack."""
    above = np.arange(layers, dtype=np.float64)[::-1]
    return np.clip(layers / 3 - above, 0.0, 1.0)


def _diagonal(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = read_numbers(name, values)
    if array.ndim == 1 and len(array):
        return array
    if array.ndim == 2 and array.shape[0] == array.shape[1] and len(array):
        return np.diagonal(array).copy()
    raise must(f"the shape of {name}", "[layers] or [layers, layers]", array.shape)
