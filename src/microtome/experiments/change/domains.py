"""Does fine-tuning change sentences of the task more than others? Compared at equal length, in one form."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...arguments import checked
from ...checks import check_level
from ...errors import InputError
from ...extraction.extracting import as_encoder
from ...extraction.texts import make_texts
from ...findings.results import Curve, Result
from ..cell_errors import apart as beside
from ..cell_errors import points_of
from ..citations import cited
from ..layer_similarity import SAMPLE, Progress, alike, record_models
from ..tuned_models import BASE, TUNED, layer_curve, long_table, open_models, said_methods, told_provenance
from .change import MEASURES
from .claims import said_domains
from .length_matching import match_lengths


@checked
def domains(
    base: Any,
    tuned: Any,
    inside: Any,
    outside: Any,
    *,
    template: str = "single",
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
    Ask whether fine-tuning changed sentences of the task more than others.

    Every input of one text is paired with one of the other that has as many tokens, in the same template,
    so that neither length nor form tells the two apart. The difference is tested over these pairs or, where a
    text tells of its documents, over those.

    Parameters
    ----------
    base, tuned
        As in `change`.
    inside, outside : Corpus, path or list of texts
        Sentences of the task, and others.
    template : {"single", "pair"}
        The form that all inputs get; see `match_lengths`.
    rows, measures, sample, longest, halves, level, seed, dtype, store, device, progress, command
        As in `change`.
    **options
        As there.

    Returns
    -------
    Result
        For each measure the similarity of base and tuned in every layer on both texts, and "difference, out
        of domain from in domain". `more["average"]` has the mean difference over layers, with its p.

    References
    ----------
    Merchant et al. 2020.
    """
    started, level = time.monotonic(), check_level(level)
    models = open_models(base, tuned, seed=seed, device=device)
    given = [make_texts(inside), make_texts(outside)]
    first, second = given
    matched = match_lengths(
        as_encoder(models.base), first, second, template=template, longest=longest, seed=seed
    )
    within, without = (
        record_models(
            models.all,
            make_texts(one),
            rows=rows,
            sample=sample,
            longest=longest,
            seed=seed,
            dtype=dtype,
            store=store,
            command=command,
            progress=progress,
        )
        for one in (matched.first, matched.second)
    )
    if not np.array_equal(np.unique(within.rows.examples), np.unique(without.rows.examples)):
        raise InputError(
            "both texts must have rows of the same inputs to be paired, but the rows that were drawn are of "
            "others; use rows='token', or sample=None."
        )
    # A pair of inputs is one unit where inputs are; documents of two texts have nothing to do with each
    # other, unless they are the same ones. Inputs of equal length err alike, if at all, so that taking them
    # as independent makes the interval of a difference rather too wide.
    paired = within.unit == without.unit and (
        within.unit != "document" or within.rows.groups == without.rows.groups
    )
    unit = " or ".join(dict.fromkeys((within.unit, without.unit)))
    asked: dict[str, Any] = {"halves": halves, "seed": seed, "device": device, "progress": progress}
    sides = [
        alike(one, measures, left=[BASE], right=list(models.tuned), **asked, **options)
        for one in (within, without)
    ]
    curves: list[Curve] = []
    said: list[str] = []
    average: dict[str, Any] = {}
    for label, one in sides[0].items():
        inner, outer = (side[label].sample(models.pairs[TUNED]) for side in sides)
        bounds: dict[str, Any] = {"level": level, "bounds": one.bounds}
        pair = (outer, inner) if paired else beside(outer, inner)
        apart = points_of(*pair, level=level)
        mean = points_of(*(each.mean() for each in pair), level=level)
        curves += [
            layer_curve(f"{label}: in domain", within, points_of(inner, **bounds)),
            layer_curve(f"{label}: out of domain", without, points_of(outer, **bounds)),
            layer_curve(
                f"{label}: difference, out of domain from in domain",
                within,
                apart,
                f"out of domain minus in domain, {'pair by pair' if paired else 'at equal lengths'}",
                unit=unit,
            ),
        ]
        average[label] = {
            "in domain": points_of(inner.mean(), **bounds).plain(),
            "out of domain": points_of(outer.mean(), **bounds).plain(),
            "difference": mean.plain(tested=True),
        }
        said += said_domains(label, mean, apart, within.layers, unit)
    said.append(matched.sentence())
    warned = "Nothing is said of other seeds: one fine-tuned model was given."
    return Result(
        experiment="domains",
        model=as_encoder(models.base).name,
        task=models.task_of(first.name),
        split=f"{first.name} against {second.name}",
        score="similarity",
        points=1.0,
        curves=tuple(curves),
        rows=tuple(
            {"domain": name, **row}
            for name, side in zip(("in", "out"), sides, strict=True)
            for row in long_table(side)
        ),
        findings=tuple(said),
        methods=" ".join(
            (said_methods(models, [within, without], list(sides[0]), halves, level), matched.sentence())
        ),
        references=cited("merchant2020", measures=measures),
        warnings=(
            *(f"In domain: {few[0].lower()}{few[1:]}" for few in within.warned),
            *(f"Out of domain: {few[0].lower()}{few[1:]}" for few in without.warned),
            *((warned,) if len(models.tuned) < 2 else ()),
        ),
        more=MappingProxyType(
            {
                "tuned_on": models.task,
                "layers": list(within.layers),
                "average": average,
                "matched": {
                    "pairs": len(matched.lengths),
                    "given": list(matched.given),
                    "tokens": float(np.mean(matched.lengths)),
                    "tokens_before": list(matched.before),
                    "template": template,
                },
            }
        ),
        provenance=MappingProxyType(
            told_provenance(
                [within, without],
                given,
                started=started,
                seeds=list(models.seeds),
                seed=seed,
                device=device,
                command=command,
            )
        ),
    )
