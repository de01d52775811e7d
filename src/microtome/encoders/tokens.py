"""Tokenization of words, texts and text pairs, with the word of each token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..checks import whole_number
from ..errors import InputError, must
from ..lazy import tokenizers, torch
from ..runtime import copied

# Ids lie below; the library lists every id that is missing below the largest, and aborts without memory.
_MOST_IDS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """
    One tokenized example.

    Parameters
    ----------
    ids : ndarray of int of shape (tokens,), or (tokens, characters) where words are spelled
    types : ndarray of int of shape (tokens,)
        Which of two texts each token belongs to.
    words : ndarray of int of shape (tokens,)
        The word of each token, from 0; -1 for tokens outside words, and for truncated words.
    special : ndarray of bool of shape (tokens,)
        Tokens that the model adds to every text.
    truncated : bool
        Whether the example was truncated to the maximal length.
    """

    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    special: np.ndarray
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenWindow:
    """
    A window of a text, preceded by the whole first text where there are two.

    Parameters
    ----------
    tokens : Tokens
    offsets : ndarray of int of shape (tokens, 2)
        Where each token of the window begins and ends in its text, in characters; -1 for all others.
    shared : int
        How many tokens the window shares with the previous one.
    """

    tokens: Tokens
    offsets: np.ndarray
    shared: int = 0


class Tokenizer:
    """
    Tokenizer with a fixed configuration: it owns a copy of its backend, which nothing else modifies.

    Parameters
    ----------
    backend : tokenizers.Tokenizer
    pad : int
        The id of the padding token, which is masked in attention.
    longest : int, optional
        The maximal number of tokens, special ones included.
    typed : bool
        Whether the model takes token type ids.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, *, pad: int = 0, longest: int | None = None, typed: bool = False
    ) -> None:
        with _library_failures():
            largest = max(backend.get_vocab(with_added_tokens=True).values(), default=0)
            if largest >= _MOST_IDS:
                raise must("ids of a tokenizer", f"below {_MOST_IDS:,}", largest)
            self._whole = type(backend).from_str(backend.to_str())
        self._whole.no_padding()
        self._whole.no_truncation()
        self._cut: dict[tuple[int, bool], tokenizers.Tokenizer] = {}
        self.pad, self.longest, self.typed = pad, longest, typed
        # Byte-level vocabularies hold a word with the space before it: the first word needs one too.
        self._space = "ByteLevel" in str(self._whole.pre_tokenizer)

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._whole.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def json(self) -> str:
        """The serialized tokenizer, without padding and truncation."""
        return self._whole.to_str()

    @cached_property
    def cuts(self) -> str:
        """Hash of the tokenization, irrespective of the maximal length."""
        return hashlib.blake2b(self._whole.to_str().encode(), digest_size=16).hexdigest()

    @property
    def digest(self) -> str:
        """Hash of everything that determines the inputs of the model."""
        settings = f"{self.cuts}|{self.pad}|{self.longest}|{self.typed}"
        return hashlib.blake2b(settings.encode(), digest_size=16).hexdigest()

    def words(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        second: Sequence[int | None] | None = None,
        special: bool = True,
        longest: int | None = None,
    ) -> list[Tokens]:
        """
        Tokenize sentences that are already split into words.

        Parameters
        ----------
        sentences : sequence of sequences of str
        second : sequence of (int or None), optional
            The index of the first word of the second text of each sentence; None where there is one text. Two
            texts are joined as the model's own tokenizer does it, and the longer is truncated first.
        special : bool
            Whether special tokens are added.
        longest : int, optional
            A maximal length below the model's own.

        Returns
        -------
        list of Tokens
            The tokens of a word that is truncated have no word index.
        """
        spaced = [[f" {_plain(w)}" if self._space and w else _plain(w) for w in words] for words in sentences]
        begins = [None] * len(spaced) if second is None else list(second)
        inputs = [w if at is None else (w[:at], w[at:]) for w, at in zip(spaced, begins, strict=True)]
        encodings = self._encoded(inputs, longest, is_pretokenized=True, add_special_tokens=special)
        return [
            _tokens(encoding, True, second=at) if cut is None else _whole_words(encoding, cut, at)
            for (encoding, cut), at in zip(encodings, begins, strict=True)
        ]

    def texts(
        self,
        texts: Sequence[tuple[str, str | None]],
        *,
        special: bool = True,
        longest: int | None = None,
    ) -> list[Tokens]:
        """
        Tokenize texts, or pairs of texts, as the model's own tokenizer would.

        Parameters
        ----------
        texts : sequence of (str, str or None)
            Of a pair that is too long, the longer text is truncated first.
        special, longest
            As in `words`.

        Returns
        -------
        list of Tokens
            Without word indices.
        """
        inputs = [
            _plain(first) if second is None else (_plain(first), _plain(second)) for first, second in texts
        ]
        encodings = self._encoded(inputs, longest, add_special_tokens=special)
        return [
            _tokens(encoding if cut is None else cut, False, truncated=cut is not None)
            for encoding, cut in encodings
        ]

    def windows(
        self, texts: Sequence[tuple[str, str | None]], *, longest: int | None = None, stride: int = 0
    ) -> list[list[TokenWindow]]:
        """
        Split texts, or the second of two, into windows of at most the maximal length.

        Parameters
        ----------
        texts : sequence of (str, str or None)
            The first of two texts is part of every window; if it would leave less than half of the tokens, or
            no more than `stride` tokens, for the second, it is truncated.
        longest : int, optional
            As in `words`.
        stride : int
            Tokens that two neighboring windows share.

        Returns
        -------
        list of (list of Window)
            In the order of the text; together they cover it.
        """
        limit = self._limit(longest)
        whole_number("stride", stride, 0)
        inputs: list[Any] = []
        for first, second in texts:
            room = None
            if limit is not None:
                room = limit - self._whole.num_special_tokens_to_add(is_pair=second is not None)
                if room < stride + 2:
                    least = limit - room + stride + 2
                    raise must("longest", f"at least {least} for a stride of {stride}", limit)
            if second is not None and room is not None:
                first = self._begin(first, room - max(stride + 1, room // 2))
            inputs.append(_plain(first) if second is None else (_plain(first), _plain(second)))
        encodings = _encode(self._whole, inputs)
        return [
            _windows(encoding, int(second is not None), limit, stride)
            for encoding, (_, second) in zip(encodings, texts, strict=True)
        ]

    def _begin(self, text: str, tokens: int) -> str:
        """Truncate a text to a number of tokens."""
        encoding = self._whole.encode(_plain(text), add_special_tokens=False)
        return text if len(encoding.ids) <= tokens else text[: encoding.offsets[tokens - 1][1]]

    def collate(self, batch: Sequence[Tokens], device: Any = "cpu") -> dict[str, torch.Tensor]:
        """
        Collate examples into a batch, padded at the end.

        Returns
        -------
        dict of str to Tensor of shape (examples, longest)
            `input_ids`, `attention_mask`, and `token_type_ids` where the model takes them.
        """
        lengths = np.array([len(example) for example in batch], dtype=np.int64)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        ids, types = np.full(mask.shape, self.pad), np.zeros(mask.shape, np.int64)
        if batch:
            ids[mask] = np.concatenate([example.ids for example in batch])
            types[mask] = np.concatenate([example.types for example in batch])
        arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        if self.typed:
            arrays["token_type_ids"] = types
        return {name: copied(array, device) for name, array in arrays.items()}

    def _limit(self, longest: int | None) -> int | None:
        if longest is None:
            return self.longest
        whole_number("longest", longest, 1)
        return longest if self.longest is None else min(longest, self.longest)

    def _encoded(
        self, inputs: Sequence[Any], longest: int | None, **options: bool
    ) -> Iterator[tuple[Any, Any | None]]:
        """Encode inputs, and those that are too long once more, truncated."""
        encodings, limit = _encode(self._whole, inputs, **options), self._limit(longest)
        for text, encoding in zip(inputs, encodings, strict=True):
            cut = None
            if limit is not None and len(encoding.ids) > limit:
                (cut,) = self._cutting(limit, options["add_special_tokens"]).encode_batch([text], **options)
            yield encoding, cut

    def _cutting(self, limit: int, special: bool) -> tokenizers.Tokenizer:
        key = limit, special
        if key not in self._cut:
            added = self._whole.num_special_tokens_to_add(is_pair=False) if special else 0
            if limit <= added:
                raise must("longest", f"above the {added} tokens that every text gets", limit)
            cutting = type(self._whole).from_str(self._whole.to_str())
            cutting.enable_truncation(limit)
            self._cut[key] = cutting
        return self._cut[key]


def _encode(tokenizer: Any, inputs: Sequence[Any], **options: Any) -> list[Any]:
    with _library_failures():
        return tokenizer.encode_batch(inputs, **options)


@contextmanager
def _library_failures() -> Iterator[None]:
    """Refuse a tokenizer.json that the library reads and then fails on."""
    try:
        yield
    except BaseException as error:
        # A panic of its Rust code is no Exception to Python; other errors have no class of their own.
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"tokenizer.json must be whole, but its library failed: {error}.") from error


def _plain(text: str) -> str:
    """Make a text encodable as UTF-8: lone surrogates, which JSON may contain, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokens(encoding: Any, words: bool, *, second: int | None = None, truncated: bool = False) -> Tokens:
    word_ids = encoding.word_ids if words else [None] * len(encoding.ids)
    if second is not None:
        # Words of the second text are counted from 0 again.
        texts = encoding.sequence_ids
        word_ids = [
            w + second if w is not None and t == 1 else w for w, t in zip(word_ids, texts, strict=True)
        ]
    return Tokens(
        ids=np.array(encoding.ids, dtype=np.int64),
        types=np.array(encoding.type_ids, dtype=np.int64),
        words=np.array([-1 if word is None else word for word in word_ids], dtype=np.int64),
        special=np.array(encoding.special_tokens_mask, dtype=bool),
        truncated=truncated,
    )


def _whole_words(encoding: Any, cut: Any, second: int | None) -> Tokens:
    """Return the tokens of a truncated encoding, of which those of a word that is cut have no word."""
    tokens, full = _tokens(cut, True, second=second, truncated=True), _tokens(encoding, True, second=second)
    size = int(full.words.max(initial=-1)) + 1
    left, whole = (np.bincount(part.words[part.words >= 0], minlength=size) for part in (tokens, full))
    tokens.words[np.isin(tokens.words, np.flatnonzero(left != whole))] = -1
    return tokens


def _windows(encoding: Any, text: int, limit: int | None, stride: int) -> list[TokenWindow]:
    """Split one text of an encoding into windows, each with all tokens outside the text."""
    tokens = _tokens(encoding, False)
    inside = np.flatnonzero([sequence == text for sequence in encoding.sequence_ids])
    offsets = np.full((len(tokens), 2), -1)
    offsets[inside] = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)[inside]
    if limit is None or len(tokens) <= limit or not len(inside):
        return [TokenWindow(tokens=tokens, offsets=offsets)]
    first, end, room = inside[0], inside[-1] + 1, limit - len(tokens) + len(inside)
    out = []
    for start in range(first, max(end - stride, first + 1), room - stride):
        stretch = np.arange(start, min(start + room, end))
        positions = np.concatenate([np.arange(first), stretch, np.arange(end, len(tokens))])
        part = Tokens(
            ids=tokens.ids[positions],
            types=tokens.types[positions],
            words=tokens.words[positions],
            special=tokens.special[positions],
            truncated=True,
        )
        out.append(TokenWindow(tokens=part, offsets=offsets[positions], shared=stride if out else 0))
    return out


def check_fit(tokenizer: Tokenizer, entries: int, name: str) -> None:
    """
    Raise if a tokenizer was made for another vocabulary.

    Parameters
    ----------
    tokenizer : Tokenizer
    entries : int
        Rows of the model's embedding matrix.
    name : str
        The name of the model in error messages.
    """
    size = tokenizer.size
    if not entries / 2 <= size <= entries:
        raise InputError(
            f"the tokenizer of {name} must have a vocabulary for its {entries} embeddings, but it has {size} "
            "entries; give another one with tokenizer=."
        )
