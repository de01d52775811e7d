"""How far apart are the attention rows of every head of one model from those of every head of another?

Three answers, each a sum over the rows of a sentence for all pairs of heads at once: Frobenius norms and
Pearson correlations are matrix products. The Jensen-Shannon divergence of rows p and q needs the logarithm
of p + q for every pair of heads, which is nearly all that a comparison of attention costs. With s = p + q
and all words of a sentence in one vector,

    2 * sum of JS = sum p log2 p + sum q log2 q + sum p + sum q - sum s log2 s      (bits),

so the terms of one head are taken once, and a pair of heads costs a single pass over `s log2 s`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MissingExtraError, WorkError, must

if TYPE_CHECKING:
    import torch

    Maps: TypeAlias = npt.NDArray[Any] | torch.Tensor

Array: TypeAlias = npt.NDArray[Any]
Sums: TypeAlias = tuple[Array, ...]
Kernel = Literal["numba", "torch"]

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


def rounded(values: Array, low: float, high: float, slack: float = 1e-9) -> Array:
    """Clip what rounding put outside the range, and nothing more."""
    known = values[~np.isnan(values)]
    if known.size and not (known.min() >= low - slack and known.max() <= high + slack):
        raise WorkError(f"similarities must lie in [{low}, {high}], but got {known.min()} to {known.max()}.")
    return np.clip(values, low, high)


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


# log2(1 + f) = f (c0 + c1 f + ...), minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: error 3.5e-7 in float32. One
# degree less would give 2.2e-6, too much for divergences that promise 1e-6.
LOG2 = (1.4426997263569907, -0.7213758713839277, 0.4804650295451009, -0.35896185538643705,
        0.2972626509036639, -0.272697886847036, 0.17063421813525534)  # fmt: skip
CHUNK = 1024  # float32 partial sums of so many terms; a chunk of 64 heads stays in the second-level cache
ROUNDING = 1e-6  # the promised error a row, in bits
TILE = 64  # heads in a tile, and the padding of a vector: no loop is left with a scalar tail


@cache
def numba_importable() -> bool:
    """Say whether the fast kernel can be used (the extra `fast`)."""
    try:
        import numba  # noqa: F401  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return False
    return True


def divergence_sums(
    left: npt.NDArray[Any], right: npt.NDArray[Any] | None = None, *, kernel: Kernel | None = None
) -> npt.NDArray[np.float64]:
    """
    Sum the Jensen-Shannon divergences of the rows of all pairs of heads, in bits.

    Parameters
    ----------
    left : array of shape (heads_left, positions)
        Rows of attention, one after the other, each summing to 1. Where a row ends does not matter.
    right : array of shape (heads_right, positions), optional
        The same rows of another model; None: `left` with itself.
    kernel : {"numba", "torch"}, optional
        What does the work; None: numba where it is installed.

    Returns
    -------
    array of shape (heads_left, heads_right)
        Sum over rows, float64. Multiply by log 2 for nats.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0, 0.5, 0.5], [0.0, 1.0, 0.5, 0.5]])
    >>> divergence_sums(rows, kernel="torch").tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if kernel not in ("numba", "torch", None):
        raise must("kernel", "numba or torch", kernel)
    if kernel == "numba" and not numba_importable():
        raise MissingExtraError("kernel must be torch unless microtome[fast] is installed, but got 'numba'.")
    fast = numba_importable() if kernel is None else kernel == "numba"
    scale = _scale(left)
    x = _padded(left, scale)
    y = x if right is None else _padded(right, scale)
    mixed = np.zeros((len(x), len(y)))
    (_numba_kernel() if fast else _torch_kernel)(x, y, right is None, mixed)
    # The entropies go through the same logarithm, so that its error cancels where two heads agree.
    own_x, own_y = _own_terms(x, fast), None if right is None else _own_terms(y, fast)
    total = (own_x[:, None] + (own_x if own_y is None else own_y)[None, :] - mixed) / (2 * scale)
    if right is None:
        total = np.triu(total, 1) + np.triu(total, 1).T
    rows = float(left.sum()) / len(left)
    return rounded(total, 0.0, rows, slack=ROUNDING * max(rows, 1.0))  # 0 to 1 bit a row


def _scale(rows: npt.NDArray[Any]) -> float:
    """Find the power of two that brings logarithms near zero, where float32 sums lose least."""
    # The divergence of 2^k p and 2^k q is 2^k times that of p and q; a few heads tell the typical -log2 p.
    few = rows[:: max(1, len(rows) // 8)].astype(np.float64)
    entropy = -np.sum(few * np.log2(np.where(few > 0, few, 1.0))) / max(float(few.sum()), 1.0)
    return float(2.0 ** np.rint(entropy - 0.5))


def _padded(rows: npt.NDArray[Any], scale: float) -> npt.NDArray[np.float32]:
    heads, positions = rows.shape
    out = np.zeros((heads, -(-positions // TILE) * TILE), dtype=np.float32)
    np.multiply(rows, scale, out=out[:, :positions], casting="same_kind")
    return out


def _own_terms(x: npt.NDArray[np.float32], fast: bool) -> npt.NDArray[np.float64]:
    """Sum p log2 p + p for each head."""
    terms = np.zeros((1, len(x)))
    (_numba_kernel() if fast else _torch_kernel)(np.zeros((1, x.shape[1]), np.float32), x, False, terms)
    return terms[0] + x.sum(axis=1, dtype=np.float64)


def _torch_kernel(
    x: npt.NDArray[np.float32], y: npt.NDArray[np.float32], same: bool, out: npt.NDArray[np.float64]
) -> None:
    """Add the sums of s log2 s to `out`; with `same`, to its upper triangle alone."""
    import torch

    tiny = torch.finfo(torch.float32).tiny
    one, many = torch.from_numpy(x), torch.from_numpy(y)
    sums = torch.from_numpy(out)
    for start in range(0, x.shape[1], CHUNK):
        # Raising zeros once here spares every pair a pass; the term stays zero, 1e-38 log2 1e-38.
        part = many[:, start : start + CHUNK].clamp_min(tiny)
        total, log = torch.empty_like(part), torch.empty_like(part)
        for head in range(len(x)):
            rows = slice(head if same else 0, None)
            torch.add(part[rows], one[head, start : start + CHUNK], out=total[rows])
            torch.log2(total[rows], out=log[rows])
            sums[head, rows] += log[rows].mul_(total[rows]).sum(dim=1)


@cache
def _numba_kernel() -> Callable[..., None]:
    """
    Compile the kernel, once a process (about half a second).

    Its logarithm is a bit cast and a polynomial, which the compiler turns into vector instructions;
    `np.log2` would be called one number at a time.
    """
    from numba import njit, types  # pyright: ignore[reportMissingTypeStubs]
    from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]

    def bit_cast(source: Any, target: Any) -> Any:
        @intrinsic
        def cast(_typing: Any, _value: Any) -> Any:
            def build(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                return builder.bitcast(args[0], context.get_value_type(target))

            return target(source), build

        return cast

    as_int, as_float = bit_cast(types.float32, types.int32), bit_cast(types.int32, types.float32)
    c0, c1, c2, c3, c4, c5, c6 = (np.float32(c) for c in LOG2)
    root_half = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
    fraction_bits = np.int32(23)
    unit = np.float32(1)

    # The order of the sum is free, NaN and infinity keep their meaning. One-dimensional slices: with
    # two indices the loop is not turned into vector instructions.
    @njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
    def pair(p: Any, q: Any) -> Any:
        acc = np.float32(0)
        for k in range(p.shape[0]):
            s = p[k] + q[k]
            bits = as_int(s)
            exponent = np.int32(np.int32(bits - root_half) >> fraction_bits)
            f = as_float(np.int32(bits - np.int32(exponent << fraction_bits))) - unit
            log = f * ((((((c6 * f + c5) * f + c4) * f + c3) * f + c2) * f + c1) * f + c0)
            acc += s * (np.float32(exponent) + log)  # s = 0: exponent -127, f = 0, the term is 0
        return acc

    @njit
    def all_pairs(x: Any, y: Any, same: Any, out: Any) -> None:
        heads, others, positions = x.shape[0], y.shape[0], x.shape[1]
        for start in range(0, positions, CHUNK):
            stop = min(start + CHUNK, positions)
            for tile in range(0, others, TILE):
                last = min(tile + TILE, others)
                for h in range(last if same else heads):
                    p = x[h, start:stop]
                    for g in range(max(tile, h) if same else tile, last):
                        out[h, g] += pair(p, y[g, start:stop])

    return all_pairs
