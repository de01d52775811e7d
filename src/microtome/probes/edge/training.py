"""Training of many edge probes together, each with its own learning rate, clipping and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError
from ...lazy import torch
from ...randomness import generator
from ..mixing import Input, layers_read, mixed_rows
from ..training import BatchedTrainer, Schedule
from .batches import Batch, Edges, make_batch
from .counts import micro_f1
from .reading import LayerRows, Shapes, first_weights, losses, named, read_spans, tallied


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRecipe:
    """
    Hyperparameters of an edge probe and of its training.

    Parameters
    ----------
    width : int
        Dimension of the projected rows.
    hidden : int
        Dimension of the hidden layer.
    dropout : float
        Dropout rate of the hidden layer.
    row_dropout : float
        Dropout rate of the input rows, after layers are mixed.
    rate : float
        Learning rate of Adam, in the AMSGrad variant.
    batch : int
        Sentences per update, with all their targets.
    clip : float
        Maximum norm of the gradient of one probe.
    every : int
        Updates between two validations.
    steps : int
        Maximum number of updates.
    slower_after, stop_after : int
        The learning rate is halved, or training stops, after more than this many validations without an
        improvement.
    gain : float
        Smallest increase of F1 that counts as an improvement for the learning rate.
    least_rate : float
        Learning rate below which training stops.
    validation_limit : int, optional
        Maximum number of validation sentences: the first ones are used.
    """

    width: int = 256
    hidden: int = 256
    dropout: float = 0.3
    row_dropout: float = 0.2
    rate: float = 1e-4
    batch: int = 32
    clip: float = 5.0
    every: int = 500
    steps: int = 50_000
    slower_after: int = 5
    stop_after: int = 20
    gain: float = 1e-4
    least_rate: float = 1e-6
    validation_limit: int | None = 5000

    @property
    def schedule(self) -> Schedule:
        """Learning rates and early stopping, by the negative F1 of validation sentences."""
        return Schedule(
            rate=self.rate,
            factor=0.5,
            patience=self.slower_after,
            threshold=self.gain,
            least_rate=self.least_rate,
            stop_after=self.stop_after,
            clip=self.clip,
            amsgrad=True,
        )


# Published: small for proto-roles and relations, large for tags, constituents and dependencies. The dropout
# of rows is the default of the published sentence encoder, which the probing configuration does not change.
EDGE_RECIPES: Mapping[str, EdgeRecipe] = MappingProxyType(
    {
        "small": EdgeRecipe(every=100, steps=10_000),
        "middle": EdgeRecipe(every=500, steps=50_000),
        "large": EdgeRecipe(every=1000, steps=250_000),
    }
)

Progress = Callable[[str, int, int], None]


class Training:
    """
    Training of edge probes: their weights, and random generators of dropout.

    Probes form a grid of seeds and inputs. A seed or an input leaves the grid once all its probes have
    stopped.

    Parameters
    ----------
    rows : LayerRows
    edges : Edges
    shapes : mapping of str to tuple of int
        Shapes of the weights of one probe.
    inputs : sequence of Input
    seeds : sequence of int
    recipe : EdgeRecipe
    """

    def __init__(
        self,
        rows: LayerRows,
        edges: Edges,
        shapes: Shapes,
        inputs: Sequence[Input],
        seeds: Sequence[int],
        recipe: EdgeRecipe,
    ) -> None:
        self.rows, self.edges, self.shapes, self.recipe = rows, edges, shapes, recipe
        self.inputs, self.seeds = tuple(inputs), tuple(seeds)
        first = np.stack([first_weights(shapes, seed) for seed in seeds])
        start = torch.from_numpy(first).to(rows.device).repeat_interleave(len(inputs), dim=0)
        self.trainer = BatchedTrainer(start, recipe.schedule)
        self.dropout = [torch.Generator(rows.device) for _ in seeds]
        for dropout_rng, seed in zip(self.dropout, seeds, strict=True):
            dropout_rng.manual_seed(int(generator(seed, "edge probe", "dropout").integers(2**62)))
        # Indices of the seeds and inputs that are still in the grid.
        self.at = np.arange(len(seeds)), np.arange(len(inputs))
        self.read = layers_read(self.inputs, rows.device)

    @property
    def table(self) -> torch.Tensor:
        """Weights of the probes of the grid, shape (seeds, inputs, weights)."""
        return self.trainer.weights.unflatten(0, tuple(map(len, self.at)))

    def run(self, learned: np.ndarray, checked: np.ndarray, progress: Progress | None) -> dict[str, Any]:
        """
        Train until every probe has stopped.

        Parameters
        ----------
        learned, checked : ndarray of int
            Training and validation sentences.
        progress : callable, optional

        Returns
        -------
        dict of str to ndarray of shape (seeds, inputs, ...)
            `table`, `validation`, `best`, `updates` and `stopped`, as in `EdgeProbes`.
        """
        recipe, trainer, done = self.recipe, self.trainer, 0
        validation_batches = fixed_batches(self.edges, checked, recipe.batch, self.rows.device)
        order = [in_batches(learned, recipe.batch, seed) for seed in self.seeds]
        while trainer.going.any() and done < recipe.steps:
            self.update(make_batch(self.edges, [next(order[seed]) for seed in self.at[0]], self.rows.device))
            done += 1
            if progress is not None:
                progress("edge probes", done, recipe.steps)
            if done % recipe.every == 0 or done == recipe.steps:
                trainer.record(-self.validate(validation_batches), done)
                self.leave()
        shape = (len(self.seeds), len(self.inputs))
        return {
            "table": trainer.best_weights.unflatten(0, shape).cpu().numpy(),
            "validation": -trainer.loss.reshape(shape),
            "best": trainer.best.reshape(shape),
            "updates": trainer.last.reshape(shape),
            "stopped": ~trainer.going.reshape(shape),
        }

    def update(self, batch: Batch) -> None:
        """Make one optimizer step with all probes of the grid, with one set of sentences for each seed."""
        self.trainer.weights.requires_grad_()
        # Each loss depends only on its own probe, so the gradient of the sum is that of each loss.
        (gradient,) = torch.autograd.grad(self.losses(batch).sum(), self.trainer.weights)
        self.trainer.step(gradient)

    def losses(self, batch: Batch) -> torch.Tensor:
        """Losses of all probes of the grid, with dropout, shape (seeds, inputs)."""
        recipe = self.recipe
        used, taken, mixed = self.read
        weights = named(self.table, self.shapes)
        rows = self.rows.take(batch.rows, used)
        probe_rows = mixed_rows(rows, weights["mix"][..., used], weights["gamma"], taken, mixed)
        if recipe.row_dropout:
            sizes = [rows for rows, _ in batch.counts]
            probe_rows = probe_rows * self.kept(sizes, self.rows.features, recipe.row_dropout)
        sizes = [targets for _, targets in batch.counts]
        hidden_mask = self.kept(sizes, recipe.hidden, recipe.dropout) if recipe.dropout else None
        return losses(read_spans(weights, probe_rows, batch, hidden_mask), batch)

    def kept(self, sizes: Sequence[int], width: int, share: float) -> torch.Tensor:
        """Draw scaled dropout masks, shared by all inputs of a seed: shape (seeds, 1, longest, width)."""
        out = torch.ones((len(sizes), max(sizes), width), device=self.rows.device)
        for index, size in enumerate(sizes):
            rng = self.dropout[self.at[0][index]]
            out[index, :size].bernoulli_(1 - share, generator=rng).div_(1 - share)
        return out[:, None]

    def validate(self, known: Sequence[Batch]) -> np.ndarray:
        """Micro-averaged F1 of all probes of the grid, shape (probes,)."""
        weights = self.trainer.weights.detach()
        if not bool(weights.isfinite().all()):
            raise InputError("X must be finite, but it has values that are not numbers.")
        inputs = [self.inputs[at] for at in self.at[1]] * len(self.at[0])
        counts = torch.zeros((len(inputs), 3), dtype=torch.int64, device=weights.device)
        for batch_counts in answered(self.rows, weights, self.shapes, inputs, known):
            counts += batch_counts.sum(1)
        return micro_f1(counts.cpu().numpy())

    def leave(self) -> None:
        """Remove the seeds and inputs from the grid whose probes have all stopped."""
        going = self.trainer.going[self.trainer.active].reshape(*map(len, self.at))
        stays = np.ix_(going.any(1), going.any(0))
        self.trainer.drop(np.arange(going.size).reshape(going.shape)[stays].ravel())
        self.at = self.at[0][going.any(1)], self.at[1][going.any(0)]
        self.read = layers_read([self.inputs[at] for at in self.at[1]], self.rows.device)


def answered(
    rows: LayerRows, table: torch.Tensor, shapes: Shapes, inputs: Sequence[Input], batches: Sequence[Batch]
) -> Iterator[torch.Tensor]:
    """
    Count the correct and incorrect labels of probes in batches of one set.

    Parameters
    ----------
    rows : LayerRows
    table : Tensor of shape (probes, weights)
    shapes : mapping of str to tuple of int
    inputs : sequence of Input
        One per probe.
    batches : sequence of Batch

    Yields
    ------
    Tensor of int of shape (probes, targets, 3)
        True positives, false positives and false negatives of each target.
    """
    used, taken, mixed = layers_read(inputs, rows.device)
    with torch.inference_mode():
        weights = named(table[None], shapes)
        scores, gamma = weights["mix"][..., used], weights["gamma"]
        for batch in batches:
            probe_rows = mixed_rows(rows.take(batch.rows, used), scores, gamma, taken, mixed)
            outputs = read_spans(weights, probe_rows, batch)
            if not bool(outputs.isfinite().all()):
                raise InputError("X must be finite, but it has values that are not numbers.")
            yield tallied(outputs, batch)[0]


def in_batches(sentences: np.ndarray, size: int, seed: int) -> Iterator[np.ndarray]:
    """Yield batches of sentences without end, reshuffled in each epoch."""
    epoch = 0
    while True:
        order = sentences[generator(seed, "edge probe", "order", epoch).permutation(len(sentences))]
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]
        epoch += 1


def fixed_batches(edges: Edges, sentences: np.ndarray, size: int, device: Any) -> list[Batch]:
    """Return the sentences in batches, in their order."""
    return [
        make_batch(edges, [sentences[begin : begin + size]], device)
        for begin in range(0, len(sentences), size)
    ]
