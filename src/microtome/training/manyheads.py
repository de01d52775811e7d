"""How are the heads of all layers trained together? On vectors that one pass of the encoder left behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.elmo.latemodule import LateModule
from ..errors import InputError, must
from ..randomness import generator
from .headrows import Rows, heads_refusal
from .methods import head_names, idle_names, set_head_dropout
from .optimizer import adamw, is_decayed, set_rate
from .order import updates as in_updates
from .recipe import Recipe
from .replay import Replay

if TYPE_CHECKING:
    import torch

    from .taskmodel import TaskModel

Progress = Callable[[str, int, int], None]
Weights = Mapping[str, "torch.Tensor"]
# What heads read stands in a batch beside what they are to say.
VECTORS = " vectors"
# Losses that are averaged to say whether a training ended well.
LAST = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Heads:
    """
    Trained heads of one seed, one a layer.

    Parameters
    ----------
    seed : int
    weights : mapping of str to Tensor of shape (layers, ...)
        By the names that they have in the model.
    losses : ndarray of shape (layers,)
        Mean of the last updates; not finite where a training diverged.
    updates : int
    """

    seed: int
    weights: Weights
    losses: np.ndarray
    updates: int


def head_weights(model: TaskModel) -> dict[str, torch.Tensor]:
    """The weights of a model's head by name, as they are: all that can learn on vectors of an encoder."""
    names = head_names(model) - idle_names(model)
    return {name: tensor.detach() for name, tensor in model.named_parameters() if name in names}


def pooler_names(model: TaskModel) -> frozenset[str]:
    """Names of the weights of the pooler that a model's head reads; none where it reads no pooler."""
    inside = {id(p) for n, p in model.base.named_parameters() if n.startswith("pooler.")}
    read = head_names(model) - idle_names(model)
    return frozenset(name for name, p in model.named_parameters() if id(p) in inside and name in read)


def train_heads(
    model: TaskModel,
    rows: Rows,
    recipe: Recipe,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    starts: Sequence[Weights] | None = None,
    still: Collection[str] = (),
    progress: Progress | None = None,
) -> list[Heads]:
    """
    Train one head a layer and seed, as the recipe says, with the encoder left as it is.

    All layers of a seed see the same examples in the same order and drop out the same features, so a head
    does not depend on which others are trained beside it. The gradient of each is clipped on its own.

    Parameters
    ----------
    model : TaskModel
        Whose head is copied; it stays as it is.
    rows : Rows
        What the head reads of each training example in every layer; see `head_rows`.
    recipe : Recipe
        The number of parts an update is run in is of no meaning here.
    seeds : sequence of int
        Of the order and of dropout.
    starts : sequence of mapping, optional
        For each seed, the weights to begin from, as `head_weights` gives them; the model's own when absent.
    still : collection of str
        Names of weights of the head that stay the model's own, such as `pooler_names`; not in the starts.
    progress : callable, optional

    Returns
    -------
    list of Heads
        One a seed.
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
    found = []
    for number, seed in enumerate(seeds):
        begin = first if starts is None else starts[number]
        if set(begin) != set(first):
            raise must("names of the weights of a head", ", ".join(sorted(first)), ", ".join(sorted(begin)))
        told = None if progress is None else _shifted(progress, number, len(seeds))
        found.append(_train(model, rows, recipe, seed, begin, told))
    return found


def apply_heads(model: TaskModel, heads: Heads, rows: Rows) -> list[list[np.ndarray]]:
    """
    Answer examples with the head of every layer.

    Parameters
    ----------
    model : TaskModel
        That the heads were copied from.
    heads : Heads
    rows : Rows
        Of the same layers.

    Returns
    -------
    list of list of ndarray
        For each layer and example what `microtome.training.decoding.decode` takes.
    """
    import torch

    layers, count = rows.vectors.shape[0], len(rows.counts)
    found: list[list[np.ndarray]] = [[] for _ in range(layers)]
    reading = _Reading(model)
    with _mode(model, training=False, dropout=None), torch.inference_mode():
        read, _ = _reader(reading, heads.weights, rows, layers)
        for begin in range(0, count, rows.together):
            chosen = np.arange(begin, min(begin + rows.together, count))
            said = read(heads.weights, rows.at(chosen), rows.batch(chosen)).float().cpu().numpy()
            for layer in range(layers):
                found[layer] += rows.apart(said[layer], chosen)
    return found


def _train(
    model: TaskModel,
    rows: Rows,
    recipe: Recipe,
    seed: int,
    begin: Weights,
    progress: Callable[[int, int], None] | None,
) -> Heads:
    import torch

    layers, planned = rows.vectors.shape[0], recipe.updates(len(rows.counts))
    weights = {
        name: begin[name]
        .detach()
        .to(model.device)
        .expand(layers, *begin[name].shape)
        .clone()
        .requires_grad_()
        for name in sorted(begin)
    }
    optimizer = _optimizer(weights, recipe)
    order = in_updates(rows.lengths.tolist(), batch=recipe.batch, seed=seed, bucket=recipe.bucket)
    reading, last = _Reading(model), []
    forked = [model.device] if model.device.type == "cuda" else []
    with _mode(model, training=True, dropout=recipe.dropout), torch.random.fork_rng(devices=forked):
        read, together = _reader(reading, weights, rows, layers)

        def wrong(given: dict[str, torch.Tensor]) -> torch.Tensor:
            batch = {name: value for name, value in given.items() if name != VECTORS}
            outputs = read(weights, given[VECTORS], batch)
            losses = torch.stack([model.loss(each, batch) for each in outputs])
            # Each loss depends on its own head alone, so the gradient of the sum is that of each.
            return torch.cat([losses.sum()[None], losses.detach()])

        def step() -> None:
            if recipe.clip is not None:
                _clip(weights.values(), recipe.clip)
            optimizer.step()

        played = Replay(wrong, weights.values(), None, step) if can_play(model, together) else None
        for update in range(planned):
            chosen = next(order)
            set_rate(optimizer, recipe, update, planned)
            torch.manual_seed(int(generator(seed, "dropout", update).integers(2**62)))
            given = {VECTORS: rows.at(chosen), **rows.batch(chosen)}
            if played is not None:
                losses = played(given).clone()
            else:
                losses = wrong(given)
                losses[0].backward()
                step()
                optimizer.zero_grad(set_to_none=True)
            last = [*last[1 - LAST :], losses[1:].detach()]
            if progress is not None:
                progress(update + 1, planned)
    mean = torch.stack(last).mean(0).double().cpu().numpy()
    return Heads(seed=seed, weights={n: w.detach() for n, w in weights.items()}, losses=mean, updates=planned)


def can_play(model: TaskModel, together: bool) -> bool:
    """
    Whether updates of heads are recorded: they are small, and a GPU would wait for the processor.

    Parameters
    ----------
    model : TaskModel
    together : bool
        Whether all heads are applied in one call.

    Returns
    -------
    bool
    """
    return together and model.device.type == "cuda"


class _Reading(LateModule):
    """A model whose forward pass is its head alone."""

    def __init__(self, model: TaskModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, vectors: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Read vectors, shape (rows, features), as texts of one token."""
        return self.model.read(vectors[:, None], batch)


def _reader(
    reading: _Reading, weights: Weights, rows: Rows, layers: int
) -> tuple[Callable[..., torch.Tensor], bool]:
    """
    Find a way to apply the heads of all layers: in one call where the head's class allows it.

    Returns
    -------
    read : callable
        Of the weights, vectors of shape (layers, rows, features) and the batch they are of, to outputs with
        the layers first.
    together : bool
        Whether it is one call.
    """
    import torch
    from torch.func import functional_call

    # Without their gradients, which nobody would ask for.
    still = {n: w for n, w in head_weights(reading.model).items() if n not in weights}

    def one(given: Weights, vectors: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        told = {f"model.{n}": w for n, w in {**still, **given}.items()}
        return functional_call(reading, told, (vectors, batch))

    def by_turns(given: Weights, vectors: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        found = []
        for layer in range(layers):
            if reading.model.training:
                # Every layer drops out the same.
                torch.manual_seed(torch.initial_seed())
            found.append(one({n: w[layer] for n, w in given.items()}, vectors[layer], batch))
        return torch.stack(found)

    together = torch.func.vmap(one, in_dims=(0, 0, None), randomness="same")
    try:
        chosen = np.arange(1)
        together(weights, rows.at(chosen), rows.batch(chosen))
    except RuntimeError:
        # Some operation of this family's head has no rule for many heads at once.
        return by_turns, False
    return together, True


def _optimizer(weights: Weights, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW with the groups of `make_optimizer`: a vector of each head is a bias or a norm."""
    free = {n for n, w in weights.items() if not is_decayed(n, w.ndim - 1)}
    groups = [
        {"params": [w for n, w in weights.items() if n not in free], "weight_decay": recipe.decay},
        {"params": [w for n, w in weights.items() if n in free], "weight_decay": 0.0},
    ]
    # Heads of all layers are large together: one sweep over them, not one an operation.
    return adamw(groups, recipe, fused=True)


def _clip(weights: Any, most: float) -> None:
    """Clip the gradient of each head on its own."""
    import torch

    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    shares = (most / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(shares.view(-1, *[1] * (gradient.ndim - 1)))


@contextmanager
def _mode(model: TaskModel, *, training: bool, dropout: float | None) -> Iterator[None]:
    """Put the head into a mode, with another dropout where one is asked, for as long as it lasts."""
    import torch

    before = [(m, m.p) for m in model.modules() if isinstance(m, torch.nn.Dropout)]
    was = model.training
    if dropout is not None:
        set_head_dropout(model, dropout)
    model.train(training)
    try:
        yield
    finally:
        model.train(was)
        for module, share in before:
            module.p = share


def _shifted(progress: Progress, number: int, seeds: int) -> Callable[[int, int], None]:
    return lambda done, planned: progress("heads of all layers", number * planned + done, seeds * planned)


def failures(heads: Sequence[Heads]) -> list[tuple[int, int, str]]:
    """Which trainings diverged: the place of the layer, the seed, and what happened."""
    return [
        (layer, one.seed, f"the loss was no number after {one.updates} updates")
        for one in heads
        for layer, loss in enumerate(one.losses)
        if not math.isfinite(loss)
    ]
