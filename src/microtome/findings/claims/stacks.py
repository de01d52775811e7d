"""Stacks of a similarity map: the layers of each model on a side of it, and which model came from which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..cells import empty_places
from ..maps import Map
from ..methods import model_borders


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayers:
    """
    The layers of one model on one side of a map.

    Parameters
    ----------
    model : str
        Empty where the names of layers have no model.
    role : str
        "ORIG", "FT1", ... where it is known; empty otherwise.
    base : str
        Name of the model that this one was fine-tuned from; empty where that is unknown.
    changed : bool
        Whether it is known to be a random baseline, or to have blocks removed.
    places : tuple of int
        Of its layers in the map.
    names : tuple of str
        Of the layers, different from those of every other stack.
    depths : tuple of (int or None)
        Number of each layer in its model; None for one without, such as a normed last state.
    empty : frozenset of int
        Places that only keep the number of a layer that was not compared.
    """

    model: str
    role: str = ""
    base: str = ""
    changed: bool = False
    places: tuple[int, ...]
    names: tuple[str, ...]
    depths: tuple[int | None, ...]
    empty: frozenset[int] = frozenset()

    @property
    def numbered(self) -> dict[int, int]:
        """Place of each layer that has a number and was compared, by that number."""
        return {
            depth: place
            for depth, place in zip(self.depths, self.places, strict=True)
            if depth is not None and place not in self.empty
        }


def stacks_of(similarity_map: Map) -> tuple[list[ModelLayers], list[ModelLayers]]:
    """
    Split the layers of a map into stacks.

    Parameters
    ----------
    similarity_map : Map

    Returns
    -------
    left, right : list of ModelLayers
        The same list where the map is symmetric.
    """
    clash = not similarity_map.symmetric and bool(set(similarity_map.left) & set(similarity_map.right))
    lefts = _stacks(similarity_map, "left", "left " if clash else "")
    return lefts, lefts if similarity_map.symmetric else _stacks(
        similarity_map, "right", "right " if clash else ""
    )


def _stacks(similarity_map: Map, side: str, prefix: str) -> list[ModelLayers]:
    names: tuple[str, ...] = getattr(similarity_map, side)
    borders = model_borders(names) or {"": 0}
    records = model_records(similarity_map)
    stacks = []
    for (model, start), stop, role in zip(
        borders.items(),
        [*list(borders.values())[1:], len(names)],
        _roles([records.get(model) for model in borders]),
        strict=True,
    ):
        last = [name.rpartition("/")[2] for name in names[start:stop]]
        record = records.get(model, {})
        tuned = record.get("tuned")
        stacks.append(
            ModelLayers(
                model=f"{prefix}{model}".strip(),
                role=role,
                base=str(tuned["model"]) if tuned else "",
                changed=bool(record.get("changes")),
                places=tuple(range(start, stop)),
                names=tuple(f"{prefix}{name}" for name in names[start:stop]),
                depths=tuple(int(suffix) if suffix.isdecimal() else None for suffix in last),
                empty=empty_places(similarity_map, side),
            )
        )
    return stacks


def model_records(similarity_map: Map) -> dict[str, Mapping[str, Any]]:
    """Provenance of each model; nothing where it does not state which models are fine-tuned."""
    models = similarity_map.provenance.get("models")
    if not isinstance(models, list | tuple):
        return {}
    return {str(m["name"]): m for m in models if isinstance(m, Mapping) and "name" in m and "tuned" in m}


def _roles(models: Sequence[Mapping[str, Any] | None]) -> list[str]:
    tuned = [bool(model and model["tuned"]) for model in models]
    if not any(tuned):
        return [""] * len(models)
    # A random baseline, or a model with blocks removed, is neither.
    original = [bool(model and not model["tuned"] and not model.get("changes")) for model in models]
    roles = []
    for k in range(len(models)):
        kind, members = ("FT", tuned) if tuned[k] else ("ORIG", original)
        count = f"{sum(members[: k + 1])}" if sum(members) > 1 else ""
        roles.append(f"{kind}{count}" if members[k] else "")
    return roles


def stack_pairs(similarity_map: Map) -> list[tuple[ModelLayers, ModelLayers, bool]]:
    """
    Pair the models of a map: the later one, the earlier one, and whether one is known to come from the other.

    Parameters
    ----------
    similarity_map : Map

    Returns
    -------
    list of (ModelLayers, ModelLayers, bool)
        Models and what they were fine-tuned from come first.
    """
    lefts, rights = stacks_of(similarity_map)
    if not similarity_map.symmetric:
        return [(lefts[0], rights[0], False)] if len(lefts) == len(rights) == 1 else []
    pairs = []
    for first, second in combinations(lefts, 2):
        if second.base and second.base == first.model:
            pairs.append((second, first, True))
        else:
            pairs.append((first, second, bool(first.base) and first.base == second.model))
    return sorted(pairs, key=lambda pair: not pair[2])
