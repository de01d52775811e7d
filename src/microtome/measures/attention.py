"""Similarity measures of attention heads.

Attention of one sentence is an array (layers, heads, words, words); row i is the attention distribution of
word i, and sums to 1. Three measures match heads one by one, three take the heads of a layer as the columns
of a table with one row per pair of words. All of them read the sentences once and keep only sums. The mean
of a sentence's part of the table is one over its number of words for every head, so that unrelated heads
look similar when lengths differ; `center="rows"` removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..inference.estimate import Sides
from . import attention_rows as rowwise
from .attention_js import rounded
from .attention_rows import Array, AttentionCells, Sums, Used
from .cca import NO_DIRECTION, PWCCA, SVCCA, pwcca_subspace, svcca_subspace
from .declare import Measure, MeasureOption, invariant

if TYPE_CHECKING:
    from ..moments.strip import Subspace

RANK = 1e-6  # an eigenvalue below this share of the largest counts as zero


def _reasons(values: Array, why: str) -> tuple[tuple[str | None, ...], ...]:
    return tuple(tuple(why if np.isnan(v) else None for v in row) for row in values)


def _matched(similarity: Array, used: Used, text: str, undefined: Array | None = None) -> AttentionCells:
    """Find the best match of each head, and average over the heads that have one."""
    heads = similarity.reshape(used.shape)
    defined = np.where(np.isnan(heads), -np.inf, heads)

    def side(partner_axis: int, head_axis: int) -> tuple[Array, Array]:
        best = defined.max(axis=partner_axis)
        has_match = np.isfinite(best)
        count = has_match.sum(axis=head_axis)
        mean = np.where(has_match, best, 0.0).sum(axis=head_axis) / np.where(count, count, np.nan)
        return mean, np.where(has_match, defined.argmax(axis=partner_axis), -1)

    forward, best_right = side(3, 1)
    backward, best_left = side(1, 2)
    return AttentionCells(
        estimator=f"mean over heads of the largest over the other layer's heads of {text}",
        forward=forward,
        backward=backward,
        reasons=_reasons(forward, "no pair of heads has a word where both rows vary"),
        heads=heads,
        best_right=best_right,
        best_left=best_left,
        undefined=None if undefined is None else np.rint(undefined).astype(np.int64).reshape(used.shape),
    )


def _norm(sums: Sums, used: Used, options: Mapping[str, Any]) -> AttentionCells:
    raw = options["length"] == "raw"
    text = "1 - mean over sentences of |A - B|_F" + ("" if raw else " / sqrt(2 words)")
    return _matched(1 - sums[0 if raw else 1] / used.sentences, used, text)


def _pearson(sums: Sums, used: Used, options: Mapping[str, Any]) -> AttentionCells:
    total, count = sums[:2] if options["average"] == "words" else sums[2:]
    value = total / np.where(count > 0, count, np.nan)
    text = {
        "plain": "Pearson correlation of rows, constant rows left out",
        "wu": "Pearson correlation of rows times (t - 1)/t, constant rows left out, one-word sentences as 0",
        "wu_masked": "Pearson correlation of rows with n the places non-zero in both, undefined rows as 0",
    }[options["variant"]]
    text = f"{text}, mean over {options['average']}"
    if options["variant"] == "wu_masked":
        return _matched(value, used, text)
    return _matched(rounded(value, -1.0, 1.0), used, text, used.words - sums[1])


def _js(sums: Sums, used: Used, options: Mapping[str, Any]) -> AttentionCells:
    bits = sums[0] / used.words if options["average"] == "words" else sums[1] / used.sentences
    text = f"1 - Jensen-Shannon divergence of rows in {options['unit']}, mean over {options['average']}"
    return _matched(1 - bits * (np.log(2) if options["unit"] == "nats" else 1.0), used, text)


class _Table(NamedTuple):
    """Covariances of the table of word pairs x heads, the variance treated as zero, and the free rows."""

    left: Array
    right: Array
    cross: Array
    floor: float
    free: int
    text: str


def _table(sums: Sums, used: Used, options: Mapping[str, Any]) -> _Table:
    n, x, y, left_moment, right_moment, cross = sums[:6] if options["weight"] == "pairs" else sums[6:]

    def covariance(moment: Array, total: Array) -> Array:
        mean = total.reshape(moment.shape[:2]) / n
        return moment / n - mean[:, :, None] * mean[:, None, :]

    pairs = int(sums[0])
    return _Table(
        left=covariance(left_moment, x),
        right=covariance(right_moment, y),
        cross=(cross / n - np.outer(x / n, y / n)).reshape(used.shape),
        floor=rowwise.CONSTANT * (used.words / pairs) ** 2,
        free=pairs - used.words,  # the row of a word sums to 1
        text=f"over {pairs} word pairs, {options['center']} centered, {options['weight']} weighing the same",
    )


def _cka(sums: Sums, used: Used, options: Mapping[str, Any]) -> AttentionCells:
    table = _table(sums, used, options)
    left_norms, right_norms = (
        np.where(
            np.einsum("lhh->lh", covariance).max(axis=1) > table.floor,
            np.sqrt(np.sum(covariance * covariance, axis=(1, 2))),
            np.nan,
        )
        for covariance in (table.left, table.right)
    )
    value = rounded(np.sum(table.cross**2, axis=(1, 3)) / np.outer(left_norms, right_norms), 0.0, 1.0)
    why = _reasons(value, "all heads of a layer are constant")
    return AttentionCells(estimator=f"linear CKA {table.text}", forward=value, backward=value, reasons=why)


def _basis(covariance: Array, floor: float, subspace: Subspace) -> tuple[Array, Array, int]:
    """Return whitened directions, loadings and rank of a layer's heads, standardized unless only centered."""
    alive = np.diag(covariance) > floor
    centered = subspace != "full" and subspace[0] == "center"
    unit = np.ones(int(alive.sum())) if centered else np.sqrt(np.diag(covariance)[alive])
    values, vectors = np.linalg.eigh(covariance[np.ix_(alive, alive)] / np.outer(unit, unit))
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = dimension = int(np.sum(values > RANK * values.max(initial=0.0)))
    if subspace != "full" and rank:
        _, share, inclusive = subspace
        below = int(np.searchsorted(np.cumsum(values) / np.sum(values), share))
        dimension = min(rank, below + int(inclusive))
    white, loads = np.zeros((len(alive), dimension)), np.zeros((len(alive), dimension))
    white[alive] = vectors[:, :dimension] / np.sqrt(values[:dimension]) / unit[:, None]
    loads[alive] = vectors[:, :dimension] * np.sqrt(values[:dimension]) * unit[:, None]
    return white, loads, rank


def _cca(sums: Sums, used: Used, options: Mapping[str, Any], *, weighted: bool) -> AttentionCells:
    """Average the canonical correlations of two layers' heads, unweighted or projection-weighted."""
    table = _table(sums, used, options)
    subspace = pwcca_subspace(options) if weighted else svcca_subspace(options)
    left_bases, right_bases = (
        [_basis(c, table.floor, subspace) for c in side] for side in (table.left, table.right)
    )
    forward = np.full((len(left_bases), len(right_bases)), np.nan)
    backward, why = forward.copy(), [[""] * len(right_bases) for _ in left_bases]
    for i, (x, x_loads, x_rank) in enumerate(left_bases):
        for j, (y, y_loads, y_rank) in enumerate(right_bases):
            if not (x_rank and y_rank):
                why[i][j] = "all heads of a layer are constant"
            elif not (x.shape[1] and y.shape[1]):
                why[i][j] = NO_DIRECTION
            elif weighted and x.shape[1] + y.shape[1] > table.free:
                ranks = f"ranks {x.shape[1]} and {y.shape[1]}"
                why[i][j] = f"{ranks} are too many for {table.free} free pairs of words"
            else:
                u, rho, v = np.linalg.svd(x.T @ table.cross[i, :, j] @ y, full_matrices=False)
                # Whitening by an eigenvalue of 1e-6 amplifies rounding errors a million times.
                rho = rounded(rho, 0.0, 1.0, slack=1e-7)
                for cells, loads in ((forward, x_loads @ u), (backward, y_loads @ v.T)):
                    cells[i, j] = np.average(rho, weights=np.abs(loads).sum(axis=0) if weighted else None)
    name = "PWCCA" if weighted else "SVCCA"
    if subspace == "full":
        name += f" at rank tolerance {RANK:g}"
    else:
        scaling, share, inclusive = subspace
        name += " of standardized heads" if scaling == "standardize" else ""
        name += f" keeping {'' if inclusive else 'less than '}{share:g} of the variance"
    return AttentionCells(
        estimator=f"{name} {table.text}",
        forward=forward,
        backward=backward,
        reasons=tuple(tuple(text or None for text in row) for row in why),
        rank=Sides(*(np.array([basis[2] for basis in side]) for side in (left_bases, right_bases))),
        kept=Sides(*(np.array([basis[0].shape[1] for basis in side]) for side in (left_bases, right_bases))),
    )


_PEARSON = {"plain": rowwise.pearson_sums, "wu": rowwise.wu_sums, "wu_masked": rowwise.wu_masked_sums}
_PAIRS = {"table": rowwise.pairs_sums, "rows": rowwise.centered_pairs_sums}
_AVERAGE = MeasureOption(default="words", choices=("words", "sentences"), meaning="what has the same weight")
_WEIGHT = MeasureOption(default="pairs", choices=("pairs", "sentences"), meaning="what has the same weight")
_CENTER = MeasureOption(default="table", choices=tuple(_PAIRS), meaning="rows: sentence length plays no part")
_LENGTH = MeasureOption(
    default="raw", choices=("raw", "normalized"), meaning="normalized: divided by sqrt(2 words)"
)
_VARIANT = MeasureOption(
    default="plain", choices=tuple(_PEARSON), meaning="exact, or a form of the released code"
)
_UNIT = MeasureOption(default="nats", choices=("nats", "bits"), meaning="nats as published; bits reach 0")
_MATCH = "mean over heads h of max over heads g of the other layer of "
_TABLE = "; rows are ordered pairs of words, columns the heads of a layer"
_NATS = (1.0 - float(np.log(2)), 1.0)
_EITHER = ("isotropic_scale", "translation", "neuron_permutation")


_measure = partial(
    Measure,
    needs="attention",
    range=(0.0, 1.0),
    symmetric=False,
    invariances=invariant("neuron_permutation"),
    citations=("wu2020",),
)

ATTENTION_MEASURES: tuple[Measure, ...] = (
    _measure(
        name="attention_norm",
        title="attention: 1 - Frobenius norm",
        summary="How close each head's maps are to those of the most similar head of the other layer.",
        formula=_MATCH + "1 - mean over sentences |A_h - B_g|_F",
        range=(-np.inf, 1.0),
        prepare=lambda options: rowwise.norm_sums,
        compute=_norm,
        options={"length": _LENGTH},
        varying={"range": lambda options: (-np.inf if options["length"] == "raw" else 0.0, 1.0)},
    ),
    _measure(
        name="attention_pearson",
        title="attention: Pearson",
        summary="How well each head's rows correlate with those of the most similar head of the other layer.",
        formula=_MATCH + "mean over words i of corr(A_h[i], B_g[i])",
        range=(-1.0, 1.0),
        prepare=lambda options: _PEARSON[options["variant"]],
        compute=_pearson,
        options={"variant": _VARIANT, "average": _AVERAGE},
        varying={
            "range": lambda options: (-np.inf, np.inf) if options["variant"] == "wu_masked" else (-1.0, 1.0),
            "self_value": lambda options: 1.0 if options["variant"] == "plain" else np.nan,
        },
    ),
    _measure(
        name="attention_js",
        title="attention: 1 - Jensen-Shannon",
        summary="How close each head's rows are, as distributions, to those of the most similar other head.",
        formula=_MATCH + "1 - mean over words i of JS(A_h[i], B_g[i])",
        range=_NATS,
        prepare=lambda options: rowwise.js_sums,
        compute=_js,
        options={"unit": _UNIT, "average": _AVERAGE},
        varying={"range": lambda options: _NATS if options["unit"] == "nats" else (0.0, 1.0)},
    ),
    _measure(
        name="attention_cka",
        title="attention: CKA",
        summary="Linear CKA of the heads of two layers, over pairs of words.",
        formula="|Cxy|_F^2 / (|Cxx|_F |Cyy|_F)" + _TABLE,
        citations=("wu2020", "kornblith2019"),
        symmetric=True,
        invariances=invariant("orthogonal", *_EITHER),
        prepare=lambda options: _PAIRS[options["center"]],
        compute=_cka,
        options={"center": _CENTER, "weight": _WEIGHT},
    ),
    _measure(
        name="attention_svcca",
        title="attention: SVCCA",
        summary="Mean canonical correlation of the leading components of two layers' heads.",
        formula="mean singular value of Wx' Cxy Wy, W white for the kept share of variance" + _TABLE,
        citations=("wu2020", "raghu2017"),
        symmetric=True,
        invariances=invariant("orthogonal", *_EITHER),
        prepare=lambda options: _PAIRS[options["center"]],
        compute=partial(_cca, weighted=False),
        options={
            **{name: SVCCA.options[name] for name in ("scaling", "threshold", "inclusive")},
            "center": _CENTER,
            "weight": _WEIGHT,
        },
        varying={"invariances": SVCCA.varying["invariances"]},
    ),
    _measure(
        name="attention_pwcca",
        title="attention: PWCCA",
        summary="Canonical correlations of two layers' heads, weighted by what they explain of the first.",
        formula="sum a_i rho_i / sum a_i, a_i = sum over heads h |<x-variate i, x_h>|" + _TABLE,
        citations=("wu2020", "morcos2018"),
        invariances=PWCCA.invariances,
        prepare=lambda options: _PAIRS[options["center"]],
        compute=partial(_cca, weighted=True),
        options={"variant": PWCCA.options["variant"], "center": _CENTER, "weight": _WEIGHT},
        varying={"invariances": PWCCA.varying["invariances"]},
    ),
)
