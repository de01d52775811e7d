"""Do the probes of all layers learn what each would alone, and what a plain loop over sentences learns?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from microtome.errors import InputError, WorkError
from microtome.probes.structural.fitting import Target, first_weights, sentence_order
from microtome.probes.structural.model import Structural, fit_structural, predict_trees, usual_root
from microtome.probes.structural.trees import Trees, read_trees, tree_distances
from tree_samples import drawn_trees, planted

TARGETS: tuple[Target, ...] = ("distance", "depth")


def sample(sentences: int, seed: int, layers: int = 3) -> tuple[np.ndarray, Trees]:
    """Layers that hold the trees less and less, and words far from 0."""
    trees = drawn_trees(sentences, seed)
    rows = [planted(trees, noise, seed=seed) + 3 for noise in np.linspace(0.1, 1.5, layers)]
    return np.stack(rows), trees


def sentence_loss(
    B: torch.Tensor, example: tuple[torch.Tensor, torch.Tensor], target: Target
) -> torch.Tensor:
    """As published: one sentence at a time, from differences of its words."""
    rows, right = example
    z = rows @ B.T
    if target == "depth":
        return (z.pow(2).sum(1) - right).abs().sum() / len(z)
    return ((z[:, None] - z[None]).pow(2).sum(-1) - right).abs().sum() / len(z) ** 2


def train_slowly(
    X: np.ndarray,
    trees: Trees,
    held_X: np.ndarray,
    held: Trees,
    target: Target,
    rank: int,
    seed: int,
    passes: int = 1,
) -> tuple[np.ndarray, list[float], int]:
    """One layer, with the optimizer and the schedule of torch."""

    def examples(rows: np.ndarray, of: Trees) -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = []
        for s in range(len(of)):
            right = tree_distances(of, s) if target == "distance" else of.depths[of.rows(s)]
            found.append((torch.from_numpy(rows[of.rows(s)]), torch.from_numpy(right)))
        return found

    learned, validated = examples(X, trees), examples(held_X, held)
    B = torch.nn.Parameter(torch.from_numpy(first_weights(seed, rank, X.shape[1])))
    optimizer = torch.optim.Adam([B], lr=1e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=passes - 1)
    rng, losses, best, kept = sentence_order(seed), [], -1, np.zeros(0)
    for epoch in range(40 * passes):
        order = rng.permutation(len(learned))
        for some in [order[at : at + 20] for at in range(0, len(order), 20)]:
            optimizer.zero_grad()
            torch.stack([sentence_loss(B, learned[s], target) for s in some]).mean().backward()
            optimizer.step()
        with torch.no_grad():
            losses.append(float(np.mean([float(sentence_loss(B, one, target)) for one in validated])))
        schedule.step(losses[-1])
        if best < 0 or losses[-1] < losses[best] - 1e-4:
            best, kept = epoch, B.detach().numpy().copy()
        elif epoch - best >= 5 * passes:
            break
    return kept, losses, best


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("enough", "passes"), [(0, 1), (50, 1), (120, 3)])
def test_training_is_that_of_a_plain_loop(target: Target, enough: int, passes: int) -> None:
    X, trees = sample(50, 1, layers=2)
    held_X, held = sample(20, 2, layers=2)
    found = fit_structural(X, trees, (held_X, held), target, rank=7, seeds=[3], enough=enough)
    assert found.weights.shape == (1, 2, 7, 24)
    for layer in range(2):
        weights, losses, best = train_slowly(X[layer], trees, held_X[layer], held, target, 7, 3, passes)
        ours = found.losses[0, layer]
        assert ours[~np.isnan(ours)] == pytest.approx(losses, rel=1e-9)
        assert found.best[0, layer] == best
        assert found.weights[0, layer] == pytest.approx(weights, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("target", TARGETS)
def test_layers_learn_together_what_each_learns_alone(target: Target) -> None:
    X, trees = sample(120, 1, layers=4)
    held_X, held = sample(40, 2, layers=4)
    found = fit_structural(X, trees, (held_X, held), target, seeds=[0, 1], enough=0)
    ends = (~np.isnan(found.losses)).sum(-1)
    assert len(set(ends[0].tolist())) > 1, "layers must end at different times for this to say much"
    for layer in range(4):
        only = slice(layer, layer + 1)
        alone = fit_structural(X[only], trees, (held_X[only], held), target, seeds=[0, 1], enough=0)
        assert np.array_equal(np.isnan(alone.losses[:, 0]), np.isnan(found.losses[:, layer]))
        assert np.nan_to_num(alone.losses[:, 0]) == pytest.approx(
            np.nan_to_num(found.losses[:, layer]), rel=1e-9
        )
        assert np.array_equal(alone.best[:, 0], found.best[:, layer])
        assert alone.weights[:, 0] == pytest.approx(found.weights[:, layer], rel=1e-6, abs=1e-9)


def test_half_as_many_digits_lead_to_the_same_end() -> None:
    X, trees = sample(80, 1)
    held_X, held = sample(40, 2)
    exact = fit_structural(X, trees, (held_X, held))
    fast = fit_structural(X.astype(np.float32), trees, (held_X.astype(np.float32), held))
    assert fast.weights.dtype == np.float32
    assert np.nanmin(fast.losses, -1) == pytest.approx(np.nanmin(exact.losses, -1), rel=5e-3)


def test_few_sentences_are_learned_from_to_the_end() -> None:
    """In passes of two batches chance would lower the rate, and layers end before they have learned."""
    X, trees = sample(40, 1, layers=4)
    held_X, held = sample(40, 2, layers=4)
    published = fit_structural(X, trees, (held_X, held), enough=0)
    found = fit_structural(X, trees, (held_X, held))
    least, short = (np.nanmin(one.losses[0], -1) for one in (found, published))
    assert (least < 0.8 * short).any()
    assert (least < 1.01 * short).all()


def test_seeds_differ_and_do_not_disturb_each_other() -> None:
    X, trees = sample(40, 1, layers=1)
    both = fit_structural(X, trees, (X, trees), rank=5, seeds=[0, 1], epochs=2)
    assert both.weights.shape == (2, 1, 5, 24)
    assert both.seeds == (0, 1)
    assert np.abs(both.weights[0] - both.weights[1]).max() > 0.01
    alone = fit_structural(X, trees, (X, trees), rank=5, seeds=[1], epochs=2)
    assert np.array_equal(alone.weights[0], both.weights[1])


def test_tensors_and_read_only_arrays_are_taken() -> None:
    X, trees = sample(30, 1)
    one = fit_structural(X, trees, (X, trees), epochs=2)
    two = fit_structural(torch.from_numpy(X), trees, (torch.from_numpy(X), trees), epochs=2)
    assert np.array_equal(one.weights, two.weights)
    X.setflags(write=False)
    backward = fit_structural(X[::-1], trees, (X[::-1], trees), epochs=2)
    assert np.array_equal(one.weights, backward.weights[:, ::-1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("target", TARGETS)
def test_another_device_leads_to_the_same_end(target: Target) -> None:
    X, trees = sample(60, 1)
    held_X, held = sample(20, 2)
    here = fit_structural(X, trees, (held_X, held), target)
    there = fit_structural(X, trees, (held_X, held), target, device="cuda")
    assert np.nan_to_num(there.losses) == pytest.approx(np.nan_to_num(here.losses), rel=1e-6)
    for (some, ours), (same, theirs) in zip(
        predict_trees(here, held_X, held), predict_trees(here, held_X, held, "cuda"), strict=True
    ):
        assert np.array_equal(some, same)
        assert theirs == pytest.approx(ours, rel=1e-9)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_predicted_is_the_squared_length_under_the_map(target: Target) -> None:
    X, trees = sample(12, 1, layers=2)
    B = np.random.default_rng(0).normal(size=(3, 2, 4, 24))
    none = np.zeros((3, 2, 1))
    probe = Structural(
        target=target, weights=B, seeds=(0, 1, 2), losses=none, best=none[..., 0], usual_root=0
    )
    seen = []
    for some, found in predict_trees(probe, X, trees):
        for at, sentence in enumerate(some):
            seen.append(sentence)
            rows = X[:, trees.rows(int(sentence))]
            z = np.einsum("slrd,lwd->slwr", B, rows)
            if target == "distance":
                right = np.square(z[:, :, :, None] - z[:, :, None]).sum(-1)
            else:
                right = np.square(z).sum(-1)
            assert found[:, :, at] == pytest.approx(right, rel=1e-9)
    assert sorted(seen) == list(range(12))


def test_the_usual_root_is_counted_among_words() -> None:
    marks = [[True, False, False], [False, False], [True, True, False, False]]
    assert usual_root(read_trees([[3, 3, 0], [0, 1], [4, 4, 4, 0]], punctuation=marks)) == 1
    assert usual_root(read_trees([[0]], punctuation=[[True]])) == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"target": "length"}, 'target must be "distance" or "depth", but got \'length\''),
        ({"rank": 0}, "rank must be from 1 to the number of features, 24, but got 0"),
        ({"rank": 25}, "rank must be from 1 to the number of features, 24, but got 25"),
        ({"seeds": []}, "seeds must be different whole numbers of at least 0"),
        ({"epochs": 0}, "epochs must be a whole number above 0, but got 0"),
        ({"enough": -1}, "enough must be a whole number of at least 0, but got -1"),
        ({"held": (np.zeros((1, 1, 24)), drawn_trees(2))}, "X must be one row for each of"),
        ({"X": np.full((1, 1, 24), np.nan)}, "X must be one row for each of"),
    ],
)
def test_bad_input_is_refused(changed: dict[str, Any], said: str) -> None:
    X, trees = sample(5, 1, layers=1)
    given: dict[str, Any] = {"X": X, "trees": trees, "held": (X, trees)}
    with pytest.raises(InputError, match=said):
        fit_structural(**(given | changed))


def test_values_that_are_not_finite_are_refused() -> None:
    X, trees = sample(5, 1, layers=2)
    with pytest.raises(InputError, match="held must be of 2 layers of 24 features of float64"):
        fit_structural(X, trees, (X[:1], trees))
    broken = X.copy()
    broken[1, 3, 2] = np.nan
    with pytest.raises(InputError, match="X must be finite, but it has values that are not numbers"):
        fit_structural(broken, trees, (X, trees))
    large = (X * 1e25).astype(np.float32)
    with pytest.raises(WorkError, match="the structural probe of layer 0 has no finite loss in pass 1"):
        fit_structural(large, trees, (large, trees))
