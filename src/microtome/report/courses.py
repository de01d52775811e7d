"""The section of a trajectory: its maps, one panel per step, on one color scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..findings.results import Result
from ..findings.stackblocks import read_blocks
from ..findings.words import over
from .sections import Section, section

# Panels that a page can show beside each other; of more steps some are left out, the first and last never.
MOST = 9


def course_parts(result: Result, file: str, label: str) -> list[Section]:
    """
    Make the section of the maps of a trajectory.

    Parameters
    ----------
    result : Result
    file, label : str
        As in `result_parts`.

    Returns
    -------
    list of Section
        Empty where the result has no maps.
    """
    steps, maps = result.more.get("steps"), result.more.get("maps")
    if result.experiment != "trajectory" or not steps or not maps or len(steps) != len(maps):
        return []
    name, measure = result.model, str(result.more.get("measure", "similarity"))
    depths = [int(depth) for depth in result.more.get("layers", range(len(maps[0])))]
    names = [f"{name}/{depth}" for depth in depths]
    tables = np.array(maps, dtype=float)
    finite = tables[np.isfinite(tables)]
    shown = some_of(len(steps), MOST)
    unit = next((curve.unit for curve in result.curves if curve.unit), "")
    count = next((curve.n for curve in result.curves), 0)
    cells = {
        "name": measure,
        "label": measure,
        **dict.fromkeys(("low", "high", "null_mean", "z", "p", "level")),
        **dict.fromkeys(("estimator", "unit", "note"), ""),
        "n": count,
        "reasons": {},
        "lo": min(0.0, float(finite.min(initial=0.0))),
        "hi": max(1.0, float(finite.max(initial=1.0))),
    }
    basis = [f"{measure} of all layers with each other at {len(shown)} checkpoints"]
    basis += [f"{len(steps) - len(shown)} others are in the result"] if len(shown) < len(steps) else []
    basis += [f"n = {count:,} examples"] if count else []
    basis += [f"intervals of blocks {over(unit)}"] if unit else []
    return [
        section(
            "map",
            title=f"Maps along a training: {name} on {result.task}{label}",
            task=result.task,
            model=name,
            basis="; ".join(basis),
            file=file,
            panels=[
                {
                    "name": f"step {steps[k]:,}",
                    "left": names,
                    "right": names,
                    "symmetric": True,
                    "measures": [{**cells, "values": tables[k]}],
                }
                for k in shown
            ],
            layers={
                layer: {"depth": depth, "model": name, "spectrum": None, "dimension": None}
                for layer, depth in zip(names, depths, strict=True)
            },
            blocks=_blocks(result.more.get("blocks") or [], steps, shown, measure=measure, model=name),
        )
    ]


def some_of(count: int, most: int) -> list[int]:
    """
    Choose places that are as evenly apart as can be, with the first and the last.

    Examples
    --------
    >>> some_of(4, 9), some_of(11, 6)
    ([0, 1, 2, 3], [0, 2, 4, 6, 8, 10])
    """
    if count <= most:
        return list(range(count))
    return sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})


def _blocks(
    records: Sequence[Any], steps: Sequence[int], shown: Sequence[int], **names: str
) -> list[dict[str, Any]]:
    """The certain blocks at each step that is shown."""
    out = []
    for panel, place in enumerate(shown):
        record = records[place] if place < len(records) else None
        if not isinstance(record, Mapping) or "finding" not in record:
            continue
        # Layers are numbered as in the model, also where layer 0 is left out.
        finding = read_blocks(record).finding
        text = f"step {steps[place]:,}: {finding.headline()}"
        runs = [[block.first, block.last] for block in finding.certain]
        out.append({"panel": panel, **names, "runs": runs, "text": text, "label": text, "sure": bool(runs)})
    return out
