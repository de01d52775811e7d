"""Which pairs of layers bring trouble? Named generators of inputs, each from a seed.

`make("dead neuron")` gives two float32 arrays of the default size, rows by features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from microtome.randomness import generator

Pair = tuple[np.ndarray, np.ndarray]
Rng = np.random.Generator


def make(name: str, n: int = 3000, d: int = 128, seed: int = 0) -> Pair:
    """
    Draw the two layers of a case.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    n, d : int
        Rows and features; cases that are about a size say in `CASES` how they change it.
    seed : int

    Returns
    -------
    x, y : float32 ndarray of shapes (rows, features)
    """
    x, y = CASES[name](generator(seed, "case", name), n, d)
    return np.ascontiguousarray(x, dtype=np.float32), np.ascontiguousarray(y, dtype=np.float32)


def rotation(rng: Rng, d: int) -> np.ndarray:
    """A random orthogonal matrix, uniformly."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diag(r))


def power_law(d: int) -> np.ndarray:
    """Standard deviations of principal components whose variances fall as 1/i."""
    return np.arange(1, d + 1) ** -0.5


def related(
    rng: Rng, n: int, p: int, q: int, sd: Callable[[int], np.ndarray] = power_law, spike: float = 0
) -> Pair:
    """
    Two layers with components of given standard deviations, rotated at random, of small means.

    Component i of one is correlated with component i of the other, from 0.95 for the first to 0.05 for the
    last, so that canonical correlations are spread out. With `spike`, the first component is that many
    times as wide.
    """
    d = max(p, q)
    share = np.linspace(0.95, 0.05, d)
    a = rng.standard_normal((n, d))
    b = share * a + np.sqrt(1 - share**2) * rng.standard_normal((n, d))
    wide = sd(d) * np.where(np.arange(d) == 0, spike or 1, 1)
    x, y = ((c * wide) @ rotation(rng, d) for c in (a, b))
    return x[:, :p] + 0.1 * rng.standard_normal(p), y[:, :q] + 0.1 * rng.standard_normal(q)


def _plain(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, n, d, d)


def _unrelated(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, n, d, d)[0], related(rng, n, d, d)[1]


def _same(rng: Rng, n: int, d: int) -> Pair:
    x, _ = related(rng, n, d, d)
    return x, x.copy()


def _layer_norm(rng: Rng, n: int, d: int) -> Pair:
    def norm(z: np.ndarray) -> np.ndarray:
        z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
        return z * rng.uniform(0.5, 1.5, d) + 0.1 * rng.standard_normal(d)

    x, y = related(rng, n, d, d)
    return norm(x), norm(y)


def _dead(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    x[:, 0], x[:, d // 2], y[:, 1] = 0, 0.37, 3000
    return x, y


def _duplicated(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    copies = max(1, d // 16)
    x[:, -copies:] = x[:, :copies]
    y[:, 0] = y[:, -1]
    return x, y


def _one_mean(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    x[:, d // 3] += 3000
    y[:, d // 2] += 3000
    return x, y


def _all_means(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    return x + 3000, y + 3000


def _one_component(rng: Rng, n: int, d: int) -> Pair:
    # So wide that the first component holds 99.5 % of the variance.
    return related(rng, n, d, d, spike=float(np.sqrt(200 * np.sum(power_law(d)[1:] ** 2))))


def _scales(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    return x * rng.permutation(np.geomspace(1e-6, 1e6, d)), y * rng.permutation(np.geomspace(1e-6, 1e6, d))


def _steep(fall: float) -> Callable[[Rng, int, int], Pair]:
    return lambda rng, n, d: related(rng, n, d, d, sd=lambda d: np.geomspace(1, 1 / fall, d))


def _wider_first(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, n, d, 3 * d // 4)


def _narrower_first(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, n, 3 * d // 4, d)


def _fewer_rows(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, d // 2, d, d)


def _four_rows(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, 4, d, d)


def _one_row_more(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, d + 1, d, d)


def _constant_right(rng: Rng, n: int, d: int) -> Pair:
    return related(rng, n, d, d)[0], np.tile(rng.standard_normal(d), (n, 1))


def _constants(rng: Rng, n: int, d: int) -> Pair:
    return np.tile(rng.standard_normal(d), (n, 1)), np.full((n, d), 0.37)


def _float16(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    return x.astype(np.float16), y.astype(np.float16)


def as_bfloat16(x: np.ndarray) -> np.ndarray:
    """The values of x rounded to bfloat16, in float32."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    even = (bits >> 16) & 1  # halfway goes to the even neighbor
    return ((bits + 0x7FFF + even) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _bfloat16(rng: Rng, n: int, d: int) -> Pair:
    x, y = related(rng, n, d, d)
    return as_bfloat16(x), as_bfloat16(y)


CASES: Mapping[str, Callable[[Rng, int, int], Pair]] = MappingProxyType(
    {
        "plain power law": _plain,
        "layer norm": _layer_norm,  # rank d - 1
        "dead neuron": _dead,  # constants 0 and 0.37 on the left, 3000 on the right
        "duplicated columns": _duplicated,
        "one neuron at 3000": _one_mean,
        "all neurons at 3000": _all_means,
        "one component above 99 %": _one_component,
        "scales 1e-6 to 1e6": _scales,
        "sd range 1e2": _steep(1e2),  # of the principal components; from 1e3 on some are near the rank rule
        "sd range 1e3": _steep(1e3),
        "sd range 1e5": _steep(1e5),
        "unrelated": _unrelated,
        "same layer": _same,
        "wider first": _wider_first,  # d against 3d/4
        "narrower first": _narrower_first,  # 3d/4 against d
        "float16 values": _float16,
        "bfloat16 values": _bfloat16,
        "fewer rows than features": _fewer_rows,  # d/2 rows, whatever n
        "four rows": _four_rows,  # 4 rows, whatever n
        "one row more than features": _one_row_more,  # d + 1 rows, whatever n
        "constant right layer": _constant_right,
        "two constant layers": _constants,
    }
)

# The rows of the table of accuracies: enough rows, and every measure defined.
ACCURACY = tuple(CASES)[: tuple(CASES).index("fewer rows than features")]
