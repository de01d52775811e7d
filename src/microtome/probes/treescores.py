"""How much of the trees does a structural probe recover? Scores of each sentence, beside plain baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must, unknown
from ..inference.answers import Answers
from ..tasks.scores_classes import share_extremes
from ..tasks.scores_declare import Labels, Score, additive, ratio
from .spanningtrees import shared_edges, spanning_trees
from .structural import Structural, foretell
from .structuralfit import Target
from .treedistances import Trees, tree_distances

SHORTEST, LONGEST = 5, 50  # words of sentences whose Spearman correlations count
_LENGTHS = LONGEST - SHORTEST + 1


def _share(sums: np.ndarray) -> np.ndarray:
    return ratio(sums[..., 0], sums[..., 1])


def _right(predictions: Any, targets: Any, labels: Labels = ()) -> np.ndarray:
    return np.column_stack([predictions, targets]).astype(np.float64)


def _by_length(predictions: Any, targets: Any, labels: Labels = ()) -> np.ndarray:
    """Correlations and counts, in a column for each length; targets are the lengths."""
    at, rows = np.asarray(targets) - SHORTEST, np.arange(len(targets))
    parts = np.zeros((len(targets), 2 * _LENGTHS))
    parts[rows, at], parts[rows, at + _LENGTHS] = predictions, 1
    return parts


def _mean_of_lengths(sums: np.ndarray) -> np.ndarray:
    total, count = np.asarray(sums)[..., :_LENGTHS], np.asarray(sums)[..., _LENGTHS:]
    return ratio(ratio(total, count).sum(-1), (count > 0).sum(-1))


# What is scored are not the answers to a task, so the scores are for no kind of them.
UUAS = additive(
    name="uuas",
    title="Edges of the tree that are found, without direction or punctuation",
    kinds=(),
    parts=_right,
    from_parts=_share,
    extremes=share_extremes,
)
ROOT = additive(
    name="root_accuracy",
    title="Sentences whose root is found",
    kinds=(),
    counts=True,
    parts=_right,
    from_parts=_share,
    extremes=share_extremes,
)
DISTANCE_SPEARMAN = additive(
    name="distance_spearman",
    title="Spearman correlation of the distances to each word, mean of the lengths from 5 to 50",
    kinds=(),
    range=(-1.0, 1.0),
    parts=_by_length,
    from_parts=_mean_of_lengths,
)
DEPTH_SPEARMAN = additive(
    name="depth_spearman",
    title="Spearman correlation of the depths of a sentence, mean of the lengths from 5 to 50",
    kinds=(),
    range=(-1.0, 1.0),
    parts=_by_length,
    from_parts=_mean_of_lengths,
)
TREE_SCORES: Mapping[Target, tuple[Score, Score]] = MappingProxyType(
    {"distance": (UUAS, DISTANCE_SPEARMAN), "depth": (ROOT, DEPTH_SPEARMAN)}
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeScores:
    """
    What probes recover of each sentence.

    Parameters
    ----------
    target : {"distance", "depth"}
    seeds : tuple of int
    ids : tuple of str
    groups : tuple
        As in `Trees`.
    lengths : ndarray of int of shape (sentences,)
    right : ndarray of int of shape (seeds, layers, sentences)
        Edges that were found; for depths 1 where the root was found.
    total : ndarray of int of shape (sentences,)
        Edges there are; for depths 1.
    spearman : ndarray of shape (seeds, layers, sentences)
        Of distances the mean over words; NaN for sentences of fewer than 5 or more than 50 words.
    simple_right : ndarray of int of shape (sentences,)
        As `right`, where each word is joined to its neighbor, or the root stands where it usually does.
    simple_spearman : ndarray of shape (sentences,)
        As `spearman`, of the distance in the sentence, or of the place in it.
    chance : ndarray of shape (sentences,)
        What `right` is in the mean when the words of each sentence are shuffled.
    """

    target: Target
    seeds: tuple[int, ...]
    ids: tuple[str, ...]
    groups: tuple[Any, ...]
    lengths: np.ndarray
    right: np.ndarray
    total: np.ndarray
    spearman: np.ndarray
    simple_right: np.ndarray
    simple_spearman: np.ndarray
    chance: np.ndarray


def score_structural(probe: Structural, X: Any, trees: Trees, device: Any = None) -> TreeScores:
    """
    Score the probes of all layers and seeds on sentences they have not seen.

    Parameters
    ----------
    probe : Structural
    X : ndarray or Tensor of shape (layers, rows, features), or sequence of them
    trees : Trees
    device : str or torch.device, optional
        Where to compute; that of X when absent.

    Returns
    -------
    TreeScores
        See `answers` for their means, intervals and comparisons.

    Notes
    -----
    As published, punctuation takes part in the loss and in the correlations, but neither in the trees nor
    among the words that can be the root. A correlation of constant numbers counts as 0.
    """
    seeds, layers = probe.weights.shape[:2]
    right = np.zeros((seeds, layers, len(trees)), dtype=np.int64)
    spearman = np.full((seeds, layers, len(trees)), np.nan)
    simple_right, total = np.zeros((2, len(trees)), dtype=np.int64)
    simple_spearman, chance = np.full(len(trees), np.nan), np.zeros(len(trees))
    for some, found in foretell(probe, X, trees, device):
        words = int(trees.lengths[some[0]])
        rows = trees.starts[some][:, None] + np.arange(words)
        kept, depths = ~trees.punctuation[rows], trees.depths[rows]
        line = np.arange(words)
        if probe.target == "distance":
            true = np.stack([tree_distances(trees, each) for each in some])
            simple = np.broadcast_to(np.abs(np.subtract.outer(line, line)), true.shape)
            edges = spanning_trees(true, kept)
            flat = spanning_trees(found.reshape(-1, words, words), np.tile(kept, (seeds * layers, 1)))
            right[:, :, some] = shared_edges(flat.reshape(found.shape[:-1]), edges)
            simple_right[some] = shared_edges(spanning_trees(simple, kept), edges)
            total[some] = (edges >= 0).sum(-1)
            # Any tree of m words has m - 1 of their m (m - 1) / 2 pairs.
            chance[some] = 2 * total[some] / (total[some] + 1)
        else:
            true, simple = depths, np.broadcast_to(line, depths.shape)
            # Where all is punctuation, any of it can be the root.
            able = kept | ~kept.any(1, keepdims=True)
            right[:, :, some] = _is_root(np.where(able, found, np.inf).argmin(-1), depths)
            at = np.minimum(probe.usual_root, able.sum(1) - 1)
            simple_right[some] = _is_root((able.cumsum(1) > at[:, None]).argmax(1), depths)
            total[some] = 1
            chance[some] = (able & (depths == 0)).any(1) / able.sum(1)
        if SHORTEST <= words <= LONGEST:
            spearman[:, :, some] = _spearman(found, true).reshape(seeds, layers, len(some), -1).mean(-1)
            simple_spearman[some] = _spearman(simple, true).reshape(len(some), -1).mean(-1)
    return TreeScores(
        target=probe.target,
        seeds=probe.seeds,
        ids=trees.ids,
        groups=trees.groups,
        lengths=trees.lengths,
        right=right,
        total=total,
        spearman=spearman,
        simple_right=simple_right,
        simple_spearman=simple_spearman,
        chance=chance,
    )


def answers(found: TreeScores, score: str, layer: int | None) -> tuple[Score, Answers]:
    """
    Give the scores of one layer in the form that `microtome.inference` takes.

    `score_bands` has the mean over seeds with intervals over sentences and seeds, `compare_scores` and
    `difference_bands` the paired difference of two models on the same sentences, or of a layer and the
    baseline.

    Parameters
    ----------
    found : TreeScores
    score : str
        Name of one of `TREE_SCORES`: "uuas" or "distance_spearman" for distances, "root_accuracy" or
        "depth_spearman" for depths.
    layer : int or None
        None for the simple baseline.

    Returns
    -------
    Score
    Answers
        Of the sentences that count.
    """
    known = TREE_SCORES[found.target]
    if score not in (one.name for one in known):
        raise unknown("score", score, [one.name for one in known])
    layers = found.right.shape[1]
    if layer is not None and not -layers <= layer < layers:
        raise must("layer", f"one of {layers}, counted from 0", layer)
    if score == known[0].name:
        values, simple, targets, counted = found.right, found.simple_right, found.total, found.total > 0
    else:
        values, simple, targets = found.spearman, found.simple_spearman, found.lengths
        counted = ~np.isnan(simple)
    if not counted.any():
        raise InputError(f"sentences must be scored by {score}, but none of {len(counted)} can be.")
    chosen = np.flatnonzero(counted)
    each = [simple] if layer is None else values[:, layer]
    return next(one for one in known if one.name == score), Answers(
        ids=[found.ids[at] for at in chosen],
        targets=targets[chosen].tolist(),
        predictions=[one[chosen].tolist() for one in each],
        groups=[found.groups[at] for at in chosen] if found.groups else None,
        seeds=() if layer is None else found.seeds,
    )


def layer_scores(found: TreeScores, score: str) -> np.ndarray:
    """
    Score all layers.

    Returns
    -------
    ndarray of shape (seeds, layers)
    """
    seeds, layers = len(found.seeds), found.right.shape[1]
    out = np.empty((seeds, layers))
    for layer in range(layers):
        how, said = answers(found, score, layer)
        out[:, layer] = [how.compute(each, said.targets, ()) for each in said.predictions]
    return out


def chance_score(found: TreeScores) -> float:
    """Say which share of edges, or of roots, is found when the words of each sentence are shuffled."""
    return float(found.chance.sum() / max(1, found.total.sum()))


def spearman_by_length(found: TreeScores) -> np.ndarray:
    """
    Average the correlations of sentences of each length.

    Returns
    -------
    ndarray of shape (seeds, layers, 46)
        For 5 to 50 words; NaN where there is no such sentence.
    """
    out = np.full((*found.spearman.shape[:2], _LENGTHS), np.nan)
    for length in np.unique(found.lengths):
        if SHORTEST <= length <= LONGEST:
            out[:, :, length - SHORTEST] = found.spearman[:, :, found.lengths == length].mean(-1)
    return out


def _is_root(chosen: np.ndarray, depths: np.ndarray) -> np.ndarray:
    return depths[np.arange(len(depths)), chosen] == 0


def _spearman(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Correlate the ranks along the last axis; shapes are broadcast."""
    from scipy.stats import rankdata

    one, two = (np.asarray(rankdata(each, axis=-1)) for each in (found, true))
    one, two = (each - each.mean(-1, keepdims=True) for each in (one, two))
    return ratio((one * two).sum(-1), np.sqrt((one**2).sum(-1) * (two**2).sum(-1)))
