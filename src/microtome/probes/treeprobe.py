"""Does each layer hold the trees? The structural probe of every layer, on sentences it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError
from .asking import Asked, Probed
from .structural import fit_structural
from .structuralfit import Target
from .treedistances import Trees, read_trees
from .treescores import (
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
    Read distances or depths of trees out of every layer.

    Parameters
    ----------
    asked : Asked
        Control labels make no sense for trees.
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Shares of edges, or of roots, that are found; `rows` also have the Spearman correlations of each seed,
        and `more` those of sentences of each length.
    """
    found = asked.annotated
    if asked.control is not None:
        raise InputError(f"a control must be of labels of words or spans, but {found.target.name} has none.")
    target = TARGETS_OF[found.target.name]
    # A sentence that the models have no row of every word for has no whole tree.
    counts = np.bincount(asked.examples, minlength=len(found.sentences))
    whole = np.flatnonzero(counts == [len(words) for words in found.sentences])
    parts = [np.intersect1d(part, whole) for part in (asked.train, asked.held, asked.judged)]
    if not all(map(len, parts)):
        raise InputError(
            f"{found.source} must hold whole sentences to learn from, to stop by and to judge on."
        )
    lost = sum(map(len, (asked.train, asked.held, asked.judged))) - sum(map(len, parts))
    rows = [asked.rows_of(part) for part in parts]
    trees = [_trees(asked, part) for part in parts]
    (fitted,) = fit_structural(
        X[:, rows[0]], trees[0], X[:, rows[1]], trees[1], target, seeds=asked.seeds, device=asked.device
    )
    scores = score_structural(fitted, X[:, rows[2]], trees[2], asked.device)
    main, other = TREE_SCORES[target]
    given = [answers(scores, main.name, layer)[1] for layer in range(len(X))]
    simple = answers(scores, main.name, None)[1]
    by_length = _by_length(scores, other.name)
    # Sentences of a few words have edges and a root, but no rank correlation.
    more = layer_scores(scores, other.name) if by_length else ()
    return Probed(
        answers=tuple(given),
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
        rows=tuple({other.name: tuple(map(float, each))} for each in np.transpose(more)),
        more=by_length,
    )


def _by_length(scores: TreeScores, name: str) -> dict[str, Any]:
    """Correlations by layer, a mean of all lengths that occur and then by the length of a sentence."""
    found = spearman_by_length(scores).mean(0)
    there = np.isfinite(found).any(0)
    if not there.any():
        return {}
    return {
        name: {
            "mean": np.nanmean(found[:, there], axis=1).tolist(),
            "lengths": (np.flatnonzero(there) + SHORTEST).tolist(),
            "by_length": found[:, there].tolist(),
        }
    }


def _trees(asked: Asked, sentences: np.ndarray) -> Trees:
    found = asked.annotated
    return read_trees(
        [found.heads[place] for place in sentences],
        punctuation=[found.punctuation[place] for place in sentences],
        ids=[found.ids[place] for place in sentences],
        groups=asked.groups(sentences),
    )
