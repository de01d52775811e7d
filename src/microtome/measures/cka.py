"""How alike are the similarity structures of two layers? Centered kernel alignment with linear kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..moments.cells import Cells
from .declare import Measure, invariant

if TYPE_CHECKING:
    from ..moments.strip import Strip

# Share of a biased norm that the rounding of its debiased form may reach, by bytes of a number.
ROUNDING = {4: 1e-5, 8: 1e-11}
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
    left, right = strip.left.frob2[strip.row], strip.right.frob2[strip.columns]
    return Cells(forward=strip.frob2 / (left.sqrt() * right.sqrt()), reasons=constant_layers(strip))


def constant_layers(strip: Strip) -> tuple[str | None, ...]:
    """Say which pairs have a layer without any variance."""
    varies = strip.left.known["frob2"][strip.row] > 0
    return tuple(
        None if varies and other > 0 else "a layer is constant over the rows"
        for other in strip.right.known["frob2"][strip.columns]
    )


def debiased_cka(strip: Strip, options: Mapping[str, Any]) -> Cells:
    """
    Compute CKA without the bias that a finite number of rows brings.

    The three squared norms lose the terms of a row with itself, or, when rows come in clusters, all
    terms within a cluster. The value may be negative.

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
    left, right = strip.left_self, strip.right_self
    few = "too few rows: a layer's debiased norm is not positive"
    # What is left after debiasing may be rounding alone, when one row holds all the variance.
    least = ROUNDING[strip.left.dtype.itemsize]
    positive = (
        (left > least * strip.left.frob2[strip.row]) & (right > least * strip.right.frob2[strip.columns])
    ).tolist()
    reasons = tuple(
        reason or (None if fine else few)
        for reason, fine in zip(constant_layers(strip), positive, strict=True)
    )
    return Cells(
        forward=(strip.frob2 - strip.correction) / (left.sqrt() * right.sqrt()),
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
