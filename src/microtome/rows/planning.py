"""Planning of the rows that all models have in common, before any model runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import check_distinct
from ..context import Context
from ..corpora.examples import Example
from ..encoders.encoder import TRAINED, Encoder
from ..errors import InputError, must
from ..randomness import generator
from .documents import document_codes
from .selecting import RowOptions, Selection, is_pair, row_keys, select, spans, split_keys, words_of
from .tokenizing import TokenCache

# Examples handled at a time: enough to sort by length, few enough to keep all layers in memory.
WINDOW = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """
    The rows that every model of a comparison has, in corpus order.

    Parameters
    ----------
    options : RowOptions
    examples : ndarray of int of shape (rows,)
        The index in the corpus of the example of each row.
    units : ndarray of int of shape (rows,)
        The word or token within the example; 0 for a row of a whole example.
    ids : tuple of str
        Ids of all examples that were read.
    lost : mapping of str to int
        For each model, the number of words or examples without a complete row; all models drop them.
    truncated : mapping of str to int
        For each model, the number of examples that were truncated.
    candidates : int
        The number of words, tokens or examples before any was dropped.
    skipped : frozenset of int
        Indices of examples that were left out as duplicates.
    paired : bool
        Whether words come from two texts, which a model reads as a sentence pair.
    groups : tuple of str
        The cluster of each example that was read, such as its document; empty where the corpus names none.
        It is not part of the digest: rows are the same however they are grouped.
    tokens : TokenCache, optional
        Tokens from planning, for the models that are run on the rows.
    """

    options: RowOptions
    examples: np.ndarray
    units: np.ndarray
    ids: tuple[str, ...]
    lost: Mapping[str, int]
    truncated: Mapping[str, int]
    candidates: int
    skipped: frozenset[int] = frozenset()
    paired: bool = False
    groups: tuple[str, ...] = ()
    tokens: TokenCache | None = None

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def clusters(self) -> np.ndarray:
        """The cluster of each row: its document where the corpus has enough of them, else its example."""
        codes, _ = self._documents()
        return self.examples if codes is None else codes

    @property
    def unit(self) -> str:
        """The independent unit: "document", "sentence" (for words and tokens) or "example"."""
        return self.noun if self._documents()[0] is None else "document"

    @property
    def noun(self) -> str:
        """The noun for one example of the corpus."""
        return "sentence" if self.options.kind in ("word", "token") else "example"

    @property
    def few(self) -> str:
        """Why the documents of the corpus are not used as clusters; empty where they are, or it has none."""
        return self._documents()[1]

    def extent(self) -> str:
        """Describe the number of sentences, and of documents where these are the independent unit."""
        codes, _ = self._documents()
        count = f"{len(np.unique(self.examples)):,} {self.noun}s"
        return count if codes is None else f"{count} in {int(codes.max()) + 1:,} documents"

    def _documents(self) -> tuple[np.ndarray | None, str]:
        if not self.groups:
            return None, ""
        return document_codes(self.examples, self.ids, self.groups, self.noun)

    @property
    def digest(self) -> str:
        """A hash of the example and the unit of each row: equal digests mean the same rows."""
        hasher = hashlib.blake2b(digest_size=16)
        for index in np.unique(self.examples):
            hasher.update(f"{self.ids[index]}\x1f".encode())
        hasher.update(np.ascontiguousarray(self.examples, "<i8").tobytes())
        hasher.update(np.ascontiguousarray(self.units, "<i8").tobytes())
        return hasher.hexdigest()

    def among(self, others: Rows) -> Rows:
        """Return the rows whose word, token or example is also among other rows of the same corpus."""
        mask = np.isin(row_keys(self.examples, self.units), row_keys(others.examples, others.units))
        return replace(self, examples=self.examples[mask], units=self.units[mask])

    def of_example(self, place: int) -> np.ndarray:
        """Return the units of one example that have rows."""
        start, stop = np.searchsorted(self.examples, [place, place + 1])
        return self.units[start:stop]

    def sentence(self) -> str:
        """Describe the number of rows, and how many were lost."""
        lost = [f"{count:,} in {name}" for name, count in self.lost.items() if count]
        dropped = f"; dropped in all models, since lost in one: {', '.join(lost)}" if lost else ""
        cut = [f"{count:,} in {name}" for name, count in self.truncated.items() if count]
        short = f"; examples cut at the longest input: {', '.join(cut)}" if cut else ""
        return f"{len(self):,} rows ({self.options.sentence()}){dropped}{short}"


def windows(corpus: Iterable[Example], size: int = WINDOW) -> Iterator[tuple[int, list[Example]]]:
    """Yield the corpus in windows of examples, each with the index of its first example."""
    source, start = iter(corpus), 0
    while window := list(islice(source, size)):
        yield start, window
        start += len(window)


def input_length(encoders: Iterable[Encoder], longest: int | None = None) -> int | None:
    """
    Return the maximum input length for a comparison of models.

    It is the same for similarity maps and for layer curves.

    Parameters
    ----------
    encoders : iterable of Encoder
    longest : int, optional
        The user's choice.

    Returns
    -------
    int or None
        The user's choice, else the smallest length the models were fine-tuned with; None where none was
        fine-tuned, which stands for the maximum input length of each model.
    """
    if longest is not None:
        return longest
    return min((e.source.facts[TRAINED] for e in encoders if TRAINED in e.source.facts), default=None)


def plan_rows(
    corpus: Iterable[Example],
    encoders: Sequence[Encoder],
    options: RowOptions,
    context: Context | None = None,
) -> Rows:
    """
    Find the rows that all models have.

    Parameters
    ----------
    corpus : iterable of Example
    encoders : sequence of Encoder
        Their names must differ.
    options : RowOptions
    context : Context, optional
        Its progress is called with the number of examples so far.

    Returns
    -------
    Rows
    """
    _check(encoders, options)
    lost, truncated = ({encoder.name: 0 for encoder in encoders} for _ in range(2))
    ids: list[str] = []
    groups: list[str] = []
    keys: list[np.ndarray] = []
    skipped: set[int] = set()
    candidates, seen, paired = 0, set(), False
    cache = TokenCache(options)
    for start, window in windows(corpus):
        ids += [example.id for example in window]
        groups += [example.group for example in window]
        paired = paired or (options.kind == "word" and any(is_pair(example) for example in window))
        indices = list(range(start, start + len(window)))
        if options.distinct:
            window, indices = _distinct(window, start, seen, skipped)
        tokenized = cache.tokenize(encoders, window, indices)
        selections = [
            select(tokens, options, encoder.family.reads)
            for encoder, tokens in zip(encoders, tokenized, strict=True)
        ]
        window_keys = _candidates(window, options, selections[0])
        candidates += len(window_keys)
        common = np.ones(len(window_keys), dtype=bool)
        for encoder, tokens, selection in zip(encoders, tokenized, selections, strict=True):
            present = np.isin(window_keys, selection.keys)
            lost[encoder.name] += int((~present).sum())
            truncated[encoder.name] += sum(example_tokens.truncated for example_tokens in tokens)
            common &= present
        window_keys = window_keys[common]
        if options.subword == "each":
            window_keys = selections[0].keep(window_keys).keys
        examples, units = split_keys(window_keys)
        keys.append(row_keys(np.array(indices, dtype=np.int64)[examples], units))
        if context is not None and context.progress is not None:
            context.progress("words", len(ids), 0)
    if not ids:
        raise InputError("a corpus must hold at least one example, but it is empty.")
    check_distinct("ids of examples", ids)
    if not sum(map(len, keys)):
        raise InputError(
            "a corpus must have at least one row that every model has, but it has none; of "
            f"{candidates:,} there were lost: {', '.join(f'{n:,} in {name}' for name, n in lost.items())}."
        )
    examples, units = split_keys(np.concatenate(keys))
    rows = Rows(
        options=options,
        examples=examples,
        units=units,
        ids=tuple(ids),
        lost=MappingProxyType(lost),
        truncated=MappingProxyType(truncated),
        candidates=candidates,
        skipped=frozenset(skipped),
        paired=paired,
        groups=() if groups == ids else tuple(groups),
        tokens=cache,
    )
    return _sampled(rows, options)


def plan_at_most(
    corpus: Iterable[Example],
    encoders: Sequence[Encoder],
    options: RowOptions,
) -> Rows:
    """Find the rows that all models have, and sample them only where there are more than the sample size."""
    options = replace(options, longest=input_length(encoders, options.longest))
    rows = plan_rows(corpus, encoders, replace(options, sample=None))
    if options.sample is None or options.sample >= len(rows):
        return rows
    return _sampled(replace(rows, options=options), options)


def _check(encoders: Sequence[Encoder], options: RowOptions) -> None:
    if not encoders:
        raise InputError("a comparison must have at least one model, but got none.")
    check_distinct("names of models", (encoder.name for encoder in encoders), "; give one with name=")
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
    distinct_examples, indices = [], []
    for index, example in enumerate(window, start):
        words = tuple(words_of(example))
        if words in seen:
            skipped.add(index)
            continue
        seen.add(words)
        distinct_examples.append(example)
        indices.append(index)
    return distinct_examples, indices


def _candidates(examples: Sequence[Example], options: RowOptions, first: Selection) -> np.ndarray:
    """Keys of all words, of the tokens of the first model, or of whole examples."""
    if options.kind == "token":
        return first.keys
    counts = np.array([len(words_of(e)) if options.kind == "word" else 1 for e in examples], dtype=np.int64)
    return row_keys(np.repeat(np.arange(len(counts)), counts), spans(np.zeros_like(counts), counts))


def _sampled(rows: Rows, options: RowOptions) -> Rows:
    if options.sample is None:
        return rows
    if options.sample > len(rows):
        raise must("sample", f"at most the {len(rows)} rows that there are", options.sample)
    indices = generator(options.seed, "rows").choice(len(rows), options.sample, replace=False)
    indices.sort()
    return replace(rows, examples=rows.examples[indices], units=rows.units[indices])


def row_cost(
    encoders: Sequence[Encoder], rows: Rows, *, storage: str = "float32", kept: bool = True
) -> tuple[str, dict[str, Any]]:
    """
    Count models, layers and rows and, where rows are kept in the store, their bytes on disk.

    Parameters
    ----------
    encoders : sequence of Encoder
    rows : Rows
    storage : str
        How rows are stored on disk.
    kept : bool
        Whether they are stored.

    Returns
    -------
    sentence : str
    summary : dict
        The same as plain data.
    """
    layers = sum(len(encoder.layers) for encoder in encoders)
    width = 4 if storage == "float32" else 2
    size = width * len(rows) * sum(sum(encoder.widths) for encoder in encoders) if kept else 0
    models = f"{len(encoders)} model{'' if len(encoders) == 1 else 's'}"
    sentence = f"{models}, {layers} layers, {rows.sentence()}"
    if kept:
        sentence += f": about {max(size / 1e6, 1):,.0f} MB of {storage} rows in the store"
    return sentence, {
        "models": [encoder.name for encoder in encoders],
        "layers": layers,
        "rows": len(rows),
        "bytes": size,
        "lost": dict(rows.lost),
        "truncated": dict(rows.truncated),
    }
