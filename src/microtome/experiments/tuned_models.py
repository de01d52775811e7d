"""Which models does a change lie between? The base, what fine-tuning made of it, and its random twins."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..checks import whole_number
from ..comparison.models import tuned_facts
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..extraction.extracting import as_encoder
from ..extraction.texts import Texts
from ..findings.results import Curve
from ..version import VERSION
from .cell_errors import Points, Sample, curve_of
from .layer_similarity import Alike, Recorded, random_twin

AXIS = "layer"
BASE = "base"
TUNED, SEEDS, TWIN = "base to tuned", "between seeds", "base to random twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
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
    twins : mapping of str to Encoder
    """

    base: Any
    tuned: Mapping[str, Any]
    seeds: tuple[int, ...]
    task: str
    twins: Mapping[str, Any]

    def task_of(self, name: str) -> str:
        """The task that a text of this name belongs to: that of the models, or the text itself."""
        # A text of any other kind was never part of the task, so calling it by the task would mislead.
        return self.task if self.task and f"{name}/".startswith(f"{self.task}/") else name

    @property
    def all(self) -> dict[str, Any]:
        """Every one of them."""
        return {BASE: self.base, **self.tuned, **self.twins}

    @property
    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        """What is compared with what, by the name of the series."""
        found = {
            TUNED: [(BASE, name) for name in self.tuned],
            SEEDS: list(combinations(self.tuned, 2)),
            TWIN: [(BASE, name) for name in self.twins],
        }
        return {name: some for name, some in found.items() if some}


def open_models(base: Any, tuned: Any, twin: Any = 0, *, seed: int = 0, device: str = "cpu") -> Models:
    """
    Open the models of a change.

    Parameters
    ----------
    base : Encoder or path
    tuned : Tuned, Encoder or path, or a list of them
    twin : int, Encoder, or list of Encoder
        How many twins of the base are drawn, or the twins themselves.
    seed : int
        Of the first twin.
    device : str
        For models that are given by their folders.

    Returns
    -------
    Models
    """
    first = open_encoder(base, device)
    several = list(tuned) if isinstance(tuned, list | tuple) else [tuned]
    if not several:
        raise must("tuned models", "at least one", 0)
    found = [open_encoder(one, device) for one in several]
    if len({one.digest for one in found}) < len(found):
        raise InputError("models of one setting must be different ones, but one of them is there twice.")
    told = [tuned_facts(one) for one in found]
    seeds = [one["seed"] for one in told if one is not None]
    if len(set(seeds)) < len(found):
        seeds = list(range(len(found)))
    if isinstance(twin, int):
        twins = [random_twin(first, seed + k) for k in range(whole_number("twin", twin, 0))]
    else:
        twins = [open_encoder(one, device) for one in (twin if isinstance(twin, list | tuple) else [twin])]
    return Models(
        base=first,
        tuned={f"tuned {each}": one for each, one in zip(seeds, found, strict=True)},
        seeds=tuple(seeds),
        task=next((str(one["task"]) for one in told if one is not None), ""),
        twins={f"twin {k}": one for k, one in enumerate(twins)},
    )


def open_encoder(given: Any, device: str = "cpu") -> Any:
    """Take an encoder as it is, that of a tuned model, or load one from its folder."""
    from ..encoders.loading import load

    if hasattr(given, "encoder") and hasattr(given, "evaluation"):
        return given.encoder
    return load(given, device=device) if isinstance(given, str | os.PathLike) else as_encoder(given)


def series_of(one: Alike, models: Models) -> dict[str, Sample]:
    """
    The similarities of base and tuned, of two seeds, and of base and twin.

    Pairs of seeds share models and do not vary independently, so only their mean is given.
    """
    found = {name: one.sample(pairs) for name, pairs in models.pairs.items()}
    return {name: each.together() if name == SEEDS else each for name, each in found.items()}


def layer_curve(
    name: str, recorded: Recorded, found: Points, note: str = "", *, unit: str | None = None
) -> Curve:
    """Make a curve over the layers, with the unit of the recorded rows where no other is named."""
    unit = f"{unit or recorded.unit}{' and model' if found.models > 1 else ''}"
    return curve_of(name, AXIS, recorded.layers, found, unit=unit, n=recorded.examples, note=note)


def long_table(found: Mapping[str, Alike]) -> list[dict[str, Any]]:
    """One record a measure, pair of models and layer."""
    out: list[dict[str, Any]] = []
    for label, one in found.items():
        for i, left in enumerate(one.left):
            for j, right in enumerate(one.right):
                if left == right or (right in one.left and one.left.index(right) < i):
                    continue
                told = {"measure": label, "left": left, "right": right}
                out += [
                    {**told, "layer": number, "similarity": float(value) if np.isfinite(value) else None}
                    for number, value in zip(one.layers, one.values[:, i, j], strict=True)
                ]
    return out


def said_methods(
    models: Models, recorded: Sequence[Recorded], measures: Sequence[str], halves: int, level: float
) -> str:
    """Say how models were compared, on one text or two, for the methods of a paper."""
    units = " or ".join(dict.fromkeys(f"{one.unit}s" for one in recorded))
    told = dict.fromkeys(f"{one.rows.sentence()} of {one.rows.extent()}" for one in recorded)
    texts = " and on ".join(told)
    count = len(models.tuned)
    name, plural = as_encoder(models.base).name, "" if count == 1 else "s"
    task = f" (on {models.task})" if models.task else ""
    parts = [
        f"{name} was compared with {count} fine-tuned model{plural}{task} in {len(recorded[0].layers)} "
        f"layers by {' and '.join(measures)} (Merchant et al. 2020), on {texts}."
    ]
    if models.twins:
        parts.append("A twin of the base with all weights drawn anew is the floor.")
    seeds = " and fine-tuning seeds" if count > 1 else ""
    parts.append(
        f"Intervals of {level * 100:g}% are over {units}{seeds}: by influence scores for debiased "
        f"CKA (by a jackknife where there are few {units}) and by {halves} half-samples for RSA and "
        f"the like; bands hold for all layers at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def told_provenance(
    recorded: Sequence[Recorded], texts: Sequence[Texts], *, started: float, **more: Any
) -> dict[str, Any]:
    """Say what it takes to make a result again."""
    return provenance(
        {
            "models": dict(recorded[0].digests),
            "texts": [dict(one.facts) for one in texts],
            "rows": [{"count": len(one.rows), "digest": one.rows.digest} for one in recorded],
            "activations": [one.address for each in recorded for one in each.found.values()],
            **more,
            "seconds": round(time.monotonic() - started, 3),
        }
    )
