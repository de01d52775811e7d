"""Sections of a comparison: its maps, one panel per pair of models, on one color scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from ..figures.heatmap import color_range
from ..findings.claims.claim import Claim
from ..findings.claims.layers import change_cells, claimed_map, map_localization
from ..findings.claims.stacks import ModelLayers, model_records, stack_pairs, stacks_of
from ..findings.maps import Map
from ..findings.record import Maps
from ..findings.stackblocks import read_blocks
from ..findings.words import coverage, fine_tuned_name, listed, number, over
from .sections import Section, Statement, claim_statement, section

# Claims that stand in their section only, not among the findings of all results.
BEHIND = frozenset({"matching layers", "no alike layers", "undefined layers", "localization"})


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
    claimed = claimed_map(maps)
    parts: list[Section] = []
    # The set of layers that the claims are about comes first.
    for group in sorted(groups.values(), key=lambda group: claimed not in group):
        first = claimed if claimed in group else group[0]
        of_claims = maps if first is claimed else None
        parts.append(_map_part(first, group, of_claims, file, label))
        profiles = [_profile(first, *pair, file, label) for pair in _related(first)]
        parts += [part for part in profiles if part is not None]
        parts += _local(group, file, label)
    return parts


def _map_part(first: Map, group: Sequence[Map], maps: Maps | None, file: str, label: str) -> Section:
    lefts, rights = stacks_of(first)
    pairs = _pairs(lefts, rights, same=first.symmetric)
    scales = {similarity_map.measure: color_range(similarity_map) for similarity_map in group}
    panels = [
        {
            "name": _panel_name(left, right),
            "left": left.names,
            "right": right.names,
            "symmetric": first.symmetric and left is right,
            "measures": [
                _measure(similarity_map, left, right, scales[similarity_map.measure])
                for similarity_map in group
            ],
        }
        for left, right in pairs
    ]
    claims = () if maps is None else maps.claims
    stacks = {stack.model: stack for stack in (*rights, *lefts)}
    related = _related(first)
    names = [stack.model for stack in dict.fromkeys((*lefts, *rights)) if stack.model]
    return section(
        "map",
        title=f"Similarity of layers: {_models(first, names) if names else 'the layers'}{label}",
        model=names[0] if len(names) == 1 else None,
        basis=_basis(group, (*lefts, *rights)),
        file=file,
        statements=[
            claim_statement(
                claim,
                _names_of(claim, stacks),
                about=label.strip(" ()"),
                top=_stands_out(claim, related),
            )
            for claim in claims
        ]
        + [Statement(text=text) for text in (() if maps is None else maps.notes)],
        panels=panels,
        layers={**_layers(first, lefts, "left"), **_layers(first, rights, "right")},
        blocks=[_block(claim, pairs) for claim in claims if claim.kind == "blocks" and _drawn(claim, pairs)],
    )


def _models(similarity_map: Map, names: list[str]) -> str:
    """Models in a title; those that are named by their training by what they have in common."""
    records = model_records(similarity_map)
    tuned = {name: fact for name in names if (fact := (records.get(name) or {}).get("tuned"))}
    models, tasks, seeds = (
        [*dict.fromkeys(fact.get(key) for fact in tuned.values())] for key in ("model", "task", "seed")
    )
    others = [name for name in names if name not in tuned]
    complete = {fine_tuned_name(*training) for training in product(models, tasks, seeds)} == set(tuned)
    if len(tuned) < 2 or not complete or others not in ([], models):
        return listed(names)
    when = "before and after fine-tuning" if others else "fine-tuned"
    numbers = f"seed{'s' * (len(seeds) > 1)} {listed([*map(str, seeds)])}"
    return f"{listed(models)}, {when} on {listed(tasks)} ({numbers})"


def _stands_out(claim: Claim, related: Sequence[tuple[ModelLayers, ModelLayers]]) -> bool:
    """Whether a claim is listed among the findings of all results, too."""
    if claim.kind != "changed layer":
        return claim.kind not in BEHIND
    return any(
        (later.model, earlier.model or "the right stack") == (claim.subject, claim.facts["against"])
        for later, earlier in related
    )


def _names_of(claim: Claim, stacks: Mapping[str, ModelLayers]) -> list[str]:
    """The layers that a claim is about, as the page calls them."""
    stack = stacks.get(claim.subject)
    if stack is None:
        return []
    return [name for name, depth in zip(stack.names, stack.depths, strict=True) if depth in claim.layers]


def _pairs(
    lefts: list[ModelLayers], rights: list[ModelLayers], *, same: bool
) -> list[tuple[ModelLayers, ModelLayers]]:
    if not same:
        return list(product(lefts, rights))
    pairs = combinations_with_replacement(lefts, 2)
    # What was fine-tuned stands on the left of what it is held against.
    return [(b, a) if a.role.startswith("ORIG") and b.role.startswith("FT") else (a, b) for a, b in pairs]


def _panel_name(left: ModelLayers, right: ModelLayers) -> str:
    if not (left.model or right.model):
        return "all layers"
    names = left.model if left is right else f"{left.model} with {right.model}"
    return f"{left.role}-{right.role}: {names}" if left.role and right.role else names


def _drawn(claim: Claim, pairs: Sequence[tuple[ModelLayers, ModelLayers]]) -> bool:
    """Whether a panel has all layers of a stack whose blocks were tested."""
    return any(
        left is right and left.model == claim.subject and set(claim.facts["names"]) <= set(left.names)
        for left, right in pairs
    )


def _block(claim: Claim, pairs: Sequence[tuple[ModelLayers, ModelLayers]]) -> dict[str, Any]:
    blocks = read_blocks(claim.facts)
    place = next(k for k, (a, b) in enumerate(pairs) if a is b and a.model == blocks.stack)
    stack, certain, claimed = pairs[place][0], blocks.finding.certain, claim_statement(claim)
    depths = dict(zip(stack.names, stack.depths, strict=True))
    return {
        "panel": place,
        "measure": blocks.measure,
        "model": blocks.stack,
        "runs": [[depths[blocks.names[k]] for k in (block.first, block.last)] for block in certain],
        "text": f"{claimed.text} {claimed.evidence}".rstrip(),
        "label": f"{blocks.stack}: {blocks.finding.outlines(blocks.numbers)}",
        "sure": bool(certain),
    }


def _measure(
    similarity_map: Map, left: ModelLayers, right: ModelLayers, scale: tuple[float, float]
) -> dict[str, Any]:
    at = np.ix_(left.places, right.places)

    def table(array: np.ndarray | None) -> Any:
        return None if array is None or not np.isfinite(array).any() else array[at]

    reasons = {
        f"{i},{j}": reason
        for i, a in enumerate(left.places)
        for j, b in enumerate(right.places)
        if (reason := similarity_map.reasons[a][b])
    }
    notes = [_intervals(similarity_map), similarity_map.null_note, *similarity_map.warnings]
    return {
        "name": similarity_map.measure,
        "label": similarity_map.title,
        "values": similarity_map.values[at],
        **{name: table(getattr(similarity_map, name)) for name in ("low", "high", "null_mean", "z", "p")},
        **{name: getattr(similarity_map, name) for name in ("n", "estimator", "unit", "level")},
        "reasons": reasons,
        "lo": scale[0],
        "hi": scale[1],
        "note": "; ".join(note for note in notes if note),
    }


def _intervals(similarity_map: Map) -> str:
    """What the intervals of a map promise; empty where there are none."""
    if similarity_map.low is None or similarity_map.level is None:
        return ""
    how = f"{over(similarity_map.unit)} by {similarity_map.method} for the {similarity_map.target}"
    return f"{coverage(similarity_map.level)} intervals {how}"


def _layers(similarity_map: Map, stacks: Sequence[ModelLayers], side: str) -> dict[str, Any]:
    facts = getattr(similarity_map.layers, side) or {}
    layers = {}
    for stack in stacks:
        for order, (place, name) in enumerate(zip(stack.places, stack.names, strict=True)):
            spectrum = facts["spectrum"][place] if "spectrum" in facts else np.empty(0)
            spectrum = spectrum[np.isfinite(spectrum)]
            depth = stack.depths[order]
            layers[name] = {
                "depth": order if depth is None else depth,
                "model": stack.model,
                "spectrum": spectrum if len(spectrum) else None,
                "dimension": float(facts["participation"][place]) if "participation" in facts else None,
            }
    return layers


def _basis(group: Sequence[Map], stacks: Sequence[ModelLayers]) -> str:
    """What all measures rest on; what is particular to one stands below its maps."""
    first = group[0]
    rows, texts = first.provenance.get("rows"), first.provenance.get("texts")
    parts = [f"n = {first.n:,} rows"]
    if isinstance(rows, Mapping) and isinstance(texts, Mapping):
        parts[0] += f" of {texts.get('name')}: {rows.get('what')}"
    if any(stack.role for stack in stacks):
        parts.append("ORIG: before fine-tuning, FT: after it")
    parts.append(f"precision: {first.precision}")
    return "; ".join(parts)


def _related(similarity_map: Map) -> list[tuple[ModelLayers, ModelLayers]]:
    """Models and what they were fine-tuned from; else the two models of a map, beside random baselines."""
    pairs = stack_pairs(similarity_map)
    tuned = [(later, earlier) for later, earlier, is_tuned in pairs if is_tuned]
    among = [pair[:2] for pair in pairs if len(pairs) == 1 or not (pair[0].changed or pair[1].changed)]
    return tuned or (among if len(among) == 1 else [])


def _profile(
    similarity_map: Map, later: ModelLayers, earlier: ModelLayers, file: str, label: str
) -> Section | None:
    cells = change_cells(similarity_map, later, earlier)
    if cells is None:
        return None
    at = list(later.numbered.values()), list(earlier.numbered.values())
    none = np.full(len(cells.values), np.nan)
    low, high = (none if end is None else 1 - end[at] for end in (similarity_map.high, similarity_map.low))
    models = f"{later.model or 'the left stack'} and {earlier.model or 'the right stack'}"
    intervals = _intervals(similarity_map)
    return section(
        "curves",
        title=f"Difference of each layer: {models}{label}",
        model=later.model or "the left stack",
        basis=f"1 - {similarity_map.title} of each layer with itself in the other model; "
        f"n = {similarity_map.n:,} rows" + (f"; {intervals}" if intervals else ""),
        file=file,
        few=False,
        x_label="layer",
        y_label=f"1 - {similarity_map.title}",
        points=1.0,
        x_is_layer=True,
        lines={},
        curves=[
            {
                "name": models,
                "x": list(later.numbered),
                "values": 1 - cells.values,
                "low": low,
                "high": high,
                "band_low": 1 - cells.high if cells.together else none,
                "band_high": 1 - cells.low if cells.together else none,
                "n": similarity_map.n,
                "note": "",
                "difference": False,
            }
        ],
    )


def _local(group: Sequence[Map], file: str, label: str) -> list[Section]:
    """Localization of every layer, where the maps it is made of are there."""
    if (result := map_localization(group)) is None:
        return []
    similarity_map, localized = result
    columns = {"neurons": localized.neuron, "SVCCA": localized.svcca, "score": localized.scores}
    return [
        section(
            "scores",
            title=f"Localization{label}",
            basis="mean neuron correlation of the others' neurons in this layer minus mean SVCCA with them "
            f"(Wu et al. 2020, as described), over the {localized.compared} layers compared; no interval",
            file=file,
            columns=["layer", *columns],
            rows=[
                [name, *(number(float(column[place]), 3) for column in columns.values())]
                for stack in stacks_of(similarity_map)[0]
                for name, place in zip(stack.names, stack.places, strict=True)
                if place not in stack.empty
            ],
        )
    ]
