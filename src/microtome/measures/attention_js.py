"""Jensen-Shannon divergences of the attention rows of all pairs of heads.

The divergence of rows p and q needs the logarithm of p + q for every pair of heads, which is nearly the
entire cost of a comparison of attention. With s = p + q and all words of a sentence in one vector,

    2 * sum of JS = sum p log2 p + sum q log2 q + sum p + sum q - sum s log2 s      (bits),

so the terms of one head are computed once, and a pair of heads costs a single pass over `s log2 s`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import MissingExtraError, WorkError, must

Kernel = Literal["numba", "torch"]

# log2(1 + f) = f (c0 + c1 f + ...), minimax on [sqrt(1/2) - 1, sqrt(2) - 1]: error 3.5e-7 in float32. One
# degree less would give 2.2e-6, too much for divergences with an error bound of 1e-6.
LOG2 = (1.4426997263569907, -0.7213758713839277, 0.4804650295451009, -0.35896185538643705,
        0.2972626509036639, -0.272697886847036, 0.17063421813525534)  # fmt: skip
CHUNK = 1024  # terms in a float32 partial sum; a chunk of 64 heads stays in the second-level cache
ROUNDING = 1e-6  # the error bound per row, in bits
TILE = 64  # heads in a tile, and the padding of a vector: no loop has a scalar remainder


def rounded(values: npt.NDArray[Any], low: float, high: float, slack: float = 1e-9) -> npt.NDArray[Any]:
    """Clip values to a range; values outside it by more than rounding error raise an error."""
    defined = values[~np.isnan(values)]
    if defined.size and not (defined.min() >= low - slack and defined.max() <= high + slack):
        raise WorkError(
            f"similarities must lie in [{low}, {high}], but got {defined.min()} to {defined.max()}."
        )
    return np.clip(values, low, high)


@cache
def numba_importable() -> bool:
    """Whether the numba kernel can be used (the extra `fast`)."""
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
        Concatenated rows of attention, each summing to 1. The row boundaries do not matter.
    right : array of shape (heads_right, positions), optional
        The same rows of another model; None: `left` with itself.
    kernel : {"numba", "torch"}, optional
        The implementation; None: numba where it is installed.

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
    # The entropies use the same logarithm, so that its error cancels where two heads agree.
    x_terms, y_terms = _own_terms(x, fast), None if right is None else _own_terms(y, fast)
    total = (x_terms[:, None] + (x_terms if y_terms is None else y_terms)[None, :] - mixed) / (2 * scale)
    if right is None:
        total = np.triu(total, 1) + np.triu(total, 1).T
    rows = float(left.sum()) / len(left)
    return rounded(total, 0.0, rows, slack=ROUNDING * max(rows, 1.0))  # 0 to 1 bit per row


def _scale(rows: npt.NDArray[Any]) -> float:
    """Find the power of two that brings logarithms near zero, where float32 sums lose the least precision."""
    # The divergence of 2^k p and 2^k q is 2^k times that of p and q; a few heads give the typical -log2 p.
    sample = rows[:: max(1, len(rows) // 8)].astype(np.float64)
    entropy = -np.sum(sample * np.log2(np.where(sample > 0, sample, 1.0))) / max(float(sample.sum()), 1.0)
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
    """Add the sums of s log2 s to `out`; with `same`, only to its upper triangle."""
    import torch

    tiny = torch.finfo(torch.float32).tiny
    x_tensor, y_tensor = torch.from_numpy(x), torch.from_numpy(y)
    sums = torch.from_numpy(out)
    for start in range(0, x.shape[1], CHUNK):
        # Raising zeros once here saves one pass per pair; the term stays zero, 1e-38 log2 1e-38.
        part = y_tensor[:, start : start + CHUNK].clamp_min(tiny)
        total, log = torch.empty_like(part), torch.empty_like(part)
        for head in range(len(x)):
            rows = slice(head if same else 0, None)
            torch.add(part[rows], x_tensor[head, start : start + CHUNK], out=total[rows])
            torch.log2(total[rows], out=log[rows])
            sums[head, rows] += log[rows].mul_(total[rows]).sum(dim=1)


@cache
def _numba_kernel() -> Callable[..., None]:
    """
    Compile the kernel, once per process (about half a second).

    Its logarithm is a bit cast and a polynomial, which the compiler vectorizes; `np.log2` would be called for
    each number.
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

    # The order of the sum is free; NaN and infinity keep their meaning. One-dimensional slices: with two
    # indices the loop is not vectorized.
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
        left_heads, right_heads, positions = x.shape[0], y.shape[0], x.shape[1]
        for start in range(0, positions, CHUNK):
            stop = min(start + CHUNK, positions)
            for tile in range(0, right_heads, TILE):
                last = min(tile + TILE, right_heads)
                for h in range(last if same else left_heads):
                    p = x[h, start:stop]
                    for g in range(max(tile, h) if same else tile, last):
                        out[h, g] += pair(p, y[g, start:stop])

    return all_pairs
