"""The bidirectional LSTM layer of ELMo, with projection, clipping and state across batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import InputError
from .directions import halves, joined, linear

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class BiLstm:
    """
    The options of a layer.

    Parameters
    ----------
    cell_clip, projection_clip : float or None
        The largest absolute value of the cell and of its projected output; None for no limit.
    skip : bool
        Whether the layer adds its input to its output.
    """

    cell_clip: float | None
    projection_clip: float | None
    skip: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """
    The final states of the LSTMs of one layer, for each row of the batch.

    Parameters
    ----------
    h : tensor of shape (2, rows, features), optional
    c : tensor of shape (2, rows, cells), optional
    """

    h: Tensor | None = None
    c: Tensor | None = None


@dataclass(slots=True, kw_only=True)
class ElmoState:
    """
    The recurrent state of a biLSTM ELMo from one batch to the next, updated by every call that takes it.

    Row k of a batch continues from row k of the previous batch. Rows beyond a smaller batch keep their state,
    and new rows start from zero.

    Parameters
    ----------
    blocks : mapping of int to Memory
        Keyed by the index of the block, from 0.
    """

    blocks: dict[int, Memory] = field(default_factory=dict)


def bilstm(
    options: BiLstm, weights: Mapping[str, Tensor], x: Tensor, mask: Tensor, memory: Memory | None = None
) -> Tensor:
    """
    Run both LSTMs over the real tokens of each sentence.

    Parameters
    ----------
    options : BiLstm
    weights : mapping of str to tensor
        `input` (2, features, 4 * cells), `recurrent` (2, features, 4 * cells), `bias` (2, 4 * cells) and
        `projection` (2, cells, features), forward before backward; the gates are input, candidate,
        forget and output.
    x : tensor of shape (sentences, tokens, 2 * features)
    mask : bool tensor of shape (sentences, tokens)
        A sentence's tokens come first.
    memory : Memory, optional
        The initial state, replaced by the final one; None to start from zero and discard the final state.

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
        Zero where there is no token.
    """
    import torch

    lengths = mask.sum(1)
    order = lengths.argsort(descending=True, stable=True)
    back = order.argsort()
    position = torch.arange(mask.shape[1], device=mask.device)
    mirrored = torch.where(mask, lengths[:, None] - 1 - position, position)
    at_work = [n for n in (lengths > position[:, None]).sum(1).tolist() if n]
    sorted_mask = mask[order].T  # (tokens, sentences)

    # Sorted by length: the rows that are active at a step are always the first ones.
    below = _turned(halves(x), mirrored)[:, order].transpose(1, 2)[:, sorted_mask]
    h, c = _start(weights, len(mask), memory)
    steps, h, c = _run(
        options, weights, linear(below, weights["input"], weights["bias"]), at_work, h[:, order], c[:, order]
    )
    out = h.new_zeros(2, *sorted_mask.shape, h.shape[-1])
    out[:, sorted_mask] = steps
    layer = joined(_turned(out[:, :, back].transpose(1, 2), mirrored))
    if memory is not None:
        _write_down(memory, h[:, back], c[:, back])
    return x + layer if options.skip else layer


def _turned(x: Tensor, mirrored: Tensor) -> Tensor:
    """Reverse the tokens of the backward half of (2, sentences, tokens, features); its own inverse."""
    import torch

    return torch.stack([x[0], x[1].gather(1, mirrored[..., None].expand_as(x[1]))])


def _run(
    options: BiLstm, weights: Mapping[str, Tensor], gates: Tensor, at_work: list[int], h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Step through (2, real tokens, 4 * cells); return the outputs in this order, and the final states."""
    import torch

    steps: list[Tensor] = []
    ended: list[tuple[Tensor, Tensor]] = []
    for step, rows in zip(gates.split(at_work, 1), at_work, strict=True):
        ended.append((h[:, rows:], c[:, rows:]))
        i, j, f, o = torch.baddbmm(step, h[:, :rows], weights["recurrent"]).chunk(4, -1)
        # The forget gate was trained with 1 added to it, which is not in the stored bias.
        c = i.sigmoid() * j.tanh() + (f + 1).sigmoid() * c[:, :rows]
        c = _clipped(c, options.cell_clip)
        h = _clipped(torch.bmm(o.sigmoid() * c.tanh(), weights["projection"]), options.projection_clip)
        steps.append(h)
    ended.append((h, c))
    ends = (torch.cat(pieces, 1) for pieces in zip(*reversed(ended), strict=True))
    return torch.cat(steps, 1) if steps else h[:, :0], next(ends), next(ends)


def _clipped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


def _start(weights: Mapping[str, Tensor], rows: int, memory: Memory | None) -> tuple[Tensor, Tensor]:
    cells, features = weights["projection"].shape[1:]
    h, c = (weights["projection"].new_zeros(2, rows, size) for size in (features, cells))
    if memory is not None and memory.h is not None and memory.c is not None:
        if (memory.h.shape[-1], memory.c.shape[-1]) != (features, cells):
            raise InputError(
                f"state must come from this model, with {features} features and {cells} cells a direction, "
                f"but got {memory.h.shape[-1]} and {memory.c.shape[-1]}."
            )
        common = min(rows, memory.h.shape[1])
        h[:, :common], c[:, :common] = memory.h[:, :common].to(h), memory.c[:, :common].to(c)
    return h, c


def _write_down(memory: Memory, h: Tensor, c: Tensor) -> None:
    import torch

    if memory.h is not None and memory.c is not None:
        rows = h.shape[1]
        h, c = torch.cat([h, memory.h[:, rows:].to(h)], 1), torch.cat([c, memory.c[:, rows:].to(c)], 1)
    memory.h, memory.c = h.detach(), c.detach()
