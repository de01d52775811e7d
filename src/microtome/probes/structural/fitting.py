"""Training of the structural probes of all layers in one tensor, each with its own learning-rate schedule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...errors import InputError, WorkError
from ...lazy import torch
from ...randomness import generator
from ..training import BatchedTrainer, Schedule
from .trees import Trees, tree_distances

Target = Literal["distance", "depth"]

START = 0.05  # initial weights are uniform between minus this and this
BATCH = 20  # sentences
RATE = 1e-3
PATIENCE = 5  # epochs without improvement before early stopping
SCHEDULE = Schedule(
    rate=RATE,
    factor=0.1,
    patience=0,
    threshold=1e-4,
    relative=True,
    gain=1e-4,
    stop_after=PATIENCE - 1,
)
PARTS = 4  # of a batch, by length: sentences of similar length need little padding
ROWS = 1 << 12  # words that are predicted at once, with padding


class Learned(NamedTuple):
    """
    Probes of one rank and one seed.

    weights : ndarray of shape (layers, rank, features)
    losses : ndarray of shape (layers, passes)
        Validation losses; NaN after early stopping.
    best : ndarray of int of shape (layers,)
        Index of the pass whose weights are kept.
    """

    weights: np.ndarray
    losses: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """
    Words and their target distances or depths, on a device.

    Parameters
    ----------
    X : Tensor of shape (layers, rows, features)
    center : Tensor of shape (layers, features), or None
        Subtracted from the rows for numerical precision, which leaves distances unchanged. None for depths,
        which would change.
    target : Tensor
        Distances of all pairs in a sentence, one sentence after the other, or depths of all rows.
    starts, lengths, offsets : Tensor of int of shape (sentences,)
        First row of each sentence, its number of words, and the offset of its targets.
    sizes : ndarray of int of shape (sentences,)
        The lengths, on the CPU.
    """

    X: torch.Tensor
    center: torch.Tensor | None
    target: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    offsets: torch.Tensor
    sizes: np.ndarray


class Part(NamedTuple):
    """
    Sentences that are padded to one length.

    rows : Tensor of int of shape (sentences * words,)
    target, weight : Tensor of shape (sentences, words, words) or (sentences, words)
        Target values, and the weight of each error in the loss of its sentence: 0 for padding.
    sentences : int
    """

    rows: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor
    sentences: int


def place_words(X: np.ndarray, trees: Trees, target: Target, device: torch.device) -> Words:
    """Copy words and their targets to a device."""
    with warnings.catch_warnings():
        # Read-only arrays are never written.
        warnings.simplefilter("ignore", UserWarning)
        rows = torch.from_numpy(X if min(X.strides) >= 0 else X.copy()).to(device)
    center = rows.mean(1)
    if not center.isfinite().all():
        raise InputError("X must be finite, but it has values that are not numbers.")
    if target == "distance":
        flat = np.concatenate([tree_distances(trees, sentence).ravel() for sentence in range(len(trees))])
        counts = trees.lengths**2
    else:
        flat, counts = trees.depths, trees.lengths
    positions = {
        "starts": trees.starts,
        "lengths": trees.lengths,
        "offsets": np.concatenate([[0], np.cumsum(counts)[:-1]]),
    }
    return Words(
        X=rows,
        center=center if target == "distance" else None,
        target=torch.from_numpy(flat).to(device, rows.dtype),
        sizes=trees.lengths,
        **{name: torch.from_numpy(values).to(device, torch.int64) for name, values in positions.items()},
    )


def first_weights(seed: int, rank: int, features: int) -> np.ndarray:
    """Draw the initial weights, shared by all layers, shape (rank, features)."""
    return generator(seed, "structural probe", "start").uniform(-START, START, (rank, features))


def sentence_order(seed: int) -> np.random.Generator:
    """Create the generator that reshuffles the sentences in each pass."""
    return generator(seed, "structural probe", "order")


def learn(
    words: Words, held: Words, target: Target, rank: int, seed: int, epochs: int, passes: int = 1
) -> Learned:
    """
    Train the probes of all layers with the same initial weights and order of sentences.

    Parameters
    ----------
    words, held : Words
        Training and validation words.
    target : {"distance", "depth"}
    rank, seed, epochs : int
    passes : int
        Passes per epoch: scales the maximum number of passes and the patience.

    Returns
    -------
    Learned
    """
    layers, _, features = words.X.shape
    start, rng = first_weights(seed, rank, features), sentence_order(seed)
    schedule = replace(SCHEDULE, patience=passes - 1, stop_after=PATIENCE * passes - 1)
    trainer = BatchedTrainer(torch.from_numpy(start).to(words.X).repeat(layers, 1, 1), schedule)
    losses = np.full((layers, epochs * passes), np.nan)
    for pass_number in range(epochs * passes):
        active = trainer.active
        for parts in _batches(words, target, rng):
            gradient = torch.zeros_like(trainer.weights)
            total = sum(part.sentences for part in parts)
            for part in parts:
                _descend(words, active, trainer.weights, part, target, total, gradient)
            trainer.step(gradient)
        validation_loss = _validate(held, active, trainer.weights, target)
        if not np.isfinite(validation_loss).all():
            wrong = int(active[~np.isfinite(validation_loss)][0])
            raise WorkError(
                f"the structural probe of layer {wrong} has no finite loss in pass {pass_number + 1}."
            )
        losses[active, pass_number] = validation_loss
        trainer.record(validation_loss, pass_number)
        trainer.drop(np.flatnonzero(trainer.going[active]))
        if not len(trainer.active):
            break
    return Learned(trainer.best_weights.cpu().numpy(), losses, trainer.best)


def _batches(words: Words, target: Target, rng: np.random.Generator) -> Iterator[list[Part]]:
    """Yield all sentences in random order, each batch in parts of similar length."""
    order = rng.permutation(len(words.sizes))
    batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    batches = [batch[np.argsort(words.sizes[batch], kind="stable")] for batch in batches]
    shuffled = torch.from_numpy(np.concatenate(batches)).to(words.starts.device)
    begin = 0
    for batch in batches:
        parts, step = [], -(-len(batch) // PARTS)
        for at in range(0, len(batch), step):
            piece = batch[at : at + step]
            sentences = shuffled[begin + at : begin + at + len(piece)]
            parts.append(_part(words, sentences, int(words.sizes[piece[-1]]), target))
        yield parts
        begin += len(batch)


def _part(words: Words, sentences: torch.Tensor, longest: int, target: Target) -> Part:
    starts, lengths, offsets = (
        values[sentences, None] for values in (words.starts, words.lengths, words.offsets)
    )
    position = torch.arange(longest, device=sentences.device)
    inside, near = (position < lengths).to(words.target), torch.minimum(position, lengths - 1)
    if target == "distance":
        at = (offsets + near * lengths)[:, :, None] + near[:, None, :]
        weight = inside[:, :, None] * inside[:, None, :] / (lengths**2)[:, :, None]
    else:
        at, weight = offsets + near, inside / lengths
    return Part((starts + near).flatten(), words.target[at], weight, len(sentences))


def _read(words: Words, active: np.ndarray, rows: torch.Tensor) -> torch.Tensor:
    """Select rows of the active layers, shape (layers, words, features)."""
    out = words.X.new_empty(len(active), len(rows), words.X.shape[2])
    for index, layer in enumerate(active):
        torch.index_select(words.X[layer], 0, rows, out=out[index])
        if words.center is not None:
            out[index] -= words.center[layer]
    return out


def _errors(Z: torch.Tensor, part: Part, target: Target) -> torch.Tensor:
    """
    Compute predictions minus targets.

    Parameters
    ----------
    Z : Tensor of shape (layers, sentences, words, rank)
    part : Part
    target : {"distance", "depth"}

    Returns
    -------
    Tensor of shape (layers, sentences, words, words) or (layers, sentences, words)
    """
    squares = Z.square().sum(-1)
    if target == "depth":
        return squares - part.target
    distances = (Z @ Z.mT).mul_(-2)
    distances += squares[..., None]
    distances += squares[..., None, :]
    return distances.sub_(part.target)


def _descend(
    words: Words,
    active: np.ndarray,
    B: torch.Tensor,
    part: Part,
    target: Target,
    total: int,
    gradient: torch.Tensor,
) -> None:
    """Add the gradient of a part of a batch, which has `total` sentences."""
    X = _read(words, active, part.rows)
    flat = X @ B.mT
    Z = flat.view(len(active), part.sentences, -1, B.shape[1])
    signs = _errors(Z, part, target).sign_().mul_(part.weight)
    if target == "distance":
        # |z_i - z_j|^2 occurs twice in the sum and has gradients with respect to both words.
        pulled = Z * signs.sum(-1, keepdim=True)
        pulled -= signs @ Z
        pulled *= 4 / total
    else:
        pulled = Z * (signs[..., None] * (2 / total))
    gradient.baddbmm_(pulled.view_as(flat).mT, X)


def _validate(held: Words, active: np.ndarray, B: torch.Tensor, target: Target) -> np.ndarray:
    """Mean loss of the sentences, for each active layer."""
    total: Any = 0.0
    for part in _padded(held, target):
        Z = (_read(held, active, part.rows) @ B.mT).view(len(active), part.sentences, -1, B.shape[1])
        errors = _errors(Z, part, target).abs_().mul_(part.weight)
        total = total + errors.flatten(1).sum(1).double()
    return (total / len(held.sizes)).cpu().numpy()


def _padded(words: Words, target: Target) -> Iterator[Part]:
    """Yield all sentences in padded parts, sorted by length."""
    order = np.argsort(words.sizes, kind="stable")
    placed = torch.from_numpy(order).to(words.starts.device)
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and (end + 1 - at) * words.sizes[order[end]] <= ROWS:
            end += 1
        yield _part(words, placed[at:end], int(words.sizes[order[end - 1]]), target)
        at = end
