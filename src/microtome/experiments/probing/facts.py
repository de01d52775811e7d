"""Facts of a probing result beside its curves: one row per probe, further results, notes and provenance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...context import Context
from ...encoders.versions import provenance
from ...probes.dataset import Asked, Probed
from .layer_mixes import called

if TYPE_CHECKING:
    from .inputs import ProbingInputs

CONTROL = "control"


def probe_rows(
    kind: str, targets: Mapping[str, Probed], controls: Mapping[str, Probed]
) -> list[dict[str, Any]]:
    """One row per probe: its task and draw, model, layer, seed and score."""
    rows = []
    for task, probed in (("target", targets), (CONTROL, controls)):
        for name, result in probed.items():
            records = result.rows or ({},) * len(result.answers)
            for layer, answers, record in zip(result.x, result.answers, records, strict=True):
                for place, predictions in enumerate(answers.predictions):
                    score = result.score.compute(predictions, answers.targets, result.labels)
                    rows.append(
                        {
                            "labels": task,
                            "model": name.removesuffix(called("", kind)),
                            "layers": kind,
                            "layer": layer,
                            "seed": answers.seeds[place] if len(answers.seeds) else 0,
                            "draw": None if task == "target" else 0,
                            "score": float(score),
                            **{key: v[place] if isinstance(v, tuple) else v for key, v in record.items()},
                        }
                    )
    return rows


def depth_notes(depths: Mapping[str, int]) -> list[str]:
    """Notes on models with another depth than the first, so that their layers do not correspond."""
    (first, depth), *others = depths.items()
    return [
        f"{name} has {blocks} blocks and {first} {depth}: they are not compared layer by layer."
        for name, blocks in others
        if blocks != depth
    ]


def more_facts(targets: Mapping[str, Mapping[str, Probed]]) -> dict[str, Any]:
    """Results of probes beside the score, by their name and then by curve."""
    facts: dict[str, Any] = {}
    for probed in targets.values():
        for name, result in probed.items():
            for fact, value in result.more.items():
                facts.setdefault(fact, {})[name] = value
    return facts


def sizes_of(asked: Asked) -> dict[str, int]:
    """Numbers of training, validation and test sentences."""
    return {name: len(getattr(asked, name)) for name in ("train", "held", "judged")}


def probe_provenance(
    asked: Asked, inputs: ProbingInputs, context: Context, *, started: float, **facts: Any
) -> Mapping[str, Any]:
    """
    Record what reproduces a result.

    Parameters
    ----------
    asked : Asked
    inputs : ProbingInputs
    context : Context
    started : float
        By the monotonic clock.
    **facts
        Options of the experiment.

    Returns
    -------
    mapping
    """
    return MappingProxyType(
        provenance(
            {
                "models": {name: encoder.digest for name, encoder in inputs.encoders.items()},
                "corpus": asked.annotated.source,
                "texts": [dict(text) for text in asked.annotated.texts],
                "rows": {"count": len(asked.examples), "digest": asked.digest},
                **facts,
                "device": context.device,
                "command": context.command,
                "seconds": round(time.monotonic() - started, 3),
            }
        )
    )
