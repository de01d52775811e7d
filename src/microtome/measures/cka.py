"""Debiased and linear CKA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..moments.strip import Cells, Strip, undefined
from .declare import Measure, invariant

# Rounding error of a debiased norm as a share of the biased one, by bytes per number.
ROUNDING = {4: 1e-5, 8: 1e-11}
CONSTANT = "a layer is constant over the rows"
INVARIANCES = invariant("orthogonal", "isotropic_scale", "translation", "neuron_permutation")


def linear_cka(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Compute |X'Y|^2 / (|X'X| |Y'Y|) of centered layers.

    Parameters
    ----------
    strip : Strip
        One left layer against b right ones.
    options : mapping
        None.

    Returns
    -------
    Cells
        Undefined where a layer is constant.

    References
    ----------
    Kornblith et al. 2019.
    """
    left_norm, right_norms = strip.left.frob2[strip.row], strip.right.frob2[strip.columns]
    return Cells(
        forward=strip.frob2 / (left_norm.sqrt() * right_norms.sqrt()), reasons=constant_layers(strip)
    )


def constant_layers(strip: Strip) -> tuple[str | None, ...]:
    """Return, for each pair, a reason if one of its layers has no variance, else None."""
    right_norms = strip.right.known["frob2"][strip.columns]
    return undefined(strip.left.known["frob2"][strip.row] > 0, (norm > 0 for norm in right_norms), CONSTANT)


def debiased_cka(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Compute CKA without its finite-sample bias.

    The three squared norms omit the terms of a row with itself, or, when rows come in clusters, all terms
    within a cluster. The value may be negative.

    Parameters
    ----------
    strip : Strip
        One left layer against b right ones.
    options : mapping
        None.

    Returns
    -------
    Cells
        Undefined where a layer's own debiased norm is not positive.

    References
    ----------
    Song et al. 2012 for the estimator, Kornblith et al. 2019 for its use.
    """
    correction, left_norm, right_norms = strip.debiasing
    too_few = "too few rows: a layer's debiased norm is not positive"
    # When one row holds all the variance, only rounding errors may remain after debiasing.
    tolerance = ROUNDING[strip.left.dtype.itemsize]
    positive = (
        (left_norm > tolerance * strip.left.frob2[strip.row])
        & (right_norms > tolerance * strip.right.frob2[strip.columns])
    ).tolist()
    reasons = tuple(
        reason or (None if fine else too_few)
        for reason, fine in zip(constant_layers(strip), positive, strict=True)
    )
    return Cells(
        forward=(strip.frob2 - correction) / (left_norm.sqrt() * right_norms.sqrt()),
        reasons=reasons,
        details={"biased": linear_cka(strip, options).forward},
    )


LINEAR_CKA = Measure(
    name="linear_cka",
    title="linear CKA",
    summary="Centered kernel alignment with linear kernels; biased upward when rows are few.",
    formula="|X'Y|_F^2 / (|X'X|_F |Y'Y|_F), X and Y centered",
    citations=("kornblith2019", "gretton2005"),
    range=(0.0, 1.0),
    symmetric=True,
    invariances=INVARIANCES,
    needs="moments",
    compute=linear_cka,
    null="cka",
    interval="biased",
)

DEBIASED_CKA = Measure(
    name="debiased_cka",
    title="debiased CKA",
    summary="Linear CKA without its small-sample bias; unrelated layers have the mean 0.",
    formula="H(X,Y) / sqrt(H(X,X) H(Y,Y)), H = |X'Y|^2 - n/(n-2) sum r_i s_i + sum r sum s / ((n-1)(n-2)); "
    "with clusters, all pairs of rows within a cluster are left out",
    citations=("song2012", "kornblith2019"),
    range=(-1.0, 1.0),
    symmetric=True,
    invariances=INVARIANCES,
    needs="moments",
    compute=debiased_cka,
    null="debiased",
    interval="debiased",
)
