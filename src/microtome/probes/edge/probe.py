"""Edge probes for labels of spans and of pairs of spans, all layers and seeds trained together.

The probe, its optimizer and its stopping are those of the published code (nyu-mll/jiant, version 1), except
that sentences come in random order, not sorted by length. Probes of one seed read the same sentences with the
same dropout masks, so that a probe does not depend on which others are trained with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch
from ...randomness import repeatable
from ..dataset import Asked, Probed
from ..mixing import INPUTS, Input
from .batches import Edges, find_edges
from .counts import EDGE_F1, EdgeCounts, by_sentence, majority
from .reading import LayerRows, edge_shapes, named
from .training import EDGE_RECIPES, EdgeRecipe, Progress, Training, answered, fixed_batches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeProbes:
    """
    Trained probes, one for each seed and input.

    Parameters
    ----------
    inputs : tuple of Input
        Layer, or mix of layers, that each probe reads.
    seeds : tuple of int
    labels : tuple of str
    recipe : EdgeRecipe
    shapes : mapping of str to tuple of int
        Shapes of the weights of one probe.
    table : ndarray of float32 of shape (seeds, inputs, weights)
        Weights at the best validation; `weights` splits them by name.
    shares : ndarray of shape (seeds, inputs, layers)
        Weight of each layer in the mix that a probe reads; they sum to 1.
    validation : ndarray of shape (seeds, inputs)
        The best micro-averaged F1 on the validation sentences.
    best, updates : ndarray of int of shape (seeds, inputs)
        Number of updates up to the best validation, and in total.
    stopped : ndarray of bool of shape (seeds, inputs)
        Whether training stopped early, before the maximum number of updates.
    """

    inputs: tuple[Input, ...]
    seeds: tuple[int, ...]
    labels: tuple[str, ...]
    recipe: EdgeRecipe
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    table: np.ndarray = field(repr=False)
    shares: np.ndarray
    validation: np.ndarray
    best: np.ndarray
    updates: np.ndarray
    stopped: np.ndarray


def fit_edges(
    X: Any,
    edges: Edges,
    *,
    train: Any,
    validation: Any,
    inputs: Sequence[Input],
    seeds: Sequence[int] = (0,),
    recipe: EdgeRecipe = EDGE_RECIPES["middle"],
    device: Any = "cpu",
    progress: Progress | None = None,
) -> EdgeProbes:
    """
    Train probes for labels of spans, all inputs and seeds together.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    edges : Edges
        Labeled spans of these rows.
    train, validation : sequence of int
        Indices of sentences.
    inputs : sequence of Input
        Layers that the probes read.
    seeds : sequence of int
        Seeds of the initial weights, the order of sentences, and dropout.
    recipe : EdgeRecipe
    device : str or device
    progress : callable, optional
        Called with the name of the work, the number of updates done, and the maximum number.

    Returns
    -------
    EdgeProbes

    References
    ----------
    Tenney et al. (2019), What do you learn from context? Probing for sentence structure in contextualized
    word representations, ICLR
    Tenney et al. (2019), BERT Rediscovers the Classical NLP Pipeline, P19-1452
    """
    if not len(seeds) or len(set(seeds)) != len(seeds):
        raise must("seeds", "at least one, each there once", list(seeds))
    rows = LayerRows(X, device)
    if len(edges.owner) and edges.spans.max() > rows.count:
        raise must("rows of spans", f"among the {rows.count} rows of X", int(edges.spans.max()) - 1)
    learned, checked = _sentences(edges, train, validation, recipe)
    shapes = edge_shapes(
        layers=rows.layers,
        features=rows.features,
        slots=edges.slots,
        labels=len(edges.labels),
        width=recipe.width,
        hidden=recipe.hidden,
    )
    training = Training(rows, edges, shapes, inputs, seeds, recipe)
    # Rows of spans are summed in the forward and in the backward pass.
    with repeatable(str(device), strict=False):
        trained = training.run(learned, checked, progress)
    table = trained["table"]
    return EdgeProbes(
        inputs=tuple(inputs),
        seeds=tuple(seeds),
        labels=edges.labels,
        recipe=recipe,
        shapes=shapes,
        shares=_shares(table, shapes, inputs, rows.layers),
        **trained,
    )


def apply_edges(
    probes: EdgeProbes, X: Any, edges: Edges, sentences: Any, *, device: Any = "cpu"
) -> EdgeCounts:
    """
    Count the correct and incorrect labels of the probes in each given sentence.

    Parameters
    ----------
    probes : EdgeProbes
    X : ndarray or Tensor of shape (layers, rows, features)
        Representations with the same layers and features, of the same model or of another.
    edges : Edges
        Spans with the same labels.
    sentences : sequence of int
        Indices of sentences; those without targets have no counts.
    device : str or device

    Returns
    -------
    EdgeCounts
    """
    if edges.labels != probes.labels:
        raise must("labels of the spans", "those that the probes know", ", ".join(edges.labels))
    slots = 2 if "project2" in probes.shapes else 1
    if edges.slots != slots:
        raise must("targets", "of 2 spans each" if slots == 2 else "of 1 span each", edges.slots)
    rows = LayerRows(X, device)
    expected = (probes.shapes["mix"][0], probes.shapes["project1"][0])
    if (rows.layers, rows.features) != expected:
        actual = f"{rows.layers} layers of {rows.features}"
        raise must("X", f"of {expected[0]} layers of {expected[1]} features", actual)
    scored = _with_targets(edges, sentences, "sentences")
    batches = fixed_batches(edges, scored, probes.recipe.batch, rows.device)
    table = torch.from_numpy(probes.table).to(rows.device).flatten(0, 1)
    inputs = probes.inputs * len(probes.seeds)
    batch_counts = [part.cpu().numpy() for part in answered(rows, table, probes.shapes, inputs, batches)]
    counts = by_sentence(np.concatenate(batch_counts, axis=1), edges, scored)
    return EdgeCounts(
        sentences=scored,
        counts=counts.reshape(len(probes.seeds), len(probes.inputs), *counts.shape[1:]),
        seeds=probes.seeds,
    )


def _sentences(
    edges: Edges, train: Any, validation: Any, recipe: EdgeRecipe
) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint training and validation sentences."""
    learned, checked = _with_targets(edges, train, "train"), _with_targets(edges, validation, "validation")
    shared = np.intersect1d(learned, checked)
    if len(shared):
        raise InputError(f"train and validation must not share sentences, but both have {int(shared[0])}.")
    return learned, checked[: recipe.validation_limit]


def _with_targets(edges: Edges, sentences: Any, name: str) -> np.ndarray:
    """Sentences that have targets, in ascending order."""
    numbers = np.asarray(sentences)
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "iu":
        raise must(name, "numbers of sentences, at least one", sentences)
    with_targets = np.intersect1d(numbers, edges.owner)
    if not len(with_targets):
        raise must(name, "sentences of which some have targets", f"{len(numbers)} that have none")
    return with_targets


def _shares(
    table: np.ndarray, shapes: Mapping[str, tuple[int, ...]], inputs: Sequence[Input], layers: int
) -> np.ndarray:
    """Weights of the layers in each mix."""
    weights = named(torch.from_numpy(table).double(), shapes)
    shares = np.zeros((*table.shape[:2], layers))
    for number, probe_input in enumerate(inputs):
        taken = list(probe_input.layers)
        shares[:, number, taken] = weights["mix"][:, number, taken].softmax(-1).numpy()
    return shares


def probe_spans(asked: Asked, X: np.ndarray) -> Probed:
    """
    Probe every layer, or mixes of layers, for labels of spans, with the published recipe.

    Parameters
    ----------
    asked : Asked
        A word is a span of length 1.
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Micro-averaged F1 of the labels.
    """
    annotated = asked.annotated
    if asked.control is not None:
        from ..wordprobe import control_spans

        annotated = replace(annotated, right=control_spans(annotated, seed=asked.control))
    edges = find_edges(annotated, asked.examples, asked.units)
    device = asked.device or "cpu"
    recipe = EDGE_RECIPES[annotated.target.recipe]
    if asked.steps is not None:
        recipe = replace(recipe, steps=asked.steps, every=min(recipe.every, asked.steps))
    probes = fit_edges(
        X,
        edges,
        train=asked.train,
        validation=asked.held,
        seeds=asked.seeds,
        inputs=INPUTS[asked.inputs](len(X)),
        recipe=recipe,
        device=device,
        progress=asked.progress,
    )
    counts = apply_edges(probes, X, edges, asked.judged, device=device)
    # Sentences outside the splits have no rows either and do not count as lost.
    used_sentences = np.concatenate([asked.train, asked.held, asked.judged])
    lost = int(np.isin(annotated.owner, used_sentences).sum() - np.isin(edges.owner, used_sentences).sum())
    mixed = any(probe_input.mixed for probe_input in probes.inputs)
    groups = asked.groups(range(len(annotated.ids)))
    baseline = majority(edges, asked.train, asked.judged)
    return Probed(
        answers=tuple(counts.answers(layer, annotated.ids, groups) for layer in range(len(probes.inputs))),
        places=tuple(probe_input.layers[-1] for probe_input in probes.inputs),
        shares=tuple(tuple(map(float, layer_shares)) for layer_shares in probes.shares.mean(0))
        if mixed
        else (),
        score=EDGE_F1,
        lines=MappingProxyType({"most frequent labels": float(baseline.f1[0, 0])}),
        note=f"{lost:,} targets have words without rows and are left out." if lost else "",
        rows=tuple(
            {"updates": tuple(map(int, updates)), "stopped": tuple(map(bool, stopped))}
            for updates, stopped in zip(
                np.asarray(probes.updates).T, np.asarray(probes.stopped).T, strict=True
            )
        ),
    )
