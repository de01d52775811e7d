"""Training of many edge probes together, each with its own learning rate, clipping and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ...lazy import torch
from ...randomness import generator
from ..mixing import Input, layers_read, mixed_rows
from .batches import Batch, Edges, make_batch
from .counts import micro_f1
from .reading import LayerRows, Shapes, first_weights, losses, named, read_spans, tallied
from .recipe import EdgeRecipe

BETAS = (0.9, 0.999)
EPSILON = 1e-8
Progress = Callable[[str, int, int], None]


class Training:
    """
    State of the training: weights, optimizer state, and random generators of dropout.

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
        start = torch.from_numpy(first).to(rows.device)[:, None]
        self.table = start.repeat(1, len(inputs), 1).requires_grad_()
        # Optimizer state: moments of the gradients, maximum of the second moments, and number of steps.
        self.mean, self.square, self.largest = (torch.zeros_like(self.table.detach()) for _ in range(3))
        self.steps = torch.zeros(self.table.shape[:2], device=rows.device)
        self.dropout = [torch.Generator(rows.device) for _ in seeds]
        for dropout_rng, seed in zip(self.dropout, seeds, strict=True):
            dropout_rng.manual_seed(int(generator(seed, "edge probe", "dropout").integers(2**62)))
        self.done = 0
        # Indices of the seeds and inputs that are still in the grid.
        self.at = np.arange(len(seeds)), np.arange(len(inputs))
        self.read = layers_read(self.inputs, rows.device)

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
        recipe, shape = self.recipe, (len(self.seeds), len(self.inputs))
        validation_batches = fixed_batches(self.edges, checked, recipe.batch, self.rows.device)
        order = [in_batches(learned, recipe.batch, seed) for seed in self.seeds]
        best_table = self.table.detach().clone()
        best, when, ended = np.full(shape, -1.0), np.zeros(shape, int), np.zeros(shape, int)
        level, waited, missed = np.full(shape, -np.inf), np.zeros(shape, int), np.zeros(shape, int)
        rate, going = np.full(shape, recipe.rate), np.ones(shape, bool)
        while going.any() and self.done < recipe.steps:
            sets = [next(order[seed]) for seed in self.at[0]]
            self.update(make_batch(self.edges, sets, self.rows.device), rate[np.ix_(*self.at)])
            if progress is not None:
                progress("edge probes", self.done, recipe.steps)
            if self.done % recipe.every and self.done < recipe.steps:
                continue
            grid = np.ix_(*self.at)
            scores = np.full(shape, -np.inf)
            scores[grid] = self.validate(validation_batches)
            better = going & (scores > best)
            mask = torch.from_numpy(better[grid]).to(self.table.device)
            inner = tuple(torch.from_numpy(indices).to(self.table.device) for indices in grid)
            best_table[inner] = torch.where(mask[..., None], self.table.detach(), best_table[inner])
            best, when = np.where(better, scores, best), np.where(better, self.done, when)
            missed = np.where(better, 0, missed + 1)
            gained = scores > level + recipe.gain
            level, waited = np.where(gained, scores, level), np.where(gained, 0, waited + 1)
            slower = waited > recipe.slower_after
            rate, waited = np.where(slower, rate / 2, rate), np.where(slower, 0, waited)
            ended = np.where(going, self.done, ended)
            going &= (missed <= recipe.stop_after) & (rate >= recipe.least_rate)
            self.leave(going)
        return {
            "table": best_table.cpu().numpy(),
            "validation": best,
            "best": when,
            "updates": ended,
            "stopped": ~going,
        }

    def update(self, batch: Batch, rate: np.ndarray) -> torch.Tensor:
        """
        Make one optimizer step with all probes of the grid.

        Parameters
        ----------
        batch : Batch
            One set of sentences for each seed of the grid.
        rate : ndarray of shape (seeds, inputs)

        Returns
        -------
        Tensor of shape (seeds, inputs)
            Losses before the step.
        """
        loss = self.losses(batch)
        # Each loss depends only on its own probe, so the gradient of the sum is that of each loss.
        (gradient,) = torch.autograd.grad(loss.sum(), self.table)
        share = self.recipe.clip / (gradient.norm(dim=-1, keepdim=True) + 1e-6)
        # Checking whether any gradient needs clipping would synchronize the accelerator.
        if gradient.device.type != "cpu" or bool((share < 1).any()):
            gradient *= share.clamp(max=1.0)
        self.done += 1
        self._step(gradient.flatten(0, 1).unbind(), rate.ravel())
        return loss.detach()

    def _step(self, gradients: Sequence[torch.Tensor], rates: np.ndarray) -> None:
        """Update the weights with Adam, all probes of one learning rate together."""
        from torch.optim.adam import adam

        lists = [
            getattr(self, name).detach().flatten(0, 1).unbind()
            for name in ("table", "mean", "square", "largest", "steps")
        ]
        for rate in np.unique(rates):
            probes = np.flatnonzero(rates == rate).tolist()
            weights, means, squares, largest, steps = (
                [tensors[probe] for probe in probes] for tensors in lists
            )
            adam(
                weights,
                [gradients[probe] for probe in probes],
                means,
                squares,
                largest,
                steps,
                foreach=False,
                fused=True,
                amsgrad=True,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=float(rate),
                weight_decay=0.0,
                eps=EPSILON,
                maximize=False,
            )

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
        """Micro-averaged F1 of all probes of the grid, shape (seeds, inputs)."""
        table = self.table.detach()
        if not bool(table.isfinite().all()):
            raise InputError("X must be finite, but it has values that are not numbers.")
        inputs = [self.inputs[at] for at in self.at[1]] * len(self.at[0])
        counts = torch.zeros((len(inputs), 3), dtype=torch.int64, device=table.device)
        for batch_counts in answered(self.rows, table.flatten(0, 1), self.shapes, inputs, known):
            counts += batch_counts.sum(1)
        return micro_f1(counts.cpu().numpy()).reshape(table.shape[:2])

    def leave(self, going: np.ndarray) -> None:
        """Remove the seeds and inputs from the grid whose probes have all stopped."""
        inner = going[np.ix_(*self.at)]
        stays = np.flatnonzero(inner.any(1)), np.flatnonzero(inner.any(0))
        if inner.shape == tuple(map(len, stays)):
            return
        self.at = self.at[0][stays[0]], self.at[1][stays[1]]
        for name in ("table", "mean", "square", "largest", "steps"):
            remaining = getattr(self, name).detach().cpu()[stays[0]][:, stays[1]]
            setattr(self, name, remaining.to(self.rows.device))
        self.table.requires_grad_()
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
