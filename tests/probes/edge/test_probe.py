"""Do edge probes compute and learn what a plain implementation of the published probe does?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from microtome.errors import InputError
from microtome.inference.pairing import compare_scores
from microtome.inference.scoring import score_interval
from microtome.probes.edge.batches import Edges, make_batch
from microtome.probes.edge.counts import EDGE_F1, majority
from microtome.probes.edge.probe import EdgeProbes, apply_edges, fit_edges
from microtome.probes.edge.reading import (
    LayerRows,
    edge_shapes,
    first_weights,
    losses,
    named,
    read_spans,
)
from microtome.probes.edge.training import EDGE_RECIPES, EdgeRecipe, Training
from microtome.probes.mixing import INPUTS, Input, layers_read, mix_up_to, mixed_rows, one_layer

TINY = EdgeRecipe(width=8, hidden=6, batch=4, every=5, steps=20, rate=1e-2)


def rows_of(count: int, layers: int = 3, features: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(layers, count, features)).astype(np.float32)


def edges_of(
    sentences: int, *, slots: int = 1, widest: int = 1, labels: int = 4, several: bool = False, seed: int = 0
) -> tuple[Edges, int]:
    """Targets on sentences of 3 to 7 rows, one after the other; and how many rows there are."""
    rng = np.random.default_rng(seed)
    spans, right, owner, begin = [], [], [], 0
    for sentence in range(sentences):
        length = int(rng.integers(3, 8))
        for _ in range(int(rng.integers(1, 5))):
            sizes = rng.integers(1, widest + 1, size=slots)
            starts = [begin + int(rng.integers(0, length - size + 1)) for size in sizes]
            spans.append([(start, start + size) for start, size in zip(starts, sizes, strict=True)])
            one = rng.random(labels) < 0.4 if several else np.arange(labels) == rng.integers(labels)
            right.append(one)
            owner.append(sentence)
        begin += length
    names = tuple(f"label {number}" for number in range(labels))
    found = Edges(
        spans=np.array(spans),
        right=np.array(right),
        owner=np.array(owner),
        labels=names,
        multilabel=several,
    )
    return found, begin


class Reference(nn.Module):
    """The published probe, written for one target after the other."""

    def __init__(self, weights: dict[str, torch.Tensor], slots: int, one: Input) -> None:
        super().__init__()

        def linear(name: str) -> nn.Linear:
            found = nn.Linear(weights[name].shape[0], weights[name].shape[1])
            found.weight = nn.Parameter(weights[name].T.clone())
            found.bias = nn.Parameter(weights[f"{name}_bias"].clone())
            return found

        def pooling(name: str) -> nn.Linear:
            found = nn.Linear(len(weights[name]), 1)
            found.weight = nn.Parameter(weights[name].T.clone())
            return found

        self.input = one
        self.project = nn.ModuleList([linear(f"project{k + 1}") for k in range(slots)])
        self.attend = nn.ModuleList([pooling(f"attend{k + 1}") for k in range(slots)])
        norm = nn.LayerNorm(len(weights["norm"]))
        norm.weight, norm.bias = (nn.Parameter(weights[name].clone()) for name in ("norm", "norm_bias"))
        self.classifier = nn.Sequential(linear("hidden"), nn.Tanh(), norm, linear("out"))
        self.scores = nn.Parameter(weights["mix"][list(one.layers)].clone())
        self.gamma = nn.Parameter(weights["gamma"].clone())

    def forward(self, X: torch.Tensor, edges: Edges, targets: np.ndarray) -> torch.Tensor:
        chosen = [X[layer] for layer in self.input.layers]
        if self.input.mixed:
            shares = self.scores.softmax(0)
            rows = self.gamma * sum(share * layer for share, layer in zip(shares, chosen, strict=True))
        else:
            rows = chosen[0]
        found = []
        for target in targets:
            spans = []
            for slot, (begin, end) in enumerate(edges.spans[target].tolist()):
                inside = self.project[slot](rows[begin:end])
                spans.append((self.attend[slot](inside).softmax(0) * inside).sum(0))
            found.append(self.classifier(torch.cat(spans)))
        return torch.stack(found)


def gradients_of(reference: Reference, layers: int) -> dict[str, torch.Tensor]:
    """By the names and in the shapes that our weights have; 0 where a weight has no say."""
    known: dict[str, Any] = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad
        for name, weight in reference.named_parameters()
    }
    out = {}
    for slot in range(len(reference.project)):
        out[f"project{slot + 1}"] = known[f"project.{slot}.weight"].T
        out[f"project{slot + 1}_bias"] = known[f"project.{slot}.bias"]
        out[f"attend{slot + 1}"] = known[f"attend.{slot}.weight"].T
    for name, place in (("hidden", 0), ("out", 3)):
        out[name] = known[f"classifier.{place}.weight"].T
        out[f"{name}_bias"] = known[f"classifier.{place}.bias"]
    out |= {"norm": known["classifier.2.weight"], "norm_bias": known["classifier.2.bias"]}
    out |= {"gamma": known["gamma"], "mix": torch.zeros(layers, dtype=known["scores"].dtype)}
    out["mix"][list(reference.input.layers)] = known["scores"]
    return out


@pytest.mark.parametrize("features", [5, 200])
@pytest.mark.parametrize(
    ("slots", "widest", "several"), [(1, 1, False), (2, 1, True), (1, 4, False), (2, 3, True)]
)
@pytest.mark.parametrize("inputs", ["layers", "prefixes"])
def test_outputs_loss_and_gradient_are_those_of_a_plain_implementation(
    inputs: str, slots: int, widest: int, several: bool, features: int
) -> None:
    edges, count = edges_of(9, slots=slots, widest=widest, several=several)
    X = rows_of(count, features=features).astype(np.float64)
    chosen = INPUTS[inputs](len(X))
    shapes = edge_shapes(layers=3, features=features, slots=slots, labels=4, width=7, hidden=6)
    # Two sets of sentences of different sizes, as two seeds have them.
    sets = [np.array([5, 0, 3]), np.array([1, 2, 4, 6, 8])]
    first = np.stack([[first_weights(shapes, 10 * s + q) for q in range(len(chosen))] for s in range(2)])
    table = torch.from_numpy(first + np.random.default_rng(1).normal(scale=0.3, size=first.shape))
    table.requires_grad_()
    batch = make_batch(edges, sets)
    batch = replace(batch, right=batch.right.double(), share=batch.share.double())
    weights = named(table, shapes)
    used, taken, mixed = layers_read(chosen)
    rows = torch.from_numpy(X)[:, batch.rows].transpose(0, 1)
    outputs = read_spans(weights, mixed_rows(rows, weights["mix"], weights["gamma"], taken, mixed), batch)
    found = losses(outputs, batch)
    (gradient,) = torch.autograd.grad(found.sum(), table)
    assert used == [0, 1, 2]
    for s, sentences in enumerate(sets):
        targets = edges.of(np.sort(sentences))
        for q, one in enumerate(chosen):
            plain = Reference({n: w[s, q].detach() for n, w in weights.items()}, slots, one).double()
            expected = plain(torch.from_numpy(X), edges, targets)
            torch.testing.assert_close(outputs[s, q, : len(targets)], expected, rtol=1e-6, atol=1e-6)
            right = torch.from_numpy(edges.right[targets]).double()
            loss = nn.functional.binary_cross_entropy(expected.sigmoid(), right)
            torch.testing.assert_close(found[s, q], loss, rtol=1e-6, atol=1e-7)
            loss.backward()
            ours = named(gradient[s, q], shapes)
            for name, theirs in gradients_of(plain, len(X)).items():
                torch.testing.assert_close(ours[name], theirs, rtol=1e-5, atol=1e-7)


def plain_training(
    X: np.ndarray, edges: Edges, one: Input, seed: int, recipe: EdgeRecipe, sets: list[np.ndarray]
) -> torch.Tensor:
    """Weights after updates on these sentences, by PyTorch's own optimizer, without dropout."""
    shapes = edge_shapes(
        layers=len(X),
        features=X.shape[2],
        slots=edges.slots,
        labels=len(edges.labels),
        width=recipe.width,
        hidden=recipe.hidden,
    )
    start = named(torch.from_numpy(first_weights(shapes, seed)), shapes)
    model = Reference(start, edges.slots, one)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.rate, amsgrad=True)
    for sentences in sets:
        targets = edges.of(np.sort(sentences))
        optimizer.zero_grad()
        said = model(torch.from_numpy(X), edges, targets)
        nn.functional.binary_cross_entropy(
            said.sigmoid(), torch.from_numpy(edges.right[targets]).float()
        ).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
    with torch.no_grad():
        return model(torch.from_numpy(X), edges, np.arange(len(edges.owner)))


@pytest.mark.parametrize("clip", [5.0, 0.01])
def test_updates_are_those_of_the_published_optimizer(clip: float) -> None:
    edges, count = edges_of(8, slots=2, widest=2, several=True)
    X = rows_of(count)
    recipe = replace(TINY, dropout=0.0, row_dropout=0.0, clip=clip)
    inputs = (one_layer(1), mix_up_to(2))
    sets = [np.array(one) for one in ([0, 1, 2], [3, 4], [5, 6, 7], [0, 4, 6], [2, 3])]
    shapes = edge_shapes(layers=3, features=5, slots=2, labels=4, width=8, hidden=6)
    training = Training(LayerRows(X), edges, shapes, inputs, (3,), recipe)
    for one in sets:
        training.update(make_batch(edges, [one]))
    weights = named(training.table.detach(), shapes)
    everything = make_batch(edges, [np.arange(8)])
    _, taken, mixed = layers_read(inputs)
    rows = LayerRows(X).take(everything.rows, range(3))
    outputs = read_spans(
        weights, mixed_rows(rows, weights["mix"], weights["gamma"], taken, mixed), everything
    )
    for q, one in enumerate(inputs):
        expected = plain_training(X, edges, one, 3, recipe, sets)
        torch.testing.assert_close(outputs[0, q], expected, rtol=1e-3, atol=1e-4)


def fitted(X: Any, edges: Edges, **more: Any) -> EdgeProbes:
    given: dict[str, Any] = {"train": np.arange(30), "validation": np.arange(30, 40), "recipe": TINY}
    return fit_edges(X, edges, **{**given, "inputs": INPUTS["layers"](len(X)), **more})


@pytest.mark.parametrize(("slots", "widest"), [(1, 1), (2, 3)])
def test_a_probe_does_not_depend_on_those_beside_it(slots: int, widest: int) -> None:
    edges, count = edges_of(40, slots=slots, widest=widest)
    X = rows_of(count)
    inputs = (one_layer(0), one_layer(2), mix_up_to(1), mix_up_to(2))
    together = fitted(X, edges, inputs=inputs, seeds=(0, 5))
    for number, one in enumerate(inputs):
        for place, seed in enumerate((0, 5)):
            alone = fitted(X, edges, inputs=[one], seeds=[seed])
            np.testing.assert_allclose(together.table[place, number], alone.table[0, 0], atol=1e-4)
            assert together.validation[place, number] == pytest.approx(alone.validation[0, 0], abs=1e-6)
            assert together.best[place, number] == alone.best[0, 0]


def test_probes_that_end_early_leave_and_change_nothing_for_the_others() -> None:
    edges, count = edges_of(40)
    X = rows_of(count)
    recipe = replace(TINY, every=1, steps=60, stop_after=2)
    together = fitted(X, edges, seeds=(0, 1, 2), recipe=recipe)
    assert together.stopped.any()
    assert len(set(together.updates.ravel())) > 1
    assert (together.updates - together.best)[together.stopped].tolist() == [3] * together.stopped.sum()
    for number in range(3):
        for seed in range(3):
            alone = fitted(X, edges, inputs=[one_layer(number)], seeds=[seed], recipe=recipe)
            assert together.updates[seed, number] == alone.updates[0, 0]
            assert together.best[seed, number] == alone.best[0, 0]
            np.testing.assert_allclose(together.table[seed, number], alone.table[0, 0], atol=1e-4)


def test_the_rate_falls_where_nothing_is_gained_and_training_ends_when_it_is_small() -> None:
    edges, count = edges_of(40)
    X = rows_of(count)
    recipe = replace(
        TINY, every=1, steps=100, gain=2.0, slower_after=1, least_rate=TINY.rate / 5, stop_after=99
    )
    # The first validation counts as a gain; the rate is halved at every second one after it.
    assert fitted(X, edges, inputs=[one_layer(len(X) - 1)], recipe=recipe).updates.tolist() == [[7]]


def planted(sentences: int = 120, seed: int = 0) -> tuple[np.ndarray, Edges]:
    """A row of the first span says the label in layer 1, by which feature is large; layer 0 is loud noise."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(sentences), 2)
    begin = 2 * np.arange(2 * sentences)
    other = begin + np.tile([2, -2], sentences)
    label = rng.integers(3, size=2 * sentences)
    X = rows_of(4 * sentences, layers=2, features=8, seed=seed) * np.array([[[3]], [[1]]], dtype=np.float32)
    X[1, begin + rng.integers(2, size=len(begin)), label] += 5
    spans = np.stack([np.stack([one, one + 2], axis=-1) for one in (begin, other)], axis=1)
    edges = Edges(spans=spans, right=np.eye(3, dtype=bool)[label], owner=owner, labels=("a", "b", "c"))
    return X, edges


LEARNING = EdgeRecipe(width=32, hidden=32, every=20, steps=200, rate=5e-3)


SPLIT: dict[str, Any] = {"train": np.arange(68), "validation": np.arange(68, 80)}


def test_planted_labels_are_learned_and_others_are_not() -> None:
    X, edges = planted()
    train, test = np.arange(80), np.arange(80, 120)
    probes = fitted(X, edges, **SPLIT, recipe=LEARNING, seeds=(0, 1))
    counts = apply_edges(probes, X, edges, test)
    baseline = majority(edges, train, test).f1[0, 0]
    assert (counts.f1[:, 1] > 0.9).all()
    assert (counts.f1[:, 0] < baseline + 0.1).all()
    mixed = fitted(X, edges, **SPLIT, recipe=replace(LEARNING, rate=2e-2), inputs=INPUTS["mix"](len(X)))
    assert mixed.shares[0, 0, 1] > 0.7
    np.testing.assert_allclose(mixed.shares.sum(-1), 1)


def test_random_labels_are_near_the_majority() -> None:
    X, edges = planted(200)
    drawn = np.random.default_rng(5).choice(3, size=len(edges.owner), p=[0.6, 0.2, 0.2])
    control = replace(edges, right=np.eye(3, dtype=bool)[drawn])
    train, test = np.arange(140), np.arange(140, 200)
    split, recipe = {"train": train[:120], "validation": train[120:]}, replace(LEARNING, rate=1e-3)
    probes = fitted(X, control, **split, recipe=recipe, inputs=[one_layer(len(X) - 1)])
    found = apply_edges(probes, X, control, test).f1[0, 0]
    assert abs(found - majority(control, train, test).f1[0, 0]) < 0.15


def test_counts_of_sentences_give_intervals_and_paired_differences() -> None:
    X, edges = planted()
    test = np.arange(80, 120)
    probes = fitted(X, edges, **SPLIT, recipe=LEARNING, seeds=(0, 1))
    counts = apply_edges(probes, X, edges, test)
    assert counts.counts.shape == (2, 2, len(counts.sentences), 3)
    ids = [f"s{number}" for number in range(120)]
    good, bad = (counts.answers(number, ids) for number in (1, 0))
    found = compare_scores(EDGE_F1, good, bad, pair_seeds=True)
    assert found.difference == pytest.approx(counts.f1[:, 1].mean() - counts.f1[:, 0].mean())
    assert found.interval is not None
    assert found.interval.low > 0
    own = score_interval(EDGE_F1, good.predictions[0], good.targets)
    assert own.value == pytest.approx(counts.f1[0, 1])
    assert own.low is not None
    assert own.low < own.value
    nothing = majority(edges, np.arange(80), test)
    same = compare_scores(EDGE_F1, good, nothing.answers(0, ids))
    assert same.difference > 0


def test_probes_can_be_applied_to_other_rows() -> None:
    X, edges = planted()
    probes = fitted(X, edges, **SPLIT, recipe=LEARNING, inputs=[one_layer(len(X) - 1)])
    turned = apply_edges(probes, X[:, :, ::-1].copy(), edges, np.arange(80, 120))
    assert turned.f1[0, 0] < apply_edges(probes, X, edges, np.arange(80, 120)).f1[0, 0] - 0.2


def test_fewer_sentences_can_be_asked_for() -> None:
    edges, count = edges_of(40)
    X = rows_of(count)
    few = fitted(X, edges, recipe=replace(TINY, validation_limit=2))
    assert few.table.shape[:2] == (1, 3)
    assert (few.validation != fitted(X, edges).validation).any()


def test_rows_of_half_precision_and_tensors_are_taken() -> None:
    edges, count = edges_of(40)
    X = rows_of(count).astype(np.float16)
    X.flags.writeable = False
    one, two = (fitted(x, edges).table for x in (X, torch.from_numpy(X.copy()).float()))
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_gpu_makes_the_same_bits_again() -> None:
    edges, count = edges_of(40, slots=2, widest=3)
    first, second = (fitted(rows_of(count), edges, device="cuda").table for _ in range(2))
    assert np.array_equal(first, second)


def test_published_recipes() -> None:
    assert {(name, r.every, r.steps) for name, r in EDGE_RECIPES.items()} == {
        ("small", 100, 10_000),
        ("middle", 500, 50_000),
        ("large", 1000, 250_000),
    }


def test_bad_input_gets_a_sentence() -> None:
    edges, count = edges_of(40)
    X = rows_of(count)
    broken = X.copy()
    broken[:, edges.spans[0, 0, 0]] = np.nan
    probes = fitted(X, edges)
    cases = [
        (lambda: fitted(X[0], edges), "X must be of the shape"),
        (lambda: fitted(X.astype(int), edges), "X must be of floating-point numbers"),
        (lambda: fitted(broken, edges), "X must be finite"),
        (lambda: apply_edges(probes, broken, edges, np.arange(40)), "X must be finite"),
        (lambda: fitted(X[:, :9], edges), "rows of spans must be among the 9 rows of X"),
        (lambda: fitted(X, edges, seeds=[1, 1]), "seeds must be at least one, each there once"),
        (lambda: fitted(X, edges, train=[]), "train must be numbers of sentences, at least one"),
        (lambda: fitted(X, edges, train=[99]), "train must be sentences of which some have targets"),
        (lambda: fitted(X, edges, validation=[3]), "train and validation must not share sentences"),
        (lambda: apply_edges(probes, X[:2], edges, [1]), "X must be of 3 layers of 5 features"),
        (lambda: apply_edges(probes, X, edges_of(9, labels=2)[0], [1]), "labels of the spans must be those"),
        (lambda: apply_edges(probes, X, edges_of(9, slots=2)[0], [1]), "targets must be of 1 span"),
        (lambda: majority(edges, [99], [1]), "sentences must have targets"),
    ]
    for call, words in cases:
        with pytest.raises(InputError, match=words):
            call()
