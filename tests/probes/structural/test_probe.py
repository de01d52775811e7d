"""Are planted trees recovered, is chance what shuffled words give, and are scores those of plain loops?"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.stats import spearmanr

from microtome.errors import InputError, UnknownNameError
from microtome.inference.bands import difference_bands, score_bands
from microtome.inference.pairing import compare_scores
from microtome.inference.scoring import score_interval
from microtome.probes.structural.fitting import Target
from microtome.probes.structural.model import Structural, fit_structural
from microtome.probes.structural.probe import (
    TREE_SCORES,
    TreeScores,
    answers,
    chance_score,
    layer_scores,
    score_structural,
    spearman_by_length,
)
from microtome.probes.structural.trees import Trees, read_trees, tree_distances
from tree_samples import drawn_trees, planted

TARGETS: tuple[Target, ...] = ("distance", "depth")


def probe_of(weights: np.ndarray, target: Target, usual_root: int = 0) -> Structural:
    none = np.zeros((*weights.shape[:2], 1))
    seeds = tuple(range(len(weights)))
    return Structural(
        target=target, weights=weights, seeds=seeds, losses=none, best=none[..., 0], usual_root=usual_root
    )


def drawn_scores(target: Target, seed: int = 0, sentences: int = 60, longest: int = 17) -> TreeScores:
    """Of probes that were never trained, on trees with punctuation."""
    trees = drawn_trees(sentences, seed, longest, punctuation=0.2)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, len(trees.heads), 8))
    return score_structural(probe_of(rng.normal(size=(2, 3, 4, 8)), target, 1), X, trees)


def correlation(one: np.ndarray, two: np.ndarray) -> float:
    found: Any = spearmanr(one, two)
    return float(found.statistic)


def plain_edges(distances: np.ndarray, kept: np.ndarray) -> set[frozenset[int]]:
    words = np.flatnonzero(kept)
    tree = minimum_spanning_tree(distances[np.ix_(words, words)]).tocoo()
    return {frozenset((int(words[i]), int(words[j]))) for i, j in zip(tree.row, tree.col, strict=True)}


def test_scores_of_distances_are_those_of_plain_loops() -> None:
    trees = drawn_trees(50, 4, punctuation=0.2)
    # Punctuation has no words below it, so that the tree without it is one.
    marks = trees.punctuation.copy()
    for s in range(len(trees)):
        heads = trees.heads[trees.rows(s)]
        marks[trees.rows(s)] &= ~np.isin(np.arange(1, len(heads) + 1), heads)
    split = [trees.rows(s) for s in range(len(trees))]
    trees = read_trees([trees.heads[rows] for rows in split], punctuation=[marks[rows] for rows in split])
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(2, len(trees.heads), 8)), rng.normal(size=(3, 2, 4, 8))
    found = score_structural(probe_of(B, "distance"), X, trees)
    correlations: dict[int, list[float]] = {}
    for s, rows in enumerate(split):
        kept, heads = ~trees.punctuation[rows], trees.heads[rows]
        true = {frozenset((w, int(h) - 1)) for w, h in enumerate(heads) if h and kept[w]}
        assert found.total[s] == len(true)
        for seed, layer in np.ndindex(3, 2):
            z = X[layer, rows] @ B[seed, layer].T
            distances = np.square(z[:, None] - z[None]).sum(-1)
            assert found.right[seed, layer, s] == len(plain_edges(distances, kept) & true)
            pairs = zip(distances, tree_distances(trees, s), strict=True)
            if len(heads) >= 5:
                each = [correlation(ours, right) for ours, right in pairs]
                assert found.spearman[seed, layer, s] == pytest.approx(np.mean(each))
                if (seed, layer) == (1, 1):
                    correlations.setdefault(len(heads), []).extend(each)
            else:
                assert np.isnan(found.spearman[seed, layer, s])
        words = np.flatnonzero(kept).tolist()
        chain = {frozenset(pair) for pair in itertools.pairwise(words)}
        assert found.simple_right[s] == len(chain & true)
    assert layer_scores(found, "uuas") == pytest.approx(found.right.sum(-1) / found.total.sum())
    means = {length: np.mean(each) for length, each in correlations.items()}
    assert layer_scores(found, "distance_spearman")[1, 1] == pytest.approx(np.mean(list(means.values())))
    curve = spearman_by_length(found)[1, 1]
    assert curve.shape == (46,)
    assert {at + 5: value for at, value in enumerate(curve) if not np.isnan(value)} == pytest.approx(means)


def test_scores_of_depths_are_those_of_plain_loops() -> None:
    trees = drawn_trees(50, 5, punctuation=0.3)
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(2, len(trees.heads), 8)), rng.normal(size=(3, 2, 4, 8))
    found = score_structural(probe_of(B, "depth", usual_root=2), X, trees)
    assert (found.total == 1).all()
    for s in range(len(trees)):
        rows = trees.rows(s)
        depths, able = trees.depths[rows], np.flatnonzero(~trees.punctuation[rows])
        able = able if len(able) else np.arange(len(depths))
        root = int(np.flatnonzero(trees.heads[rows] == 0)[0])
        assert found.simple_right[s] == (able[min(2, len(able) - 1)] == root)
        assert found.chance[s] == pytest.approx(float(root in able) / len(able))
        for seed, layer in np.ndindex(3, 2):
            lengths = np.square(X[layer, rows] @ B[seed, layer].T).sum(-1)
            assert found.right[seed, layer, s] == (able[np.argmin(lengths[able])] == root)
            if len(depths) >= 5:
                right = correlation(lengths, depths)
                assert found.spearman[seed, layer, s] == pytest.approx(right)
                assert found.simple_spearman[s] == pytest.approx(correlation(np.arange(len(depths)), depths))


def recovered(target: Target) -> TreeScores:
    """A probe of a layer that holds the trees, and one of a layer of noise, on sentences not seen before."""
    samples = []
    for seed, sentences in ((1, 400), (2, 80), (3, 80)):
        trees = drawn_trees(sentences, seed)
        noise = np.random.default_rng(seed).normal(size=(len(trees.heads), 24))
        samples.append((np.stack([planted(trees, 0.05, seed=seed), noise]), trees))
    (X, trees), (held_X, held), (new_X, new) = samples
    probe = fit_structural(X, trees, (held_X, held), target, seeds=[0, 1])
    return score_structural(probe, new_X, new)


def test_a_planted_tree_is_recovered_and_noise_is_at_chance() -> None:
    found = recovered("distance")
    uuas, spearman = layer_scores(found, "uuas"), layer_scores(found, "distance_spearman")
    assert (uuas[:, 0] > 0.95).all()
    assert (spearman[:, 0] > 0.9).all()
    _, said = answers(found, "uuas", 1)
    interval = score_interval(TREE_SCORES["distance"][0], said.predictions[0], said.targets, level=0.999)
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low < chance_score(found) < interval.high


def test_planted_depths_are_recovered_and_noise_is_at_chance() -> None:
    found = recovered("depth")
    root, spearman = layer_scores(found, "root_accuracy"), layer_scores(found, "depth_spearman")
    assert (root[:, 0] > 0.95).all()
    assert (spearman[:, 0] > 0.9).all()
    assert root[:, 1].mean() == pytest.approx(chance_score(found), abs=4 * np.sqrt(0.25 / 80))


@pytest.mark.parametrize("target", TARGETS)
def test_chance_is_what_shuffled_words_give(target: Target) -> None:
    trees = drawn_trees(40, 7, punctuation=0.2)
    X = planted(trees, 0.1)[None]
    probe, rng, counts = probe_of(np.eye(24)[None, None], target), np.random.default_rng(0), []
    # Only words that are no punctuation change places: punctuation stays what it is.
    for _ in range(40):
        order = np.arange(len(trees.heads))
        for s in range(len(trees)):
            words = trees.rows(s).start + np.flatnonzero(~trees.punctuation[trees.rows(s)])
            order[words] = rng.permutation(words)
        counts.append(score_structural(probe, X[:, order], trees).right[0, 0])
    found = score_structural(probe, X, trees)
    share = np.sum(counts, axis=1) / found.total.sum()
    assert share.mean() == pytest.approx(chance_score(found), abs=4 * share.std() / np.sqrt(40))


@pytest.mark.parametrize("target", TARGETS)
def test_intervals_cover_sentences_and_seeds_and_two_models_are_compared_in_pairs(target: Target) -> None:
    found = drawn_scores(target)
    worse = drawn_scores(target)
    worse.right[:] = np.maximum(worse.right - 1, 0)
    worse.spearman[:] -= 0.1
    for score in TREE_SCORES[target]:
        layers = [answers(found, score.name, layer)[1] for layer in range(3)]
        bands = score_bands(score, layers)
        assert bands.values == pytest.approx(layer_scores(found, score.name).mean(0))
        assert (bands.band_low <= bands.low).all()
        assert (bands.low < bands.values).all()
        assert bands.unit == "group of examples and seed"
        assert bands.seeds == (2, 2, 2)
        two = [answers(worse, score.name, layer)[1] for layer in range(3)]
        compared = compare_scores(score, layers[0], two[0], pair_seeds=True)
        lost = layer_scores(found, score.name)[:, 0] - layer_scores(worse, score.name)[:, 0]
        assert compared.difference == pytest.approx(lost.mean())
        assert compared.interval is not None
        assert compared.interval.low < lost.mean() < compared.interval.high
        assert compared.interval.unit == "group of examples and seed"
        differences = difference_bands(score, layers, answers(found, score.name, None)[1], pair_seeds=False)
        assert np.isfinite(differences.band_low).all()


def test_intervals_of_the_mean_over_lengths_cover_it() -> None:
    score, rng = TREE_SCORES["distance"][1], np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        lengths = np.clip(rng.geometric(1 / 14, 250), 5, 50)
        values = np.tanh(1 - lengths / 50 + 0.4 * rng.normal(size=250))
        found = score_interval(score, values, lengths)
        assert found.low is not None
        assert found.high is not None
        true = np.mean([np.tanh(1 - n / 50 + 0.4 * NORMAL).mean() for n in np.unique(lengths)])
        hits += found.low < true < found.high
    assert 0.90 <= hits / 200 <= 0.99


NORMAL = np.random.default_rng(1).normal(size=20_000)


def test_sentences_that_cannot_be_scored_do_not_count() -> None:
    trees = read_trees(
        [[0], [0, 1], [0, 1, 1, 1, 1], [0] + [1] * 50], punctuation=[[0], [0, 1], [0] * 5, [0] * 51]
    )
    X = np.random.default_rng(0).normal(size=(1, len(trees.heads), 3))
    found = score_structural(probe_of(np.ones((1, 1, 2, 3)), "distance"), X, trees)
    assert found.total.tolist() == [0, 0, 4, 50]
    assert answers(found, "uuas", 0)[1].ids == ["2", "3"]
    assert answers(found, "distance_spearman", 0)[1].ids == ["2"]
    short = read_trees([[0], [0]])
    found = score_structural(probe_of(np.ones((1, 1, 2, 3)), "distance"), X[:, :2], short)
    with pytest.raises(InputError, match="sentences must be scored by uuas, but none of 2 can be"):
        answers(found, "uuas", 0)


def test_a_probe_that_sees_nothing_has_no_correlation() -> None:
    trees = drawn_trees(10, 3)
    X = np.ones((1, len(trees.heads), 3))
    for target in TARGETS:
        found = score_structural(probe_of(np.ones((1, 1, 2, 3)), target), X, trees)
        assert layer_scores(found, TREE_SCORES[target][1].name)[0, 0] == 0


def test_what_is_not_there_is_refused() -> None:
    found = drawn_scores("depth")
    with pytest.raises(UnknownNameError, match="score must be one of depth_spearman, root_accuracy"):
        answers(found, "uuas", 0)
    with pytest.raises(InputError, match="layer must be one of 3, counted from 0, but got 3"):
        answers(found, "root_accuracy", 3)
    trees: Trees = drawn_trees(3)
    X = np.zeros((2, len(trees.heads), 8))
    with pytest.raises(InputError, match="X must be of 3 layers of 8 features"):
        score_structural(probe_of(np.zeros((1, 3, 2, 8)), "depth"), X, trees)
