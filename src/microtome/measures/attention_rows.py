"""How far apart are the attention rows of every head of one model from those of every head of another?

Each answer is a sum over the rows of one sentence for all pairs of heads at once: Frobenius norms, Pearson
correlations and tables of word pairs are matrix products, Jensen-Shannon divergences have their own kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError, must
from .attention_js import Kernel, divergence_sums

if TYPE_CHECKING:
    import torch

    Maps: TypeAlias = npt.NDArray[Any] | torch.Tensor

Array: TypeAlias = npt.NDArray[Any]
Sums: TypeAlias = tuple[Array, ...]

ROW_SUM = 1e-3  # how far from 1 a row may sum: half precision passes
GONE = 1e-30  # attention left to a row by the lower triangle that cannot be scaled to 1 again
CONSTANT = 64 * float(np.finfo(np.float32).eps) ** 2  # (8 eps)^2: what float32 leaves of a constant


class Rows(NamedTuple):
    """
    The rows of one sentence that are compared, for all heads of all layers.

    Parameters
    ----------
    left, right : array of shape (layers * heads, rows, words)
        Rows that sum to 1; one object twice when a model is compared with itself.
    inside : array of bool, shape (rows, words)
        The positions a row may attend to.
    layers, shift : pair of int, float
        Of the left and of the right model; a number near the mean of attention, for all sentences the same.
    causal : bool
        Whether these are the positions up to the word itself, and the first word is not among the rows.
    kernel : {"numba", "torch"}, optional
    """

    left: Array
    right: Array
    inside: Array
    layers: tuple[int, int] = (1, 1)
    shift: float = 0.0
    causal: bool = False
    kernel: Kernel | None = None

    @property
    def same(self) -> bool:
        """Whether a model is compared with itself."""
        return self.left is self.right

    def flat(self) -> tuple[Array, Array]:
        """Take the allowed positions, row after row: two arrays of shape (layers * heads, positions)."""
        left = self.left[:, self.inside]
        return left, left if self.same else self.right[:, self.inside]


class Used(NamedTuple):
    """What sums are over: heads as (L, heads_left, R, heads_right), sentences, words."""

    shape: tuple[int, int, int, int]
    sentences: int
    words: int


def trim(maps: Maps, mask: Maps) -> Maps:
    """
    Take padding out of attention maps, rows and columns.

    Parameters
    ----------
    maps : array or tensor of shape (layers, heads, T, T)
    mask : array or tensor of shape (T,)
        True for the words that are there.

    Returns
    -------
    array or tensor of shape (layers, heads, t, t)
        Rows are as they came: attention that went to padding shows as a row that does not sum to 1.
    """
    size = int(mask.shape[0])
    if maps.ndim != 4 or tuple(maps.shape[2:]) != (size, size):
        raise must("maps", f"of shape (layers, heads, {size}, {size}), as the mask", tuple(maps.shape))
    keep = np.flatnonzero(as_float64(mask))
    return maps[:, :, keep][:, :, :, keep]


def as_float64(values: Maps) -> Array:
    """Bring an array or a tensor of any type and device to a float64 array."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False)
    return values.detach().cpu().double().numpy()


def checked(maps: Maps, side: str, number: int) -> Array:
    """Bring maps to float64, or say where they are no attention."""
    if maps.ndim != 4 or maps.shape[2] != maps.shape[3] or 0 in maps.shape:
        wanted = f"{side} attention of sentence {number}"
        raise must(wanted, "of shape (layers, heads, words, words)", tuple(maps.shape))
    values = as_float64(maps)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        sums = values.sum(axis=-1)
    wrong = ~((np.abs(sums - 1) <= ROW_SUM) & (values.min(axis=-1) >= 0))
    if wrong.any():
        place = layer, head, row = tuple(np.argwhere(wrong)[0])
        raise InputError(
            f"rows of attention must be non-negative and sum to 1 within {ROW_SUM:g}, but in sentence "
            f"{number}, {side} layer {layer + 1}, head {head + 1}, row {row + 1} sums to {sums[place]:g} "
            f"with {values[place].min():g} as its smallest number."
        )
    return values


def compared_rows(left: Array, right: Array, causal: bool) -> tuple[Array, Array, Array]:
    """Take the compared rows of all heads, scaled to 1 over the positions they may attend to."""
    words = left.shape[2]
    inside = np.tri(words, dtype=bool)[1:] if causal else np.ones((words, words), dtype=bool)
    x = left.reshape(-1, words, words)[:, words - len(inside) :] * inside
    y = x if left is right else right.reshape(-1, words, words)[:, words - len(inside) :] * inside
    x_mass, y_mass = x.sum(axis=2), y.sum(axis=2)
    there = np.minimum(x_mass.min(axis=0), y_mass.min(axis=0)) > GONE
    x = x[:, there] / x_mass[:, there, None]
    return x, x if left is right else y[:, there] / y_mass[:, there, None], inside[there]


def norm_sums(rows: Rows) -> Sums:
    """Frobenius norm of the difference, and its share of the largest possible one."""
    x, y = rows.flat()
    scale = np.sum(x * x, axis=1)[:, None] + np.sum(y * y, axis=1)
    square = scale - 2 * x @ y.T
    near = square <= 1e-6 * scale  # the difference of large numbers has lost its digits
    for h in np.flatnonzero(near.any(axis=1)):
        square[h, near[h]] = np.sum((y[near[h]] - x[h]) ** 2, axis=1)
    norm = np.sqrt(square)
    return norm, norm / np.sqrt(2 * len(rows.inside))


def js_sums(rows: Rows) -> Sums:
    """Jensen-Shannon divergence in bits: sum over words, and mean over them."""
    left, right = rows.flat()
    bits = divergence_sums(left, None if rows.same else right, kernel=rows.kernel)
    return bits, bits / len(rows.inside)


def pearson_sums(rows: Rows) -> Sums:
    """Sum of the correlations over words where neither row is constant, their number; mean, whether any."""
    return _shares(*_correlations(rows, rows.inside))


def wu_sums(rows: Rows) -> Sums:
    """
    Same sums with the first form of the released code: zeros after the word are numbers like others.

    It divides the population covariance by sample deviations; a lone word counts, as 0. It keeps the first
    row of a causal model, which correlates perfectly.
    """
    words = rows.inside.shape[1]
    total, count = _correlations(rows, np.ones_like(rows.inside))
    total = (total + rows.causal) * ((words - 1) / words)
    return _shares(total, count + rows.causal if words > 1 else np.ones_like(count))


def wu_masked_sums(rows: Rows) -> Sums:
    """
    Same sums with the second form of the released code, whose n counts the places non-zero in both rows.

    The other sums run over all places. What is undefined counts as 0, such as the first row of a causal
    model, where n is 1.
    """
    total = np.zeros((len(rows.left), len(rows.right)))
    for x, y in zip(rows.left.swapaxes(0, 1), rows.right.swapaxes(0, 1), strict=True):
        n = (x != 0).astype(np.float64) @ (y != 0).T.astype(np.float64)
        mean = 1 / np.where(n > 0, n, np.nan)
        x_square, y_square = np.sum(x * x, axis=1)[:, None] - mean, np.sum(y * y, axis=1) - mean
        least = np.minimum(np.abs(x_square), np.abs(y_square))
        fine = (x_square * y_square > 0) & (least > np.maximum(CONSTANT * mean, 1e-15))
        total[fine] += (x @ y.T - mean)[fine] / np.sqrt((x_square * y_square)[fine])
    return _shares(total, np.full_like(total, len(rows.inside) + rows.causal))


def pairs_sums(rows: Rows) -> Sums:
    """Moments about the shift of the table of word pairs x heads, in a layer and across models; sum, mean."""
    x, y = (flat - rows.shift for flat in rows.flat())
    left, right = (z.reshape(n, -1, z.shape[1]) for z, n in zip((x, y), rows.layers, strict=True))
    inner, other = left @ left.swapaxes(1, 2), right @ right.swapaxes(1, 2)
    moments = (np.array(float(x.shape[1])), x.sum(axis=1), y.sum(axis=1), inner, other, x @ y.T)
    return *moments, *(moment / x.shape[1] for moment in moments)


def centered_pairs_sums(rows: Rows) -> Sums:
    """Same moments after taking its mean from each row, which only tells how many words there are."""
    mean = 1 / rows.inside.sum(axis=1)[:, None]
    left = rows.left - mean
    return pairs_sums(rows._replace(left=left, right=left if rows.same else rows.right - mean, shift=0.0))


def _correlations(rows: Rows, inside: Array) -> tuple[Array, Array]:
    places = inside.sum(axis=1)

    def unit(x: Array) -> tuple[Array, Array]:
        centered = (x - 1 / places[:, None]) * inside  # a row sums to 1
        square = np.einsum("hrt,hrt->hr", centered, centered)
        varies = square > CONSTANT / places
        centered /= np.sqrt(np.where(varies, square, np.inf))[:, :, None]
        return centered.reshape(len(x), -1), varies.astype(np.float64)

    x, x_varies = unit(rows.left)
    y, y_varies = (x, x_varies) if rows.same else unit(rows.right)
    return x @ y.T, x_varies @ y_varies.T


def _shares(total: Array, count: Array) -> Sums:
    return total, count, total / np.maximum(count, 1), (count > 0).astype(np.float64)
