"""The section of a trajectory: its maps, one panel per step, on one color scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..findings.results import Result
from ..findings.stackblocks import read_blocks
from .sections import Section, model_of, section

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
        None where the result has no maps.
    """
    steps, maps = result.more.get("steps"), result.more.get("maps")
    if result.experiment != "trajectory" or not steps or not maps or len(steps) != len(maps):
        return []
    name, measure = model_of(result), str(result.more.get("measure", "similarity"))
    depths = [int(depth) for depth in result.more.get("layers", range(len(maps[0])))]
    names = [f"{name}/{depth}" for depth in depths]
    tables = [_table(values) for values in maps]
    finite = np.concatenate([values[np.isfinite(values)] for values in tables])
    scale = (min(0.0, float(finite.min(initial=0.0))), max(1.0, float(finite.max(initial=1.0))))
    panel_steps = some_of(len(steps), MOST)
    unit = next((curve.unit for curve in result.curves if curve.unit), "")
    count = next((curve.n for curve in result.curves), 0)
    panels = [
        {
            "name": f"step {steps[k]:,}",
            "left": names,
            "right": names,
            "symmetric": True,
            "measures": [
                {
                    "name": measure,
                    "label": measure,
                    "values": tables[k],
                    **dict.fromkeys(("low", "high", "null_mean", "z", "p", "level")),
                    "n": count,
                    "estimator": "",
                    "unit": "",
                    "reasons": {},
                    "lo": scale[0],
                    "hi": scale[1],
                    "note": "",
                }
            ],
        }
        for k in panel_steps
    ]
    left_out = len(steps) - len(panel_steps)
    basis = [f"{measure} of all layers with each other at {len(panel_steps)} checkpoints"]
    basis += [f"{left_out} others are in the result"] if left_out else []
    basis += [f"n = {count:,} examples"] if count else []
    basis += [f"blocks by unit: {unit}"] if unit else []
    return [
        section(
            "map",
            title=f"Maps along a training: {name} on {result.task}{label}",
            task=result.task,
            model=name,
            basis="; ".join(basis),
            file=file,
            statements=[],
            panels=panels,
            layers={
                layer: {"depth": depth, "model": name, "spectrum": None, "dimension": None}
                for layer, depth in zip(names, depths, strict=True)
            },
            blocks=_blocks(result, [steps[k] for k in panel_steps], panel_steps, measure, name),
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
    result: Result, steps: Sequence[int], panel_steps: Sequence[int], measure: str, model: str
) -> list[dict[str, Any]]:
    """The certain blocks at each step that is shown."""
    block_records = result.more.get("blocks") or []
    out = []
    for panel, (place, step) in enumerate(zip(panel_steps, steps, strict=True)):
        if (
            place >= len(block_records)
            or not isinstance(block_records[place], Mapping)
            or "finding" not in block_records[place]
        ):
            continue
        stack = read_blocks(block_records[place])
        # Layers are numbered as in the model, also where layer 0 is left out.
        text = f"step {step:,}: {stack.finding.headline()}"
        certain = stack.finding.certain
        out.append(
            {
                "panel": panel,
                "measure": measure,
                "model": model,
                "runs": [[block.first, block.last] for block in certain],
                "text": text,
                "short": text,
                "sure": bool(certain),
            }
        )
    return out


def _table(rows: Sequence[Sequence[float | None]]) -> np.ndarray:
    return np.array([[math.nan if cell is None else cell for cell in row] for row in rows], dtype=float)
