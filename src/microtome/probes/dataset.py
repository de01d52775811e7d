"""Probing tasks (annotated sentences with their rows and splits) and the results of probing a model."""

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
from ..scores.declare import Score
from .targets import Annotated

# Shares of the documents used for validation and for testing, where a corpus has no such splits.
HELD, JUDGED = 0.1, 0.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """
    A probing task, the same for all layers of all models.

    Parameters
    ----------
    annotated : Annotated
        Sentences with their gold annotation.
    examples, units : ndarray of int of shape (rows,)
        The sentence and the word of each row that the models have.
    train, held, judged : ndarray of int
        Indices of the training, validation (early stopping) and test sentences.
    split : str
        Name of the test split.
    seeds : tuple of int
        Seeds of probes with random initialization.
    control : int, optional
        Seed of a control task: labels are drawn at random for each word or span type.
    device : str, optional
        Device on which probes are trained.
    steps : int, optional
        Maximum number of updates of an edge probe; the published number when absent.
    size : int, optional
        Number of principal components of a layer that a linear probe reads; the full layer when absent.
    inputs : str
        What each probe reads, a name of `microtome.probes.mixing.INPUTS`.
    progress : callable, optional
        Called after each update of an edge probe.
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
        """The unit taken as independent: documents, or sentences where the corpus names too few documents."""
        return "sentence" if self._documents[0] is None else "document"

    @property
    def units_judged(self) -> int:
        """The number of independent units in the test split."""
        return len(set(self.groups(self.judged)))

    @property
    def few(self) -> str:
        """Why the documents of the corpus are not used as units; empty otherwise."""
        return self._documents[1]

    @property
    def _documents(self) -> tuple[np.ndarray | None, str]:
        """The document of each test sentence, by the rule shared by all measures of layers."""
        annotated = self.annotated
        groups = [
            group or sentence_id for group, sentence_id in zip(annotated.groups, annotated.ids, strict=True)
        ]
        # Sentences are weighted by their words, as by rows elsewhere.
        words = np.repeat(
            self.judged, [max(1, len(annotated.sentences[sentence])) for sentence in self.judged]
        )
        return document_codes(words, annotated.ids, groups, what="judged")

    @property
    def digest(self) -> str:
        """A hash of the sentence and the word of each row."""
        hasher = hashlib.blake2b(digest_size=16)
        for sentence in np.unique(self.examples):
            hasher.update(f"{self.annotated.ids[sentence]}\x1f".encode())
        for numbers in (self.examples, self.units):
            hasher.update(np.ascontiguousarray(numbers, "<i8").tobytes())
        return hasher.hexdigest()

    def words_lost(self, sentences: np.ndarray) -> int:
        """The number of words with a label but no row, such as those past the longest input of a model."""
        annotated = self.annotated
        has_row = np.zeros((len(annotated.sentences), max(map(len, annotated.sentences))), dtype=bool)
        has_row[self.examples, self.units] = True
        return int(
            (np.isin(annotated.owner, sentences) & ~has_row[annotated.owner, annotated.spans[:, 0, 0]]).sum()
        )

    def rows_of(self, sentences: np.ndarray) -> np.ndarray:
        """Indices of the rows of the given sentences."""
        return np.flatnonzero(np.isin(self.examples, sentences))

    def groups(self, sentences: Sequence[int] | np.ndarray) -> list[str]:
        """The cluster of each given sentence: its document, or the sentence itself."""
        annotated, by_document = self.annotated, self.unit == "document"
        return [
            (annotated.groups[sentence] if by_document else "") or annotated.ids[sentence]
            for sentence in sentences
        ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Probed:
    """
    Results of probing the layers of one model.

    Parameters
    ----------
    answers : tuple of Answers
        One per layer, or per mix of layers, on the same examples.
    score : Score
        Score of the answers.
    labels : tuple of str
    lines : mapping of str to float
        Baselines that read no layer, such as the majority baseline.
    note : str
        Remark for the reader, such as how many words are left out.
    rows : tuple of mapping
        One record of plain values per answer; a tuple holds one value per seed.
    more : mapping of str to object
        Further results.
    places : tuple of int
        Layer that each answer is read from, the last one of a mix; counted from 0 when absent.
    shares : tuple of (tuple of float)
        Weight of each layer in the mix that each answer is read from, where layers are mixed.
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
    Divide the sentences into training, validation and test sentences.

    The splits are those of the files, where they name them; a missing split is sampled from the training
    sentences, whole documents at a time. The last available split is the test split, so that no choice
    depends on it.

    Parameters
    ----------
    found : Annotated
    train_size : int, optional
        Maximum number of training sentences, sampled with the seed.
    seed : int

    Returns
    -------
    train, held, judged : ndarray of int
        Indices of sentences.
    split : str
        Name of the test split.
    """
    splits = np.array(found.splits)
    train = np.flatnonzero((splits == "train") | (splits == ""))
    validation, test = (np.flatnonzero(splits == name) for name in ("validation", "test"))
    if len(set(found.splits)) == 1:
        # A single file is divided, whatever its split is called.
        train, validation, test = np.arange(len(splits)), train[:0], train[:0]
    if not len(train):
        raise InputError(
            f"{found.source} must hold a split to learn from, but it has validation and test only."
        )
    rng = generator(seed, "probing", "split")
    split = "test" if len(test) else "validation"
    judged = test if len(test) else validation
    if not len(judged):
        train, judged, noun = _part(found, train, JUDGED, rng)
        split = f"{JUDGED * 100:.0f} % of the {noun}"
    held = validation if len(test) and len(validation) else None
    if held is None:
        train, held, _ = _part(found, train, HELD, rng)
    if train_size is not None and train_size < 1:
        raise must("train_size", "at least 1", train_size)
    if train_size is not None and train_size < len(train):
        train = np.sort(rng.choice(train, train_size, replace=False))
    return train, held, judged, split


def _part(
    annotated: Annotated, sentences: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, str]:
    """Sample a share of the documents, or of the sentences where there are too few documents."""
    names = np.array([annotated.groups[sentence] or annotated.ids[sentence] for sentence in sentences])
    documents = np.unique(names)
    by_sentence = len(documents) < DOCUMENTS or len(documents) == len(sentences)
    if by_sentence:
        names = np.array([annotated.ids[sentence] for sentence in sentences])
        documents = np.unique(names)
    if len(documents) < 5:
        raise InputError(
            f"{annotated.source} must hold at least 5 sentences to divide, but it has {len(documents)}."
        )
    sampled = rng.choice(documents, max(1, round(share * len(documents))), replace=False)
    inside = np.isin(names, sampled)
    return sentences[~inside], sentences[inside], "sentences" if by_sentence else "documents"
