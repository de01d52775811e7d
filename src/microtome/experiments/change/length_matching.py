"""Length matching: pairs of inputs of two texts with as many tokens, in the same template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...corpora.examples import Example
from ...errors import InputError, unknown
from ...extraction.texts import Texts
from ...randomness import generator

TEMPLATES = ("single", "pair")
BATCH = 512  # examples that are tokenized at once


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
        example that has two, and else two that follow each other, of one document where it has two.
    longest : int, optional
        Tokens of an input at most.
    seed : int

    Returns
    -------
    Matched
    """
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    sides = [_inputs(texts.examples, template) for texts in (first, second)]
    counts = [_lengths(encoder, inputs, longest) for inputs in sides]
    pairs: list[tuple[int, int]] = []
    for length in sorted(set(counts[0].tolist()) & set(counts[1].tolist())):
        orders = [
            generator(seed, "lengths", length).permutation(np.flatnonzero(lengths == length))
            for lengths in counts
        ]
        pairs += [(int(a), int(b)) for a, b in zip(*orders, strict=False)]
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


def _inputs(corpus: Iterable[Example], template: str) -> list[Example]:
    examples = list(corpus)
    counts = Counter(example.group for example in examples)
    # Inputs are numbered anew, and the name of a document must not be mistaken for one of the numbers.
    groups = [
        f"document {example.group}" if example.group != example.id or counts[example.group] > 1 else ""
        for example in examples
    ]
    inputs: list[tuple[str, str | None, str]]
    if template == "single":
        inputs = [(_text(example), None, group) for example, group in zip(examples, groups, strict=True)]
    else:
        unpaired = [place for place, example in enumerate(examples) if example.pair is None]
        follow, joined = _consecutive(unpaired, groups)
        inputs = [
            (_text(example), example.pair, group)
            for example, group in zip(examples, groups, strict=True)
            if example.pair is not None
        ]
        inputs += [(_text(examples[a]), _text(examples[b]), groups[a] or groups[b]) for a, b in follow]
        inputs = [(text, pair, joined.get(group, group)) for text, pair, group in inputs]
    if not inputs:
        raise InputError(f"a text must have inputs for the template {template!r}, but it has none.")
    return [
        Example(id=str(k), text=text, pair=pair, group=group) for k, (text, pair, group) in enumerate(inputs)
    ]


def _consecutive(
    unpaired: Sequence[int], groups: Sequence[str]
) -> tuple[list[tuple[int, int]], dict[str, str]]:
    """
    Pair sentences that follow each other, those of one document first.

    A pair of two documents is correlated with both of them. So only the last sentence of a document with an
    odd number of them is paired with that of another, rather than left out, and those two documents count as
    one: there is at most one such sentence in each, so that no more than two are ever joined.

    Parameters
    ----------
    unpaired : sequence of int
        Places of sentences.
    groups : sequence of str
        The document of every place; empty where there is none.

    Returns
    -------
    pairs : list of pair of int
    joined : dict of str to str
        Documents that count as another one.
    """
    pairs: list[tuple[int, int]] = []
    waiting: dict[str, int] = {}
    singles: list[int] = []
    for place in unpaired:
        group = groups[place]
        if not group:
            singles.append(place)
        elif group in waiting:
            pairs.append((waiting.pop(group), place))
        else:
            waiting[group] = place
    singles = sorted([*singles, *waiting.values()])
    joined: dict[str, str] = {}
    for first, second in zip(singles[::2], singles[1::2], strict=False):
        pairs.append((first, second))
        if groups[first] and groups[second]:
            joined[groups[second]] = groups[first]
    return sorted(pairs), joined


def _text(example: Example) -> str:
    return " ".join(example.words or ()) if example.text is None else example.text


def _lengths(encoder: Any, inputs: Sequence[Example], longest: int | None) -> np.ndarray:
    lengths: list[int] = []
    for start in range(0, len(inputs), BATCH):
        batch = [(str(example.text), example.pair) for example in inputs[start : start + BATCH]]
        lengths += [len(tokens) for tokens in encoder.texts(batch, longest=longest)]
    return np.array(lengths)
