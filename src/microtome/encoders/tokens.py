"""Which sub-words does a word become, and which word is each sub-word of?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must

if TYPE_CHECKING:
    import tokenizers
    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """
    One example as a model reads it.

    Parameters
    ----------
    ids : ndarray of int of shape (tokens,), or (tokens, characters) where words are spelled
    types : ndarray of int of shape (tokens,)
        Which of two texts each token is of.
    words : ndarray of int of shape (tokens,)
        The word each token is a part of, from 0; -1 where it is of none, and for words that were cut.
    special : ndarray of bool of shape (tokens,)
        Tokens that the model adds to every text.
    truncated : bool
        Whether the example was longer than the model reads.
    """

    ids: np.ndarray
    types: np.ndarray
    words: np.ndarray
    special: np.ndarray
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """
    A stretch of a text, with the whole of another one before it where there are two.

    Parameters
    ----------
    tokens : Tokens
    offsets : ndarray of int of shape (tokens, 2)
        Where each token of the stretch begins and ends in its text, in characters; -1 for all others.
    shared : int
        How many tokens of the stretch the window before has too.
    """

    tokens: Tokens
    offsets: np.ndarray
    shared: int = 0


class Tokenizer:
    """
    Turns words or texts into tokens, always in the same way: owns a tokenizer that nobody else changes.

    Parameters
    ----------
    backend : tokenizers.Tokenizer
    pad : int
        What fills short examples up; attention never sees it.
    longest : int, optional
        Tokens that the model reads at most, special ones included.
    typed : bool
        Whether the model is told which of two texts a token is of.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, *, pad: int = 0, longest: int | None = None, typed: bool = False
    ) -> None:
        self._whole = type(backend).from_str(backend.to_str())
        self._whole.no_padding()
        self._whole.no_truncation()
        self._cut: dict[tuple[int, bool], tokenizers.Tokenizer] = {}
        self.pad, self.longest, self.typed = pad, longest, typed
        # Byte-level vocabularies hold a word with the space before it: the first one must get it too.
        self._space = "ByteLevel" in str(self._whole.pre_tokenizer)

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._whole.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def json(self) -> str:
        """The tokenizer as its library writes it into a file, without filling up and without a limit."""
        return self._whole.to_str()

    @property
    def cuts(self) -> str:
        """A hash of how a text is cut, whatever its length."""
        return hashlib.blake2b(self._whole.to_str().encode(), digest_size=16).hexdigest()

    @property
    def digest(self) -> str:
        """A hash of everything that decides what the model is given."""
        said = f"{self.cuts}|{self.pad}|{self.longest}|{self.typed}"
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()

    def words(
        self, sentences: Sequence[Sequence[str]], *, special: bool = True, longest: int | None = None
    ) -> list[Tokens]:
        """
        Cut sentences that are split into words already.

        Parameters
        ----------
        sentences : sequence of sequences of str
        special : bool
            Whether the tokens that the model adds to every text are added.
        longest : int, optional
            A smaller limit than the model's own.

        Returns
        -------
        list of Tokens
            Of a word in which the cut falls no sub-word counts as a part.
        """
        given = [[f" {_plain(w)}" if self._space and w else _plain(w) for w in words] for words in sentences]
        found = self._whole.encode_batch(given, is_pretokenized=True, add_special_tokens=special)
        limit = self._limit(longest)
        return [
            self._shortened(words, one, limit, special) if limit is not None and len(one.ids) > limit
            else _tokens(one, True)
            for words, one in zip(given, found, strict=True)
        ]  # fmt: skip

    def texts(
        self,
        texts: Sequence[tuple[str, str | None]],
        *,
        special: bool = True,
        longest: int | None = None,
    ) -> list[Tokens]:
        """
        Cut texts, or pairs of texts, as the model's own tokenizer would.

        Parameters
        ----------
        texts : sequence of (str, str or None)
            Of a pair that is too long, the longer text is cut first.
        special, longest
            As in `words`.

        Returns
        -------
        list of Tokens
            Without words.
        """
        given = [_plain(one) if two is None else (_plain(one), _plain(two)) for one, two in texts]
        found = self._whole.encode_batch(given, add_special_tokens=special)
        limit = self._limit(longest)
        out = []
        for text, one in zip(given, found, strict=True):
            truncated = limit is not None and len(one.ids) > limit
            if limit is not None and truncated:
                (one,) = self._cutting(limit, special).encode_batch([text], add_special_tokens=special)
            out.append(_tokens(one, False, truncated=truncated))
        return out

    def windows(
        self, texts: Sequence[tuple[str, str | None]], *, longest: int | None = None, stride: int = 0
    ) -> list[list[Window]]:
        """
        Cut texts, or the second of two, into windows that the model can read.

        Parameters
        ----------
        texts : sequence of (str, str or None)
            Of two texts the first stands whole in every window; if it would leave less than half of the
            room, or no more than `stride` tokens, for the second, its end is cut off.
        longest : int, optional
            As in `words`.
        stride : int
            Tokens that two neighboring windows share.

        Returns
        -------
        list of (list of Window)
            In the order of the text, all of which is in one window or another.
        """
        limit = self._limit(longest)
        if isinstance(stride, bool) or not isinstance(stride, int) or stride < 0:
            raise must("stride", "a whole number of at least 0", stride)
        given: list[Any] = []
        for one, two in texts:
            room = None
            if limit is not None:
                room = limit - self._whole.num_special_tokens_to_add(is_pair=two is not None)
                if room < stride + 2:
                    least = limit - room + stride + 2
                    raise must("longest", f"at least {least} for a stride of {stride}", limit)
            if two is not None and room is not None:
                one = self._begin(one, room - max(stride + 1, room // 2))
            given.append(_plain(one) if two is None else (_plain(one), _plain(two)))
        found = self._whole.encode_batch(given)
        return [
            _windows(encoding, int(two is not None), limit, stride)
            for encoding, (_, two) in zip(found, texts, strict=True)
        ]

    def _begin(self, text: str, tokens: int) -> str:
        """The text up to a number of tokens."""
        found = self._whole.encode(_plain(text), add_special_tokens=False)
        return text if len(found.ids) <= tokens else text[: found.offsets[tokens - 1][1]]

    def collate(self, batch: Sequence[Tokens], device: Any = "cpu") -> dict[str, torch.Tensor]:
        """
        Put examples side by side, short ones filled up at the end.

        Returns
        -------
        dict of str to Tensor of shape (examples, longest)
            `input_ids`, `attention_mask`, and `token_type_ids` where the model reads them.
        """
        import torch

        shape = len(batch), max((len(one) for one in batch), default=0)
        ids, mask, types = np.full(shape, self.pad), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, one in enumerate(batch):
            ids[row, : len(one)], mask[row, : len(one)], types[row, : len(one)] = one.ids, 1, one.types
        found = {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if self.typed else {})
        return {name: torch.from_numpy(array).to(device) for name, array in found.items()}

    def _limit(self, longest: int | None) -> int | None:
        if longest is None:
            return self.longest
        if not isinstance(longest, int) or longest < 1:
            raise must("longest", "a whole number above 0", longest)
        return longest if self.longest is None else min(longest, self.longest)

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

    def _shortened(self, words: list[str], whole: Any, limit: int, special: bool) -> Tokens:
        (cut,) = self._cutting(limit, special).encode_batch(
            [words], is_pretokenized=True, add_special_tokens=special
        )
        found, before = _tokens(cut, True, truncated=True), _tokens(whole, True)
        counts = [np.bincount(one.words[one.words >= 0], minlength=len(words)) for one in (found, before)]
        halved = np.flatnonzero(counts[0] != counts[1])
        found.words[np.isin(found.words, halved)] = -1
        return found


def _plain(text: str) -> str:
    """A text that can be written as UTF-8: half of a surrogate pair, which JSON can bring, becomes a mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokens(encoding: Any, words: bool, *, truncated: bool = False) -> Tokens:
    given = encoding.word_ids if words else [None] * len(encoding.ids)
    return Tokens(
        ids=np.array(encoding.ids, dtype=np.int64),
        types=np.array(encoding.type_ids, dtype=np.int64),
        words=np.array([-1 if word is None else word for word in given], dtype=np.int64),
        special=np.array(encoding.special_tokens_mask, dtype=bool),
        truncated=truncated,
    )


def _windows(encoding: Any, text: int, limit: int | None, stride: int) -> list[Window]:
    """Take stretches of a text out of the whole, each with all that stands around the text."""
    whole = _tokens(encoding, False)
    inside = np.flatnonzero([each == text for each in encoding.sequence_ids])
    offsets = np.full((len(whole), 2), -1)
    offsets[inside] = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)[inside]
    if limit is None or len(whole) <= limit or not len(inside):
        return [Window(tokens=whole, offsets=offsets)]
    first, end, room = inside[0], inside[-1] + 1, limit - len(whole) + len(inside)
    out = []
    for start in range(first, max(end - stride, first + 1), room - stride):
        stretch = np.arange(start, min(start + room, end))
        kept = np.concatenate([np.arange(first), stretch, np.arange(end, len(whole))])
        part = Tokens(
            ids=whole.ids[kept],
            types=whole.types[kept],
            words=whole.words[kept],
            special=whole.special[kept],
            truncated=True,
        )
        out.append(Window(tokens=part, offsets=offsets[kept], shared=stride if out else 0))
    return out


def check_fit(tokenizer: Tokenizer, entries: int, name: str) -> None:
    """
    Refuse a tokenizer that was made for another vocabulary.

    Parameters
    ----------
    tokenizer : Tokenizer
    entries : int
        Rows of the model's table of embeddings.
    name : str
        How errors call the model.
    """
    size = tokenizer.size
    if not entries / 2 <= size <= entries:
        raise InputError(
            f"the tokenizer of {name} must have a vocabulary for its {entries} embeddings, but it has {size} "
            "entries; give another one with tokenizer=."
        )
