"""What do the layers of a model say about each word, token or example? The rows of all of them."""

from __future__ import annotations

import os
from typing import Any

from ..encoders.encoder import Encoder
from ..encoders.loading import load
from ..errors import must
from ..rows.options import row_options
from ..rows.planning import plan_rows
from ..store.shelf import Shelf
from .recording import Activations, record
from .streaming import Progress
from .texts import make_texts


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
        Which sub-words stand for a word.
    special : {"out", "in"}
        Whether the tokens that a model adds count in a mean.
    longest : int, optional
        Tokens of an example at most.
    sample : int, optional
        So many rows, drawn with the seed.
    seed : int
    exact : {"wu"}, optional
        Rows as Wu et al. 2020 took them.
    dtype : {"float32", "float16", "bfloat16"}
        How numbers are stored.
    tokens : int, optional
        Tokens that run together, padding included; found by itself when absent, and halved when memory
        runs out.
    store : path, optional
        The store's folder; that of `MICROTOME_STORE`, or in the user's cache, when absent.
    command : str
        What the user typed, for the record.
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

    Returns
    -------
    Activations
        `.layers[3]` is an array of shape (rows, features), the output of block 3 for any kind of rows;
        `.rows` says what each row is.
    """
    options = row_options(
        rows, subword=subword, special=special, longest=longest, sample=sample, seed=seed, exact=exact
    )
    model = as_encoder(encoder)
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
    """Take an encoder as it is, and load what is given by its name or folder."""
    if isinstance(given, (str, os.PathLike)):
        return load(given)
    # Whatever it is built of: what extraction asks for must be there.
    if not all(hasattr(given, name) for name in ("name", "family", "layers", "words", "run")):
        raise must("a model", "what microtome.load gives, a hub id or a folder", type(given).__name__)
    return given
