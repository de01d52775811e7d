"""What can be told of spans, and of pairs of them, from each layer? Edge probes, all of them trained at once.

The probe, its optimizer and its stopping are those of the published code (nyu-mll/jiant, version 1), except
that sentences come in random order, not sorted by length. Probes of one seed see the same sentences and drop
out the same features, so that a probe does not depend on which others are trained beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..randomness import generator, repeatable
from .edgebatch import Edges
from .edgecounts import EdgeCounts, by_sentence
from .edgereading import LayerRows, edge_shapes, named
from .edgerecipe import EDGE_RECIPES, EdgeRecipe
from .edgetraining import Progress, Training, answered, fixed_batches
from .mixing import Input, center_of_gravity, find_inputs

HELD_OUT = 0.15  # of the training sentences, where there is no validation split, as published for relations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeProbes:
    """
    Trained probes, one for each seed and input.

    Parameters
    ----------
    inputs : tuple of Input
        What they read.
    seeds : tuple of int
    labels : tuple of str
    recipe : EdgeRecipe
    shapes : mapping of str to tuple of int
        Of the weights of one probe.
    table : ndarray of float32 of shape (seeds, inputs, weights)
        As they were at the best validation; `weights` cuts it by name.
    shares : ndarray of shape (seeds, inputs, layers)
        How much of each layer is in the mix that a probe reads; they sum to 1.
    gamma : ndarray of shape (seeds, inputs)
        What the mix is multiplied by; 1 where nothing is mixed.
    validation : ndarray of shape (seeds, inputs)
        The best micro-averaged F1 on the validation sentences.
    best, updates : ndarray of int of shape (seeds, inputs)
        Updates up to the best validation, and in all.
    stopped : ndarray of bool of shape (seeds, inputs)
        Whether training ended by itself, before all updates were spent.
    """

    inputs: tuple[Input, ...]
    seeds: tuple[int, ...]
    labels: tuple[str, ...]
    recipe: EdgeRecipe
    shapes: Mapping[str, tuple[int, ...]] = field(repr=False)
    table: np.ndarray = field(repr=False)
    shares: np.ndarray
    gamma: np.ndarray
    validation: np.ndarray
    best: np.ndarray
    updates: np.ndarray
    stopped: np.ndarray

    @property
    def centers(self) -> np.ndarray:
        """The layer that each probe reads on average, shape (seeds, inputs)."""
        return center_of_gravity(self.shares)

    def weights(self, seed: int, number: int) -> dict[str, np.ndarray]:
        """The weights of one probe by name, by the places of its seed and of its input."""
        import torch

        return {
            n: w.numpy() for n, w in named(torch.from_numpy(self.table[seed, number]), self.shapes).items()
        }


def fit_edges(
    X: Any,
    edges: Edges,
    *,
    train: Any,
    validation: Any = None,
    inputs: str | Sequence[Input] = "layers",
    seeds: Sequence[int] = (0,),
    recipe: EdgeRecipe = EDGE_RECIPES["middle"],
    device: Any = "cpu",
    progress: Progress | None = None,
) -> EdgeProbes:
    """
    Train probes for labels of spans, all inputs and seeds at once.

    Parameters
    ----------
    X : ndarray or Tensor of shape (layers, rows, features)
    edges : Edges
        Labeled spans of these rows.
    train, validation : sequence of int
        Numbers of sentences. Without the latter, a part of the former is held out, the same for all seeds.
    inputs : str or sequence of Input
        What the probes read: see `microtome.probes.mixing.find_inputs`.
    seeds : sequence of int
        Of the first weights, the order of sentences, and dropout.
    recipe : EdgeRecipe
    device : str or device
    progress : callable, optional
        Called with what is done, how much of it, and how much there is at most.

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
    chosen = find_inputs(inputs, rows.layers)
    learned, checked = _sentences(edges, train, validation, recipe)
    shapes = edge_shapes(
        layers=rows.layers,
        features=rows.features,
        slots=edges.slots,
        labels=len(edges.labels),
        width=recipe.width,
        hidden=recipe.hidden,
    )
    training = Training(rows, edges, shapes, chosen, tuple(seeds), recipe)
    # Rows of spans are added up, on the way forth and back.
    with repeatable(str(device), strict=False):
        found = training.run(learned, checked, progress)
    table = found["table"]
    shares, gamma = _mixes(table, shapes, chosen, rows.layers)
    return EdgeProbes(
        inputs=chosen,
        seeds=tuple(seeds),
        labels=edges.labels,
        recipe=recipe,
        shapes=shapes,
        shares=shares,
        gamma=gamma,
        **found,
    )


def apply_edges(
    probes: EdgeProbes, X: Any, edges: Edges, sentences: Any, *, device: Any = "cpu"
) -> EdgeCounts:
    """
    Count what the probes get right in each of some sentences.

    Parameters
    ----------
    probes : EdgeProbes
    X : ndarray or Tensor of shape (layers, rows, features)
        Of the same layers, of the same model or of another.
    edges : Edges
        Of the same labels.
    sentences : sequence of int
        Their numbers; those without targets have no counts.
    device : str or device

    Returns
    -------
    EdgeCounts
    """
    import torch

    if edges.labels != probes.labels:
        raise must("labels of the spans", "those that the probes know", ", ".join(edges.labels))
    slots = 2 if "project2" in probes.shapes else 1
    if edges.slots != slots:
        raise must("targets", "of 2 spans each" if slots == 2 else "of 1 span each", edges.slots)
    rows = LayerRows(X, device)
    wanted = (probes.shapes["mix"][0], probes.shapes["project1"][0])
    if (rows.layers, rows.features) != wanted:
        told = f"{rows.layers} layers of {rows.features}"
        raise must("X", f"of {wanted[0]} layers of {wanted[1]} features", told)
    asked = _with_targets(edges, sentences, "sentences")
    batches = fixed_batches(edges, asked, probes.recipe.batch, rows.device)
    table = torch.from_numpy(probes.table).to(rows.device).flatten(0, 1)
    inputs = probes.inputs * len(probes.seeds)
    each = [part.cpu().numpy() for part in answered(rows, table, probes.shapes, inputs, batches)]
    counts = by_sentence(np.concatenate(each, axis=1), edges, asked)
    return EdgeCounts(
        sentences=asked,
        counts=counts.reshape(len(probes.seeds), len(probes.inputs), *counts.shape[1:]),
        seeds=probes.seeds,
        inputs=tuple(one.name for one in probes.inputs),
    )


def _sentences(
    edges: Edges, train: Any, validation: Any, recipe: EdgeRecipe
) -> tuple[np.ndarray, np.ndarray]:
    """Sentences to learn from and to validate on, none in both."""
    learned = _with_targets(edges, train, "train")
    drawing = generator(0, "edge probe", "sentences")
    if validation is None:
        if len(learned) < 2:
            raise must("train", "at least 2 sentences, one of them to validate on", len(learned))
        shuffled = drawing.permutation(learned)
        cut = max(1, round(HELD_OUT * len(learned)))
        checked, learned = np.sort(shuffled[:cut]), np.sort(shuffled[cut:])
    else:
        checked = _with_targets(edges, validation, "validation")
        shared = np.intersect1d(learned, checked)
        if len(shared):
            raise InputError(
                f"train and validation must not share sentences, but both have {int(shared[0])}."
            )
    if recipe.train_limit is not None and recipe.train_limit < len(learned):
        learned = np.sort(drawing.choice(learned, recipe.train_limit, replace=False))
    return learned, checked[: recipe.validation_limit]


def _with_targets(edges: Edges, sentences: Any, name: str) -> np.ndarray:
    """Sentences that have targets, rising."""
    given = np.asarray(sentences)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise must(name, "numbers of sentences, at least one", sentences)
    found = np.intersect1d(given, edges.owner)
    if not len(found):
        raise must(name, "sentences of which some have targets", f"{len(given)} that have none")
    return found


def _mixes(
    table: np.ndarray, shapes: Mapping[str, tuple[int, ...]], inputs: Sequence[Input], layers: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the layers, and what their mix is multiplied by."""
    import torch

    weights = named(torch.from_numpy(table).double(), shapes)
    shares, gamma = np.zeros((*table.shape[:2], layers)), np.ones(table.shape[:2])
    for number, one in enumerate(inputs):
        taken = list(one.layers)
        shares[:, number, taken] = weights["mix"][:, number, taken].softmax(-1).numpy()
        if one.mixed:
            gamma[:, number] = weights["gamma"][:, number, 0].numpy()
    return shares, gamma
