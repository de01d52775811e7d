"""How does an example become what a model reads? Tokens, what is right in their terms, and how long it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoders.tokens import Tokenizer, Tokens, Window
from ..errors import InputError, must
from ..randomness import generator
from ..tasks.items import Item
from ..tasks.task import Task
from .losses import HIDDEN
from .spans import span_targets

if TYPE_CHECKING:
    import torch

MASKED = 0.15
_STRIDE = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """
    One example, or one window of it, as a model reads it. Its length is that of its tokens.

    Parameters
    ----------
    item : int
        Which of the given examples it is of.
    tokens : tuple of Tokens
        One; in multiple choice one a choice.
    targets : mapping of str to ndarray
        What is right: `labels`; `starts` and `ends`; `heads` and `relations`. Empty where it is hidden.
    words : ndarray of int of shape (words,), optional
        The token that stands for each word; -1 where none does.
    offsets : ndarray of int of shape (tokens, 2), optional
        Span: where each token of the passage begins and ends in it; -1 for other tokens.
    null : int
        Span: the token that stands for "no answer in this window".
    lost : int
        Words without a token: cut off, or of nothing that the tokenizer knows.
    pad : int
    typed : bool
        Whether the model is told which of two texts a token is of.
    """

    item: int
    tokens: tuple[Tokens, ...]
    targets: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    words: np.ndarray | None = None
    offsets: np.ndarray | None = None
    null: int = 0
    lost: int = 0
    pad: int = 0
    typed: bool = False

    def __len__(self) -> int:
        return max(len(each) for each in self.tokens)


def encode(
    items: Sequence[Item],
    task: Task,
    tokenizer: Tokenizer,
    *,
    longest: int | None = None,
    stride: int | None = None,
    words: Literal["first", "last"] = "last",
    mask: int | None = None,
    seed: int = 0,
) -> list[Features]:
    """
    Turn examples into what a model reads.

    Parameters
    ----------
    items : sequence of Item
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    longest : int, optional
        Tokens at most; the model's own limit when absent. Of two texts the longer is cut first; of a
        question and its passage only the passage, into windows; of a sentence of words the end.
    stride : int, optional
        Tokens that neighboring windows share. When absent 128 for spans, a quarter of the limit where
        that is less, and half of the limit for language modeling.
    words : {"last", "first"}
        The sub-word that stands for a word.
    mask : int, optional
        Language modeling: the token that hides 15 % of the others, which are to be guessed (`mask` of a
        TaskModel). When absent every token is foretold from those before it.
    seed : int
        For the choice of hidden tokens, which depends on it and on the example's id alone.

    Returns
    -------
    list of Features
        In the order of the examples; several in a row where an example has several windows.
    """
    if words not in ("first", "last"):
        raise must("words", "'first' or 'last'", words)
    limit = tokenizer.longest if longest is None else min(longest, tokenizer.longest or longest)
    if task.kind == "span":
        overlap = stride if stride is not None else min(_STRIDE, (limit or 4 * _STRIDE) // 4)
        found = _spans(items, tokenizer, longest, overlap)
    elif task.kind == "language_modeling":
        overlap = stride if stride is not None else (limit or 0) // 2
        found = _language(items, tokenizer, longest, overlap, mask, seed)
    elif task.kind in ("tagging", "parsing"):
        found = _words(items, task, tokenizer, longest, words)
    elif task.kind == "multiple_choice":
        found = _choices(items, tokenizer, longest)
    else:
        found = _sequences(items, task, tokenizer, longest)
    make = partial(Features, pad=tokenizer.pad, typed=tokenizer.typed)
    return [make(**each) for each in found]


def _pair(item: Item, texts: tuple[str, ...]) -> tuple[str, str | None]:
    if len(texts) not in (1, 2):
        raise InputError(f"an example must have one text or two, but {item.id!r} has {len(texts)}.")
    return texts[0], texts[1] if len(texts) == 2 else None


def _some(tokens: Tokens, pad: int) -> Tokens:
    """An empty text without special tokens still needs something to be read."""
    if len(tokens):
        return tokens
    one = np.zeros(1, dtype=np.int64)
    return Tokens(ids=one + pad, types=one, words=one - 1, special=np.ones(1, dtype=bool))


def _sequences(items: Sequence[Item], task: Task, tokenizer: Tokenizer, longest: int | None) -> list[Any]:
    kind: Any = np.float32 if task.kind == "regression" else np.int64
    found = tokenizer.texts([_pair(item, item.texts) for item in items], longest=longest)
    return [
        {"item": place, "tokens": (_some(one, tokenizer.pad),), "targets": _label(item, kind)}
        for place, (item, one) in enumerate(zip(items, found, strict=True))
    ]


def _label(item: Item, kind: Any) -> dict[str, np.ndarray]:
    return {} if item.target is None else {"labels": np.asarray(item.target, dtype=kind)}


def _choices(items: Sequence[Item], tokenizer: Tokenizer, longest: int | None) -> list[Any]:
    pairs = [_pair(item, choice) for item in items for choice in item.choices]
    found = iter(tokenizer.texts(pairs, longest=longest))
    return [
        {
            "item": place,
            "tokens": tuple(_some(next(found), tokenizer.pad) for _ in item.choices),
            "targets": _label(item, np.int64),
        }
        for place, item in enumerate(items)
    ]


def _words(
    items: Sequence[Item], task: Task, tokenizer: Tokenizer, longest: int | None, which: str
) -> list[Any]:
    found = tokenizer.words([item.words for item in items], longest=longest)
    out = []
    for place, (item, one) in enumerate(zip(items, found, strict=True)):
        at = np.full(len(item.words), -1)
        tokens = np.flatnonzero(one.words >= 0)
        # Of several assignments to one place the last one stays.
        order = tokens if which == "last" else tokens[::-1]
        at[one.words[order]] = order
        targets = {}
        if item.target is not None:
            given = np.asarray(item.target, dtype=np.int64).reshape(len(item.words), -1)
            given = np.where(at[:, None] >= 0, given, HIDDEN)
            targets = {"labels": given[:, 0]}
            if task.kind == "parsing":
                # A head that was cut off cannot be chosen.
                heads = given[:, 0]
                gone = (heads > 0) & (at[np.maximum(heads, 1) - 1] < 0)
                shown = np.where(gone[:, None], HIDDEN, given)
                targets = {"heads": shown[:, 0], "relations": shown[:, 1]}
        some = _some(one, tokenizer.pad)
        lost = int((at < 0).sum())
        out.append({"item": place, "tokens": (some,), "targets": targets, "words": at, "lost": lost})
    return out


def _spans(items: Sequence[Item], tokenizer: Tokenizer, longest: int | None, stride: int) -> list[Any]:
    for item in items:
        if len(item.texts) != 2:
            raise InputError(
                f"an example must have a question and a passage, but {item.id!r} has {len(item.texts)} texts."
            )
    found = tokenizer.windows([(i.texts[0], i.texts[1]) for i in items], longest=longest, stride=stride)
    return [
        {
            "item": place,
            "tokens": (window.tokens,),
            "offsets": window.offsets,
            "null": (null := _null(window.tokens)),
            "targets": {} if item.target is None else span_targets(item.target, window.offsets, null),
        }
        for place, (item, windows) in enumerate(zip(items, found, strict=True))
        for window in windows
    ]


def _null(tokens: Tokens) -> int:
    """
    The first token, or the last where only that is special, as in XLNet.

    Without special tokens it is the first of the question: it sees nothing in a causal model, so "no
    answer" is a threshold that is learned, but it can never be taken for an answer.
    """
    return len(tokens) - 1 if tokens.special[-1] and not tokens.special[0] else 0


def _language(
    items: Sequence[Item], tokenizer: Tokenizer, longest: int | None, stride: int, mask: int | None, seed: int
) -> list[Any]:
    found = tokenizer.windows([_pair(i, i.texts) for i in items], longest=longest, stride=stride)
    out = []
    for place, (item, windows) in enumerate(zip(items, found, strict=True)):
        for number, window in enumerate(windows):
            tokens, labels = _guessed(window, mask, lambda n=number, i=item: generator(seed, "mask", i.id, n))
            some = _some(tokens, tokenizer.pad)
            labels = labels if len(labels) else np.full(1, HIDDEN)
            out.append({"item": place, "tokens": (some,), "targets": {"labels": labels}})
    return out


def _guessed(
    window: Window, mask: int | None, draw: Callable[[], np.random.Generator]
) -> tuple[Tokens, np.ndarray]:
    """Say which tokens of a window count: none twice, none special, and, with a mask, a few that it hides."""
    tokens = window.tokens
    inside = np.flatnonzero(window.offsets[:, 0] >= 0)
    counted = inside[window.shared :]
    if mask is None or not len(counted):
        chosen = counted
    else:
        size = max(1, round(MASKED * len(counted)))
        chosen = np.sort(draw().choice(counted, size=size, replace=False))
    labels = np.full(len(tokens), HIDDEN)
    labels[chosen] = tokens.ids[chosen]
    if mask is None:
        return tokens, labels
    ids = tokens.ids.copy()
    ids[chosen] = mask
    hidden = Tokens(ids=ids, types=tokens.types, words=tokens.words, special=tokens.special)
    return hidden, labels


def collate(
    features: Sequence[Features], device: Any = "cpu", *, multiple: int = 1, longest: int | None = None
) -> dict[str, torch.Tensor]:
    """
    Put examples side by side, short ones filled up at the end.

    Parameters
    ----------
    features : sequence of Features
        Of one task.
    device : str or torch.device
    multiple : int
        Tokens and words are filled up to a multiple of it, so that shapes come again.
    longest : int, optional
        Tokens that the model takes; nothing is filled up beyond it.

    Returns
    -------
    dict of str to Tensor
        `input_ids`, `attention_mask`, `special`, and `token_type_ids` where the model reads them, of shape
        (examples, tokens), or (examples, choices, tokens) in multiple choice; `choices`, of shape
        (examples, choices), where some examples have fewer than others; `words`, of shape (examples,
        words); the targets, where all examples have them.
    """
    import torch

    most = max(len(each.tokens) for each in features)
    length = max(len(each) for each in features)
    filled = -(-length // multiple) * multiple
    length = max(length, filled if longest is None else min(filled, longest))
    shape = len(features), most, length
    first = features[0]
    ids = np.full(shape, first.pad, dtype=np.int64)
    mask, types = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    special, there = np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=bool)
    for row, each in enumerate(features):
        for choice in range(most):
            # A choice that is not there is read as the first one, and never counted.
            one = each.tokens[choice if choice < len(each.tokens) else 0]
            end = len(one)
            ids[row, choice, :end], mask[row, choice, :end] = one.ids, 1
            types[row, choice, :end], special[row, choice, :end] = one.types, one.special
        there[row, : len(each.tokens)] = True
    out = {"input_ids": ids, "attention_mask": mask, "special": special}
    if first.typed:
        out["token_type_ids"] = types
    if most == 1:
        out = {name: array[:, 0] for name, array in out.items()}
    elif not there.all():
        out["choices"] = there
    if first.words is not None:
        out["words"] = _side_by_side([each.words for each in features], -1, multiple)
    for name in first.targets:
        if all(name in each.targets for each in features):
            arrays = [each.targets[name] for each in features]
            out[name] = _side_by_side(arrays, HIDDEN, multiple) if arrays[0].ndim else np.stack(arrays)
    return {name: torch.from_numpy(array).to(device, non_blocking=True) for name, array in out.items()}


def _side_by_side(arrays: Sequence[Any], fill: int, multiple: int) -> np.ndarray:
    longest = -(-max(1, *(len(each) for each in arrays)) // multiple) * multiple
    out = np.full((len(arrays), longest), fill, dtype=np.int64)
    for row, each in enumerate(arrays):
        out[row, : len(each)] = each
    return out
