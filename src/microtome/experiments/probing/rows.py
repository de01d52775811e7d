"""Which rows do probes read? Of the words that all models have, from one run of each over the corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, must
from ...probes.dataset import Asked, divide
from ...probes.table import Probe
from ...probes.targets import Annotated
from ..layer_similarity import twin_of
from ..models import Progress
from ..tuned_models import open_encoder

TWIN = "random twin"


def open_models(encoder: Any, others: Sequence[Any], twin: bool, device: str | None = None) -> dict[str, Any]:
    """Open the models by their names, and the random twin of the first where it is asked for."""
    if isinstance(others, str) or not isinstance(others, Sequence):
        raise must("others", "a list of models", others)
    given = [open_encoder(one, device or "cpu") for one in (encoder, *others)]
    found = {one.name: one for one in given}
    if len(found) < len(given):
        raise must("models", "named differently", [one.name for one in given])
    if twin:
        found[TWIN] = twin_of(given[0], TWIN)
    return found


def sentences_read(
    probe: Probe, train: np.ndarray, held: np.ndarray, judged: np.ndarray, *, judging: bool = True
) -> np.ndarray:
    """Which sentences models have to be run over, by their numbers."""
    # What converges has nothing to stop by, and a code is judged on what it learns from.
    return np.unique(np.concatenate([train, *([held] if probe.seeded else []), *([judged] * judging)]))


def check_size(size: int | None, models: Mapping[str, Any]) -> None:
    """Refuse more components than the narrowest layer has features."""
    most = min(width for one in models.values() for width in one.widths)
    if size is not None and not 1 <= size <= most:
        raise must("size", f"from 1 to {most}, the features of a layer", size)


def check_enough(annotated: Annotated, train: np.ndarray, judged: np.ndarray | None) -> None:
    """
    Refuse what cannot be learned or judged, before any model is run.

    Parameters
    ----------
    annotated : Annotated
    train : ndarray of int
        Sentences to learn from.
    judged : ndarray of int, optional
        Sentences to judge on, where any are.
    """
    for sentences, what in ((train, "learn from"), (judged, "judge on")):
        if sentences is not None and len(sentences) < 2:
            raise InputError(
                f"{annotated.source} must hold at least 2 sentences to {what}, but there is {len(sentences)}."
            )
    if annotated.target.kind != "words":
        return
    there = annotated.right[np.isin(annotated.owner, train)].any(0)
    if there.sum() < 2:
        known = ", ".join(repr(annotated.labels[k]) for k in np.flatnonzero(there)) or "none"
        raise InputError(
            f"the {len(train):,} sentences to learn from must have at least 2 labels of "
            f"{annotated.target.name}, but they have {known}."
        )


class Recorded(NamedTuple):
    """
    What one model is asked, and what it has.

    asked : Asked
        With the rows of this model.
    X : ndarray of float32 of shape (layers, rows, features)
    address : str
        Of the rows in the store.
    """

    asked: Asked
    X: np.ndarray
    address: str


def record_rows(
    annotated: Annotated,
    models: dict[str, Any],
    probe: Probe,
    train_size: int | None,
    seeds: Sequence[int],
    device: str | None,
    store: Any,
    progress: Progress | None,
    *,
    judging: bool = True,
    command: str = "",
) -> tuple[Asked, dict[str, Recorded], list[str]]:
    """
    Run the models over the sentences that are needed, on the words that all of them have.

    Returns
    -------
    asked : Asked
        With a row for each of these words.
    recorded : dict of str to Recorded
        What each model is asked and has, by its name: an edge probe has a row for each sub-word, which models
        cut in their own ways.
    names : list of str
        Of the models that were given.
    """
    from ...extraction.recording import record
    from ...extraction.texts import make_texts
    from ...rows.options import row_options
    from ...rows.planning import plan_rows
    from ...store.shelf import Shelf

    train, held, judged, split = divide(annotated, train_size=train_size)
    check_enough(annotated, train, judged if judging else None)
    needed = sentences_read(probe, train, held, judged, judging=judging)
    texts = make_texts([annotated.sentences[place] for place in needed])
    # Which words there are is the same whichever of their sub-words are read.
    options = row_options("word", subword="last" if probe.subword == "each" else probe.subword)
    shared = plan_rows(texts.examples, list(models.values()), options, progress=progress)
    asked = Asked(
        annotated=annotated,
        examples=needed[np.asarray(shared.examples)],
        units=np.asarray(shared.units),
        train=train,
        held=held,
        judged=judged,
        split=split,
        seeds=tuple(seeds),
        device=device,
    )
    shelf = Shelf(store)
    recorded = {}
    for name, model in models.items():
        rows = shared
        if probe.subword == "each":
            rows = plan_rows(texts.examples, [model], replace(options, subword="each")).among(shared)
        read = record(model, texts, rows, shelf=shelf, command=command, progress=progress)
        # A norm behind the last block is a layer of some models, but no block of its own.
        layers = read.layers[: model.depth + 1]
        recorded[name] = Recorded(
            asked=replace(asked, examples=needed[np.asarray(rows.examples)], units=np.asarray(rows.units)),
            X=np.stack([np.asarray(layer, dtype=np.float32) for layer in layers]),
            address=read.address,
        )
    return asked, recorded, [name for name in models if name != TWIN]
