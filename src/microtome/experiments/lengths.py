"""Which sentences of two texts are alike in form? Pairs with as many tokens, in the same template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpora.examples import Example
from ..errors import InputError, unknown
from ..extraction.texts import Texts
from ..randomness import generator

TEMPLATES = ("single", "pair")
TOGETHER = 512  # examples that are cut into tokens at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """
    Pairs of inputs, one of each text, that have the same number of tokens.

    Parameters
    ----------
    first, second : tuple of Example
        The same place, the same number of tokens.
    lengths : tuple of int
        Tokens of each pair, those that the model adds counted.
    given : pair of int
        Inputs that each text had.
    before : pair of float
        Their mean number of tokens, before any was left out.
    template : str
    """

    first: tuple[Example, ...]
    second: tuple[Example, ...]
    lengths: tuple[int, ...]
    given: tuple[int, int]
    before: tuple[float, float]
    template: str

    def sentence(self) -> str:
        """Say how many inputs were matched, and what was left out."""
        form = "a text alone" if self.template == "single" else "a pair of texts"
        return (
            f"Each input is {form}; {len(self.lengths):,} of {self.given[0]:,} and {self.given[1]:,} inputs "
            f"were paired by their number of tokens ({np.mean(self.lengths):.1f} on average; "
            f"{self.before[0]:.1f} and {self.before[1]:.1f} before)."
        )


def match_lengths(
    encoder: Any,
    first: Texts,
    second: Texts,
    *,
    template: str = "single",
    longest: int | None = None,
    seed: int = 0,
) -> Matched:
    """
    Pair inputs of two texts that have the same number of tokens.

    Which inputs of one length are taken is drawn, in the same way for both texts: a text is matched with
    itself input by input.

    Parameters
    ----------
    encoder : Encoder
        Whose tokens are counted.
    first, second : Texts
    template : {"single", "pair"}
        The form that all inputs get. Alone: the first text of each example. In pairs: both texts of an
        example that has two, and else two that follow each other.
    longest : int, optional
        Tokens of an input at most.
    seed : int

    Returns
    -------
    Matched
    """
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    sides = [_inputs(one.examples, template) for one in (first, second)]
    counts = [_lengths(encoder, one, longest) for one in sides]
    pairs: list[tuple[int, int]] = []
    for length in sorted(set(counts[0].tolist()) & set(counts[1].tolist())):
        drawn = [
            generator(seed, "lengths", length).permutation(np.flatnonzero(each == length)) for each in counts
        ]
        pairs += [(int(a), int(b)) for a, b in zip(*drawn, strict=False)]
    if not pairs:
        raise InputError(
            "two texts must have inputs with the same number of tokens, but none of "
            f"{len(sides[0]):,} and {len(sides[1]):,} inputs match."
        )
    pairs.sort()
    return Matched(
        first=tuple(sides[0][a] for a, _ in pairs),
        second=tuple(sides[1][b] for _, b in pairs),
        lengths=tuple(int(counts[0][a]) for a, _ in pairs),
        given=(len(sides[0]), len(sides[1])),
        before=(float(counts[0].mean()), float(counts[1].mean())),
        template=template,
    )


def _inputs(examples: Iterable[Example], template: str) -> list[Example]:
    texts = [(" ".join(one.words or ()) if one.text is None else one.text, one.pair) for one in examples]
    if template == "single":
        made = [(text, None) for text, _ in texts]
    else:
        alone = [text for text, pair in texts if pair is None]
        made = [(text, pair) for text, pair in texts if pair is not None]
        made += list(zip(alone[::2], alone[1::2], strict=False))
    if not made:
        raise InputError(f"a text must have inputs for the template {template!r}, but it has none.")
    return [Example(id=str(k), text=text, pair=pair) for k, (text, pair) in enumerate(made)]


def _lengths(encoder: Any, inputs: Sequence[Example], longest: int | None) -> np.ndarray:
    found: list[int] = []
    for start in range(0, len(inputs), TOGETHER):
        part = [(str(one.text), one.pair) for one in inputs[start : start + TOGETHER]]
        found += [len(tokens) for tokens in encoder.texts(part, longest=longest)]
    return np.array(found)
