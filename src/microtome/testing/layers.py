"""Synthetic layers for the contract tests, and the transformations that are applied to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ..randomness import generator

Array = np.ndarray
Pair = tuple[Array, Array]


def rng(*names: str | int) -> np.random.Generator:
    """Return a random generator for one purpose."""
    return generator(0, "contract", *names)


def rotation(width: int, *names: str | int) -> Array:
    """Draw a random orthogonal matrix."""
    return np.linalg.qr(rng("rotation", *names).standard_normal((width, width)))[0]


def related(draw: int = 0, rows: int = 200, left: int = 12, right: int = 9) -> Pair:
    """Draw two layers with decaying spectra that share their first components more than their last ones."""
    noise, width = rng("related", draw), max(left, right)
    a, b = noise.standard_normal((2, rows, width))
    share, sd = np.linspace(0.95, 0.1, width), np.arange(1, width + 1) ** -1.2
    x = (sd * a) @ rotation(width, draw, 0)[:, :left]
    y = (sd * (share * a + np.sqrt(1 - share**2) * b)) @ rotation(width, draw, 1)[:, :right]
    return x + 0.2 * noise.standard_normal(left), y + 0.2 * noise.standard_normal(right)


def unrelated(rows: int = 200) -> Pair:
    """Draw two independent layers."""
    return related(3, rows)[0], related(4, rows)[1]


def normalized() -> Pair:
    """Draw two layers after layer normalization: one direction of each is constant."""
    gain = rng("gain").uniform(0.5, 1.5, 12)
    x, y = (z - z.mean(axis=1, keepdims=True) for z in related(5))
    x, y = (z / z.std(axis=1, keepdims=True) * gain[: z.shape[1]] for z in (x, y))
    return x + 0.3, y - 0.2


def _scaled(x: Array) -> list[Array]:
    signs = rng("signs").choice([-1.0, 1.0], x.shape[1])
    return [x * rng("scales").permutation(signs * np.geomspace(1 / s, s, len(signs))) for s in (3.0, 1e4)]


# The transformations of a layer, each in a mild and where sensible in a drastic form.
CHANGES: Mapping[str, Callable[[Array], list[Array]]] = MappingProxyType(
    {
        "orthogonal": lambda x: [x @ rotation(x.shape[1], "change")],
        "isotropic_scale": lambda x: [3.7 * x, 1e-4 * x, 1e4 * x],
        "invertible_linear": lambda x: [_scaled(x @ rotation(x.shape[1], "in"))[0] @ rotation(x.shape[1])],
        "translation": lambda x: [x + rng("shift").standard_normal(x.shape[1]), x + 3000.0],
        "neuron_permutation": lambda x: [x[:, ::-1], x[:, rng("neurons").permutation(x.shape[1])]],
        "neuron_scale": _scaled,
    }
)
