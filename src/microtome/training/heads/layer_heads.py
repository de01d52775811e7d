"""Joint training of the heads of all layers, on vectors from a single pass of the encoder."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...errors import InputError, must
from ...lazy import LateModule, torch
from ..models.methods import head_names, idle_names, set_head_dropout
from ..models.taskmodel import TaskModel
from ..optimization.cuda_graphs import TrainingStep
from ..optimization.loop import TrainingRecords, run_updates
from ..optimization.updates import example_batches, make_optimizer, seed_dropout, set_rate
from ..recipe import Recipe
from .head_inputs import HeadRows, heads_refusal

Weights = Mapping[str, "torch.Tensor"]
# Key in a batch of the inputs of the heads, beside their targets.
VECTORS = " vectors"
# Number of last losses that are averaged to detect a diverged training.
LAST = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heads:
    """
    Trained heads of one seed, one per layer.

    Parameters
    ----------
    seed : int
    weights : mapping of str to Tensor of shape (layers, ...)
        By their names in the model.
    losses : ndarray of shape (layers,)
        Mean of the last updates; not finite where a training diverged.
    updates : int
    """

    seed: int
    weights: Weights
    losses: np.ndarray
    updates: int


def head_weights(model: TaskModel) -> dict[str, torch.Tensor]:
    """Current weights of a model's head by name: all that can be trained on vectors of an encoder."""
    names = head_names(model) - idle_names(model)
    return {name: tensor.detach() for name, tensor in model.named_parameters() if name in names}


def pooler_names(model: TaskModel) -> frozenset[str]:
    """Names of the weights of the pooler that a model's head reads; none where it reads no pooler."""
    inside = {id(p) for n, p in model.base.named_parameters() if n.startswith("pooler.")}
    names = head_names(model) - idle_names(model)
    return frozenset(name for name, p in model.named_parameters() if id(p) in inside and name in names)


def train_heads(
    model: TaskModel,
    rows: HeadRows,
    recipe: Recipe,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    starts: Sequence[Weights] | None = None,
    still: Collection[str] = (),
    context: Context = SILENT,
) -> list[Heads]:
    """
    Train one head per layer and seed with a recipe; the encoder is frozen.

    All layers of a seed see the same examples in the same order with the same dropout masks, so a head does
    not depend on which others are trained with it. The gradient of each head is clipped separately.

    Parameters
    ----------
    model : TaskModel
        Its head is copied; the model is left unchanged.
    rows : HeadRows
        Inputs of the head for each training example in every layer; see `head_rows`.
    recipe : Recipe
        Its `accumulate` is ignored.
    seeds : sequence of int
        Of the order and of dropout.
    starts : sequence of mapping, optional
        For each seed, the initial weights, as `head_weights` returns them; the model's own when absent.
    still : collection of str
        Names of frozen weights of the head, such as `pooler_names`; not part of `starts`.
    context : Context

    Returns
    -------
    list of Heads
        One per seed.
    """
    refused = heads_refusal(model.kind)
    if refused is not None:
        raise InputError(refused)
    if not len(seeds) or len(set(seeds)) != len(seeds):
        raise must("head seeds", "at least one, each there once", list(seeds))
    if starts is not None and len(starts) != len(seeds):
        raise must("starts", f"one for each of {len(seeds)} seeds", len(starts))
    if rows.targets is None:
        raise InputError("examples that heads are trained on must have labels, but some have none.")
    first = {name: weight for name, weight in head_weights(model).items() if name not in set(still)}
    if not first:
        raise InputError("some weights of a head must be left to learn, but all of them are to stay.")
    trained = []
    for number, seed in enumerate(seeds):
        start = first if starts is None else starts[number]
        if set(start) != set(first):
            raise must("names of the weights of a head", ", ".join(sorted(first)), ", ".join(sorted(start)))
        trained.append(_train(model, rows, recipe, seed, start, _as_all_seeds(context, number, len(seeds))))
    return trained


def apply_heads(model: TaskModel, heads: Heads, rows: HeadRows) -> list[list[np.ndarray]]:
    """
    Apply the head of every layer to examples.

    Parameters
    ----------
    model : TaskModel
        The model that the heads were copied from.
    heads : Heads
    rows : HeadRows
        Of the same layers.

    Returns
    -------
    list of list of ndarray
        For each layer and example, an input of `microtome.training.heads.decoding.decode`.
    """
    layers, count = rows.vectors.shape[0], len(rows.counts)
    outputs: list[list[np.ndarray]] = [[] for _ in range(layers)]
    reading = _Reading(model)
    with _mode(model, training=False, dropout=None), torch.inference_mode():
        apply, _ = _reader(reading, heads.weights, rows, layers)
        for begin in range(0, count, rows.together):
            examples = np.arange(begin, min(begin + rows.together, count))
            scores = apply(heads.weights, rows.at(examples), rows.batch(examples)).float().cpu().numpy()
            for layer in range(layers):
                outputs[layer] += rows.apart(scores[layer], examples)
    return outputs


def _train(
    model: TaskModel,
    rows: HeadRows,
    recipe: Recipe,
    seed: int,
    start: Weights,
    context: Context,
) -> Heads:
    layers, planned = rows.vectors.shape[0], recipe.updates(len(rows.counts))
    weights = {
        name: start[name]
        .detach()
        .to(model.device)
        .expand(layers, *start[name].shape)
        .clone()
        .requires_grad_()
        for name in sorted(start)
    }
    optimizer = make_optimizer(weights, recipe, stacked=True)
    order = example_batches(rows.lengths.tolist(), batch=recipe.batch, seed=seed, bucket=recipe.bucket)
    reading, recent = _Reading(model), deque[torch.Tensor](maxlen=LAST)
    on_gpu = model.device.type == "cuda"
    with (
        _mode(model, training=True, dropout=recipe.dropout),
        torch.random.fork_rng(devices=[model.device] if on_gpu else []),
    ):
        apply, together = _reader(reading, weights, rows, layers)

        def losses_of(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
            batch = {name: value for name, value in inputs.items() if name != VECTORS}
            outputs = apply(weights, inputs[VECTORS], batch)
            losses = torch.stack([model.loss(logits, batch) for logits in outputs])
            # Each loss depends only on its own head, so the gradient of the sum is that of each loss.
            return torch.cat([losses.sum()[None], losses.detach()])

        def clip_and_update() -> None:
            if recipe.clip is not None:
                _clip(weights.values(), recipe.clip)
            optimizer.step()

        # Heads are small, and a GPU would wait for the CPU.
        training_step = TrainingStep(
            losses_of, weights.values(), update=clip_and_update, capture=together and on_gpu
        )

        def step(update: int) -> list[torch.Tensor]:
            examples = next(order)
            set_rate(optimizer, recipe, update, planned)
            seed_dropout(seed, update)
            losses = training_step({VECTORS: rows.at(examples), **rows.batch(examples)})
            recent.append(losses[1:].detach().clone())
            return []

        run_updates(step, planned, TrainingRecords(context=context))
    mean = torch.stack(list(recent)).mean(0).double().cpu().numpy()
    return Heads(seed=seed, weights={n: w.detach() for n, w in weights.items()}, losses=mean, updates=planned)


class _Reading(LateModule):
    """A model whose forward pass is its head alone."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, vectors: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Apply the head to vectors, shape (rows, features), as texts of one token."""
        return self.model.read(vectors[:, None], batch)


def _reader(
    reading: _Reading, weights: Weights, rows: HeadRows, layers: int
) -> tuple[Callable[..., torch.Tensor], bool]:
    """
    Make a function that applies the heads of all layers: in one call (vmap) if the head's class allows it.

    Returns
    -------
    read : callable
        Maps the weights, vectors of shape (layers, rows, features) and their batch to outputs with the
        layers first.
    together : bool
        Whether it is one call.
    """
    from torch.func import functional_call

    # Detached, since frozen weights need no gradients.
    frozen = {n: w for n, w in head_weights(reading.model).items() if n not in weights}

    def one(layer_weights: Weights, vectors: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        parameters = {f"model.{n}": w for n, w in {**frozen, **layer_weights}.items()}
        return functional_call(reading, parameters, (vectors, batch))

    def by_turns(
        stacked_weights: Weights, vectors: torch.Tensor, batch: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        outputs = []
        for layer in range(layers):
            if reading.model.training:
                # Every layer uses the same dropout masks.
                torch.manual_seed(torch.initial_seed())
            outputs.append(one({n: w[layer] for n, w in stacked_weights.items()}, vectors[layer], batch))
        return torch.stack(outputs)

    together = torch.func.vmap(one, in_dims=(0, 0, None), randomness="same")
    try:
        examples = np.arange(1)
        together(weights, rows.at(examples), rows.batch(examples))
    except RuntimeError:
        # Some operation of this family's head has no batching rule for vmap.
        return by_turns, False
    return together, True


def _clip(weights: Any, most: float) -> None:
    """Clip the gradient of each head separately."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    shares = (most / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(shares.view(-1, *[1] * (gradient.ndim - 1)))


@contextmanager
def _mode(model: TaskModel, *, training: bool, dropout: float | None) -> Iterator[None]:
    """Set the mode of the model, and the dropout of its head if given, within a context."""
    before = [(m, m.p) for m in model.modules() if isinstance(m, torch.nn.Dropout)]
    was_training = model.training
    if dropout is not None:
        set_head_dropout(model, dropout)
    model.train(training)
    try:
        yield
    finally:
        model.train(was_training)
        for module, share in before:
            module.p = share


def _as_all_seeds(context: Context, number: int, seeds: int) -> Context:
    """Report the progress of one seed as that of all."""
    return context.reporting(
        lambda _, done, planned: context.report(
            "heads of all layers", number * planned + done, seeds * planned
        )
    )


def failures(heads: Sequence[Heads]) -> list[tuple[int, int, str]]:
    """List the trainings that diverged: the index of the layer, the seed, and a description."""
    return [
        (layer, seed_heads.seed, f"the loss was no number after {seed_heads.updates} updates")
        for seed_heads in heads
        for layer, loss in enumerate(seed_heads.losses)
        if not math.isfinite(loss)
    ]
