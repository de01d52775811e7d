"""How are the structural probes of all layers trained? In one tensor, each layer on its own schedule."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..errors import InputError, WorkError
from ..randomness import generator
from .treedistances import Trees, tree_distances

if TYPE_CHECKING:
    import torch

Target = Literal["distance", "depth"]

START = 0.05  # weights begin between minus this and this
BATCH = 20  # sentences
RATE = 1e-3
DECAY = 0.1  # of the rate, after each epoch that gains nothing
SMALLEST = 1e-8  # change of the rate that still counts
PLATEAU = 1e-4  # share of the best loss that the rate counts as a gain
GAIN = 1e-4  # of the loss, that the end counts as a gain
PATIENCE = 5  # epochs without it
BETAS = (0.9, 0.999)
TINY = 1e-8
PARTS = 4  # of a batch, by length: sentences of like length need little padding
ROWS = 1 << 12  # words that are foretold at once, padding included


class Learned(NamedTuple):
    """
    Probes of one rank and one seed.

    weights : ndarray of shape (layers, rank, features)
    losses : ndarray of shape (layers, passes)
        On sentences to validate with; NaN after the end.
    best : ndarray of int of shape (layers,)
        Pass of the weights.
    """

    weights: np.ndarray
    losses: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Words:
    """
    Words with what is to be foretold of them, where it is computed.

    Parameters
    ----------
    X : Tensor of shape (layers, rows, features)
    center : Tensor of shape (layers, features), or None
        Taken from the rows: distances do not change, and keep their digits. None for depths, which would.
    target : Tensor
        Distances of all pairs in a sentence, one sentence after the other, or depths of all rows.
    starts, lengths, offsets : Tensor of int of shape (sentences,)
        First row of each sentence, its words, and where its targets begin.
    sizes : ndarray of int of shape (sentences,)
        The lengths again.
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
        What is foretold, and what an error counts in the loss of its sentence: 0 for padding.
    sentences : int
    """

    rows: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor
    sentences: int


def place_words(X: np.ndarray, trees: Trees, target: Target, device: torch.device) -> Words:
    """Bring words and their targets to a device."""
    import torch

    with warnings.catch_warnings():
        # Rows that may not be written are only read.
        warnings.simplefilter("ignore", UserWarning)
        rows = torch.from_numpy(X if min(X.strides) >= 0 else X.copy()).to(device)
    center = rows.mean(1)
    if not center.isfinite().all():
        raise InputError("X must be finite, but it has values that are not numbers.")
    if target == "distance":
        flat = np.concatenate([tree_distances(trees, each).ravel() for each in range(len(trees))])
        counts = trees.lengths**2
    else:
        flat, counts = trees.depths, trees.lengths
    whole = {
        "starts": trees.starts,
        "lengths": trees.lengths,
        "offsets": np.concatenate([[0], np.cumsum(counts)[:-1]]),
    }
    return Words(
        X=rows,
        center=center if target == "distance" else None,
        target=torch.from_numpy(flat).to(device, rows.dtype),
        sizes=trees.lengths,
        **{name: torch.from_numpy(each).to(device, torch.int64) for name, each in whole.items()},
    )


def first_weights(seed: int, rank: int, features: int) -> np.ndarray:
    """Draw the weights that every layer begins with, shape (rank, features)."""
    return generator(seed, "structural probe", "start").uniform(-START, START, (rank, features))


def sentence_order(seed: int) -> np.random.Generator:
    """Make the generator that shuffles the sentences anew in each epoch."""
    return generator(seed, "structural probe", "order")


def learn(
    words: Words, held: Words, target: Target, rank: int, seed: int, epochs: int, passes: int = 1
) -> Learned:
    """
    Train the probes of all layers, from one start and in one order of sentences.

    Parameters
    ----------
    words, held : Words
        To learn from, and to validate with.
    target : {"distance", "depth"}
    rank, seed, epochs : int
    passes : int
        That count as an epoch: so many times as many are made, and passed in vain before something is done.

    Returns
    -------
    Learned
    """
    import torch

    layers, _, features = words.X.shape
    start, rng = first_weights(seed, rank, features), sentence_order(seed)
    B = torch.from_numpy(start).to(words.X).repeat(layers, 1, 1)
    state = [torch.zeros_like(B), torch.zeros_like(B)]
    active = np.arange(layers)
    rate, least, vain = np.full(layers, RATE), np.full(layers, np.inf), np.zeros(layers, dtype=int)
    losses, gained = np.full((layers, epochs * passes), np.nan), np.full(layers, np.inf)
    kept, best = np.empty(tuple(B.shape), dtype=B[:0].cpu().numpy().dtype), np.full(layers, -1)
    updates = 0
    for turn in range(epochs * passes):
        pace = torch.from_numpy(rate[active]).to(B)[:, None, None]
        for parts in _batches(words, target, rng):
            updates += 1
            gradient = torch.zeros_like(B)
            total = sum(part.sentences for part in parts)
            for part in parts:
                _descend(words, active, B, part, target, total, gradient)
            _adam(B, gradient, state, pace, updates)
        now = _validate(held, active, B, target)
        if not np.isfinite(now).all():
            wrong = int(active[~np.isfinite(now)][0])
            raise WorkError(f"the structural probe of layer {wrong} has no finite loss in pass {turn + 1}.")
        losses[active, turn] = now
        better = now < gained[active] - GAIN
        gained[active[better]], best[active[better]] = now[better], turn
        kept[active[better]] = B[torch.from_numpy(better).to(B.device)].cpu().numpy()
        flat = now >= least[active] * (1 - PLATEAU)
        least[active], vain[active] = np.where(flat, least[active], now), np.where(flat, vain[active] + 1, 0)
        tired = active[vain[active] == passes]
        rate[tired], vain[tired] = _slowed(rate[tired]), 0
        going = turn - best[active] < PATIENCE * passes
        if not going.all():
            still = torch.from_numpy(going).to(B.device)
            active, B, state = active[going], B[still], [each[still] for each in state]
        if not len(active):
            break
    return Learned(kept, losses, best)


def _slowed(rate: np.ndarray) -> np.ndarray:
    """Lower rates, as long as that is a change."""
    slower = rate * DECAY
    return np.where(rate - slower > SMALLEST, slower, rate)


def _batches(words: Words, target: Target, rng: np.random.Generator) -> Iterator[list[Part]]:
    """Give all sentences in random order, each batch in parts of like length."""
    import torch

    order = rng.permutation(len(words.sizes))
    batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    batches = [batch[np.argsort(words.sizes[batch], kind="stable")] for batch in batches]
    placed = torch.from_numpy(np.concatenate(batches)).to(words.starts.device)
    begin = 0
    for batch in batches:
        parts, step = [], -(-len(batch) // PARTS)
        for at in range(0, len(batch), step):
            piece = batch[at : at + step]
            chosen = placed[begin + at : begin + at + len(piece)]
            parts.append(_part(words, chosen, int(words.sizes[piece[-1]]), target))
        yield parts
        begin += len(batch)


def _part(words: Words, chosen: torch.Tensor, longest: int, target: Target) -> Part:
    import torch

    starts, lengths, offsets = (each[chosen, None] for each in (words.starts, words.lengths, words.offsets))
    place = torch.arange(longest, device=chosen.device)
    inside, near = (place < lengths).to(words.target), torch.minimum(place, lengths - 1)
    if target == "distance":
        at = (offsets + near * lengths)[:, :, None] + near[:, None, :]
        weight = inside[:, :, None] * inside[:, None, :] / (lengths**2)[:, :, None]
    else:
        at, weight = offsets + near, inside / lengths
    return Part((starts + near).flatten(), words.target[at], weight, len(chosen))


def _read(words: Words, active: np.ndarray, rows: torch.Tensor) -> torch.Tensor:
    """Give some words of the layers that still learn, shape (layers, words, features)."""
    import torch

    out = words.X.new_empty(len(active), len(rows), words.X.shape[2])
    for place, layer in enumerate(active):
        torch.index_select(words.X[layer], 0, rows, out=out[place])
        if words.center is not None:
            out[place] -= words.center[layer]
    return out


def _errors(Z: torch.Tensor, part: Part, target: Target) -> torch.Tensor:
    """
    Give what is foretold minus what is true.

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
    found = (Z @ Z.mT).mul_(-2)
    found += squares[..., None]
    found += squares[..., None, :]
    return found.sub_(part.target)


def _descend(
    words: Words,
    active: np.ndarray,
    B: torch.Tensor,
    part: Part,
    target: Target,
    total: int,
    gradient: torch.Tensor,
) -> None:
    """Add the gradient of a part of a batch of so many sentences."""
    X = _read(words, active, part.rows)
    flat = X @ B.mT
    Z = flat.view(len(active), part.sentences, -1, B.shape[1])
    signs = _errors(Z, part, target).sign_().mul_(part.weight)
    if target == "distance":
        # |z_i - z_j|^2 stands twice in the sum, and pulls at both of its ends.
        pulled = Z * signs.sum(-1, keepdim=True)
        pulled -= signs @ Z
        pulled *= 4 / total
    else:
        pulled = Z * (signs[..., None] * (2 / total))
    gradient.baddbmm_(pulled.view_as(flat).mT, X)


def _adam(
    B: torch.Tensor, gradient: torch.Tensor, state: list[torch.Tensor], pace: torch.Tensor, updates: int
) -> None:
    first, second = state
    first.lerp_(gradient, 1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    under = second.sqrt().div_((1 - BETAS[1] ** updates) ** 0.5).add_(TINY)
    B -= first / under * (pace / (1 - BETAS[0] ** updates))


def _validate(held: Words, active: np.ndarray, B: torch.Tensor, target: Target) -> np.ndarray:
    """Mean loss of the sentences, for each layer that still learns."""
    found: Any = 0.0
    for part in _padded(held, target):
        Z = (_read(held, active, part.rows) @ B.mT).view(len(active), part.sentences, -1, B.shape[1])
        errors = _errors(Z, part, target).abs_().mul_(part.weight)
        found = found + errors.flatten(1).sum(1).double()
    return (found / len(held.sizes)).cpu().numpy()


def _padded(words: Words, target: Target) -> Iterator[Part]:
    """Give all sentences, sorted by length."""
    import torch

    order = np.argsort(words.sizes, kind="stable")
    placed = torch.from_numpy(order).to(words.starts.device)
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and (end + 1 - at) * words.sizes[order[end]] <= ROWS:
            end += 1
        yield _part(words, placed[at:end], int(words.sizes[order[end - 1]]), target)
        at = end
