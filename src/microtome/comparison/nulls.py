"""Null means, and where known null standard deviations, of the measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..inference.permutation import Null, cka_null, debiased_null, mean_rho, r2_null, rho2_null
from ..lazy import torch
from ..measures.declare import Chosen
from ..moments.bank import Bank
from ..moments.strip import Strip
from ..randomness import generator

DRAWS = 256


class Expected(NamedTuple):
    """
    Mean of a measure, in both directions, and its standard deviation over permutations of one side's rows.

    Numbers or arrays of shape (b,) for one left layer against b right ones; NaN where no formula is known.
    """

    forward: Any = math.nan
    backward: Any = math.nan
    sd: Any = math.nan


def null_of(choice: Chosen, strip: Strip) -> Expected:
    """Mean and standard deviation of a measure over all permutations of the rows of one side."""
    name = choice.declared("null")
    return Expected() if name is None else NULLS[name](choice, strip)


def null_details(choice: Chosen, strip: Strip) -> dict[str, np.ndarray]:
    """Null mean and deviation of the biased counterpart of a debiased value, which shape its null law."""
    if choice.declared("null") != "debiased" or strip.n < 4:
        return {}
    null = moments_null(strip)
    return {"biased_null_mean": np.asarray(null.mean), "biased_null_sd": np.asarray(null.sd)}


def _kept(choice: Chosen, strip: Strip) -> tuple[int, np.ndarray]:
    left_dims, right_dims = strip.kept(choice.declared("subspace")(choice.options))
    return left_dims, np.array(right_dims)


def moments_null(strip: Strip) -> Null:
    """Permutation mean and deviation of linear CKA, from moments alone; exact for independent rows."""
    left_bank, right_bank = strip.left, strip.right
    names = ("trace", "frob2", "norms2")
    T, T2, S2 = (left_bank.known[name][strip.row] for name in names)
    T_, T2_, S2_ = (np.array(right_bank.known[name][strip.columns]) for name in names)
    return cka_null(T, T2, S2, T_, T2_, S2_, strip.n)


def _cka(choice: Chosen, strip: Strip) -> Expected:
    if strip.n < 4:
        return Expected()
    null = moments_null(strip)
    return Expected(null.mean, null.mean, null.sd)


def _debiased(choice: Chosen, strip: Strip) -> Expected:
    if strip.n < 4:
        return Expected()
    null = debiased_null(strip.n)
    return Expected(null.mean, null.mean, null.sd)


def _wachter(choice: Chosen, strip: Strip) -> Expected:
    left_dims, right_dims = _kept(choice, strip)
    mean = np.full(len(strip), np.nan)
    defined = (right_dims > 0) & (left_dims > 0)
    if defined.any():
        mean[defined] = mean_rho(left_dims, right_dims[defined], strip.n)
    return Expected(mean, mean)


def _mean_square(choice: Chosen, strip: Strip) -> Expected:
    mean = rho2_null(*_kept(choice, strip), strip.n)
    return Expected(mean, mean)


def _share_explained(choice: Chosen, strip: Strip) -> Expected:
    left_dims, right_dims = _kept(choice, strip)
    return Expected(r2_null(right_dims, strip.n), r2_null(left_dims, strip.n))


def _multiple_correlation(choice: Chosen, strip: Strip) -> Expected:
    left_dims, right_dims = _kept(choice, strip)
    forward = np.array([root_beta_mean(r, strip.n) for r in right_dims])
    return Expected(forward, root_beta_mean(left_dims, strip.n))


def root_beta_mean(rank: int, n: int) -> float:
    """
    Mean multiple correlation of an unrelated neuron with a layer of the given rank.

    Its square has the beta law with rank / 2 and (n - 1 - rank) / 2; exact for Gaussian rows.
    """
    from scipy.special import gammaln

    if rank >= n - 1:
        return 1.0
    if rank == 0:
        return float("nan")
    a, half_dof = rank / 2, (n - 1) / 2
    return float(np.exp(gammaln(a + 0.5) + gammaln(half_dof) - gammaln(a) - gammaln(half_dof + 0.5)))


def _largest(choice: Chosen, strip: Strip) -> Expected:
    return Expected(
        largest_correlation(strip.right)[strip.columns], largest_correlation(strip.left)[strip.row]
    )


def largest_correlation(bank: Bank) -> np.ndarray:
    """
    Mean largest absolute correlation of an unrelated neuron with the neurons of each layer.

    Over random permutations of the rows, the correlations of one neuron with a layer's neurons are nearly
    Gaussian, with the layer's own correlation matrix over n - 1 as covariance; their largest has no
    formula, so it is averaged over draws. Shape (layers,).
    """
    if bank.largest is None:
        rng = generator(0, "largest correlation")
        normal = torch.as_tensor(rng.standard_normal((bank.width, DRAWS)), device=bank.scatter.device)
        # Draws with the correlation matrix as covariance: any M with M M' = R will do, and the product
        # with a root of the scatter matrix, rows scaled, is one.
        samples = torch.stack([root @ normal.to(root.dtype) for root in _roots(bank)])
        samples = (samples * bank.scale.to(samples.dtype)[:, :, None]).abs_()
        top = samples.amax(1).double().mean(1) / max(bank.n - 1, 1) ** 0.5
        bank.largest = top.clamp_max(1.0).tolist()
    return np.array(bank.largest)


def _roots(bank: Bank) -> list[torch.Tensor]:
    """For each layer a matrix M with M M' equal to its scatter matrix."""
    if bank.has_spectrum:
        values, vectors = bank.spectrum("center")
        return [v * r for v, r in zip(vectors, values.sqrt().to(vectors.dtype), strict=True)]
    roots = []
    for k in range(len(bank)):
        # A small diagonal term lets the factorization pass through dependent and constant neurons.
        nudge = torch.diag_embed(1e-6 * torch.where(bank.alive[k], bank.sumsq[k], 1.0))
        root, failed = torch.linalg.cholesky_ex(bank.scatter[k] + nudge)
        if int(failed):
            # Rounding may exceed that term on steep spectra; eigenvalues can be clipped at 0.
            bank.spectrum("center")
            return _roots(bank)
        roots.append(root)
    return roots


NULLS: Mapping[str, Callable[[Chosen, Strip], Expected]] = MappingProxyType(
    {
        "cka": _cka,
        "debiased": _debiased,
        "wachter": _wachter,
        "mean_square": _mean_square,
        "share_explained": _share_explained,
        "multiple_correlation": _multiple_correlation,
        "largest_correlation": _largest,
    }
)
