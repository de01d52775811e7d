"""What does probing keep beside its curves? A row for every probe, what else they found, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...probes.dataset import Asked, Probed
from .layer_mixes import called

CONTROL = "control"


def probe_rows(layers: str, found: dict[str, Probed], controls: dict[str, Probed]) -> list[dict[str, Any]]:
    """One row for each probe: of which labels and draw, model, layer and seed, and how well it reads."""
    out = []
    for kind, each in (("target", found), (CONTROL, controls)):
        for name, one in each.items():
            more = one.rows or ({},) * len(one.answers)
            for layer, answers, told in zip(one.x, one.answers, more, strict=True):
                for place, predicted in enumerate(answers.predictions):
                    out.append(
                        {
                            "labels": kind,
                            "model": name.removesuffix(called("", layers)),
                            "layers": layers,
                            "layer": layer,
                            "seed": answers.seeds[place] if len(answers.seeds) else 0,
                            "draw": None if kind == "target" else 0,
                            "score": float(one.score.compute(predicted, answers.targets, one.labels)),
                            **{key: v[place] if isinstance(v, tuple) else v for key, v in told.items()},
                        }
                    )
    return out


def depth_notes(stacks: dict[str, np.ndarray], names: Sequence[str]) -> list[str]:
    """Which models have other layers than the first, so that no layer stands beside another."""
    deep = {name: len(stacks[name]) - 1 for name in names}
    first = deep[names[0]]
    return [
        f"{name} has {deep[name]} blocks and {names[0]} {first}: they are not compared layer by layer."
        for name in names[1:]
        if deep[name] != first
    ]


def more_facts(every: dict[str, dict[str, Probed]]) -> dict[str, Any]:
    """What probes found beside the score, by what it is and then by curve."""
    out: dict[str, Any] = {}
    for found in every.values():
        for name, one in found.items():
            for what, value in one.more.items():
                out.setdefault(what, {})[name] = value
    return out


def sizes_of(asked: Asked) -> dict[str, int]:
    """How many sentences there are to learn from, to stop by and to judge on."""
    return {name: len(getattr(asked, name)) for name in ("train", "held", "judged")}
