"""Similarity maps of models that were fine-tuned alike, for zoo_job.py; blocks follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MEASURE = "debiased_cka"
LEVEL = 0.95


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
