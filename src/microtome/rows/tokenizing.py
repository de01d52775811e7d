"""Tokens of a corpus, made once for all models that tokenize alike."""

from __future__ import annotations

from collections.abc import Sequence

from ..corpora.examples import Example
from ..encoders.encoder import Encoder
from ..encoders.tokens import Tokens
from .selecting import RowOptions, tokenize

# Ids that are kept for a later reading of the corpus: about 60 megabytes. Others are made again.
MOST_IDS = 2**20


class TokenCache:
    """
    The tokens of examples by their index in a corpus, as far as there is room for them.

    Parameters
    ----------
    options : RowOptions
        How examples are tokenized.
    """

    def __init__(self, options: RowOptions) -> None:
        self.options, self.room = options, MOST_IDS
        self.kept: dict[str, dict[int, Tokens]] = {}

    def tokenize(
        self, encoders: Sequence[Encoder], examples: Sequence[Example], indices: Sequence[int]
    ) -> list[list[Tokens]]:
        """
        Tokenize examples for each model.

        Parameters
        ----------
        encoders : sequence of Encoder
        examples : sequence of Example
        indices : sequence of int
            Their indices in the corpus.

        Returns
        -------
        list of (list of Tokens)
            For each encoder, in the order of the examples; the same list for models that tokenize alike.
        """
        names = [encoder.tokenization for encoder in encoders]
        by_name = dict(zip(names, encoders, strict=True))
        tokens = {name: self._of(name, encoder, examples, indices) for name, encoder in by_name.items()}
        return [tokens[name] for name in names]

    def _of(
        self, name: str, encoder: Encoder, examples: Sequence[Example], indices: Sequence[int]
    ) -> list[Tokens]:
        kept = self.kept.setdefault(name, {})
        missing = [k for k, index in enumerate(indices) if index not in kept]
        made = tokenize(encoder, [examples[k] for k in missing], self.options) if missing else []
        new = dict(zip((indices[k] for k in missing), made, strict=True))
        tokens = [kept[index] if index in kept else new[index] for index in indices]
        for index, example_tokens in new.items():
            if self.room > 0:
                kept[index] = example_tokens
                self.room -= example_tokens.ids.size
        return tokens
