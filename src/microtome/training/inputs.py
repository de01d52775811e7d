"""Encoding of examples as model inputs: tokens, targets, and padded batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..encoders.tokens import Tokenizer, Tokens, TokenWindow
from ..errors import InputError
from ..lazy import torch
from ..randomness import generator
from ..tasks.task import Item, Task

MASKED = 0.15
# Targets with this value are ignored.
HIDDEN = -100
_STRIDE = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """
    Model input of one example, or of one window of it. Its length is its number of tokens.

    Parameters
    ----------
    item : int
        Index of the example.
    tokens : tuple of Tokens
        One; in multiple choice one per choice.
    targets : mapping of str to ndarray
        `labels`; `starts` and `ends`; `heads` and `relations`. Empty for examples without a target.
    words : ndarray of int of shape (words,), optional
        The token that represents each word; -1 where there is none: truncated, or dropped by the tokenizer.
    offsets : ndarray of int of shape (tokens, 2), optional
        Span: the range of characters of each token of the passage; -1 for other tokens.
    null : int
        Span: the token that represents "no answer in this window".
    pad : int
    typed : bool
        Whether the model reads token type ids, which distinguish two texts.
    """

    item: int
    tokens: tuple[Tokens, ...]
    targets: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    words: np.ndarray | None = None
    offsets: np.ndarray | None = None
    null: int = 0
    pad: int = 0
    typed: bool = False

    def __len__(self) -> int:
        return max(len(tokens) for tokens in self.tokens)

    @property
    def padded_size(self) -> int:
        """Number of tokens with those that pad the choices to one length."""
        return len(self) * len(self.tokens)


def encode(
    items: Sequence[Item],
    task: Task,
    tokenizer: Tokenizer,
    *,
    longest: int | None = None,
    stride: int | None = None,
    mask: int | None = None,
    seed: int = 0,
) -> list[Features]:
    """
    Encode examples as model inputs.

    Parameters
    ----------
    items : sequence of Item
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    longest : int, optional
        Maximum number of tokens; the model's own limit when absent. Of two texts the longer one is truncated
        first; of a question and its passage only the passage is split, into windows; a sentence of words is
        truncated at the end.
    stride : int, optional
        Tokens that neighboring windows share. When absent 128 for spans, a quarter of the limit where
        that is less, and half of the limit for language modeling.
    mask : int, optional
        Language modeling: the token that masks 15 % of the others, which are to be predicted (`mask` of a
        TaskModel). When absent every token is predicted from those before it.
    seed : int
        For the choice of masked tokens, which depends only on the seed and the example's id.

    Returns
    -------
    list of Features
        In the order of the examples; the windows of an example are consecutive.
    """
    limit = tokenizer.longest if longest is None else min(longest, tokenizer.longest or longest)
    if task.kind == "span":
        overlap = stride if stride is not None else min(_STRIDE, (limit or 4 * _STRIDE) // 4)
        encoded = _spans(items, tokenizer, longest, overlap)
    elif task.kind == "language_modeling":
        overlap = stride if stride is not None else (limit or 0) // 2
        encoded = _language(items, tokenizer, longest, overlap, mask, seed)
    elif task.kind in ("tagging", "parsing"):
        encoded = _words(items, task, tokenizer, longest)
    elif task.kind == "multiple_choice":
        encoded = _choices(items, tokenizer, longest)
    else:
        encoded = _sequences(items, task, tokenizer, longest)
    make = partial(Features, pad=tokenizer.pad, typed=tokenizer.typed)
    return [make(**fields) for fields in encoded]


def _pair(item: Item, texts: tuple[str, ...]) -> tuple[str, str | None]:
    if len(texts) not in (1, 2):
        raise InputError(f"an example must have one text or two, but {item.id!r} has {len(texts)}.")
    return texts[0], texts[1] if len(texts) == 2 else None


def _some(tokens: Tokens, pad: int) -> Tokens:
    """Replace an empty text without special tokens by a padding token, since a model needs some input."""
    if len(tokens):
        return tokens
    zero = np.zeros(1, dtype=np.int64)
    return Tokens(ids=zero + pad, types=zero, words=zero - 1, special=np.ones(1, dtype=bool))


def _sequences(items: Sequence[Item], task: Task, tokenizer: Tokenizer, longest: int | None) -> list[Any]:
    kind: Any = np.float32 if task.kind == "regression" else np.int64
    encoded = tokenizer.texts([_pair(item, item.texts) for item in items], longest=longest)
    return [
        {"item": index, "tokens": (_some(tokens, tokenizer.pad),), "targets": _label(item, kind)}
        for index, (item, tokens) in enumerate(zip(items, encoded, strict=True))
    ]


def _label(item: Item, kind: Any) -> dict[str, np.ndarray]:
    return {} if item.target is None else {"labels": np.asarray(item.target, dtype=kind)}


def _choices(items: Sequence[Item], tokenizer: Tokenizer, longest: int | None) -> list[Any]:
    pairs = [_pair(item, choice) for item in items for choice in item.choices]
    encoded = iter(tokenizer.texts(pairs, longest=longest))
    return [
        {
            "item": index,
            "tokens": tuple(_some(next(encoded), tokenizer.pad) for _ in item.choices),
            "targets": _label(item, np.int64),
        }
        for index, item in enumerate(items)
    ]


def _words(items: Sequence[Item], task: Task, tokenizer: Tokenizer, longest: int | None) -> list[Any]:
    encoded = tokenizer.words([item.words for item in items], longest=longest)
    out = []
    for index, (item, sentence) in enumerate(zip(items, encoded, strict=True)):
        positions = np.full(len(item.words), -1)
        tokens = np.flatnonzero(sentence.words >= 0)
        # The last sub-word represents a word: of several assignments to the same index the last one wins.
        positions[sentence.words[tokens]] = tokens
        targets = {}
        if item.target is not None:
            gold = np.asarray(item.target, dtype=np.int64).reshape(len(item.words), -1)
            gold = np.where(positions[:, None] >= 0, gold, HIDDEN)
            targets = {"labels": gold[:, 0]}
            if task.kind == "parsing":
                # A head that was truncated cannot be predicted.
                heads = gold[:, 0]
                gone = (heads > 0) & (positions[np.maximum(heads, 1) - 1] < 0)
                visible = np.where(gone[:, None], HIDDEN, gold)
                targets = {"heads": visible[:, 0], "relations": visible[:, 1]}
        nonempty = _some(sentence, tokenizer.pad)
        out.append({"item": index, "tokens": (nonempty,), "targets": targets, "words": positions})
    return out


def _spans(items: Sequence[Item], tokenizer: Tokenizer, longest: int | None, stride: int) -> list[Any]:
    for item in items:
        if len(item.texts) != 2:
            raise InputError(
                f"an example must have a question and a passage, but {item.id!r} has {len(item.texts)} texts."
            )
    item_windows = tokenizer.windows(
        [(i.texts[0], i.texts[1]) for i in items], longest=longest, stride=stride
    )
    return [
        {
            "item": index,
            "tokens": (window.tokens,),
            "offsets": window.offsets,
            "null": (null := _null(window.tokens)),
            "targets": {} if item.target is None else span_targets(item.target, window.offsets, null),
        }
        for index, (item, windows) in enumerate(zip(items, item_windows, strict=True))
        for window in windows
    ]


def _null(tokens: Tokens) -> int:
    """
    Index of the "no answer" token: the first one, or the last where only that is special.

    Without special tokens it is the first token of the question: in a causal model it attends to nothing
    else, so "no answer" is a learned threshold, but it can never be confused with an answer.
    """
    return len(tokens) - 1 if tokens.special[-1] and not tokens.special[0] else 0


def _language(
    items: Sequence[Item], tokenizer: Tokenizer, longest: int | None, stride: int, mask: int | None, seed: int
) -> list[Any]:
    item_windows = tokenizer.windows([_pair(i, i.texts) for i in items], longest=longest, stride=stride)
    out = []
    for index, (item, windows) in enumerate(zip(items, item_windows, strict=True)):
        for number, window in enumerate(windows):
            tokens, labels = _guessed(window, mask, lambda n=number, i=item: generator(seed, "mask", i.id, n))
            nonempty = _some(tokens, tokenizer.pad)
            labels = labels if len(labels) else np.full(1, HIDDEN)
            out.append({"item": index, "tokens": (nonempty,), "targets": {"labels": labels}})
    return out


def _guessed(
    window: TokenWindow, mask: int | None, draw: Callable[[], np.random.Generator]
) -> tuple[Tokens, np.ndarray]:
    """Choose the tokens of a window to predict: none twice, none special and, with a mask, a random few."""
    tokens = window.tokens
    inside = np.flatnonzero(window.offsets[:, 0] >= 0)
    counted = inside[window.shared :]
    if mask is None or not len(counted):
        positions = counted
    else:
        size = max(1, round(MASKED * len(counted)))
        positions = np.sort(draw().choice(counted, size=size, replace=False))
    labels = np.full(len(tokens), HIDDEN)
    labels[positions] = tokens.ids[positions]
    if mask is None:
        return tokens, labels
    ids = tokens.ids.copy()
    ids[positions] = mask
    hidden = Tokens(ids=ids, types=tokens.types, words=tokens.words, special=tokens.special)
    return hidden, labels


def by_length(
    features: Sequence[Features], budget: int, size: Callable[[Features], int] = len
) -> Iterator[list[int]]:
    """Group examples of similar length, the longest first: memory runs out at once or not at all."""
    order = sorted(range(len(features)), key=lambda index: -len(features[index]))
    done = 0
    while done < len(order):
        count = max(1, budget // max(1, size(features[order[done]])))
        yield order[done : done + count]
        done += count


def collate(
    features: Sequence[Features], device: Any = "cpu", *, multiple: int = 1, longest: int | None = None
) -> dict[str, torch.Tensor]:
    """
    Collate examples into a batch, padded at the end.

    Parameters
    ----------
    features : sequence of Features
        Of one task.
    device : str or torch.device
    multiple : int
        Tokens and words are padded to a multiple of it, so that shapes recur.
    longest : int, optional
        Maximum length of the model, which padding does not exceed.

    Returns
    -------
    dict of str to Tensor
        `input_ids`, `attention_mask`, `special`, and `token_type_ids` where the model reads them, of shape
        (examples, tokens), or (examples, choices, tokens) in multiple choice; `choices`, of shape
        (examples, choices), where some examples have fewer than others; `words`, of shape (examples,
        words); the targets, where all examples have them.
    """
    most = max(len(feature.tokens) for feature in features)
    length = max(len(feature) for feature in features)
    filled = -(-length // multiple) * multiple
    length = max(length, filled if longest is None else min(filled, longest))
    shape = len(features), most, length
    first = features[0]
    ids = np.full(shape, first.pad, dtype=np.int64)
    mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    special, present = np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=bool)
    for row, feature in enumerate(features):
        for choice in range(most):
            # A missing choice is read as the first one, and never counted.
            tokens = feature.tokens[choice if choice < len(feature.tokens) else 0]
            end = len(tokens)
            ids[row, choice, :end], mask[row, choice, :end] = tokens.ids, 1
            types[row, choice, :end], special[row, choice, :end] = tokens.types, tokens.special
        present[row, : len(feature.tokens)] = True
    out = {"input_ids": ids, "attention_mask": mask, "special": special}
    if first.typed:
        out["token_type_ids"] = types
    if most == 1:
        out = {name: array[:, 0] for name, array in out.items()}
    elif not present.all():
        out["choices"] = present
    if first.words is not None:
        out["words"] = _side_by_side([feature.words for feature in features], -1, multiple)
    for name in first.targets:
        if all(name in feature.targets for feature in features):
            arrays = [feature.targets[name] for feature in features]
            out[name] = _side_by_side(arrays, HIDDEN, multiple) if arrays[0].ndim else np.stack(arrays)
    return {name: torch.from_numpy(array).to(device, non_blocking=True) for name, array in out.items()}


def _side_by_side(arrays: Sequence[Any], fill: int, multiple: int) -> np.ndarray:
    longest = -(-max(1, *(len(array) for array in arrays)) // multiple) * multiple
    padded = np.full((len(arrays), longest), fill, dtype=np.int64)
    for row, array in enumerate(arrays):
        padded[row, : len(array)] = array
    return padded


def span_targets(answers: Sequence[tuple[int, str]], offsets: np.ndarray, null: int) -> dict[str, np.ndarray]:
    """
    Find the tokens of an answer in a window.

    Parameters
    ----------
    answers : sequence of (int, str)
        Start of each answer in the passage, in characters, and its text. The first one is the target.
    offsets : ndarray of int of shape (tokens, 2)
        Ranges of characters of the tokens of the passage; -1 for others.
    null : int
        The target where the window does not contain the complete answer, or there is no answer.

    Returns
    -------
    dict of str to ndarray
        `starts` and `ends`: first and last token.
    """
    first = last = null
    if len(answers):
        start, text = answers[0]
        # Tokens may hold the space before a word, so an answer may begin inside of one.
        begin, end = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
        inside = offsets[:, 0] >= 0
        over = np.flatnonzero(inside & (offsets[:, 1] > begin) & (offsets[:, 0] < end))
        window = offsets[inside]
        complete = len(over) and window[:, 0].min() <= begin and window[:, 1].max() >= end
        if complete:
            first, last = int(over[0]), int(over[-1])
    return {"starts": np.asarray(first, dtype=np.int64), "ends": np.asarray(last, dtype=np.int64)}
