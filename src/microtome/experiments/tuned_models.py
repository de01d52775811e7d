"""Models of a change: the base, its fine-tuned models, and randomly initialized copies of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..checks import several, whole_number
from ..comparison.models import tuned_facts
from ..context import Context
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..extraction.extracting import as_encoder
from ..extraction.texts import Texts
from ..findings.results import Curve
from ..version import VERSION
from .base import option
from .cell_errors import Points, Sample, curve_of
from .inputs import LoadingOptions
from .layer_similarity import ComparisonOptions, LayerSimilarity, Recorded, check_same, twin_of

AXIS = "layer"
BASE = "base"
TUNED, SEEDS, RANDOM = "base to tuned", "between seeds", "base to random twin"
MEASURES = ("rsa", "debiased_cka")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModels:
    """
    Models by the names under which they are compared.

    Parameters
    ----------
    base : Encoder
    tuned : mapping of str to Encoder
    seeds : tuple of int
        Of the tuned models; their places where they are not known.
    task : str
        That they were tuned on; empty where it is not known.
    random : mapping of str to Encoder
        Randomly initialized copies of the base.
    """

    base: Any
    tuned: Mapping[str, Any]
    seeds: tuple[int, ...]
    task: str
    random: Mapping[str, Any]

    def task_of(self, name: str) -> str:
        """The task that a text of this name belongs to: that of the models, or the text itself."""
        # A text of any other kind was never part of the task, so calling it by the task would mislead.
        return self.task if self.task and f"{name}/".startswith(f"{self.task}/") else name

    @property
    def all(self) -> dict[str, Any]:
        """All models."""
        return {BASE: self.base, **self.tuned, **self.random}

    @property
    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        """Pairs of models that are compared, by the name of the series."""
        pairs = {
            TUNED: [(BASE, name) for name in self.tuned],
            SEEDS: list(combinations(self.tuned, 2)),
            RANDOM: [(BASE, name) for name in self.random],
        }
        return {name: models for name, models in pairs.items() if models}


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(ComparisonOptions):
    """Measures of similarity, and how their intervals are found."""

    measures: str | Sequence[str] = option(
        "Names of `microtome ls measures`.", MEASURES, panel="Statistics", metavar="NAME,..."
    )
    halves: int = option(
        "Number of half-samples, for intervals of measures without an influence function.",
        40,
        least=2,
        most=100_000,
        panel="Statistics",
    )

    def comparing(self, context: Context) -> dict[str, Any]:
        """Options of `compare_layers`."""
        return {"halves": self.halves, "progress": context.progress, **self.computing(context)}


@dataclass(frozen=True, kw_only=True)
class TunedOptions(LoadingOptions):
    """A model before fine-tuning, and after it."""

    base: Any = option(
        "Model before fine-tuning: hub id, folder or zoo:NAME.", argument=True, panel="Input", metavar="BASE"
    )
    tuned: Any = option(
        "Fine-tuned models, one per seed; two or more give the upper reference.",
        argument=True,
        repeated=True,
        panel="Input",
        metavar="TUNED...",
    )

    def open_tuned(self, context: Context, baselines: Any = 0, seed: int = 0) -> TunedModels:
        """
        Open the models, and check that they can be compared.

        Parameters
        ----------
        context : Context
        baselines : int, Encoder, or list of Encoder
            Number of random baselines of the base, or the random baselines themselves.
        seed : int
            Of the first random baseline.

        Returns
        -------
        TunedModels
        """
        if not several(self.tuned):
            raise must("tuned models", "at least one", 0)
        base, *tuned = self.open_models([self.base, *several(self.tuned)], context.device)
        if len({model.digest for model in tuned}) < len(tuned):
            raise InputError("models of one setting must be different ones, but one of them is there twice.")
        facts = [tuned_facts(model) for model in tuned]
        seeds = [fact["seed"] for fact in facts if fact is not None]
        if len(set(seeds)) < len(tuned):
            seeds = list(range(len(tuned)))
        if isinstance(baselines, int):
            count = whole_number("random_baselines", baselines, 0)
            random = [twin_of(base, f"{base.name}-random{seed + k}", seed + k) for k in range(count)]
        else:
            random = [open_encoder(model, context.device) for model in several(baselines)]
        models = TunedModels(
            base=base,
            tuned={f"tuned {place}": model for place, model in zip(seeds, tuned, strict=True)},
            seeds=tuple(seeds),
            task=next((str(fact["task"]) for fact in facts if fact is not None), ""),
            random={f"twin {k}": model for k, model in enumerate(random)},
        )
        check_same(models.all)
        return models


def open_encoder(given: Any, device: str = "cpu") -> Any:
    """Take an encoder as it is, that of a tuned model, or load one from its folder."""
    from ..encoders.loading import load

    if hasattr(given, "encoder") and hasattr(given, "evaluation"):
        return given.encoder
    return load(given, device=device) if isinstance(given, str | os.PathLike) else as_encoder(given)


def series_of(similarity: LayerSimilarity, models: TunedModels) -> dict[str, Sample]:
    """
    Similarities of base and tuned, of two seeds, and of base and random baseline.

    Pairs of seeds share models and do not vary independently, so only their mean is given.
    """
    samples = {name: similarity.sample(pairs) for name, pairs in models.pairs.items()}
    return {name: sample.together() if name == SEEDS else sample for name, sample in samples.items()}


def layer_curve(
    name: str, recorded: Recorded, points: Points, *, unit: str | None = None, **facts: Any
) -> Curve:
    """Make a curve over the layers, with the unit of the recorded rows where no other is named."""
    unit = f"{unit or recorded.unit}{' and model' if points.models > 1 else ''}"
    return curve_of(name, AXIS, recorded.layers, points, unit=unit, n=recorded.examples, **facts)


def long_table(similarities: Mapping[str, LayerSimilarity]) -> list[dict[str, Any]]:
    """One record per measure, pair of models and layer."""
    table: list[dict[str, Any]] = []
    for label, similarity in similarities.items():
        for i, left in enumerate(similarity.left):
            for j, right in enumerate(similarity.right):
                if left == right or (right in similarity.left and similarity.left.index(right) < i):
                    continue
                pair = {"measure": label, "left": left, "right": right}
                table += [
                    {**pair, "layer": number, "similarity": float(value) if np.isfinite(value) else None}
                    for number, value in zip(similarity.layers, similarity.values[:, i, j], strict=True)
                ]
    return table


def change_methods(
    models: TunedModels, recorded: Sequence[Recorded], measures: Sequence[str], halves: int, level: float
) -> str:
    """How models were compared, on one text or two, for the methods of a paper."""
    units = " or ".join(dict.fromkeys(f"{text.unit}s" for text in recorded))
    rows = dict.fromkeys(f"{text.rows.sentence()} of {text.rows.extent()}" for text in recorded)
    count = len(models.tuned)
    plural = "" if count == 1 else "s"
    task = f" (on {models.task})" if models.task else ""
    parts = [
        f"{models.base.name} was compared with {count} fine-tuned model{plural}{task} in "
        f"{len(recorded[0].layers)} layers by {' and '.join(measures)} (Merchant et al. 2020), on "
        f"{' and on '.join(rows)}."
    ]
    if models.random:
        parts.append("A randomly initialized copy of the base is the lower reference.")
    seeds = " and fine-tuning seeds" if count > 1 else ""
    parts.append(
        f"Intervals of {level * 100:g} % are over {units}{seeds}: by influence scores for debiased "
        f"CKA (by a jackknife where there are few {units}) and by {halves} half-samples for RSA and "
        f"similar measures; bands hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def text_provenance(
    recorded: Sequence[Recorded], texts: Sequence[Texts], context: Context, *, started: float, **facts: Any
) -> dict[str, Any]:
    """What it takes to make a result again."""
    return provenance(
        {
            "models": dict(recorded[0].digests),
            "texts": [dict(text.facts) for text in texts],
            "rows": [{"count": len(text.rows), "digest": text.rows.digest} for text in recorded],
            "activations": [model.address for text in recorded for model in text.activations.values()],
            **facts,
            "device": context.device,
            "command": context.command,
            "seconds": round(time.monotonic() - started, 3),
        }
    )
