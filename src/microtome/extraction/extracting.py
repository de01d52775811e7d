"""Extraction of the rows of all layers of a model over a corpus."""

from __future__ import annotations

import os
from typing import Any

from ..arguments import checked
from ..encoders.encoder import Encoder
from ..encoders.loading import load
from ..errors import must
from ..rows.options import row_options
from ..rows.planning import input_length, plan_rows
from ..store.shelf import Shelf
from .recording import Activations, record
from .streaming import Progress
from .texts import make_texts


@checked
def extract(
    encoder: Any,
    on: Any,
    *,
    rows: str = "word",
    subword: str = "last",
    special: str = "out",
    longest: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    exact: str | None = None,
    dtype: str = "float32",
    tokens: int | None = None,
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Activations:
    """
    Run a model over a corpus and record every layer.

    Parameters
    ----------
    encoder : Encoder, hub id or folder
    on : Corpus, path or list of texts
    rows : {"cls", "mean", "token", "word"}
        What one row is.
    subword : {"last", "first", "mean"}
        Which sub-words represent a word.
    special : {"out", "in"}
        Whether special tokens count in a mean.
    longest : int, optional
        The maximum number of tokens of an example.
    sample : int, optional
        The number of rows to sample with the seed.
    seed : int
    exact : {"wu"}, optional
        Rows as in Wu et al. (2020).
    dtype : {"float32", "float16", "bfloat16"}
        The type in which numbers are stored.
    tokens : int, optional
        The maximum number of tokens in a batch, padding included; chosen by device when absent, and halved
        when memory runs out.
    store : path, optional
        The store's folder; that of `MICROTOME_STORE`, or in the user's cache, when absent.
    command : str
        The command line, for the record.
    progress : callable, optional
        Called with the name of the step, the count so far, and the total.

    Returns
    -------
    Activations
        `.layers[3]` is an array of shape (rows, features), the output of block 3 for any kind of rows;
        `.rows` describes each row.
    """
    model = as_encoder(encoder)
    longest = input_length([model], longest)
    options = row_options(
        rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed, exact=exact
    )
    texts = make_texts(on)
    planned = plan_rows(texts.examples, [model], options, progress=progress)
    return record(
        model,
        texts,
        planned,
        shelf=Shelf(store),
        dtype=dtype,
        tokens=tokens,
        command=command,
        progress=progress,
    )


def as_encoder(given: Any) -> Encoder:
    """Return an encoder as it is, and load one that is given by its name or folder."""
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    # Any class will do that has the attributes used by extraction.
    if not all(hasattr(given, name) for name in ("name", "family", "layers", "words", "run")):
        raise must("a model", "what microtome.load gives, a hub id or a folder", type(given).__name__)
    return given
