"""Correlation of the similarity of two layers with the cost of skipping the blocks between them.

A longer span costs more and its ends are less similar, whatever the measure: length and depth alone predict
much of the cost. The question is what similarity adds to them. All computations use ranks within one map, so
that costs of different tasks and similarities of different measures have the same scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microtome.errors import must
from microtome.findings.squares import read_map

Array = NDArray[np.float64]

FEWEST = 6  # least number of spans for a rank correlation
RIDGE = 0.01  # penalty of the predictor, per cell, on standardized features
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans:
    """
    The spans of one map that have both a cost and a similarity.

    Parameters
    ----------
    length, midpoint : ndarray of shape (spans,)
        Number of blocks skipped, j - i, and (i + j) / 2, for the blocks i + 1..j between layers i and j.
    similarity, cost : ndarray of shape (spans,)
    without_layer_0 : int
        Spans left out because the similarity with layer 0 is undefined.
    missing : int
        Spans left out for any other undefined value.
    """

    length: Array
    midpoint: Array
    similarity: Array
    cost: Array
    without_layer_0: int
    missing: int


def spans_of(similarity: Array, cost: Array) -> Spans:
    """
    Pair the similarity of layers i and j with the cost of skipping blocks i + 1..j.

    Parameters
    ----------
    similarity : ndarray of shape (depth + 1, depth + 1), or (depth, depth)
        Of the layers 0..depth, or 1..depth with layer 0 undefined. The two directions are averaged.
    cost : ndarray of shape (depth, depth)
        Row first - 1, column last - 1, as in a `SpanMap`.

    Returns
    -------
    Spans
    """
    depth = len(cost)
    if cost.shape != (depth, depth):
        raise must("the shape of costs", "[first, last] of the blocks", cost.shape)
    layer_similarity = read_map("a similarity", similarity)
    if len(layer_similarity) == depth:
        layer_similarity = np.pad(layer_similarity, ((1, 0), (1, 0)), constant_values=np.nan)
    if len(layer_similarity) != depth + 1:
        allowed = f"that of layers 0 to {depth}, or 1 to {depth}, for costs of {depth} blocks"
        raise must("the shape of a similarity", allowed, np.shape(similarity))
    i, j = np.triu_indices(depth + 1, 1)
    x, y = layer_similarity[i, j], cost[i, j - 1]
    bottom = (i == 0) & ~np.isfinite(x)
    defined = np.isfinite(x) & np.isfinite(y)
    return Spans(
        length=(j - i)[defined].astype(np.float64),
        midpoint=((i + j) / 2)[defined],
        similarity=x[defined],
        cost=y[defined],
        without_layer_0=int(bottom.sum()),
        missing=int((~defined & ~bottom).sum()),
    )


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman's correlation, with mean ranks for ties; NaN where one side is constant."""
    return _cosine(_ranks(x), _ranks(y))


def partial_rank_correlation(spans: Spans) -> float:
    """
    Correlate the ranks of similarity and of cost after regressing out length and depth.

    Parameters
    ----------
    spans : Spans

    Returns
    -------
    float
        Pearson's correlation of the residuals of both ranks, each regressed by least squares on one constant
        for each span length, and on m, m^2 and m l, with m and l the standardized ranks of midpoint and
        length. NaN where the residuals of one of the two vanish.
    """
    m, length = _ranks(spans.midpoint), _ranks(spans.length)
    length_dummies = (spans.length[:, None] == np.unique(spans.length)).astype(np.float64)
    design = np.column_stack([length_dummies, m, m**2, m * length])
    base = np.linalg.qr(design)[0] if np.linalg.matrix_rank(design) == design.shape[1] else _basis(design)
    residuals = [side - base @ (base.T @ side) for side in (_ranks(spans.similarity), _ranks(spans.cost))]
    return _cosine(*residuals, floor=_ROUNDING * np.sqrt(len(m)))


def predict_order(training: Sequence[Spans], spans_to_predict: Spans) -> tuple[float, float]:
    """
    Predict the order of the costs of one map from other maps, without similarity and with it.

    Parameters
    ----------
    training : sequence of Spans
        Training maps, with equal weights.
    spans_to_predict : Spans

    Returns
    -------
    without, with_similarity : float
        Spearman's correlation of predicted and measured cost.

    Notes
    -----
    Ridge regression of the standardized rank of cost on l, m, l^2, m^2 and l m; and, with similarity, also on
    s, s^2, s l and s m: standardized ranks within a map of length, midpoint and similarity, all terms
    centered within it.
    """
    correlations = []
    for similarity in (False, True):
        gram, moment = 0.0, 0.0
        for spans in training:
            x = _features(spans, similarity=similarity)
            gram = gram + x.T @ x / len(x)
            moment = moment + x.T @ _ranks(spans.cost) / len(x)
        x = _features(spans_to_predict, similarity=similarity)
        weights = np.linalg.solve(gram + len(training) * RIDGE * np.eye(x.shape[1]), moment)
        correlations.append(rank_correlation(np.round(x @ weights, 9), spans_to_predict.cost))
    return correlations[0], correlations[1]


def _features(spans: Spans, *, similarity: bool) -> Array:
    length, m = _ranks(spans.length), _ranks(spans.midpoint)
    terms = [length, m, length**2, m**2, length * m]
    if similarity:
        s = _ranks(spans.similarity)
        terms += [s, s**2, s * length, s * m]
    features = np.column_stack(terms)
    return features - features.mean(axis=0)


def _ranks(values: Array) -> Array:
    """Standardized ranks, with mean ranks for ties; zeros where all are equal."""
    from scipy.stats import rankdata

    ranks = rankdata(values) - (len(values) + 1) / 2
    spread = ranks.std()
    return ranks / spread if spread > 0 else ranks


def _basis(design: Array) -> Array:
    left, sizes, _ = np.linalg.svd(design, full_matrices=False)
    return left[:, sizes > _ROUNDING * sizes[0]]


def _cosine(x: Array, y: Array, floor: float = 0.0) -> float:
    under = np.linalg.norm(x), np.linalg.norm(y)
    if min(under) <= floor:
        return float("nan")
    return float(np.clip(x @ y / (under[0] * under[1]), -1, 1))
