"""Spectra, ranks and whitening matrices of layers, stacked for layers of the same width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np

from ..lazy import torch
from .nuclear import eigh
from .stack import constant_bound

# The rank tolerance is part of the definition of CCA and related measures: directions whose eigenvalue is
# below this share of the largest one are dropped. It is the same in fast and exact arithmetic.
RANK_TOLERANCE = 1e-6
# An eigenvalue within this factor of the tolerance makes the rank depend on rounding.
NEAR = 10.0
# Layers up to this width are decomposed in padded batches; wider ones one by one without padding.
BATCH_WIDTH = 256
# Matrix products of 767 columns take 1.5 times as long as those of 768: bases are padded with zero columns
# to a multiple of this.
ALIGNED = 16

Scaling = Literal["center", "standardize"]


def aligned(dimensions: int, width: int) -> int:
    """Number of columns for `dimensions` dimensions of a layer of this width, padded for fast products."""
    return min(width, -(-max(1, dimensions) // ALIGNED) * ALIGNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """
    Whitened directions of several layers of the same width.

    Parameters
    ----------
    whiten : Tensor of shape (layers, features, dimensions)
        W with W' C W = 1 on the kept dimensions; columns beyond a layer's `kept` are zero.
    load : callable
        Returns C W, of the same shape: the product of each centered feature with each direction.
    kept : tuple of int
        The number of dimensions of each layer.
    rank : tuple of int
        The numerical rank of each layer.
    lost : tuple of float
        The share of the variance outside the kept dimensions.
    """

    whiten: torch.Tensor
    load: Callable[[], torch.Tensor]
    kept: tuple[int, ...]
    rank: tuple[int, ...]
    lost: tuple[float, ...]


class Bank:
    """
    Moments of several layers of the same width, with decompositions computed on first use.

    Parameters
    ----------
    n : int
        The number of rows.
    names : tuple of str
    mean : Tensor of shape (layers, features)
    scatter : Tensor of shape (layers, features, features)
        Float64 sums of centered products.
    norms2 : Tensor of shape (layers,)
        Sum over rows of the squared row length, squared.
    dtype : torch.dtype
        The precision of the algebra for a pair: float32 (fast) or float64.
    input_eps : float
        The relative rounding of the input, which distinguishes constant neurons from small ones.
    """

    def __init__(
        self,
        *,
        n: int,
        names: tuple[str, ...],
        mean: torch.Tensor,
        scatter: torch.Tensor,
        norms2: torch.Tensor,
        dtype: torch.dtype,
        input_eps: float,
    ) -> None:
        self.n, self.names, self.mean = n, names, mean
        self.norms2 = norms2
        self.dtype = dtype
        self.width = int(mean.shape[1])
        sumsq = scatter.diagonal(dim1=1, dim2=2)
        # The sum of squares of a constant neuron is not 0 but the rounding error of its mean.
        self.alive = sumsq > constant_bound(mean, n, input_eps)
        self.alive &= sumsq > 0
        dead = ~self.alive
        self.all_alive = not bool(dead.any())
        if not self.all_alive:
            scatter = scatter.masked_fill(dead[:, :, None] | dead[:, None, :], 0.0)
        self.scatter = scatter
        self.sumsq = scatter.diagonal(dim1=1, dim2=2)
        self.scale = torch.where(self.alive, self.sumsq, 1.0).rsqrt() * self.alive
        self.trace = self.sumsq.sum(1)
        self.frob2 = scatter.square().sum((1, 2))
        # Plain numbers, so that later queries do not synchronize with a device.
        self.known = {
            "trace": self.trace.tolist(),
            "frob2": self.frob2.tolist(),
            "norms2": norms2.tolist(),
            "alive": self.alive.sum(1).tolist(),
        }
        self._spectra: dict[Scaling, tuple[torch.Tensor, torch.Tensor]] = {}
        self._bases: dict[tuple[object, ...], Basis] = {}
        self.near_tolerance = False
        # Mean largest correlation with an unrelated neuron, once it has been computed.
        self.largest: list[float] | None = None
        # Whether the full basis and the cuts of the scatter spectrum are columns of one matrix.
        self.shares_spectrum = False

    def __len__(self) -> int:
        return len(self.names)

    @property
    def participation(self) -> torch.Tensor:
        """Participation ratio of each layer's spectrum, shape (layers,)."""
        return self.trace.square() / self.frob2

    def variance_share(self, k: int) -> torch.Tensor:
        """Share of the total variance that the k neurons of largest variance hold, shape (layers,)."""
        return self.sumsq.topk(min(k, self.width), dim=1).values.sum(1) / self.trace

    @property
    def has_spectrum(self) -> bool:
        """Whether the spectrum of the scatter matrices has already been computed."""
        return "center" in self._spectra

    def spectrum(self, scaling: Scaling) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Eigenvalues and vectors of the scatter ("center") or correlation ("standardize") matrices.

        Returns
        -------
        values : Tensor of shape (layers, features)
            Descending, float64, not below 0.
        vectors : Tensor of shape (layers, features, features)
            Eigenvectors in columns, in the precision of the algebra.
        """
        if scaling not in self._spectra:
            matrix = self.scatter
            if scaling == "standardize":
                matrix = matrix * self.scale[:, :, None] * self.scale[:, None, :]
            values, vectors = eigh(matrix)
            self._spectra[scaling] = values.flip(1).clamp_min_(0.0), vectors.to(self.dtype).flip(2)
        return self._spectra[scaling]

    @cached_property
    def eigenvalues(self) -> list[np.ndarray]:
        """Ascending eigenvalues of each scatter matrix, without their vectors."""
        if self.scatter.device.type == "cpu":
            return [np.linalg.eigvalsh(scatter.numpy()) for scatter in self.scatter]
        return list(torch.linalg.eigvalsh(self.scatter).cpu().numpy())

    def cut(self, scaling: Scaling, threshold: float, inclusive: bool) -> Basis:
        """
        Whiten the leading principal directions that hold a share of the variance.

        Parameters
        ----------
        scaling : {"center", "standardize"}
        threshold : float
            The share, such as 0.99.
        inclusive : bool
            Whether the direction that crosses the threshold is kept.
        """
        key = (scaling, threshold, inclusive)
        if key not in self._bases:
            values, vectors = self.spectrum(scaling)
            share = values.cumsum(1) / values.sum(1, keepdim=True)
            # A share that rounding alone keeps below the threshold counts as having reached it.
            below = (share < threshold - 1e-12).sum(1)
            ceiling = self._rank_by(values)
            dimensions = [min(int(b) + inclusive, c) for b, c in zip(below.tolist(), ceiling, strict=True)]
            self._bases[key] = self._basis(scaling, values, vectors, dimensions, ceiling)
        return self._bases[key]

    def full(self) -> Basis:
        """Whiten all directions within the numerical rank of the correlation matrix."""
        key = ("full",)
        if key not in self._bases:
            dimensions = self._certified()
            scaling: Scaling = "center"
            self.shares_spectrum = dimensions is not None
            if dimensions is None:
                scaling = "standardize"
                values, _ = self.spectrum(scaling)
                dimensions = self._rank_by(values)
                share = values / values[:, :1].clamp_min(1e-300)
                low, high = RANK_TOLERANCE / NEAR, RANK_TOLERANCE * NEAR
                self.near_tolerance = bool(((share > low) & (share < high))[:, : self.n - 1].any())
            values, vectors = self.spectrum(scaling)
            self._bases[key] = self._basis(scaling, values, vectors, dimensions)
        return self._bases[key]

    def _rank_by(self, values: torch.Tensor) -> list[int]:
        above = (values > RANK_TOLERANCE * values[:, :1]).sum(1)
        return [min(int(k), self.n - 1) for k in above.tolist()]

    def _certified(self) -> list[int] | None:
        """
        Find the ranks of the correlation matrices from only the scatter spectra, where a bound proves them.

        SVCCA needs the scatter spectrum anyway. If a bound proves that every direction within its rank is
        also within the rank of the correlation matrix, both whiten the same space, and the second
        eigendecomposition would change nothing. None if the bound fails for any layer.
        """
        if self.n <= self.width or "standardize" in self._spectra:
            return None
        values, vectors = self.spectrum("center")
        noise = 3e-9 if self.dtype == torch.float32 else 1e-13
        ranks = []
        for k in range(len(self)):
            alive = self.alive[k]
            sumsq = self.sumsq[k][alive]
            if len(sumsq) == 0 or float(sumsq.max() / sumsq.min()) > 1e4:
                return None
            top = float(values[k, 0])
            rank = int((values[k] > noise * top).sum())
            if float(values[k, rank - 1]) < 1e3 * noise * top:
                return None
            # R = M M' with M = D^-1 V L^1/2 has the left inverse W' = L^-1/2 V' D, so its smallest
            # positive eigenvalue is at least 1 / |W|^2, and |W|^2 <= |W'W|_F <= |W|_F^2.
            W = vectors[k, :, :rank] * self.sumsq[k].sqrt().to(self.dtype)[:, None]
            W *= values[k, :rank].rsqrt().to(self.dtype)
            correlation = self.scatter[k].to(self.dtype) * self.scale[k].to(self.dtype)
            largest = float((correlation * self.scale[k].to(self.dtype)[:, None]).norm())
            smallest = 1.0 / float(W.norm()) ** 2
            if smallest < NEAR * RANK_TOLERANCE * largest:
                smallest = 1.0 / float((W.T @ W).norm())
            null = float(values[k, rank]) / float(sumsq.min()) if rank < self.width else 0.0
            # The Frobenius norm bounds the largest eigenvalue from above; width^-1/2 of it from below.
            if smallest < NEAR * RANK_TOLERANCE * largest:
                return None
            if null > RANK_TOLERANCE / NEAR * largest / self.width**0.5:
                return None
            ranks.append(rank)
        return ranks

    def _basis(
        self,
        scaling: Scaling,
        values: torch.Tensor,
        vectors: torch.Tensor,
        dimensions: list[int],
        rank: list[int] | None = None,
    ) -> Basis:
        most = aligned(max(dimensions), self.width)
        position = torch.arange(most, device=values.device)
        mask = position < torch.tensor(dimensions, device=values.device)[:, None]
        root = torch.where(mask, values[:, :most], 1.0).sqrt()
        standard = scaling == "standardize"

        def scaled(columns: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            out = vectors[:, :, :most] * columns.to(self.dtype)[:, None, :]
            return out.mul_(rows.to(self.dtype)[:, :, None]) if standard else out

        # Cumulative share of the variance; 0 / 0 of a constant layer stays NaN.
        share = torch.nn.functional.pad(values.cumsum(1) / values.sum(1, keepdim=True), (1, 0))
        lost = 1 - share[range(len(dimensions)), dimensions]
        return Basis(
            whiten=scaled(mask / root, self.scale),
            load=cache(lambda: scaled(mask * root, self.sumsq.sqrt())),
            kept=tuple(dimensions),
            rank=tuple(dimensions if rank is None else rank),
            lost=tuple(lost.tolist()),
        )
