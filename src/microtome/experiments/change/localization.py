"""In which layers do single neurons count? Beyond what rotated layers give, beside the published scores."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...arguments import checked
from ...checks import check_level, whole_number
from ...comparison.similarity import similarity_matrix
from ...comparison.structure import find_localization
from ...errors import InputError, SmallSampleWarning, must
from ...extraction.texts import make_texts
from ...findings.localization import Direction, Localizations, localizations
from ...findings.results import Curve, Result
from ...inference.clusters import Clusters
from ...inference.halves import half_interval, half_plan
from ...rows.options import RowOptions, row_options
from ...rows.planning import plan_at_most
from ...version import VERSION
from ..citations import cited
from ..layer_similarity import COMPUTING, SAMPLE, Progress, Recorded, called, record_models
from ..tuned_models import open_encoder, told_provenance

# SVCCA as the paper of Wu et al. 2020 describes it, and as its code has it.
SVCCAS = ("svcca", "svcca:scaling=standardize:inclusive=False")
# Rows that each half must have: of fewer, the correlations of rotated neurons are 1 but for rounding.
LEAST = 4
BEYOND, DESCRIBED, CODED = "beyond rotations", "published, as described", "published, as coded"


@checked
def localized(
    models: Any,
    on: Any,
    *,
    rows: str | None = None,
    sample: int | None = SAMPLE,
    longest: int | None = None,
    exact: str | None = None,
    direction: Direction = "in",
    rotations: int = 5,
    halves: int = 20,
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
    Score every layer of some models for what its similarity to the others owes to single neurons.

    The neuron similarity of two layers is set against its mean after random rotations of both, which keep
    everything but the axes. So the score needs no other measure and no z-score over a set of layers, and what
    many neurons or few rows add to any largest correlation is subtracted.

    Parameters
    ----------
    models : Encoder or path, list of them, or mapping of str to them
        By the names that their layers get, their own when absent. They may have other depths, and of other
        tokenizers where rows are words.
    on : Corpus, path or list of texts
    rows : {"token", "word", "cls", "mean"}, optional
        "token" when absent, "word" with `exact`.
    sample, longest, seed, dtype, store, progress, command
        As in `change`.
    exact : {"wu"}, optional
        Rows as Wu et al. 2020 took them: last sub-words of words, no special tokens in the input, sentences
        that come again left out, and all rows unless `sample` is another than its default.
    direction : {"in", "out"}
        How well neurons of other layers are found in this one, or its own in the others. The published code
        knows "in" alone.
    rotations : int
        Of each pair, at least 2.
    halves : int
        Half-samples of the documents or sentences, all with the same rotations.
    level : float
        Of the intervals.
    device : str
        Where models are loaded and layers compared.
    **options
        precision, memory, threads, as in `similarity_matrix`.

    Returns
    -------
    Result
        Curves over layers, for each model "beyond rotations", "published, as described" and "published, as
        coded", with intervals over documents or sentences. The last is in standard deviations over all
        layers compared.

    References
    ----------
    Wu et al. 2020 for the published score.
    """
    started, level = time.monotonic(), check_level(level)
    halves = whole_number("halves", halves, 2)
    for name in options:
        if name not in COMPUTING:
            raise must("options", f"among {', '.join(COMPUTING)}", name)
    if exact is not None and direction != "in":
        raise must("direction", f"'in' with exact={exact!r}", direction)
    texts = make_texts(on)
    encoders = {name: called(one, name) for name, one in _by_name(models, device).items()}
    chosen = choose_rows(rows=rows, sample=sample, longest=longest, seed=seed, exact=exact)
    planned = plan_at_most(texts.examples, list(encoders.values()), chosen, progress=progress)
    recorded = record_models(
        encoders,
        texts,
        planned=planned,
        dtype=dtype,
        store=store,
        command=command,
        progress=progress,
    )
    names = [(model, layer) for model in recorded.found for layer in recorded.layers_of(model)]
    if len(names) < 3:
        # Of two layers, each is compared with the other alone, and published scores are the same for both.
        raise must("layers to localize", "at least 3, of all models together", len(names))
    labels = [f"{model}/{layer}" for model, layer in names]
    given: dict[str, Any] = {"rotations": rotations, "seed": seed, "device": device, **options}
    units, plan = _halved(recorded, halves, seed)
    whole = _score(recorded, names, None, direction, given)
    drawn: list[Localizations] = []
    for place, kept in enumerate(plan):
        out = np.ones(len(recorded.rows), dtype=bool)
        out[kept] = False
        drawn.append(_score(recorded, names, out, direction, given))
        if progress is not None:
            progress("half-samples", place + 1, halves)
    values = {
        BEYOND: (whole.beyond, [one.beyond for one in drawn]),
        DESCRIBED: (whole.described.scores, [one.described.scores for one in drawn]),
        CODED: (whole.coded.scores, [one.coded.scores for one in drawn]),
    }
    notes = {CODED: f"both means z-scored over the {whole.coded.compared} layers of all models"}
    curves = [
        _curve(model, name, recorded, each, names, units, level, notes.get(name, ""))
        for name, each in values.items()
        for model in recorded.found
    ]
    table = [
        {
            "model": model,
            "layer": layer,
            BEYOND: float(whole.beyond[k]),
            "monte_carlo": float(whole.monte_carlo[k]),
            DESCRIBED: float(whole.described.scores[k]),
            CODED: float(whole.coded.scores[k]),
        }
        for k, (model, layer) in enumerate(names)
    ]
    return Result(
        experiment="localization",
        model=", ".join(recorded.found),
        task=texts.name,
        split=texts.name,
        score="localization",
        points=1.0,
        curves=tuple(curves),
        rows=tuple({k: v if v == v else None for k, v in row.items()} for row in table),
        findings=(whole.sentence(labels), whole.coded.sentence(labels)),
        methods=_methods(recorded, rotations, halves, direction, level),
        references=cited("wu2020", measures=["neuron_correlation", "svcca"]),
        warnings=recorded.warned,
        more=MappingProxyType(
            {
                "layers": table,
                "agreement": whole.agreement,
                "agreement_described": whole.agreement_described,
                "rotations": rotations,
                "direction": direction,
                "exact": exact,
                "svcca": dict(zip((DESCRIBED, CODED), SVCCAS, strict=True)),
            }
        ),
        provenance=MappingProxyType(
            told_provenance([recorded], [texts], started=started, seed=seed, device=device, command=command)
        ),
    )


def choose_rows(
    *,
    rows: str | None = None,
    sample: int | None = SAMPLE,
    longest: int | None = None,
    seed: int = 0,
    exact: str | None = None,
) -> RowOptions:
    """Check which rows were asked for; the paper took all words, so with `exact` that is the default."""
    if exact is not None:
        rows, sample = rows or "word", None if sample == SAMPLE else sample
    return row_options(rows or "token", sample=sample, longest=longest, seed=seed, published=exact)


def _by_name(models: Any, device: str) -> dict[str, Any]:
    """Open models, each by the name it was given or has."""
    if isinstance(models, Mapping):
        return {str(name): open_encoder(one, device) for name, one in models.items()}
    several = models if isinstance(models, list | tuple) else [models]
    opened = [open_encoder(one, device) for one in several]
    found = {one.name: one for one in opened}
    if not found or len(found) < len(opened):
        raise must("models", "one or more, named differently", [one.name for one in opened])
    return found


def _halved(recorded: Recorded, halves: int, seed: int) -> tuple[Clusters, list[np.ndarray]]:
    """What is independent, and the rows of every half of it; refused where some half has too few."""
    count, ids = len(recorded.rows), recorded.clusters
    if count < 2 * LEAST:
        raise InputError(
            f"localization must have at least {2 * LEAST} rows, {LEAST} in every half, but got {count}."
        )
    units = Clusters.singletons(count) if ids is None else Clusters.from_ids(ids, noun=recorded.unit)
    plan = half_plan(units, halves, seed)
    fewest = min(len(kept) for kept in plan)
    if fewest < LEAST:
        raise InputError(
            f"localization must have at least {LEAST} rows in every half of its {recorded.unit}s, but got "
            f"{fewest} of {count} in one."
        )
    return units, plan


def _score(
    recorded: Recorded,
    names: list[tuple[str, int]],
    leave_out: np.ndarray | None,
    direction: Direction,
    given: Mapping[str, Any],
) -> Localizations:
    layers = [recorded.layer(*name) for name in names]
    asked: dict[str, Any] = {**given, "leave_out": leave_out, "names": [f"{m}/{k}" for m, k in names]}
    plain = {name: value for name, value in asked.items() if name != "rotations"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        turned = find_localization(layers, **asked)
        maps = similarity_matrix(layers, None, SVCCAS, **plain)
    svcca, coded = (maps[name].values for name in SVCCAS)
    return localizations(svcca, coded, turned, direction=direction)


def _methods(recorded: Recorded, rotations: int, halves: int, direction: str, level: float) -> str:
    return (
        f"Layers of {' and '.join(recorded.found)} were compared by the mean largest absolute correlation of "
        f"single neurons on {recorded.rows.sentence()} of {recorded.rows.extent()}. From each "
        f"pair's value its mean over {rotations} random rotations of both layers was subtracted, and what is "
        f"left was averaged over the other layers (direction: {direction}). Published scores (Wu et al. "
        "2020) subtract the mean SVCCA instead: as described, of centered neurons up to the component that "
        "reaches 99% of the variance; as coded, of standardized neurons with a component less, both means "
        "over the layers whose neurons are looked for and z-scored over all layers. Intervals of "
        f"{level * 100:g}% are by {halves} half-samples of {recorded.unit}s, all with the same rotations. "
        f"Computed with microtome {VERSION}."
    )


def _curve(
    model: str,
    name: str,
    recorded: Recorded,
    each: tuple[np.ndarray, list[np.ndarray]],
    names: list[tuple[str, int]],
    units: Clusters,
    level: float,
    note: str,
) -> Curve:
    mine = [owner == model for owner, _ in names]
    values, drawn = each[0][mine], np.stack([one[mine] for one in each[1]])
    band = half_interval(values, drawn, level, units=len(units), unit=recorded.unit)
    blank = np.full(len(values), np.nan)
    return Curve(
        name=f"{model}: {name}",
        axis="layer",
        x=recorded.layers_of(model),
        values=values,
        low=band.low,
        high=band.high,
        band_low=blank,
        band_high=blank,
        level=level,
        unit=recorded.unit,
        n=recorded.examples,
        seeds=(1,) * len(values),
        reasons=tuple(None if np.isfinite(v) else "its similarities are undefined" for v in values),
        note=note,
    )
