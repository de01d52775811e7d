"""The section of a comparison: its maps, one panel per pair of models, on one color scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from ..errors import MicrotomeError
from ..figures.heatmap import color_range
from ..findings.localization import localization
from ..findings.maps import Map
from ..findings.methods import model_borders
from ..findings.places import empty_places
from ..findings.record import Maps
from ..findings.words import listed, number
from .alike import MapWindow, alike, block_claim, changed, level_of, undefined
from .sections import Section, section
from .sentences import Statement

DEBIASED = "debiased_cka"
LOCAL = ("neuron_correlation", "svcca")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayers:
    """
    The layers of one model on one side of a map.

    Parameters
    ----------
    model : str
    role : str
        "ORIG", "FT1", ... where it is known; empty otherwise.
    base : str
        Name of the model that this one was fine-tuned from, where that is known.
    changed : bool
        Whether it is known to be a random baseline, or to have been cut.
    places : tuple of int
        Of its layers in the map.
    names : tuple of str
        Of the layers, as the page calls them.
    depths : tuple of (int or None)
    """

    model: str
    role: str = ""
    base: str = ""
    changed: bool = False
    places: tuple[int, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    depths: tuple[int | None, ...] = field(repr=False)


def map_parts(maps: Maps, file: str, label: str) -> list[Section]:
    """
    Make the sections of a comparison.

    Parameters
    ----------
    maps : Maps
    file : str
        Where they came from.
    label : str
        What tells this comparison from others of the same models; empty where there are none.

    Returns
    -------
    list of Section
        A map for each set of layers (attention has blocks where rows have layers), the profile of change
        between each model and what became of it, and localization where both of its maps are there.
    """
    groups: dict[tuple[Any, ...], list[Map]] = {}
    for similarity_map in maps.values():
        key = (similarity_map.left, similarity_map.right, similarity_map.symmetric)
        groups.setdefault(key, []).append(similarity_map)
    parts: list[Section] = []
    for group in groups.values():
        group_parts = _map_part(group, maps, file, label)
        # Findings are those of the first maps; what attention says beside them stands in its own section.
        parts += [replace(part, statements=()) for part in group_parts] if parts else group_parts
    return parts


def _map_part(group: list[Map], maps: Maps, file: str, label: str) -> list[Section]:
    first = next((similarity_map for similarity_map in group if similarity_map.measure == DEBIASED), group[0])
    clash = not first.symmetric and bool(set(first.left) & set(first.right))
    lefts = _stacks(first.left, first, "left " if clash else "")
    rights = lefts if first.symmetric else _stacks(first.right, first, "right " if clash else "")
    pairs = _pairs(lefts, rights, same=first.symmetric)
    scales = {similarity_map.measure: color_range(similarity_map) for similarity_map in group}
    statements: list[Statement] = []
    differ: list[Statement] = []
    panels, profiles = [], []
    for left, right in pairs:
        with_itself = first.symmetric and left is right
        window = _window(first, left, right)
        panels.append(
            {
                "name": _panel_name(left, right),
                "left": list(left.names),
                "right": list(right.names),
                "symmetric": with_itself,
                "measures": [
                    _measure(similarity_map, left, right, scales[similarity_map.measure])
                    for similarity_map in group
                ],
            }
        )
        if with_itself:
            statements += [*alike(window), *undefined(window)]
    blocks = []
    for stack_blocks in maps.blocks:
        place = next((k for k, (a, b) in enumerate(pairs) if a is b and a.model == stack_blocks.stack), None)
        if place is None or not set(stack_blocks.names) <= set(pairs[place][0].names):
            continue
        stack = pairs[place][0]
        claim = block_claim(stack_blocks, stack_blocks.stack, stack.names)
        statements.append(claim)
        blocks.append(
            {
                "panel": place,
                "measure": stack_blocks.measure,
                "model": stack_blocks.stack,
                "runs": [
                    [stack.depths[_at(stack, stack_blocks.names[k])] for k in (block.first, block.last)]
                    for block in stack_blocks.finding.certain
                ],
                "text": claim.text,
                "short": f"{stack_blocks.stack}: {stack_blocks.finding.headline(stack_blocks.numbers)}",
                "sure": claim.sure,
            }
        )
    for later, earlier, is_tuned in _before_after(lefts, rights, same=first.symmetric):
        window = _window(first, later, earlier)
        claims, profile, ends = changed(window, tuned=is_tuned)
        differ += claims
        if profile is not None and ends is not None:
            profiles.append(_profile(window, profile, ends, file, label, [s.text for s in claims]))
    names = list(dict.fromkeys(stack.model for stack in (*lefts, *rights) if stack.model))
    about = listed(names) if names else "the layers"
    part = section(
        "map",
        title=f"Similarity of layers: {about}{label}",
        task=None,
        model=names[0] if len(names) == 1 else None,
        basis=_basis(group, (*lefts, *rights)),
        file=file,
        # What two models are compared for comes first.
        statements=[*differ, *statements],
        panels=panels,
        layers={**_layers(first, lefts, "left"), **_layers(first, rights, "right")},
        blocks=blocks,
    )
    return [part, *profiles, *_local(group, lefts, file, label)]


def _stacks(names: Sequence[str], similarity_map: Map, prefix: str) -> list[ModelLayers]:
    """Cut a list of layers into models, with the role of each where the file tells it."""
    borders = model_borders(names) or {"": 0}
    ends = [*list(borders.values())[1:], len(names)]
    records = _model_records(similarity_map)
    roles = _roles([records.get(model) for model in borders])
    out = []
    for (model, start), stop, role in zip(borders.items(), ends, roles, strict=True):
        places = tuple(range(start, stop))
        last = [names[k].rpartition("/")[2] for k in places]
        record = records.get(model)
        out.append(
            ModelLayers(
                model=f"{prefix}{model}".strip(),
                role=role,
                base=str(record["tuned"]["model"]) if record and record["tuned"] else "",
                changed=bool(record and record.get("changes")),
                places=places,
                names=tuple(f"{prefix}{names[k]}" for k in places),
                depths=tuple(int(suffix) if suffix.isdecimal() else None for suffix in last),
            )
        )
    return out


def _model_records(similarity_map: Map) -> dict[str, Mapping[str, Any]]:
    """What the file says of each model; nothing where an older one does not tell which are tuned."""
    models = similarity_map.provenance.get("models")
    if not isinstance(models, list | tuple):
        return {}
    return {str(m["name"]): m for m in models if isinstance(m, Mapping) and "name" in m and "tuned" in m}


def _roles(models: Sequence[Mapping[str, Any] | None]) -> list[str]:
    tuned = [bool(model and model["tuned"]) for model in models]
    if not any(tuned):
        return [""] * len(models)
    # A random baseline, or a model with blocks cut out, is neither.
    plain = [bool(model and not model["tuned"] and not model.get("changes")) for model in models]
    out = []
    for k in range(len(models)):
        kind, all_of = ("FT", tuned) if tuned[k] else ("ORIG", plain)
        count = f"{sum(all_of[: k + 1])}" if sum(all_of) > 1 else ""
        out.append(f"{kind}{count}" if all_of[k] else "")
    return out


def _pairs(
    lefts: list[ModelLayers], rights: list[ModelLayers], *, same: bool
) -> list[tuple[ModelLayers, ModelLayers]]:
    if not same:
        return list(product(lefts, rights))
    pairs = list(combinations_with_replacement(lefts, 2))
    # What was fine-tuned stands on the left of what it is held against.
    return [(b, a) if a.role.startswith("ORIG") and b.role.startswith("FT") else (a, b) for a, b in pairs]


def _panel_name(left: ModelLayers, right: ModelLayers) -> str:
    if not (left.model or right.model):
        return "all layers"
    names = left.model if left is right else f"{left.model} with {right.model}"
    if not (left.role and right.role):
        return names
    return f"{left.role}-{right.role}: {names}"


def _before_after(
    lefts: list[ModelLayers], rights: list[ModelLayers], *, same: bool
) -> list[tuple[ModelLayers, ModelLayers, bool]]:
    """Which model is to be held against which: the later one, the earlier one, and whether that is known."""
    if same:
        pairs = [(b, a, True) for b in lefts for a in lefts if b is not a and b.base and b.base == a.model]
        # A random baseline beside two models is what they are compared with, not one of them.
        two = lefts if len(lefts) == 2 else [stack for stack in lefts if not stack.changed]
        return pairs if pairs or len(two) != 2 else [(two[0], two[1], False)]
    return [(lefts[0], rights[0], False)] if len(lefts) == len(rights) == 1 else []


def _window(similarity_map: Map, left: ModelLayers, right: ModelLayers) -> MapWindow:
    """Cut out what sentences are about: layers that only have a place have none."""
    left_kept, right_kept = (
        [k for k, place in enumerate(stack.places) if place not in empty_places(similarity_map, side)]
        for stack, side in ((left, "left"), (right, "right"))
    )
    return MapWindow(
        of=similarity_map,
        left=tuple(left.places[k] for k in left_kept),
        right=tuple(right.places[k] for k in right_kept),
        left_model=left.model or ("the stack" if left is right else "the left stack"),
        right_model=right.model or ("the stack" if left is right else "the right stack"),
        left_depths=tuple(left.depths[k] for k in left_kept),
        right_depths=tuple(right.depths[k] for k in right_kept),
        left_names=tuple(left.names[k] for k in left_kept),
        right_names=tuple(right.names[k] for k in right_kept),
    )


def _measure(
    similarity_map: Map, left: ModelLayers, right: ModelLayers, scale: tuple[float, float]
) -> dict[str, Any]:
    at = np.ix_(left.places, right.places)

    def table(array: np.ndarray | None) -> Any:
        if array is None or not np.isfinite(array).any():
            return None
        return array[at]

    reasons = {
        f"{i},{j}": reason
        for i, a in enumerate(left.places)
        for j, b in enumerate(right.places)
        if (reason := similarity_map.reasons[a][b])
    }
    notes = [level_of(similarity_map), similarity_map.null_note, *similarity_map.warnings]
    return {
        "name": similarity_map.measure,
        "label": similarity_map.title,
        "values": similarity_map.values[at],
        "low": table(similarity_map.low),
        "high": table(similarity_map.high),
        "null_mean": table(similarity_map.null_mean),
        "z": table(similarity_map.z),
        "p": table(similarity_map.p),
        "n": similarity_map.n,
        "estimator": similarity_map.estimator,
        "unit": similarity_map.unit,
        "level": similarity_map.level,
        "reasons": reasons,
        "lo": scale[0],
        "hi": scale[1],
        "note": "; ".join(note for note in notes if note),
    }


def _layers(similarity_map: Map, stacks: Sequence[ModelLayers], side: str) -> dict[str, Any]:
    facts = getattr(similarity_map.layers, side)
    spectra = None if facts is None else facts.get("spectrum")
    wide = None if facts is None else facts.get("participation")
    out = {}
    for stack in stacks:
        for order, (place, name) in enumerate(zip(stack.places, stack.names, strict=True)):
            spectrum = None if spectra is None else spectra[place][np.isfinite(spectra[place])]
            depth = stack.depths[order]
            out[name] = {
                "depth": order if depth is None else depth,
                "model": stack.model,
                "spectrum": None if spectrum is None or not len(spectrum) else spectrum,
                "dimension": None if wide is None else float(wide[place]),
            }
    return out


def _at(stack: ModelLayers, name: str) -> int:
    return stack.names.index(name)


def _basis(group: Sequence[Map], stacks: Sequence[ModelLayers]) -> str:
    """What all measures rest on; what is said of one stands below its maps."""
    first = group[0]
    rows, texts = first.provenance.get("rows"), first.provenance.get("texts")
    parts = [f"n = {first.n:,} rows"]
    if isinstance(rows, Mapping) and isinstance(texts, Mapping):
        parts[0] += f" of {texts.get('name')}: {rows.get('what')}"
    if any(stack.role for stack in stacks):
        parts.append("ORIG: before fine-tuning, FT: after it")
    parts.append(f"precision: {first.precision}")
    return "; ".join(parts)


def _profile(
    window: MapWindow, profile: Any, ends: Any, file: str, label: str, sentences: Sequence[str]
) -> Section:
    """How far each layer is from the same layer of the other model, as a curve: 1 - similarity."""
    similarity_map = window.of
    x = [int(position) for position in profile.positions]
    places = [k for k, depth in enumerate(window.left_depths) if depth is not None]
    right_places = [k for k, depth in enumerate(window.right_depths) if depth is not None]
    low, high = (1 - window.cut(t)[places, right_places] for t in (similarity_map.high, similarity_map.low))
    banded = ends.together and similarity_map.low is not None
    none = np.full(len(x), np.nan)
    return section(
        "curves",
        title=f"Difference of each layer: {window.left_model} and {window.right_model}{label}",
        task=None,
        model=window.left_model,
        basis=f"1 - {similarity_map.title} of each layer with itself in the other model; "
        f"n = {similarity_map.n:,} rows; unit: {similarity_map.unit}"
        + (f"; {level_of(similarity_map)}" if similarity_map.low is not None else ""),
        file=file,
        statements=[Statement(text=text) for text in sentences],
        few=False,
        x_label="layer",
        y_label=f"1 - {similarity_map.title}",
        points=1.0,
        x_is_layer=True,
        lines={},
        curves=[
            {
                "name": f"{window.left_model} and {window.right_model}",
                "x": x,
                "values": profile.change,
                "low": low,
                "high": high,
                "band_low": 1 - ends.high if banded else none,
                "band_high": 1 - ends.low if banded else none,
                "n": similarity_map.n,
                "note": "",
                "difference": False,
            }
        ],
    )


def _local(group: Sequence[Map], stacks: Sequence[ModelLayers], file: str, label: str) -> list[Section]:
    """Localization of every layer, where the maps it is made of are there."""
    by_measure = {
        similarity_map.measure: similarity_map for similarity_map in group if similarity_map.symmetric
    }
    if not set(LOCAL) <= set(by_measure):
        return []
    try:
        scores = localization(by_measure[LOCAL[0]].values, by_measure[LOCAL[1]].values, zscore=False)
    except MicrotomeError:
        return []
    empty = empty_places(by_measure[LOCAL[0]])
    named = [pair for stack in stacks for pair in zip(stack.names, stack.places, strict=True)]
    return [
        section(
            "scores",
            title=f"Localization{label}",
            task=None,
            model=None,
            basis="mean neuron correlation of the others' neurons in this layer minus mean SVCCA with them "
            f"(Wu et al. 2020, as described), over the {scores.compared} layers compared; no interval",
            file=file,
            statements=[Statement(text=scores.sentence(list(by_measure[LOCAL[0]].left)))],
            columns=["layer", "neurons", "SVCCA", "score"],
            rows=[
                [
                    name,
                    *(
                        number(float(table[place]), 3)
                        for table in (scores.neuron, scores.svcca, scores.scores)
                    ),
                ]
                for name, place in named
                if place not in empty
            ],
        )
    ]
