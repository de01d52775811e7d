"""What is asked of the layers of a model? Sentences with what is right about them, and the rows they have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..inference.answers import Answers
from ..randomness import generator
from ..rows.documents import DOCUMENTS, document_codes
from ..tasks.scores_declare import Score
from .targets import Annotated

# Shares of documents to stop training by and to judge on, where a corpus does not say which.
HELD, JUDGED = 0.1, 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """
    A question that is put to all layers of all models alike.

    Parameters
    ----------
    annotated : Annotated
        Sentences with what is right about them.
    examples, units : ndarray of int of shape (rows,)
        The sentence and the word of each row that the models have.
    train, held, judged : ndarray of int
        Numbers of sentences: to learn from, to stop by, and to judge on.
    split : str
        What the judged ones are called.
    seeds : tuple of int
        Of probes that begin at random.
    control : int, optional
        Ask for labels drawn for each type of word or span instead, with this seed.
    device : str, optional
        Where probes are trained.
    steps : int, optional
        Updates of an edge probe at most; as published when absent.
    size : int, optional
        Principal components of a layer that a linear probe sees; the whole layer when absent.
    inputs : str
        What each probe reads, a name of `microtome.probes.mixing.INPUTS`.
    progress : callable, optional
        Told of the updates of an edge probe.
    """

    annotated: Annotated
    examples: np.ndarray
    units: np.ndarray
    train: np.ndarray
    held: np.ndarray
    judged: np.ndarray
    split: str
    seeds: tuple[int, ...] = (0,)
    control: int | None = None
    device: str | None = None
    steps: int | None = None
    size: int | None = None
    inputs: str = "layers"
    progress: Callable[[str, int, int], None] | None = None

    @property
    def unit(self) -> str:
        """What is taken as independent: documents, or sentences where too few are told of."""
        return "sentence" if self._documents[0] is None else "document"

    @property
    def units_judged(self) -> int:
        """How many of them are judged."""
        return len(set(self.groups(self.judged)))

    @property
    def few(self) -> str:
        """Why documents that there are were not taken; empty where there is nothing to say."""
        return self._documents[1]

    @property
    def _documents(self) -> tuple[np.ndarray | None, str]:
        """The document of each judged sentence, by the rule that holds for all measures of layers."""
        found = self.annotated
        groups = [group or own for group, own in zip(found.groups, found.ids, strict=True)]
        # Words of a sentence count, as rows do elsewhere.
        words = np.repeat(self.judged, [max(1, len(found.sentences[place])) for place in self.judged])
        return document_codes(words, found.ids, groups, what="judged")

    @property
    def digest(self) -> str:
        """A hash of which word of which sentence each row is."""
        found = hashlib.blake2b(digest_size=16)
        for place in np.unique(self.examples):
            found.update(f"{self.annotated.ids[place]}\x1f".encode())
        for each in (self.examples, self.units):
            found.update(np.ascontiguousarray(each, "<i8").tobytes())
        return found.hexdigest()

    def words_lost(self, sentences: np.ndarray) -> int:
        """How many words of some sentences have a label and no row, such as those behind what models read."""
        found = self.annotated
        there = np.zeros((len(found.sentences), max(map(len, found.sentences))), dtype=bool)
        there[self.examples, self.units] = True
        return int((np.isin(found.owner, sentences) & ~there[found.owner, found.spans[:, 0, 0]]).sum())

    def rows_of(self, sentences: np.ndarray) -> np.ndarray:
        """Numbers of the rows of some sentences."""
        return np.flatnonzero(np.isin(self.examples, sentences))

    def groups(self, sentences: Sequence[int] | np.ndarray) -> list[str]:
        """What clusters each of some sentences: its document, or itself."""
        found, whole = self.annotated, self.unit == "document"
        return [(found.groups[place] if whole else "") or found.ids[place] for place in sentences]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probed:
    """
    What the layers of one model answered.

    Parameters
    ----------
    answers : tuple of Answers
        One a layer, or a mix of several, to the same examples.
    score : Score
        What they are judged by.
    labels : tuple of str
    lines : mapping of str to float
        What can be had without any layer, such as the most frequent label.
    note : str
        What a reader must know, such as which penalties were chosen.
    rows : tuple of mapping
        One record an answer, plain values; a tuple has one for each seed.
    more : mapping of str to object
        What else was found.
    places : tuple of int
        The layer that each answer is read from, the last one where several are mixed; from 0 on when absent.
    shares : tuple of (tuple of float)
        How much of each layer is in what each answer is read from, where layers are mixed.
    """

    answers: tuple[Answers, ...]
    score: Score
    labels: tuple[str, ...] = ()
    lines: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    note: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    more: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    places: tuple[int, ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()

    @property
    def x(self) -> tuple[int, ...]:
        """The layer of each answer."""
        return self.places or tuple(range(len(self.answers)))


def divide(
    found: Annotated, *, train_size: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """
    Say which sentences are learned from, which end the training, and which are judged.

    As the files say it, where they do; what is missing is taken from the sentences to learn from, whole
    documents at a time. Judged is the last split there is, so that nothing was chosen by it.

    Parameters
    ----------
    found : Annotated
    train_size : int, optional
        Learn from so many sentences at most, drawn with the seed.
    seed : int

    Returns
    -------
    train, held, judged : ndarray of int
        Numbers of sentences.
    split : str
        What the judged ones are called.
    """
    splits = np.array(found.splits)
    train = np.flatnonzero((splits == "train") | (splits == ""))
    validation, test = (np.flatnonzero(splits == name) for name in ("validation", "test"))
    if len(set(found.splits)) == 1:
        # A lone file is divided, whatever it is called.
        train, validation, test = np.arange(len(splits)), train[:0], train[:0]
    if not len(train):
        raise InputError(
            f"{found.source} must hold a split to learn from, but it has validation and test only."
        )
    draw = generator(seed, "probing", "split")
    split = "test" if len(test) else "validation"
    judged = test if len(test) else validation
    if not len(judged):
        train, judged, noun = _part(found, train, JUDGED, draw)
        split = f"{JUDGED:.0%} of the {noun}"
    held = validation if len(test) and len(validation) else None
    if held is None:
        train, held, _ = _part(found, train, HELD, draw)
    if train_size is not None and train_size < 1:
        raise must("train_size", "at least 1", train_size)
    if train_size is not None and train_size < len(train):
        train = np.sort(draw.choice(train, train_size, replace=False))
    return train, held, judged, split


def _part(
    found: Annotated, sentences: np.ndarray, share: float, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, str]:
    """Take a share of the documents, or of the sentences where there are too few documents."""
    names = np.array([found.groups[place] or found.ids[place] for place in sentences])
    documents = np.unique(names)
    alone = len(documents) < DOCUMENTS or len(documents) == len(sentences)
    if alone:
        names = np.array([found.ids[place] for place in sentences])
        documents = np.unique(names)
    if len(documents) < 5:
        raise InputError(
            f"{found.source} must hold at least 5 sentences to divide, but it has {len(documents)}."
        )
    taken = draw.choice(documents, max(1, round(share * len(documents))), replace=False)
    inside = np.isin(names, taken)
    return sentences[~inside], sentences[inside], "sentences" if alone else "documents"
