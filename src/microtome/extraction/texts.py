"""Input texts: a corpus, or texts in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..corpora.examples import Example
from ..corpora.opening import Corpus
from ..errors import InputError, must
from ..store.address import address
from ..tasks.corpus import corpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """
    Examples that can be read repeatedly, with their name and digest.

    Parameters
    ----------
    examples : iterable of Example
    name : str
    digest : str
        A hash of their content.
    facts : mapping of str to object
        Metadata for results.
    """

    examples: Iterable[Example]
    name: str
    digest: str
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def make_texts(given: Any, **options: Any) -> Texts:
    """
    Convert a user's input to texts.

    Parameters
    ----------
    given : Corpus, path, sequence of str, of sequences of str, or of Example
        A corpus or the path of one; or texts, sentences split into words, or examples in memory.
    **options
        Options of the reader, where a corpus is given by its path.

    Returns
    -------
    Texts
    """
    if isinstance(given, (str, os.PathLike)):
        given = corpus(given, **options)
    elif options:
        raise InputError(f"options such as {next(iter(options))} must come with the path of a corpus.")
    if isinstance(given, Texts):
        return given
    if isinstance(given, Corpus):
        return Texts(examples=given, name=given.name, digest=given.digest, facts=given.describe())
    if not isinstance(given, Sequence):
        raise must("texts", "a corpus, a path, or a list of texts", type(given).__name__)
    if not given:
        raise InputError("texts must be at least one, but the list is empty.")
    examples = tuple(_example(item, index) for index, item in enumerate(given))
    content = [_content(example) for example in examples]
    digest = address({"examples": content})
    facts = {"name": "texts", "source": "memory", "digest": digest, "count": len(examples)}
    return Texts(examples=examples, name="texts", digest=digest, facts=facts)


def _content(example: Example) -> list[Any]:
    # NumPy strings, the elements of arrays of words, are not plain data.
    texts = [None if text is None else str(text) for text in (example.text, example.pair)]
    words = None if example.words is None else [str(word) for word in example.words]
    return [str(example.id), *texts, words]


def _example(item: Any, index: int) -> Example:
    if isinstance(item, Example):
        return item
    if isinstance(item, str):
        return Example(id=str(index), text=item)
    if isinstance(item, Sequence) and all(isinstance(word, str) for word in item):
        return Example(id=str(index), words=tuple(item))
    raise must(f"text {index}", "a string, a list of words or an example", type(item).__name__)
