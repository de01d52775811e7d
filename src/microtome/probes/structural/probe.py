"""Structural probing of every layer, scored on test sentences."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError
from ..dataset import Asked, Probed
from .distances import Trees, read_trees
from .fitting import Target
from .model import fit_structural
from .scores import (
    SHORTEST,
    TREE_SCORES,
    TreeScores,
    answers,
    chance_score,
    layer_scores,
    score_structural,
    spearman_by_length,
)

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
