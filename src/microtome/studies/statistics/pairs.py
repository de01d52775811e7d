"""The models in a similarity map, pairs of them, and regions of layers by relative depth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import UnknownNameError
from ...findings.cells import layer_of
from ...findings.maps import Map
from ...findings.record import Maps
from .values import NotMeasuredError

if TYPE_CHECKING:
    from ..results import StudyResult

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapModel:
    """
    The layers of one model in a map, without the embedding output and a last norm.

    Parameters
    ----------
    name : str
    places : ndarray
        Indices in the map.
    seed : int, optional
    task : str
        Of a fine-tuned model; empty for others.
    random : bool
        Whether its weights are re-initialized.
    """

    name: str
    places: NDArray[np.intp]
    seed: int | None
    task: str
    random: bool

    @property
    def tuned(self) -> bool:
        """Whether it is fine-tuned."""
        return bool(self.task)

    def named(self, names: Sequence[str]) -> bool:
        """Whether its name, or its task, begins with one of some names; or there are none."""
        words = (self.name.split("/")[-1], self.task)
        return not names or any(word.startswith(name) for word in words for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """
    The similarities of the layers of two models, or of one with itself.

    Parameters
    ----------
    left, right : MapModel
    values, low, high : ndarray of shape (left, right)
        Without the diagonal of a model with itself.
    """

    left: MapModel
    right: MapModel
    values: Array
    low: Array
    high: Array

    @property
    def tables(self) -> tuple[Array, Array, Array]:
        """Values, and both ends of their intervals."""
        return self.values, self.low, self.high


# Which models a statistic is of.
KINDS: Mapping[str, str] = {
    "base": "each model before fine-tuning with itself",
    "tuned": "each fine-tuned model with itself",
    "tuned-base": "each fine-tuned model (rows) with the model before",
    "seeds": "fine-tuned models of different seeds",
    "encoders": "different models, none fine-tuned",
    "tuned encoders": "fine-tuned models of different encoders",
    "random": "each randomly initialized copy with itself",
    "trained-random": "models (rows) with randomly initialized copies",
}
# Pairs of layers, by relative depth; thirds are called early, middle and late.
REGIONS: Mapping[str, str] = {
    "all": "all pairs",
    "adjacent": "neighboring layers",
    "matched": "layers of equal relative depth",
    "distant": "layers more than half the depth apart",
    "last": "the last layers",
    "early matched": "early layers of equal relative depth",
    "late matched": "late layers of equal relative depth",
    "last pair": "the last layer and the one below it",
    "early": "pairs of early layers",
    "late": "pairs of late layers",
    "early or late": "pairs of early layers, and pairs of late layers",
    "early-late": "an early layer (rows) and a late one",
    "across": "an early and a late layer, or the other way round",
    "late rows": "late layers (rows) with all layers",
    "early rows": "early layers (rows) with all layers",
    "early columns": "all layers with early ones",
    "late columns": "all layers with late ones",
    "not early": "pairs of layers that are not early",
}


def stacks_of(result: StudyResult, similarity_map: Map) -> list[MapModel]:
    """
    The models of a map, in its order.

    Parameters
    ----------
    result : StudyResult
    similarity_map : Map

    Returns
    -------
    list of MapModel
    """
    facts = {model["name"]: model for model in result.document.get("provenance", {}).get("models", ())}
    places: dict[str, list[int]] = {}
    for place, name in enumerate(similarity_map.left):
        model, number = layer_of(name)
        if number:
            places.setdefault(model, []).append(place)
    stacks = []
    for name, some in places.items():
        fact = facts.get(name, {})
        tuned = fact.get("tuned")
        random = any("re-initialized" in str(change) for change in fact.get("changes", ()))
        seed = tuned.get("seed") if tuned else None
        task = str(tuned.get("task", "")) if tuned else ""
        stacks.append(MapModel(name=name, places=np.array(some), seed=seed, task=task, random=random))
    return stacks


def pairs_of(
    result: StudyResult,
    similarity_map: Map,
    between: str,
    left: Sequence[str] | None = None,
    right: Sequence[str] | None = None,
) -> list[Pair]:
    """
    The pairs of models of a kind.

    Parameters
    ----------
    result : StudyResult
    similarity_map : Map
    between : str
        A key of `KINDS`.
    left, right : sequence of str, optional
        How names of models, or tasks of fine-tuned ones, begin on either side; all when absent.

    Returns
    -------
    list of Pair
    """
    stacks = stacks_of(result, similarity_map)
    base = [s for s in stacks if not s.tuned and not s.random]
    tuned = [s for s in stacks if s.tuned]
    random = [s for s in stacks if s.random]
    choices: list[tuple[MapModel, MapModel]] = {
        "base": [(s, s) for s in base],
        "tuned": [(s, s) for s in tuned],
        "tuned-base": list(itertools.product(tuned, base)),
        "seeds": [(a, b) for a, b in itertools.combinations(tuned, 2) if a.seed != b.seed],
        "encoders": list(itertools.permutations(base, 2)),
        "tuned encoders": list(itertools.combinations(tuned, 2)),
        "random": [(s, s) for s in random],
        "trained-random": list(itertools.product(base, random)),
    }[between]
    choices = [(a, b) for a, b in choices if a.named(left or ()) and b.named(right or ())]
    if not choices:
        raise NotMeasuredError(f"the comparison has no pair of {KINDS[between]}")
    return [_pair(similarity_map, a, b) for a, b in choices]


def maps_of(result: StudyResult) -> Maps:
    """The maps of a comparison."""
    if not isinstance(result.content, Maps):
        raise NotMeasuredError(f"results of {result.verb} have no maps")
    return result.content


def map_of(result: StudyResult, measure: str) -> Map:
    """The map of one measure."""
    try:
        return maps_of(result)[measure]
    except UnknownNameError as problem:
        raise NotMeasuredError(f"{measure} was not computed") from problem


def _pair(similarity_map: Map, left: MapModel, right: MapModel) -> Pair:
    at = np.ix_(left.places, right.places)
    tables = []
    for table in (similarity_map.values, similarity_map.low, similarity_map.high):
        part = np.full((len(left.places), len(right.places)), math.nan) if table is None else table[at].copy()
        if left is right:
            np.fill_diagonal(part, math.nan)
        tables.append(part)
    return Pair(left=left, right=right, values=tables[0], low=tables[1], high=tables[2])


def depths_of(pair: Pair) -> tuple[Array, Array]:
    """Relative depth of every layer of both sides, from 0 to 1, as a column and a row."""
    rows, columns = pair.values.shape
    return np.linspace(0, 1, rows)[:, None], np.linspace(0, 1, columns)[None]


def third_of(size: int, part: str) -> NDArray[np.bool_]:
    """The layers of the lowest, middle or highest third."""
    place, third = np.arange(size), round(size / 3)
    return {"early": place < third, "late": place >= size - third}.get(
        part, (place >= third) & (place < size - third)
    )


def region_of(pair: Pair, region: str) -> NDArray[np.bool_]:
    """
    Which cells of a pair of models are in a region.

    Parameters
    ----------
    pair : Pair
    region : str
        A key of `REGIONS`.

    Returns
    -------
    ndarray of bool
    """
    shape = pair.values.shape
    u, v = depths_of(pair)
    distance, step = np.abs(u - v), 1 / max(max(shape) - 1, 1)
    early, late = (tuple(third_of(size, part) for size in shape) for part in ("early", "late"))
    both = {
        "early": early[0][:, None] & early[1][None],
        "late": late[0][:, None] & late[1][None],
        "early-late": early[0][:, None] & late[1][None],
    }
    last = np.zeros(shape, dtype=bool)
    last[-1, -2:-1] = True
    blank = np.zeros(shape, dtype=bool)
    table = {
        "all": ~blank,
        "adjacent": (distance > step / 2) & (distance < 1.5 * step),
        "matched": distance <= step / 2 + 1e-9,
        "distant": distance > 0.5,
        "last pair": last,
        "last": (u == 1) & (v == 1),
        "early matched": both["early"] & (distance <= step / 2 + 1e-9),
        "late matched": both["late"] & (distance <= step / 2 + 1e-9),
        "early or late": both["early"] | both["late"],
        "across": both["early-late"] | (late[0][:, None] & early[1][None]),
        "late rows": blank | late[0][:, None],
        "early rows": blank | early[0][:, None],
        "late columns": blank | late[1][None],
        "early columns": blank | early[1][None],
        "not early": ~early[0][:, None] & ~early[1][None],
        **both,
    }
    return table[region] & np.isfinite(pair.values)
