"""Structural probes of every layer, with their scores and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError, must, unknown
from ...inference.answers import Answers
from ...scores.declare import Labels, Score, additive, ratio, share_extremes
from ..dataset import Asked, Probed
from .fitting import Target
from .model import Structural, fit_structural, predict_trees
from .trees import Trees, read_trees, shared_edges, spanning_trees, tree_distances

SHORTEST, LONGEST = 5, 50  # lengths of sentences that enter the Spearman correlations
_LENGTHS = LONGEST - SHORTEST + 1


def _share(sums: np.ndarray) -> np.ndarray:
    return ratio(sums[..., 0], sums[..., 1])


def _right(predictions: Any, targets: Any, labels: Labels = ()) -> np.ndarray:
    return np.column_stack([predictions, targets]).astype(np.float64)


def _length_parts(predictions: Any, targets: Any, labels: Labels = ()) -> np.ndarray:
    """Correlations and counts, with one column per length; targets are the lengths."""
    at, rows = np.asarray(targets) - SHORTEST, np.arange(len(targets))
    parts = np.zeros((len(targets), 2 * _LENGTHS))
    parts[rows, at], parts[rows, at + _LENGTHS] = predictions, 1
    return parts


def _mean_of_lengths(sums: np.ndarray) -> np.ndarray:
    total, count = np.asarray(sums)[..., :_LENGTHS], np.asarray(sums)[..., _LENGTHS:]
    return ratio(ratio(total, count).sum(-1), (count > 0).sum(-1))


# These scores do not apply to the predictions of a task, so they have no kinds.
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
    parts=_length_parts,
    from_parts=_mean_of_lengths,
)
DEPTH_SPEARMAN = additive(
    name="depth_spearman",
    title="Spearman correlation of the depths of a sentence, mean of the lengths from 5 to 50",
    kinds=(),
    range=(-1.0, 1.0),
    parts=_length_parts,
    from_parts=_mean_of_lengths,
)
TREE_SCORES: Mapping[Target, tuple[Score, Score]] = MappingProxyType(
    {"distance": (UUAS, DISTANCE_SPEARMAN), "depth": (ROOT, DEPTH_SPEARMAN)}
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeScores:
    """
    Scores of probes for each sentence.

    Parameters
    ----------
    target : {"distance", "depth"}
    seeds : tuple of int
    ids : tuple of str
    groups : tuple
        As in `Trees`.
    lengths : ndarray of int of shape (sentences,)
    right : ndarray of int of shape (seeds, layers, sentences)
        Number of edges found; for depths, 1 where the root is found.
    total : ndarray of int of shape (sentences,)
        Number of gold edges; for depths, 1.
    spearman : ndarray of shape (seeds, layers, sentences)
        For distances, the mean over words; NaN for sentences of fewer than 5 or more than 50 words.
    simple_right : ndarray of int of shape (sentences,)
        As `right`, for the baseline: adjacent words are joined, or the root is at its most frequent
        position.
    simple_spearman : ndarray of shape (sentences,)
        As `spearman`, for the baseline: the linear distance, or the position in the sentence.
    chance : ndarray of shape (sentences,)
        Expected value of `right` when the words of each sentence are shuffled.
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
    Score the probes of all layers and seeds on test sentences.

    Parameters
    ----------
    probe : Structural
    X : ndarray or Tensor of shape (layers, rows, features)
    trees : Trees
    device : str or torch.device, optional
        Device to compute on; that of X when absent.

    Returns
    -------
    TreeScores
        See `answers` for means, intervals and comparisons.

    Notes
    -----
    As published, punctuation is included in the loss and in the correlations, but excluded from the trees
    and from the candidates for the root. The correlation of constant values is 0.
    """
    seeds, layers = probe.weights.shape[:2]
    correct = np.zeros((seeds, layers, len(trees)), dtype=np.int64)
    spearman = np.full((seeds, layers, len(trees)), np.nan)
    simple_correct, total = np.zeros((2, len(trees)), dtype=np.int64)
    simple_spearman, chance = np.full(len(trees), np.nan), np.zeros(len(trees))
    for sentences, predictions in predict_trees(probe, X, trees, device):
        words = int(trees.lengths[sentences[0]])
        rows = trees.starts[sentences][:, None] + np.arange(words)
        scored_words, depths = ~trees.punctuation[rows], trees.depths[rows]
        position = np.arange(words)
        if probe.target == "distance":
            true = np.stack([tree_distances(trees, sentence) for sentence in sentences])
            simple = np.broadcast_to(np.abs(np.subtract.outer(position, position)), true.shape)
            edges = spanning_trees(true, scored_words)
            flat = spanning_trees(
                predictions.reshape(-1, words, words), np.tile(scored_words, (seeds * layers, 1))
            )
            correct[:, :, sentences] = shared_edges(flat.reshape(predictions.shape[:-1]), edges)
            simple_correct[sentences] = shared_edges(spanning_trees(simple, scored_words), edges)
            total[sentences] = (edges >= 0).sum(-1)
            # A tree of m words has m - 1 of the m (m - 1) / 2 pairs.
            chance[sentences] = 2 * total[sentences] / (total[sentences] + 1)
        else:
            true, simple = depths, np.broadcast_to(position, depths.shape)
            # Where all words are punctuation, each is a candidate for the root.
            candidates = scored_words | ~scored_words.any(1, keepdims=True)
            correct[:, :, sentences] = _is_root(np.where(candidates, predictions, np.inf).argmin(-1), depths)
            at = np.minimum(probe.usual_root, candidates.sum(1) - 1)
            simple_correct[sentences] = _is_root((candidates.cumsum(1) > at[:, None]).argmax(1), depths)
            total[sentences] = 1
            chance[sentences] = (candidates & (depths == 0)).any(1) / candidates.sum(1)
        if SHORTEST <= words <= LONGEST:
            spearman[:, :, sentences] = (
                _spearman(predictions, true).reshape(seeds, layers, len(sentences), -1).mean(-1)
            )
            simple_spearman[sentences] = _spearman(simple, true).reshape(len(sentences), -1).mean(-1)
    return TreeScores(
        target=probe.target,
        seeds=probe.seeds,
        ids=trees.ids,
        groups=trees.groups,
        lengths=trees.lengths,
        right=correct,
        total=total,
        spearman=spearman,
        simple_right=simple_correct,
        simple_spearman=simple_spearman,
        chance=chance,
    )


def answers(found: TreeScores, score: str, layer: int | None) -> tuple[Score, Answers]:
    """
    Convert the scores of one layer for `microtome.inference`.

    `score_bands` computes the mean over seeds with intervals over sentences and seeds; `compare_scores` and
    `difference_bands` compute the paired difference of two models on the same sentences, or of a layer and
    the baseline.

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
        Of the sentences that have the score.
    """
    target_scores = TREE_SCORES[found.target]
    if score not in (candidate.name for candidate in target_scores):
        raise unknown("score", score, [candidate.name for candidate in target_scores])
    layers = found.right.shape[1]
    if layer is not None and not -layers <= layer < layers:
        raise must("layer", f"one of {layers}, counted from 0", layer)
    if score == target_scores[0].name:
        values, simple, targets, counted = found.right, found.simple_right, found.total, found.total > 0
    else:
        values, simple, targets = found.spearman, found.simple_spearman, found.lengths
        counted = ~np.isnan(simple)
    if not counted.any():
        raise InputError(f"sentences must be scored by {score}, but none of {len(counted)} can be.")
    counted_sentences = np.flatnonzero(counted)
    seed_scores = [simple] if layer is None else values[:, layer]
    return next(candidate for candidate in target_scores if candidate.name == score), Answers(
        ids=[found.ids[sentence] for sentence in counted_sentences],
        targets=targets[counted_sentences].tolist(),
        predictions=[sentence_scores[counted_sentences].tolist() for sentence_scores in seed_scores],
        groups=[found.groups[sentence] for sentence in counted_sentences] if found.groups else None,
        seeds=() if layer is None else found.seeds,
    )


def layer_scores(found: TreeScores, score: str) -> np.ndarray:
    """
    Compute a score of all layers.

    Returns
    -------
    ndarray of shape (seeds, layers)
    """
    seeds, layers = len(found.seeds), found.right.shape[1]
    out = np.empty((seeds, layers))
    for layer in range(layers):
        scorer, layer_answers = answers(found, score, layer)
        out[:, layer] = [
            scorer.compute(predictions, layer_answers.targets, ())
            for predictions in layer_answers.predictions
        ]
    return out


def chance_score(found: TreeScores) -> float:
    """Expected share of edges, or of roots, found when the words of each sentence are shuffled."""
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


def _is_root(predicted: np.ndarray, depths: np.ndarray) -> np.ndarray:
    return depths[np.arange(len(depths)), predicted] == 0


def _spearman(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Spearman correlation along the last axis; shapes are broadcast."""
    from scipy.stats import rankdata

    x, y = (np.asarray(rankdata(values, axis=-1)) for values in (predicted, true))
    x, y = (ranks - ranks.mean(-1, keepdims=True) for ranks in (x, y))
    return ratio((x * y).sum(-1), np.sqrt((x**2).sum(-1) * (y**2).sum(-1)))


TARGETS_OF: Mapping[str, Target] = MappingProxyType({"dep-distance": "distance", "dep-depth": "depth"})


def probe_trees(asked: Asked, X: np.ndarray) -> Probed:
    """
    Probe every layer for distances or depths of trees.

    Parameters
    ----------
    asked : Asked
        Without control labels, which are not defined for trees.
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Share of edges, or of roots, that are found; `rows` contains the Spearman correlations of each seed,
        and `more` those of sentences of each length.
    """
    annotated = asked.annotated
    if asked.control is not None:
        raise InputError(
            f"a control must be of labels of words or spans, but {annotated.target.name} has none."
        )
    target = TARGETS_OF[annotated.target.name]
    # A sentence that lacks rows for some of its words has no complete tree.
    counts = np.bincount(asked.examples, minlength=len(annotated.sentences))
    complete = np.flatnonzero(counts == [len(words) for words in annotated.sentences])
    parts = [np.intersect1d(part, complete) for part in (asked.train, asked.held, asked.judged)]
    if not all(map(len, parts)):
        raise InputError(
            f"{annotated.source} must hold whole sentences to learn from, to stop by and to judge on."
        )
    lost = sum(map(len, (asked.train, asked.held, asked.judged))) - sum(map(len, parts))
    rows = [asked.rows_of(part) for part in parts]
    trees = [_trees(asked, part) for part in parts]
    fitted = fit_structural(
        X[:, rows[0]], trees[0], (X[:, rows[1]], trees[1]), target, seeds=asked.seeds, device=asked.device
    )
    scores = score_structural(fitted, X[:, rows[2]], trees[2], asked.device)
    main, rank_score = TREE_SCORES[target]
    layer_answers = [answers(scores, main.name, layer)[1] for layer in range(len(X))]
    simple = answers(scores, main.name, None)[1]
    by_length = _by_length(scores, rank_score.name)
    # Very short sentences have edges and a root, but no rank correlation.
    correlations = layer_scores(scores, rank_score.name) if by_length else ()
    return Probed(
        answers=tuple(layer_answers),
        score=main,
        lines=MappingProxyType(
            {
                "neighbors joined" if target == "distance" else "the usual place": float(
                    main.compute(simple.predictions[0], simple.targets, ())
                ),
                "chance": float(chance_score(scores)),
            }
        ),
        note=f"{lost:,} sentences have words without rows and are left out." if lost else "",
        rows=tuple(
            {rank_score.name: tuple(map(float, seed_correlations))}
            for seed_correlations in np.transpose(correlations)
        ),
        more=by_length,
    )


def _by_length(scores: TreeScores, name: str) -> dict[str, Any]:
    """Correlations by layer: the mean over all lengths that occur, and by the length of a sentence."""
    correlations = spearman_by_length(scores).mean(0)
    occurring = np.isfinite(correlations).any(0)
    if not occurring.any():
        return {}
    return {
        name: {
            "mean": np.nanmean(correlations[:, occurring], axis=1).tolist(),
            "lengths": (np.flatnonzero(occurring) + SHORTEST).tolist(),
            "by_length": correlations[:, occurring].tolist(),
        }
    }


def _trees(asked: Asked, sentences: np.ndarray) -> Trees:
    annotated = asked.annotated
    return read_trees(
        [annotated.heads[sentence] for sentence in sentences],
        punctuation=[annotated.punctuation[sentence] for sentence in sentences],
        ids=[annotated.ids[sentence] for sentence in sentences],
        groups=asked.groups(sentences),
    )
