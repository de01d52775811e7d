"""How many bits do the labels take when a layer is known? Sent block by block, each from those before it.

Sender and receiver both have the rows. The first block of labels is sent as if all classes were equally
likely. Both then fit the same readout on what has been sent, and the next block costs as many bits as that
readout finds it surprising. A layer that says more about the labels, or says it from fewer examples, gives a
shorter code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, must
from ..inference.clusters import cluster_sums
from ..inference.jackknife import Band, student_band
from ..randomness import generator
from .linear import SAMPLE, check_labels, fit_logistic
from .standard import as_layers

PORTIONS: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)
BYTES = 1 << 30  # of layers that are put in order at a time
ROUNDING = 1e-12  # of a portion of the rows
METHOD = "spread within blocks"
TARGET = "codelength of other labels and rows, with readouts of the same training"


class _Sending(NamedTuple):
    """Rows in the order of sending, groups with their sizes and blocks, and where blocks end."""

    order: np.ndarray
    names: np.ndarray
    sizes: np.ndarray
    ends: np.ndarray
    blocks: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Code:
    """
    Codelengths of the same labels, one a layer.

    Parameters
    ----------
    bits : ndarray of shape (layers,)
        Codelength.
    uniform : float
        Bits that the labels take when all classes are equally likely.
    ends : ndarray of int of shape (blocks,)
        Rows up to the end of each block, in the order of sending.
    losses : ndarray of shape (layers, blocks)
        Mean bits a row of each block.
    parts : ndarray of shape (layers, groups)
        Bits of each group, such as a sentence, in the order of sending.
    groups : ndarray of shape (groups,)
        Its name.
    rows, blocks : ndarray of int of shape (groups,)
        How many rows it has, and its block.
    penalty : ndarray of shape (layers, blocks - 1)
        Of the readout that each block after the first is sent with.
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
        """How many times shorter than the uniform code, shape (layers,)."""
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
    tolerance: float = 1e-6,
    device: Any = None,
    sample: int | None = SAMPLE,
) -> Code:
    """
    Measure the description length of labels given each layer.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    labels : array of int of shape (rows,)
    classes : int
        How many there are.
    groups : array of shape (rows,), optional
        Rows of one group, such as a sentence, are sent together; each row on its own when absent.
    portions : sequence of float
        Where blocks end, in percent of the rows; the last is 100. A block ends with a whole group, so that
        the first ones of a small corpus become one: it has two groups at least.
    penalties, folds, tolerance, device, sample
        As in `fit_logistic`. The penalty is chosen anew for each block, from what has been sent.
    seed : int
        Of the order of the groups, and of the folds.

    Returns
    -------
    Code

    Notes
    -----
    With t_1 rows in the first of S blocks and K classes,
    L = t_1 log2 K - sum_i log2 p_i(labels of block i + 1), p_i fitted on the blocks up to i. A class that
    none of t rows had gets the probability 1 / (t + K), and the others share what is left as the readout
    says.

    References
    ----------
    Voita and Titov (2020), Information-Theoretic Probing with Minimum Description Length, EMNLP.
    """
    found = as_layers(X)
    right = check_labels(labels, found.shape[1], classes)
    sent = _sending(found.shape[1], groups, _percent(portions), seed)
    right, unit = right[sent.order], np.repeat(np.arange(len(sent.sizes)), sent.sizes)
    bits = np.full((len(found), len(right)), np.log2(classes))
    penalty, converged = (np.zeros((len(found), len(sent.ends) - 1), dtype=kind) for kind in (float, bool))
    step = max(1, BYTES // found[0].nbytes)
    for begin in range(0, len(found), step):
        layers = slice(begin, begin + step)
        rows = found[layers][:, sent.order]
        for number, (end, next_end) in enumerate(pairwise(sent.ends)):
            fit = fit_logistic(
                rows[:, :end],
                right[:end],
                classes,
                penalties=penalties,
                folds=folds,
                groups=unit[:end],
                seed=seed,
                tolerance=tolerance,
                device=device if device is not None else getattr(X, "device", "cpu"),
                sample=sample,
            )
            new, seen = slice(end, next_end), np.bincount(right[:end], minlength=classes)
            bits[layers, new] = _bits(fit.decision(rows[:, new]), right[new], seen)
            penalty[layers, number], converged[layers, number] = fit.penalty, fit.converged
    starts = np.concatenate([[0], sent.ends[:-1]])
    return Code(
        bits=bits.sum(1),
        uniform=float(len(right) * np.log2(classes)),
        ends=sent.ends,
        losses=np.add.reduceat(bits, starts, axis=1) / (sent.ends - starts),
        parts=cluster_sums(bits, unit),
        groups=sent.names,
        rows=sent.sizes,
        blocks=sent.blocks,
        penalty=penalty,
        converged=converged,
    )


def code_difference(
    one: Code,
    other: Code | None = None,
    *,
    reference: int = 0,
    clusters: Any = None,
    level: float = 0.95,
) -> tuple[np.ndarray, Band]:
    """
    Subtract codelengths of the same labels, with an interval over groups.

    Parameters
    ----------
    one : Code
    other : Code, optional
        Of the same labels in the same order, such as that of the tuned model: its layers are subtracted one
        by one. When absent, one layer of the first is subtracted from all of them.
    reference : int
        That layer.
    clusters : array of int of shape (groups,), optional
        Which groups err together, such as sentences of one document, from 0 on; each for itself when absent.
    level : float

    Returns
    -------
    difference : ndarray of shape (layers,)
        In bits.
    band : Band
        For the sum over other groups in blocks of the same number of rows, sent with the same readouts: it
        does not tell what other groups to train on would change. Run several seeds for that.
    """
    if other is None:
        if not -len(one.bits) <= reference < len(one.bits):
            raise must("reference", f"a layer from 0 to {len(one.bits) - 1}", reference)
        minus = one.parts[reference]
    else:
        same = one.parts.shape == other.parts.shape and np.array_equal(one.groups, other.groups)
        if (
            not same
            or not np.array_equal(one.blocks, other.blocks)
            or not np.array_equal(one.rows, other.rows)
        ):
            raise InputError(
                "both codes must be of the same layers and groups in the same order, but they differ."
            )
        minus = other.parts
    return _summed(one, one.parts - minus, level, clusters)


def code_interval(found: Code, *, clusters: Any = None, level: float = 0.95) -> Band:
    """
    Put an interval around each codelength.

    Parameters
    ----------
    found : Code
    clusters : array of int of shape (groups,), optional
        As in `code_difference`.
    level : float

    Returns
    -------
    Band
        As in `code_difference`.
    """
    return _summed(found, found.parts, level, clusters)[1]


def _summed(found: Code, parts: np.ndarray, level: float, clusters: Any) -> tuple[np.ndarray, Band]:
    """Sum over groups, with the error that comes from how groups of one block differ in bits a row."""
    strata = _strata(found.blocks)
    sums, rows = cluster_sums(parts, strata), cluster_sums(found.rows, strata)
    # A group may be longer in another sample; what counts is whether its rows cost more.
    off = parts - (sums / rows)[:, strata] * found.rows
    counts = np.bincount(strata)
    dof, unit = float(max(1, len(found.blocks) - len(counts))), "group of rows"
    if clusters is None:
        variance = (cluster_sums(off**2, strata) * counts / np.maximum(counts - 1, 1)).sum(1)
    else:
        codes = np.asarray(clusters)
        if codes.shape != found.blocks.shape:
            raise must("clusters", f"one for each of {len(found.blocks)} groups", codes.shape)
        # A block's mean bends towards the few clusters that it has; without each of them it would not.
        held = np.bincount(np.unique(np.stack([strata, codes]), axis=1)[0])
        off = off * np.where(held > 1, held / np.maximum(held - 1, 1), 1.0)[strata]
        # What a cluster costs too much in one block it does in others, so its parts are added up first.
        together, sizes = cluster_sums(off, codes), cluster_sums(found.rows, codes)
        variance = (together**2).sum(1) * len(sizes) / max(1, len(sizes) - 1)
        dof, unit = max(1.0, float(sizes.sum() ** 2 / (sizes**2).sum() - 1)), "cluster of groups"
    total: np.ndarray = parts.sum(1)
    band = student_band(
        total,
        np.sqrt(variance),
        dof=dof,
        level=level,
        method=METHOD,
        unit=unit,
        target=TARGET,
    )
    return total, band


def _strata(blocks: np.ndarray) -> np.ndarray:
    """Number the blocks anew, one of a single group taken with the next, or at the end with the last."""
    counts = np.bincount(blocks)
    number = np.zeros(len(counts), dtype=np.int64)
    here, held = 0, 0
    for block, count in enumerate(counts):
        number[block] = here
        held += int(count)
        if held > 1:
            here, held = here + 1, 0
    if held:
        number[number == here] = max(0, here - 1)
    return number[blocks]


def _percent(portions: Sequence[float]) -> np.ndarray:
    found = np.asarray(portions, dtype=np.float64)
    rising = found.ndim == 1 and len(found) > 1 and found[0] > 0 and bool((np.diff(found) > 0).all())
    if not rising or found[-1] != 100:
        raise must("portions", "rising percentages that end with 100", list(portions))
    return found / 100


def _sending(count: int, groups: Any, portions: np.ndarray, seed: int) -> _Sending:
    """Shuffle the groups, and end each block with the last group that still fits into its portion."""
    named = np.arange(count) if groups is None else np.asarray(groups)
    if named.shape != (count,):
        raise must("groups", f"one for each of {count} rows", named.shape)
    names, group = np.unique(named, return_inverse=True)
    if len(names) < 3:
        raise InputError(f"rows must be of at least 3 groups for a code in blocks, but got {len(names)}.")
    shuffled = generator(seed, "probes", "code").permutation(len(names))
    place = np.argsort(shuffled)
    sizes = np.bincount(group)[shuffled]
    total = np.cumsum(sizes)
    fitting = np.searchsorted(total, portions * count * (1 + ROUNDING), side="right")
    lasts = np.unique(np.append(np.maximum(fitting[:-1], 2), len(names)))
    return _Sending(
        # Groups in their new order, rows of each in the old one.
        order=np.argsort(place[group], kind="stable"),
        names=names[shuffled],
        sizes=sizes,
        ends=total[lasts - 1],
        blocks=np.searchsorted(lasts, np.arange(len(names)), side="right"),
    )


def _bits(said: np.ndarray, labels: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """
    Bits of each label, shape (layers, rows).

    Parameters
    ----------
    said : ndarray of shape (layers, rows, classes)
        Outputs of the readouts.
    labels : ndarray of int of shape (rows,)
    seen : ndarray of int of shape (classes,)
        Rows of each class that they were fitted on.
    """
    from scipy.special import log_softmax

    known = np.where(seen > 0, said, -np.inf)
    log = log_softmax(known, axis=-1)[:, np.arange(len(labels)), labels]
    each = 1 / (seen.sum() + len(seen))
    left = np.log1p(-each * (seen == 0).sum())
    return -np.where(seen[labels] > 0, log + left, np.log(each)) / np.log(2)
