"""Which rows do all models have? Found before any of them runs, and proved by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError, must
from ..randomness import generator
from .documents import document_codes
from .options import RowOptions
from .selecting import select, tokenize, words_of

if TYPE_CHECKING:
    from ..corpora.examples import Example
    from ..encoders.encoder import Encoder

# Examples handled at a time: enough to sort by length, few enough to hold all layers of.
WINDOW = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """
    The rows that every model of a comparison has, in the order of the corpus.

    Parameters
    ----------
    options : RowOptions
    examples : ndarray of int of shape (rows,)
        The example of each row, by its place in the corpus.
    units : ndarray of int of shape (rows,)
        The word or token inside the example; 0 for a row of the whole example.
    ids : tuple of str
        Ids of all examples that were read, by their place.
    lost : mapping of str to int
        Words or examples that each model has no whole row for; they are dropped in all.
    truncated : mapping of str to int
        Examples that were longer than each model reads.
    candidates : int
        Words, tokens or examples before any was dropped.
    skipped : tuple of int
        Places of examples that were left out because they came before.
    groups : tuple of str
        What clusters each example that was read, such as its document, by its place; empty where the corpus
        tells of nothing. It is no part of the digest: rows are the same whatever they are grouped by.
    """

    options: RowOptions
    examples: np.ndarray
    units: np.ndarray
    ids: tuple[str, ...]
    lost: Mapping[str, int]
    truncated: Mapping[str, int]
    candidates: int
    skipped: frozenset[int] = frozenset()
    groups: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def clusters(self) -> np.ndarray:
        """Which rows are of one document, where the corpus has enough of them, and else of one example."""
        codes, _ = self._documents()
        return self.examples if codes is None else codes

    @property
    def unit(self) -> str:
        """What is independent: "document", or the "sentence" of words and tokens, or the "example"."""
        return self.noun if self._documents()[0] is None else "document"

    @property
    def noun(self) -> str:
        """What one example of the corpus is called."""
        return "sentence" if self.options.kind in ("word", "token") else "example"

    @property
    def few(self) -> str:
        """Why documents are not taken as independent, though there are some; else empty."""
        return self._documents()[1]

    def extent(self) -> str:
        """Say of how many sentences the rows are, and of how many documents where these are the unit."""
        codes, _ = self._documents()
        told = f"{len(np.unique(self.examples)):,} {self.noun}s"
        return told if codes is None else f"{told} in {int(codes.max()) + 1:,} documents"

    def _documents(self) -> tuple[np.ndarray | None, str]:
        if not self.groups:
            return None, ""
        return document_codes(self.examples, self.ids, self.groups, self.noun)

    @property
    def digest(self) -> str:
        """A hash of which word or example each row is: equal digests, same rows."""
        found = hashlib.blake2b(digest_size=16)
        for place in np.unique(self.examples):
            found.update(f"{self.ids[place]}\x1f".encode())
        found.update(np.ascontiguousarray(self.examples, "<i8").tobytes())
        found.update(np.ascontiguousarray(self.units, "<i8").tobytes())
        return found.hexdigest()

    def among(self, others: Rows) -> Rows:
        """The rows of words, tokens or examples that others, of the same corpus, have rows of too."""
        wide = 1 + int(max(self.units.max(initial=0), others.units.max(initial=0)))
        kept = np.isin(self.examples * wide + self.units, others.examples * wide + others.units)
        return replace(self, examples=self.examples[kept], units=self.units[kept])

    def of_example(self, place: int) -> np.ndarray:
        """Units of one example that have rows."""
        start, stop = np.searchsorted(self.examples, [place, place + 1])
        return self.units[start:stop]

    def sentence(self) -> str:
        """Say how many rows there are, and how many were lost."""
        lost = [f"{count:,} in {name}" for name, count in self.lost.items() if count]
        dropped = f"; dropped in all models, since lost in one: {', '.join(lost)}" if lost else ""
        cut = [f"{count:,} in {name}" for name, count in self.truncated.items() if count]
        short = f"; examples cut at the longest input: {', '.join(cut)}" if cut else ""
        return f"{len(self):,} rows ({self.options.sentence()}){dropped}{short}"


def windows(corpus: Iterable[Example], size: int = WINDOW) -> Iterator[tuple[int, list[Example]]]:
    """Read a corpus some examples at a time, each with the place of its first one."""
    source, start = iter(corpus), 0
    while window := list(islice(source, size)):
        yield start, window
        start += len(window)


def plan_rows(
    corpus: Iterable[Example],
    encoders: Sequence[Encoder],
    options: RowOptions,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Rows:
    """
    Find the rows that all models have.

    Parameters
    ----------
    corpus : iterable of Example
    encoders : sequence of Encoder
        With names that differ.
    options : RowOptions
    progress : callable, optional
        Called with what is done, how much of it, and how much there is (0: unknown).

    Returns
    -------
    Rows
    """
    _check(encoders, options)
    lost, truncated = ({encoder.name: 0 for encoder in encoders} for _ in range(2))
    ids: list[str] = []
    groups: list[str] = []
    places, units, skipped = [], [], set()
    candidates, seen = 0, set()
    for start, window in windows(corpus):
        ids += [example.id for example in window]
        groups += [example.group for example in window]
        if options.distinct:
            window, start_of = _distinct(window, start, seen, skipped)
        else:
            start_of = list(range(start, start + len(window)))
        tokens = {encoder.name: tokenize(encoder, window, options) for encoder in encoders}
        for number, (example, place) in enumerate(zip(window, start_of, strict=True)):
            found = {
                encoder.name: select(tokens[encoder.name][number], options, encoder.family.reads).units
                for encoder in encoders
            }
            everything = _candidates(example, options, found)
            kept = everything
            for encoder in encoders:
                lost[encoder.name] += len(np.setdiff1d(everything, found[encoder.name]))
                truncated[encoder.name] += tokens[encoder.name][number].truncated
                kept = np.intersect1d(kept, found[encoder.name])
            if options.subword == "each":
                own = next(iter(found.values()))
                kept = own[np.isin(own, kept)]
            candidates += len(everything)
            places.append(np.full(len(kept), place, dtype=np.int64))
            units.append(kept)
        if progress is not None:
            progress("words", len(ids), 0)
    if not ids:
        raise InputError("a corpus must hold at least one example, but it is empty.")
    if len(set(ids)) != len(ids):
        raise InputError("ids of examples must differ, but one stands twice.")
    if not sum(map(len, units)):
        raise InputError(
            "a corpus must have at least one row that every model has, but it has none; of "
            f"{candidates:,} there were lost: {', '.join(f'{n:,} in {name}' for name, n in lost.items())}."
        )
    rows = Rows(
        options=options,
        examples=np.concatenate(places),
        units=np.concatenate(units),
        ids=tuple(ids),
        lost=MappingProxyType(lost),
        truncated=MappingProxyType(truncated),
        candidates=candidates,
        skipped=frozenset(skipped),
        groups=() if groups == ids else tuple(groups),
    )
    return _sampled(rows, options)


def _check(encoders: Sequence[Encoder], options: RowOptions) -> None:
    if not encoders:
        raise InputError("a comparison must have at least one model, but got none.")
    names = [encoder.name for encoder in encoders]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"names of models must differ, but {twice[0]!r} stands twice; give one with name=.")
    if options.kind == "token" or options.subword == "each":
        cut = {encoder.cuts for encoder in encoders}
        if len(cut) > 1:
            raise InputError(
                "rows of tokens must come from models with one tokenizer, but these cut texts in different "
                "ways; use rows='word'."
            )


def _distinct(
    window: list[Example], start: int, seen: set[tuple[str, ...]], skipped: set[int]
) -> tuple[list[Example], list[int]]:
    kept, places = [], []
    for place, example in enumerate(window, start):
        words = tuple(words_of(example))
        if words in seen:
            skipped.add(place)
            continue
        seen.add(words)
        kept.append(example)
        places.append(place)
    return kept, places


def _candidates(example: Example, options: RowOptions, found: Mapping[str, np.ndarray]) -> np.ndarray:
    if options.kind == "word":
        return np.arange(len(words_of(example)))
    if options.kind == "token":
        return next(iter(found.values()))
    return np.zeros(1, np.int64)


def _sampled(rows: Rows, options: RowOptions) -> Rows:
    if options.sample is None:
        return rows
    if options.sample > len(rows):
        raise must("sample", f"at most the {len(rows)} rows that there are", options.sample)
    drawn = generator(options.seed, "rows").choice(len(rows), options.sample, replace=False)
    drawn.sort()
    return replace(rows, examples=rows.examples[drawn], units=rows.units[drawn])
