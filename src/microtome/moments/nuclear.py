"""Singular values of whitened cross-scatters: canonical correlations, their sums and their directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..lazy import torch

# Typical rounding error of an eigenvalue of T T' computed in float32, relative to the largest one, and the
# tolerated error of a mean singular value.
EPS32 = 1e-7
ALLOWED = 4e-7
# Correlations below this are too small for a reliable direction, by bytes per number.
WEAK = {4: 1e-3, 8: 1e-6}
# Polar iteration: the first kind of step enlarges small singular values fast, the second converges to 1.
LIFT = (3.4445, -4.7750, 2.0315)
SETTLE = (1.875, -1.25, 0.375)
LIFT_STEPS = 7
MOST_STEPS = 80
POLAR_BATCH = 64


def eigh(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Eigenvalues and vectors of symmetric matrices.

    Each library has its own LAPACK. On the machines tested, NumPy's took 0.70 to 0.85 of the time of torch's
    in float64 and more in float32, and both gave the same digits.

    Parameters
    ----------
    matrices : Tensor of shape (..., d, d)
        Float64.

    Returns
    -------
    values : Tensor of shape (..., d)
        Ascending eigenvalues.
    vectors : Tensor of shape (..., d, d)
        Eigenvectors in columns.
    """
    if matrices.device.type != "cpu":
        values, vectors = torch.linalg.eigh(matrices)
        return values, vectors
    values, vectors = np.linalg.eigh(matrices.numpy())
    return torch.from_numpy(values), torch.from_numpy(vectors)


def _gram(T: torch.Tensor) -> torch.Tensor:
    return T @ T.mT if T.shape[-2] <= T.shape[-1] else T.mT @ T


def _real(T: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Mask of shape (b, min(k, l)) of the singular values that do not come from padding."""
    return torch.arange(min(T.shape[-2:]), device=T.device) < count[:, None]


def singular_values(T: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """
    Singular values of matrices whose singular values lie between 0 and 1.

    Parameters
    ----------
    T : Tensor of shape (b, k, l)
    count : Tensor of shape (b,)
        The number of singular values of each matrix; the others come from padding with zero rows or columns.

    Returns
    -------
    Tensor of shape (b, min(k, l))
        Float64, descending; 0 beyond `count`.
    """
    real = _real(T, count)
    values = _roots(T) * real
    if T.dtype == torch.float32:
        # The square root amplifies the rounding error of a small eigenvalue: recompute where it matters.
        noise = EPS32 * values[:, :1].square()
        error = real * torch.minimum(noise / (2 * values).clamp_min(1e-30), noise.sqrt())
        inaccurate = error.square().sum(1).sqrt() > ALLOWED * count
        if bool(inaccurate.any()):
            values[inaccurate] = _roots(T[inaccurate].double()) * real[inaccurate]
    return values


def _roots(T: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvalsh(_gram(T)).double().flip(1).clamp_min(0.0).sqrt()


def singular_sums(T: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """
    Sums of the singular values of matrices whose singular values lie between 0 and 1.

    Parameters
    ----------
    T : Tensor of shape (b, k, l)
    count : Tensor of shape (b,)
        See `singular_values`.

    Returns
    -------
    Tensor of shape (b,)
        Float64.
    """
    if T.device.type == "cpu":
        return singular_values(T, count).sum(1)
    return (T * polar(T)).sum((1, 2))


def polar(T: torch.Tensor) -> torch.Tensor:
    """
    Polar factors U V' of matrices U S V', by matrix products only; <T, polar(T)> is the sum of S.

    On a GPU an eigensolver for each pair would cost far more than the computation of T.

    Parameters
    ----------
    T : Tensor of shape (b, k, l)
        With singular values between 0 and 1.

    Returns
    -------
    Tensor of shape (b, k, l)
        Float64.
    """
    if T.shape[1] > T.shape[2]:
        return polar(T.mT.contiguous()).mT
    return torch.cat([_polar(part) for part in T.double().split(POLAR_BATCH)])


def _polar(T: torch.Tensor) -> torch.Tensor:
    Y = T
    sums = T.new_full((len(T),), float("inf"))
    for step in range(MOST_STEPS):
        a, b, c = LIFT if step < LIFT_STEPS else SETTLE
        G = Y @ Y.mT
        # (b G + c G G) Y + a Y, with the additions inside the products.
        H = torch.baddbmm(G, G, G, beta=b, alpha=c)
        Y = torch.baddbmm(Y, H, Y, beta=a)
        if step < LIFT_STEPS:
            continue
        previous, sums = sums, (T * Y).sum((1, 2))
        if bool(((sums - previous).abs() <= 1e-12 * T.shape[1]).all()):
            break
    return Y


def _complete(far: torch.Tensor, lost: torch.Tensor) -> torch.Tensor:
    """
    Find directions for correlations near 0, whose T'u is mostly rounding error, orthogonal to all others.

    Parameters
    ----------
    far : Tensor of shape (l, m)
        Unit columns.
    lost : Tensor of bool, shape (m,)
        The unreliable columns.

    Returns
    -------
    Tensor of shape (l, number lost)
        Orthonormal.
    """
    reliable, unreliable = far[:, ~lost].double(), far[:, lost].double()
    for _ in range(2):
        unreliable = torch.linalg.qr(unreliable - reliable @ (reliable.T @ unreliable)).Q
    return unreliable.to(far.dtype)


def canonical(
    T: torch.Tensor, left: int, right: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Singular values with their directions on both sides.

    Parameters
    ----------
    T : Tensor of shape (b, k, l)
    left : int
        The number of rows without padding; the others are zero.
    right : sequence of int
        The number of columns of each matrix without padding.

    Returns
    -------
    rho : Tensor of shape (b, m)
        Float64, descending up to rounding, m = min(k, l); 0 beyond the smaller number of each pair.
    U : Tensor of shape (b, k, m)
    V : Tensor of shape (b, l, m)
        Unit columns in the precision of T; zero where rho is padding.
    """
    wide = T.shape[1] <= T.shape[2]
    count = torch.tensor([min(left, r) for r in right], device=T.device)
    near = _eigenvectors(_gram(T), [left] * len(T) if wide else list(right))
    near.mul_(_real(T, count)[:, None, :])
    far = (T.mT if wide else T) @ near
    # The norm of T'u is the singular value, without the loss of digits of the root of an eigenvalue.
    rho = torch.linalg.vector_norm(far, dim=1)
    far /= torch.where(rho > 0, rho, 1.0)[:, None, :]
    lost = (rho < WEAK[T.dtype.itemsize]) & _real(T, count)
    for j in torch.nonzero(lost.any(1)).flatten().tolist():
        far[j, : right[j] if wide else left, lost[j]] = _complete(
            far[j, : right[j] if wide else left], lost[j]
        )
    return (rho.double(), near, far) if wide else (rho.double(), far, near)


def _eigenvectors(gram: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """
    Eigenvectors of the unpadded corners of padded matrices, by descending eigenvalue.

    Parameters
    ----------
    gram : Tensor of shape (b, m, m)
    sizes : sequence of int
        The size of each corner; solved without the padding, which would cost more than it saves.

    Returns
    -------
    Tensor of shape (b, m, m)
        Eigenvectors in columns, in the precision of `gram`; zero outside the corners.
    """
    out = torch.zeros_like(gram)
    for size in sorted(set(sizes) - {0}):
        members = [j for j, side in enumerate(sizes) if side == size]
        # Directions of nearly equal correlations mix under rounding, so the eigenvectors are always
        # float64. Those of the negative matrix are in descending order.
        out[members, :size, :size] = eigh(gram[members, :size, :size].double().neg_())[1].to(gram.dtype)
    return out
