"""Streaming of the rows of all layers, window by window in corpus order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..context import Progress
from ..corpora.examples import Example
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from ..errors import InputError, WorkError
from ..lazy import torch
from ..rows.planning import WINDOW, Rows, windows
from ..rows.selecting import Selection, row_keys, select, spans
from ..rows.tokenizing import TokenCache
from ..runtime import ahead, copied


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
    for prepared in ahead(_prepare(encoders, corpus, rows, first, window)):
        yield _run(encoders, prepared, budget)
        if progress is not None:
            progress("examples", prepared.examples, len(rows.ids))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """
    The tokens and rows of a window, before any model runs.

    Parameters
    ----------
    number : int
    start, stop : int
        As in `Window`.
    examples : int
        The number of examples up to the end of the window.
    tokenized : list of (list of Tokens)
        For each encoder, the tokens of every example with rows.
    selections : list of Selection
        For each encoder, the rows of these examples.
    """

    number: int
    start: int
    stop: int
    examples: int
    tokenized: list[list[Tokens]]
    selections: list[Selection]


def _prepare(
    encoders: Sequence[Encoder], corpus: Iterable[Example], rows: Rows, first: int, window: int
) -> Iterator[_Prepared]:
    """Tokenize the windows of a corpus and select their rows."""
    cache = rows.tokens or TokenCache(rows.options)
    for number, (start, examples) in enumerate(windows(corpus, window)):
        check_ids(rows, start, examples)
        if number < first:
            continue
        begin, end = (int(v) for v in np.searchsorted(rows.examples, [start, start + len(examples)]))
        # Examples without rows need not run.
        indices, places = np.unique(rows.examples[begin:end], return_inverse=True)
        keys = row_keys(places, rows.units[begin:end])
        tokenized = cache.tokenize(encoders, [examples[k - start] for k in indices], indices.tolist())
        yield _Prepared(
            number=number,
            start=begin,
            stop=end,
            examples=start + len(examples),
            tokenized=tokenized,
            selections=[
                select(tokens, rows.options, encoder.family.reads).keep(keys)
                for encoder, tokens in zip(encoders, tokenized, strict=True)
            ],
        )


def check_ids(rows: Rows, start: int, examples: Sequence[Example]) -> None:
    """Raise an error if the corpus is not the one the rows were planned on."""
    ids = [example.id for example in examples]
    if list(rows.ids[start : start + len(ids)]) != ids:
        raise InputError(
            "the corpus must be the one that the rows were planned on, but from example "
            f"{start} on it is another."
        )


def _run(encoders: Sequence[Encoder], window: _Prepared, budget: Budget) -> Window:
    layers = tuple(
        tuple(
            torch.empty((window.stop - window.start, width), device=encoder.device)
            for width in encoder.widths
        )
        for encoder in encoders
    )
    lengths = np.array([[len(tokens) for tokens in side] for side in window.tokenized], dtype=np.int64)
    longest = lengths.max(0).tolist() if lengths.size else []

    def work(part: Sequence[int]) -> None:
        for encoder, tokenized, selection, out in zip(
            encoders, window.tokenized, window.selections, layers, strict=True
        ):
            _fill(encoder, tokenized, selection, part, out)

    for batch in buckets(longest, budget.tokens):
        budget.run(batch, longest, work)
    return Window(
        number=window.number, start=window.start, stop=window.stop, layers=layers, tokens=budget.tokens
    )


def _fill(
    encoder: Encoder,
    tokenized: Sequence[Tokens],
    selection: Selection,
    part: Sequence[int],
    out: tuple[torch.Tensor, ...],
) -> None:
    """Run some examples of a window, and write their rows of every layer into the output arrays."""
    batch, device = [tokenized[k] for k in part], encoder.device
    length = max(len(tokens) for tokens in batch)
    begin = np.searchsorted(selection.examples, part)
    counts = np.searchsorted(selection.examples, part, side="right") - begin
    target = spans(begin, counts)
    sizes = selection.sizes[target]
    starts = np.cumsum(selection.sizes) - selection.sizes
    positions = selection.positions[spans(starts[target], sizes)]
    source = positions + length * np.repeat(np.repeat(np.arange(len(part)), counts), sizes)
    single = bool((sizes == 1).all())
    source_index, target_index, runs = (copied(a, device) for a in (source, target, np.cumsum(sizes) - sizes))
    weight = copied((1 / sizes).astype(np.float32)[:, None], device)

    def visit(layer: int, states: torch.Tensor) -> None:
        # Indexing copies, so that a later in-place operation cannot change the states.
        flat = states.reshape(-1, states.shape[-1])
        if single:
            picked = flat.index_select(0, source_index).float()
        else:
            # One thread sums a run: threads that add token by token would block each other.
            picked = torch.nn.functional.embedding_bag(source_index, flat.float(), runs, mode="sum").mul_(
                weight
            )
        out[layer].index_copy_(0, target_index, picked)

    encoder.run(batch, visit)


# Tokens per batch, padding included. Beyond the first, CPU caches overflow; the second fills a large GPU, and
# larger batches would hold more padding.
CPU_TOKENS, CUDA_TOKENS = 4096, 8192


def buckets(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """
    Group examples of similar length.

    Parameters
    ----------
    lengths : sequence of int
        The number of tokens of each example.
    budget : int
        The maximum number of tokens in a batch, padding included; a longer example is a batch by itself.

    Yields
    ------
    list of int
        Indices of examples, longest first, so that a lack of memory shows at once.

    Examples
    --------
    >>> list(buckets([3, 9, 4, 1], 12))
    [[1], [2, 0, 3]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda k: (-lengths[k], k)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class Budget:
    """
    The number of tokens per batch, halved each time memory runs out.

    Parameters
    ----------
    tokens : int
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def run(
        self, batch: Sequence[int], lengths: Sequence[int], work: Callable[[Sequence[int]], None]
    ) -> None:
        """Do the work on a batch, splitting it into smaller parts where it does not fit into memory."""
        waiting = [list(batch)]
        while waiting:
            part = waiting.pop(0)
            try:
                work(part)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if len(part) == 1:
                    raise WorkError(
                        f"one example of {lengths[part[0]]} tokens must fit the memory, but it ran out; try "
                        "a smaller longest=."
                    ) from error
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                self.tokens = max(self.tokens // 2, 1)
                half = (len(part) + 1) // 2
                waiting[:0] = [part[:half], part[half:]]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch reports it in several ways."""
    return isinstance(error, MemoryError) or bool(
        re.search(r"out of memory|can't allocate memory|DefaultCPUAllocator", str(error))
    )
