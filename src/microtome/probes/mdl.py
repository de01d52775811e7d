"""Minimum-description-length probing: online (prequential) codelength of labels given a layer.

Sender and receiver both have the rows. The first block of labels is sent with a uniform code. Both then fit
the same linear probe on the labels sent so far, and the next block costs its negative log-likelihood under
that probe. A layer that predicts the labels better, or from fewer examples, gives a shorter code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, must
from ..inference.clusters import cluster_sums
from ..inference.estimate import Band
from ..randomness import generator
from .linear import check_labels, fit_logistic
from .logistic.fitting import as_layers

PORTIONS: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)
BYTES = 1 << 30  # of layers that are reordered at a time
ROUNDING = 1e-12  # relative tolerance of a portion of the rows
METHOD = "spread within blocks"
# What two codes of the same labels in the same order share.
_ORDER = ("groups", "blocks", "rows")
TARGET = "codelength of other labels and rows, with probes of the same training"


class _Sending(NamedTuple):
    """Rows in the order of transmission, groups with their sizes and blocks, and the ends of the blocks."""

    order: np.ndarray
    names: np.ndarray
    sizes: np.ndarray
    ends: np.ndarray
    blocks: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Code:
    """
    Codelengths of the same labels, one per layer.

    Parameters
    ----------
    bits : ndarray of shape (layers,)
        Codelength.
    uniform : float
        Codelength of the uniform code, in bits.
    ends : ndarray of int of shape (blocks,)
        Number of rows up to the end of each block, in the order of transmission.
    losses : ndarray of shape (layers, blocks)
        Mean bits per row of each block.
    parts : ndarray of shape (layers, groups)
        Bits of each group, such as a sentence, in the order of transmission.
    groups : ndarray of shape (groups,)
        Names of the groups.
    rows, blocks : ndarray of int of shape (groups,)
        Number of rows and the block of each group.
    penalty : ndarray of shape (layers, blocks - 1)
        Penalty of the probe that each block after the first is sent with.
    converged : ndarray of bool of shape (layers, blocks - 1)
    """

    bits: np.ndarray
    uniform: float
    ends: np.ndarray
    losses: np.ndarray
    parts: np.ndarray
    groups: np.ndarray
    rows: np.ndarray
    blocks: np.ndarray
    penalty: np.ndarray
    converged: np.ndarray

    @property
    def compression(self) -> np.ndarray:
        """Uniform codelength divided by the codelength, shape (layers,)."""
        return self.uniform / self.bits


def online_code(
    X: Any,
    labels: Any,
    classes: int,
    *,
    groups: Any = None,
    portions: Sequence[float] = PORTIONS,
    penalties: Sequence[float] | None = None,
    folds: int = 5,
    seed: int = 0,
    device: Any = None,
) -> Code:
    """
    Compute the online codelength of labels given each layer.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    labels : array of int of shape (rows,)
    classes : int
        Number of classes.
    groups : array of shape (rows,), optional
        Rows of one group, such as a sentence, are sent together; each row is its own group when absent.
    portions : sequence of float
        Ends of the blocks, in percent of the rows; the last is 100. Blocks consist of whole groups, and the
        first has at least two, so the first blocks of a small corpus are merged.
    penalties, folds, device
        As in `fit_logistic`. The penalty is chosen for each block, from the labels sent before it.
    seed : int
        Seed of the order of the groups, and of the folds.

    Returns
    -------
    Code

    Notes
    -----
    With t_1 rows in the first of S blocks and K classes,
    L = t_1 log2 K - sum_i log2 p_i(labels of block i + 1), with p_i fitted on the blocks up to i. A class
    that is absent from the t rows sent so far has the probability 1 / (t + K); the probe distributes the
    remaining probability among the other classes.

    References
    ----------
    Voita and Titov (2020), Information-Theoretic Probing with Minimum Description Length, EMNLP.
    """
    layer_stack = as_layers(X)
    label_array = check_labels(labels, layer_stack.shape[1], classes)
    sent = _sending(layer_stack.shape[1], groups, _percent(portions), seed)
    label_array, unit = label_array[sent.order], np.repeat(np.arange(len(sent.sizes)), sent.sizes)
    bits = np.full((len(layer_stack), len(label_array)), np.log2(classes))
    penalty, converged = (
        np.zeros((len(layer_stack), len(sent.ends) - 1), dtype=kind) for kind in (float, bool)
    )
    step = max(1, BYTES // layer_stack[0].nbytes)
    for begin in range(0, len(layer_stack), step):
        layers = slice(begin, begin + step)
        rows = layer_stack[layers][:, sent.order]
        for number, (end, next_end) in enumerate(pairwise(sent.ends)):
            fit = fit_logistic(
                rows[:, :end],
                label_array[:end],
                classes,
                penalties=penalties,
                folds=folds,
                groups=unit[:end],
                seed=seed,
                device=device if device is not None else getattr(X, "device", "cpu"),
            )
            new, seen = slice(end, next_end), np.bincount(label_array[:end], minlength=classes)
            bits[layers, new] = _bits(fit.decision(rows[:, new]), label_array[new], seen)
            penalty[layers, number], converged[layers, number] = fit.penalty, fit.converged
    starts = np.concatenate([[0], sent.ends[:-1]])
    return Code(
        bits=bits.sum(1),
        uniform=float(len(label_array) * np.log2(classes)),
        ends=sent.ends,
        losses=np.add.reduceat(bits, starts, axis=1) / (sent.ends - starts),
        parts=cluster_sums(bits, unit),
        groups=sent.names,
        rows=sent.sizes,
        blocks=sent.blocks,
        penalty=penalty,
        converged=converged,
    )


def code_interval(
    code: Code, minus: Code | int | None = None, *, clusters: Any = None, level: float = 0.95
) -> Band:
    """
    Compute confidence intervals of codelengths, or of their differences.

    Parameters
    ----------
    code : Code
    minus : Code or int, optional
        What is subtracted: a code of the same labels in the same order, such as that of the fine-tuned model,
        layer by layer, or one layer of this code from all its layers.
    clusters : array of int of shape (groups,), optional
        Clusters of correlated groups, such as the sentences of one document, counted from 0; each group is
        its own cluster when absent.
    level : float

    Returns
    -------
    Band
        Around the bits of each layer, for the sum over other groups in blocks of the same number of rows,
        sent with the same probes: it does not include the variance from the groups trained on. Run several
        seeds for that.
    """
    parts = code.parts
    if isinstance(minus, Code):
        same = (np.array_equal(getattr(code, name), getattr(minus, name)) for name in _ORDER)
        if parts.shape != minus.parts.shape or not all(same):
            raise InputError(
                "both codes must be of the same layers and groups in the same order, but they differ."
            )
        parts = parts - minus.parts
    elif minus is not None:
        if not -len(parts) <= minus < len(parts):
            raise must("the layer to subtract", f"from 0 to {len(parts) - 1}", minus)
        parts = parts - parts[minus]
    strata = _strata(code.blocks)
    sums, rows = cluster_sums(parts, strata), cluster_sums(code.rows, strata)
    # The length of a group varies between samples, so the residual is relative to its number of rows.
    off = parts - (sums / rows)[:, strata] * code.rows
    counts = np.bincount(strata)
    dof, unit = float(max(1, len(code.blocks) - len(counts))), "group of rows"
    if clusters is None:
        variance = (cluster_sums(off**2, strata) * counts / np.maximum(counts - 1, 1)).sum(1)
    else:
        codes = np.asarray(clusters)
        if codes.shape != code.blocks.shape:
            raise must("clusters", f"one for each of {len(code.blocks)} groups", codes.shape)
        # The mean of a block with few clusters is pulled towards each of them: use leave-one-out residuals.
        held = np.bincount(np.unique(np.stack([strata, codes]), axis=1)[0])
        off = off * np.where(held > 1, held / np.maximum(held - 1, 1), 1.0)[strata]
        # Residuals of a cluster are correlated across blocks, so they are summed first.
        together, sizes = cluster_sums(off, codes), cluster_sums(code.rows, codes)
        variance = (together**2).sum(1) * len(sizes) / max(1, len(sizes) - 1)
        dof, unit = max(1.0, float(sizes.sum() ** 2 / (sizes**2).sum() - 1)), "cluster of groups"
    return Band(
        center=parts.sum(1),
        se=np.sqrt(variance),
        dof=dof,
        level=level,
        method=METHOD,
        unit=unit,
        target=TARGET,
    )


def _strata(blocks: np.ndarray) -> np.ndarray:
    """Renumber the blocks, merging a block of a single group with the next one, or with the last."""
    counts = np.bincount(blocks)
    number = np.zeros(len(counts), dtype=np.int64)
    stratum, held = 0, 0
    for block, count in enumerate(counts):
        number[block] = stratum
        held += int(count)
        if held > 1:
            stratum, held = stratum + 1, 0
    if held:
        number[number == stratum] = max(0, stratum - 1)
    return number[blocks]


def _percent(portions: Sequence[float]) -> np.ndarray:
    percentages = np.asarray(portions, dtype=np.float64)
    rising = (
        percentages.ndim == 1
        and len(percentages) > 1
        and percentages[0] > 0
        and bool((np.diff(percentages) > 0).all())
    )
    if not rising or percentages[-1] != 100:
        raise must("portions", "rising percentages that end with 100", list(portions))
    return percentages / 100


def _sending(count: int, groups: Any, portions: np.ndarray, seed: int) -> _Sending:
    """Shuffle the groups, and end each block with the last group that fits into its portion."""
    row_groups = np.arange(count) if groups is None else np.asarray(groups)
    if row_groups.shape != (count,):
        raise must("groups", f"one for each of {count} rows", row_groups.shape)
    names, group = np.unique(row_groups, return_inverse=True)
    if len(names) < 3:
        raise InputError(f"rows must be of at least 3 groups for a code in blocks, but got {len(names)}.")
    shuffled = generator(seed, "probes", "code").permutation(len(names))
    position = np.argsort(shuffled)
    sizes = np.bincount(group)[shuffled]
    total = np.cumsum(sizes)
    fitting = np.searchsorted(total, portions * count * (1 + ROUNDING), side="right")
    lasts = np.unique(np.append(np.maximum(fitting[:-1], 2), len(names)))
    return _Sending(
        # Groups in shuffled order, rows of each group in their original order.
        order=np.argsort(position[group], kind="stable"),
        names=names[shuffled],
        sizes=sizes,
        ends=total[lasts - 1],
        blocks=np.searchsorted(lasts, np.arange(len(names)), side="right"),
    )


def _bits(scores: np.ndarray, labels: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """
    Bits of each label, shape (layers, rows).

    Parameters
    ----------
    scores : ndarray of shape (layers, rows, classes)
        Outputs of the probes.
    labels : ndarray of int of shape (rows,)
    seen : ndarray of int of shape (classes,)
        Number of training rows of each class.
    """
    from scipy.special import log_softmax

    seen_scores = np.where(seen > 0, scores, -np.inf)
    log = log_softmax(seen_scores, axis=-1)[:, np.arange(len(labels)), labels]
    unseen_probability = 1 / (seen.sum() + len(seen))
    log_remaining = np.log1p(-unseen_probability * (seen == 0).sum())
    return -np.where(seen[labels] > 0, log + log_remaining, np.log(unseen_probability)) / np.log(2)
