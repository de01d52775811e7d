"""Character ids of ELMo, and the mask of the real tokens of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InputError, must
from ...lazy import torch

WORD = 50  # ids of a token
CHARACTERS = 262  # rows of a table of characters: 0 for "no token", then the 261 ids below, each plus one
SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = 257, 258, 259, 260, 261
BEGIN, END = "<S>", "</S>"


def character_ids(sentences: Sequence[Sequence[str]]) -> torch.Tensor:
    """
    Encode sentences as the character ids that every ELMo reads.

    A token is its UTF-8 bytes, at most 48 of them, between markers of its begin and end. Each sentence gets a
    token for its begin and one for its end; the words `<S>` and `</S>` mean these same tokens.

    Parameters
    ----------
    sentences : sequence of sequences of str
        The words of each sentence; a sentence may be empty.

    Returns
    -------
    int64 tensor of shape (sentences, longest + 2, 50)
        Positions after a sentence's end are 0.

    Examples
    --------
    >>> ids = character_ids([["Hi", "!"], []])
    >>> ids.shape
    torch.Size([2, 4, 50])
    >>> ids[0, 1, :5].tolist()
    [259, 73, 106, 260, 261]
    """
    import numpy as np

    for sentence in sentences:
        _check_sentence(sentence)
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = np.zeros((len(sentences), longest + 2, WORD), dtype=np.int64)
    spellings: dict[str, list[int]] = {}
    for row, sentence in zip(ids, sentences, strict=True):
        for token_ids, word in zip(row, [BEGIN, *sentence, END], strict=False):
            if word not in spellings:
                spellings[word] = _word_ids(word)
            token_ids[:] = spellings[word]
    return torch.from_numpy(ids)


def _check_sentence(sentence: object) -> None:
    if isinstance(sentence, str) or not isinstance(sentence, Sequence):
        raise must("each of the sentences", "a list of words", sentence)
    for word in sentence:
        if not isinstance(word, str):
            raise must("each word of the sentences", "a string", word)


def _word_ids(word: str) -> list[int]:
    if word in (BEGIN, END):
        middle = [SENTENCE_BEGIN if word == BEGIN else SENTENCE_END]
    else:
        # A lone surrogate has no bytes in UTF-8; the released code drops it too.
        middle = [byte + 1 for byte in word.encode("utf-8", "ignore")[: WORD - 2]]
    ids = [WORD_BEGIN, *middle, WORD_END]
    return ids + [PADDING] * (WORD - len(ids))


def real_tokens(ids: torch.Tensor) -> torch.Tensor:
    """
    Return the mask of the positions that hold a token; raise if the ids are not character ids.

    Parameters
    ----------
    ids : integer tensor of shape (sentences, tokens, 50)

    Returns
    -------
    bool tensor of shape (sentences, tokens)
    """
    if ids.ndim != 3 or ids.shape[-1] != WORD:
        raise must("ids", f"of the shape (sentences, tokens, {WORD})", tuple(ids.shape))
    if ids.is_floating_point() or ids.is_complex():
        raise must("ids", "whole numbers", str(ids.dtype))
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < CHARACTERS:
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise must("ids", f"between 0 and {CHARACTERS - 1}", wrong)
    mask = (ids > 0).any(-1)
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise InputError(
            "ids must be padded after a sentence's last token, but got an empty token before it."
        )
    return mask
