"""Hand-made results of a study, saved as the store has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from microtome.findings.maps import Map
from microtome.findings.record import Maps
from microtome.findings.results import Curve, Result, SpanMap
from microtome.findings.words import Unit
from microtome.studies.results import StudyResult, StudyResults

MAJORITY = "majority baseline"


def curve(name: str, values: ArrayLike, x: Sequence[Any], reach: float = 0.0, **facts: Any) -> Curve:
    """A curve whose intervals reach this far to both sides, and whose bands reach twice as far."""
    line = np.asarray(values, dtype=np.float64)
    ends = {"low": line - reach, "high": line + reach}
    ends |= {"band_low": line - 2 * reach, "band_high": line + 2 * reach}
    fields: dict[str, Any] = {"axis": "layers kept", "level": 0.95, "unit": Unit("example"), "n": 200}
    fields |= {"seeds": (2,) * len(line), "reasons": (None,) * len(line), **facts}
    return Curve(name=name, x=tuple(x), values=line, **ends, **fields)


def result(*curves: Curve, experiment: str = "truncation", **facts: Any) -> Result:
    """A result in accuracy, above a majority baseline of one half."""
    fields: dict[str, Any] = {"model": "m", "task": "t", "split": "validation", "score": "accuracy"}
    return Result(experiment=experiment, curves=curves, **{**fields, "lines": {MAJORITY: 0.5}, **facts})


def spans(costs: np.ndarray, name: str = "cost of skipping", arm: str = "", reach: float = 0.0) -> SpanMap:
    """Costs of spans, with intervals that reach this far and bands that reach twice as far."""
    ends = {"low": costs - reach, "high": costs + reach}
    ends |= {"band_low": costs - 2 * reach, "band_high": costs + 2 * reach}
    fields: dict[str, Any] = {"full": 0.9, "level": 0.95, "unit": Unit("example"), "n": 200, "arm": arm}
    return SpanMap(name=name, depth=len(costs), values=costs, **ends, **fields)


def maps(
    values: np.ndarray,
    models: Sequence[Mapping[str, Any]],
    layers: Sequence[int],
    *,
    reach: float | None = None,
    measure: str = "debiased_cka",
) -> Maps:
    """Maps of models with so many layers each, counted from 1, with intervals that reach this far."""
    pairs = zip(models, layers, strict=True)
    names = tuple(f"{model['name']}/{k}" for model, count in pairs for k in range(1, count + 1))
    blank = np.full(values.shape, np.nan)
    own = {} if reach is None else {"low": values - reach, "high": values + reach, "level": 0.95}
    facts = [
        {"name": model["name"], "tuned": model.get("tuned"), "changes": model.get("changes", [])}
        for model in models
    ]
    entry = Map(
        measure=measure,
        left=names,
        right=names,
        values=values,
        reasons=((None,) * len(names),) * len(names),
        n=300,
        estimator="",
        null_mean=blank,
        z=blank,
        p=blank,
        symmetric=True,
        unit="example",
        provenance=MappingProxyType({"models": facts}),
        **own,
    )
    return Maps([entry], claims=())


def study(folder: Path, contents: Mapping[tuple[str, str, str, str], Any], **facts: Any) -> StudyResults:
    """A study with these results, by table, verb, model and task."""
    results = []
    for place, (key, content) in enumerate(contents.items()):
        at = folder / str(place)
        content.save(at)
        results.append(StudyResult(*key, seed=None, folder=at))
    models = tuple(dict.fromkeys(key[2] for key in contents if key[2]))
    tasks = tuple(dict.fromkeys(key[3] for key in contents if key[3]))
    fields = {"name": "study", "title": "Study", "paper": "", "claims": [], "models": models, "tasks": tasks}
    return StudyResults(**{**fields, **facts}, results=tuple(results))
