"""Streaming of the rows of all layers, window by window in corpus order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..context import Progress
from ..corpora.examples import Example
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from ..errors import InputError
from ..lazy import torch
from ..rows.planning import WINDOW, Rows, windows
from ..rows.selecting import Selection, select, tokenize
from .batches import CPU_TOKENS, CUDA_TOKENS, Budget, buckets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """
    Consecutive rows of all layers.

    Parameters
    ----------
    number : int
        The number of the window, from 0.
    start, stop : int
        The range of the window among all rows.
    layers : tuple of tuple of Tensor of shape (stop - start, features)
        For each encoder all of its layers in order; float32, on the encoder's device.
    tokens : int
        The token budget of a batch, reduced where memory ran out.
    """

    number: int
    start: int
    stop: int
    layers: tuple[tuple[torch.Tensor, ...], ...]
    tokens: int


def constant_layers(encoder: Encoder, rows: Rows) -> tuple[int, ...]:
    """
    Return the layers that are the same in every row, whatever the corpus, and so cannot be compared.

    The first token is the same in every example, so layer 0 of models that represent an example by it is
    constant.
    """
    constant = rows.options.kind == "cls" and encoder.family.reads == "first" and rows.options.framed
    return (0,) if constant else ()


def stream(
    encoders: Sequence[Encoder],
    corpus: Iterable[Example],
    rows: Rows,
    *,
    first: int = 0,
    window: int = WINDOW,
    tokens: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Window]:
    """
    Run encoders over a corpus and yield the rows of every layer.

    Parameters
    ----------
    encoders : sequence of Encoder
        All run on the same examples.
    corpus : iterable of Example
        The corpus that the rows were planned on.
    rows : Rows
    first : int
        The first window to run; earlier ones are skipped.
    window : int
        The number of examples in a window.
    tokens : int, optional
        The maximum number of tokens in a batch, padding included; chosen by device when absent.
    progress : callable, optional
        Called with the name of the step, the number of examples so far, and the total.

    Yields
    ------
    Window
        In corpus order. The rows do not depend on the batching of examples, except for rounding.
    """
    if tokens is None:
        on_gpu = {getattr(encoder.device, "type", "cpu") for encoder in encoders} == {"cuda"}
        tokens = CUDA_TOKENS if on_gpu else CPU_TOKENS
    budget = Budget(tokens)
    for number, (start, examples) in enumerate(windows(corpus, window)):
        check_ids(rows, start, examples)
        if number < first:
            continue
        yield _run(encoders, start, examples, rows, budget, number)
        if progress is not None:
            progress("examples", start + len(examples), len(rows.ids))


def check_ids(rows: Rows, start: int, examples: Sequence[Example]) -> None:
    """Raise an error if the corpus is not the one the rows were planned on."""
    ids = [example.id for example in examples]
    if list(rows.ids[start : start + len(ids)]) != ids:
        raise InputError(
            "the corpus must be the one that the rows were planned on, but from example "
            f"{start} on it is another."
        )


def _run(
    encoders: Sequence[Encoder],
    start: int,
    examples: list[Example],
    rows: Rows,
    budget: Budget,
    number: int,
) -> Window:
    begin, end = (int(v) for v in np.searchsorted(rows.examples, [start, start + len(examples)]))
    indices = [k for k in range(len(examples)) if start + k not in rows.skipped]
    units = [rows.of_example(start + k) for k in indices]
    # Examples without rows need not run.
    nonempty = [k for k, example_units in enumerate(units) if len(example_units)]
    offsets = np.cumsum([0, *(len(example_units) for example_units in units)])
    selected = [examples[k] for k in indices]
    sides: list[tuple[Encoder, list[Tokens], list[Selection], tuple[torch.Tensor, ...]]] = []
    for encoder in encoders:
        tokenized = tokenize(encoder, selected, rows.options) if selected else []
        reads = encoder.family.reads
        picks = [select(tokens, rows.options, reads).keep(units[k]) for k, tokens in enumerate(tokenized)]
        out = tuple(torch.empty((end - begin, width), device=encoder.device) for width in encoder.widths)
        sides.append((encoder, tokenized, picks, out))
    longest = [max(len(tokenized[k]) for _, tokenized, _, _ in sides) for k in range(len(selected))]

    def work(part: Sequence[int]) -> None:
        starts = [int(offsets[k]) for k in part]
        for encoder, tokenized, picks, out in sides:
            _fill(encoder, [tokenized[k] for k in part], [picks[k] for k in part], starts, out)

    for batch in buckets([longest[k] for k in nonempty], budget.tokens):
        budget.run([nonempty[k] for k in batch], longest, work)
    layers = tuple(out for *_, out in sides)
    return Window(number=number, start=begin, stop=end, layers=layers, tokens=budget.tokens)


def _fill(
    encoder: Encoder,
    batch: list[Tokens],
    picks: list[Selection],
    offsets: list[int],
    out: tuple[torch.Tensor, ...],
) -> None:
    """Run one batch, and write the rows of every layer into the output arrays."""
    length = max(len(tokens) for tokens in batch)
    device = encoder.device
    source = np.concatenate([k * length + pick.positions for k, pick in enumerate(picks)])
    target = np.concatenate([o + np.arange(len(p.sizes)) for o, p in zip(offsets, picks, strict=True)])
    sizes = np.concatenate([pick.sizes for pick in picks])
    source_index, target_index = (torch.from_numpy(array).to(device) for array in (source, target))
    single = bool((sizes == 1).all())
    # Many short runs of rows are summed: on the CPU, threads that add row by row block each other.
    bags = device.type == "cpu"
    runs = np.cumsum(sizes) - sizes if bags else np.repeat(np.arange(len(sizes)), sizes)
    segment = torch.from_numpy(runs).to(device)
    weight = torch.from_numpy(1 / sizes).to(device=device, dtype=torch.float32)[:, None]

    def visit(layer: int, states: torch.Tensor) -> None:
        # Indexing copies, so that a later in-place operation cannot change the states.
        flat = states.reshape(-1, states.shape[-1])
        if single:
            picked = flat.index_select(0, source_index).float()
        elif bags:
            picked = torch.nn.functional.embedding_bag(source_index, flat.float(), segment, mode="sum").mul_(
                weight
            )
        else:
            total = torch.zeros((len(sizes), flat.shape[1]), device=device)
            picked = total.index_add_(0, segment, flat.index_select(0, source_index).float()).mul_(weight)
        out[layer].index_copy_(0, target_index, picked)

    encoder.run(batch, visit)
