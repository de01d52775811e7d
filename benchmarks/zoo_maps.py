"""How alike are the layers of models that were tuned alike, and do they fall into blocks? For zoo_job.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEASURE = "debiased_cka"
LEVEL = 0.95
GROUPS = 10  # of the jackknife in the block rule
SPLIT_SEED = 0


def similarities(stacks: Mapping[str, Any], groups: Any, device: str) -> dict[str, Any]:
    """Compare all layers of all stacks in one matrix, and take it apart into maps of two stacks."""
    import microtome as mt

    layers = [layer for stack in stacks.values() for layer in stack]
    one = mt.similarity_matrix(layers, measures=MEASURE, clusters=groups, certainty=True, device=device)[
        MEASURE
    ]
    assert one.low is not None
    assert one.high is not None
    found: dict[str, Any] = {"n": one.n, "level": one.level, "method": one.method, "unit": one.unit}
    for what, pair, (left, right) in pairs(stacks):
        found.setdefault(what, {})[pair] = {
            end: table[left, right]
            for end, table in (("values", one.values), ("low", one.low), ("high", one.high))
        }
    return found


def block_findings(stacks: Mapping[str, Any], groups: Any, device: str) -> dict[str, Any]:
    """
    Ask every stack, and every two that were tuned alike, whether they fall into two blocks.

    On one stack it is `microtome.find_blocks`. A map of two stacks is read in the same way, with its two
    directions averaged and its diagonal, the same layer of both, left out. One matrix of all stacks serves
    them all.
    """
    from microtome.comparison.certainty import leave_out_values, subset
    from microtome.comparison.similarity import compute, prepare
    from microtome.errors import InputError
    from microtome.findings.blocks import block_structure
    from microtome.inference.clusters import Clusters, halves

    layers = [layer for stack in stacks.values() for layer in stack]
    request, _, _ = prepare(layers, None, MEASURE, clusters=groups, seed=SPLIT_SEED, device=device)
    units = Clusters.singletons(request.n) if request.clusters is None else request.clusters
    first, second = (subset(request, rows) for rows in halves(units, SPLIT_SEED))
    label = request.measures[0].label
    select, evaluate = (compute(half).tables[label].values for half in (first, second))
    rest = Clusters.singletons(second.n) if second.clusters is None else second.clusters
    left_out = leave_out_values(second, rest, GROUPS, compute)[0][label]
    found: dict[str, Any] = {}
    for what, pair, (left, right) in pairs(stacks):
        if what == "ft-orig":
            continue
        try:
            one = block_structure(
                select[left, right],
                evaluate[left, right],
                left_out[:, left, right],
                level=LEVEL,
                unit="example",
            )
            told = told_block(one)
        except InputError as error:
            told = {"verdict": "undefined", "reason": str(error)}
        found.setdefault(what, {})[pair] = told
    return found


def told_block(one: Any) -> dict[str, Any]:
    """What a finding rests on; layers are counted from 1."""
    interval = one.interval
    return {
        "verdict": one.verdict,
        "reason": one.reason,
        "border": None if one.border is None else one.border + 1,
        "border_other": None if one.border_other is None else one.border_other + 1,
        "contrast": one.contrast,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "z": one.z,
        "gap": one.gap,
        "gap_ratio": one.gap_ratio,
        "plain_border": None if one.plain_border is None else one.plain_border + 1,
        "plain_contrast": one.plain_contrast,
        "sharpness": one.plain_sharpness,
    }


def pairs(stacks: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[slice, slice]]]:
    """Which two stacks are set side by side, under what name, and where they are in the matrix."""
    names, start, at = list(stacks), 0, {}
    for name in names:
        at[name] = slice(start, start + len(stacks[name]))
        start += len(stacks[name])
    tuned = [name for name in names if name != "orig"]
    if "orig" in at:
        yield "orig-orig", "orig", (at["orig"], at["orig"])
    for name in tuned:
        yield "ft-ft", name, (at[name], at[name])
        if "orig" in at:
            yield "ft-orig", name, (at[name], at["orig"])
    for place, one in enumerate(tuned):
        for other in tuned[place + 1 :]:
            yield "ft-ft2", f"{one}|{other}", (at[one], at[other])
