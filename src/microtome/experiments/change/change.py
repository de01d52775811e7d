"""What did fine-tuning change, layer by layer? Measured between two seeds above and a random twin below."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...arguments import checked
from ...checks import check_level
from ...extraction.extracting import as_encoder
from ...extraction.texts import make_texts
from ...findings.results import Curve, Result
from ..cell_errors import Points, points_of
from ..citations import cited
from ..layer_similarity import SAMPLE, Progress, alike, record_models
from ..tuned_models import (
    SEEDS,
    TUNED,
    TWIN,
    Models,
    layer_curve,
    long_table,
    open_models,
    said_methods,
    series_of,
    told_provenance,
)
from .claims import said_beyond, said_center, said_levels

MEASURES = ("rsa", "debiased_cka")


@checked
def change(
    base: Any,
    tuned: Any,
    on: Any,
    *,
    twin: Any = 1,
    rows: str = "token",
    measures: Sequence[str] = MEASURES,
    sample: int | None = SAMPLE,
    longest: int | None = None,
    halves: int = 40,
    level: float = 0.95,
    seed: int = 0,
    dtype: str = "float32",
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str = "",
    **options: Any,
) -> Result:
    """
    Compare an encoder with what fine-tuning made of it, in every layer.

    The same sentences go through all models. Two models that were fine-tuned with different seeds say how
    alike models can be expected to be (the ceiling), and a twin with random weights how alike any two are
    (the floor).

    Parameters
    ----------
    base : Encoder or path
        Before fine-tuning.
    tuned : Tuned, Encoder or path, or a list of them
        Several are one setting trained with several seeds; without two there is no ceiling.
    on : Corpus, path or list of texts
    twin : int, Encoder, or list of Encoder
        How many twins of the base are drawn, or the twins themselves; 0 for none.
    rows : {"token", "word", "cls", "mean"}
        What one row is. Documents are independent, where the corpus tells of ten or more, and else
        sentences; rows of one of them are not.
    measures : sequence of str
        Of `microtome ls measures`.
    sample : int, optional
        Rows at most, drawn with the seed; all when absent.
    longest : int, optional
        Tokens of a sentence at most.
    halves : int
        Half-samples of the documents or sentences for measures without an influence function, such as RSA.
    level : float
        Of intervals and bands.
    seed : int
        Of the rows, the twins and the half-samples.
    dtype, store, progress, command
        As in `extract`.
    device : str
        Where models that are given by their folders run, and where they are compared.
    **options
        precision, memory, threads, as in `similarity_matrix`.

    Returns
    -------
    Result
        For each measure curves over layers: "base to tuned", "between seeds", "base to random twin", and
        "difference, base to tuned minus between seeds". `more["change"]` has where the change sits, with the
        share of the upper third ("top_share", of the models' mean share), `more["average"]` the means over
        layers, and `more["tuned_on"]` the task of the tuned models; `task` and `split` name the text that
        they were compared on.

    References
    ----------
    Merchant et al. 2020.
    """
    started, level = time.monotonic(), check_level(level)
    models, texts = open_models(base, tuned, twin, seed=seed, device=device), make_texts(on)
    recorded = record_models(
        models.all,
        texts,
        rows=rows,
        sample=sample,
        longest=longest,
        seed=seed,
        dtype=dtype,
        store=store,
        command=command,
        progress=progress,
    )
    found = alike(recorded, measures, halves=halves, seed=seed, device=device, progress=progress, **options)
    curves: list[Curve] = []
    said: list[str] = []
    more: dict[str, Any] = {
        "tuned_on": models.task,
        "layers": list(recorded.layers),
        "change": {},
        "average": {},
    }
    for label, one in found.items():
        series = series_of(one, models)
        given: dict[str, Any] = {"level": level, "bounds": one.bounds}
        points = {name: points_of(each, **given) for name, each in series.items()}
        average = {name: points_of(each.mean(), **given) for name, each in series.items()}
        more["average"][label] = {name: each.plain() for name, each in average.items()}
        curves += [layer_curve(f"{label}: {name}", recorded, each) for name, each in points.items()]
        said.append(said_levels(label, average, recorded.unit))
        if SEEDS in series:
            beyond = points_of(series[TUNED].together(), series[SEEDS], level=level)
            note = "similarity of base and tuned minus that of two seeds, for these models"
            curves.append(layer_curve(f"{label}: difference, {TUNED} minus {SEEDS}", recorded, beyond, note))
            said += said_beyond(label, beyond, recorded.layers)
        told, sentence = said_center(label, series[TUNED], recorded.layers, level, recorded.unit)
        more["change"][label] = {**told, "rescaled": _rescaled(points)}
        said.append(sentence)
    return Result(
        experiment="change",
        model=as_encoder(models.base).name,
        task=models.task_of(texts.name),
        split=texts.name,
        score="similarity",
        points=1.0,
        curves=tuple(curves),
        rows=tuple(long_table(found)),
        findings=tuple(said),
        methods=said_methods(models, [recorded], list(found), halves, level),
        references=cited("merchant2020", measures=measures),
        warnings=(*recorded.warned, *_warnings(models)),
        more=MappingProxyType(more),
        provenance=MappingProxyType(
            told_provenance(
                [recorded],
                [texts],
                started=started,
                seeds=list(models.seeds),
                seed=seed,
                device=device,
                command=command,
            )
        ),
    )


def _rescaled(points: Mapping[str, Points]) -> list[float] | None:
    """Similarity as a share of the way from the floor to the ceiling, layer by layer."""
    if not {SEEDS, TWIN} <= set(points):
        return None
    low, high = points[TWIN].values, points[SEEDS].values
    room = high - low
    value = points[TUNED].values - low
    return np.where(room > 0, value / np.where(room > 0, room, 1.0), np.nan).tolist()


def _warnings(models: Models) -> tuple[str, ...]:
    said = []
    if len(models.tuned) < 2:
        said.append(
            "There is no ceiling, and nothing is said of other seeds: one fine-tuned model was given."
        )
    if not models.twins:
        said.append("There is no floor: no random twin was asked for.")
    return tuple(said)
