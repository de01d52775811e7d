"""The table of the encoders that come with the package, for `ls zoo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .show import Screen

TASK = "stsb"


def list_zoo(screen: Screen) -> None:
    """List the encoders that come with the package, with what was measured of each."""
    from ..zoo.shipped import shipped

    encoders = list(shipped().values())
    if screen.json:
        screen.result({"format": "microtome/zoo/1", "zoo": encoders}, "")
        return
    notes = ["Loaded by name, as zoo:masked; the README.md in each folder tells the rest."]
    if not encoders:
        notes = ["No encoder comes with this installation; `microtome pretrain` makes them."]
    screen.rows(
        [
            "encoder",
            "learned by",
            "parameters",
            "size",
            "tokens seen",
            "loss",
            "held-out accuracy (unigram)",
            "STS-B (random baseline)",
        ],
        [
            [
                encoder["name"],
                encoder["title"],
                f"{encoder['parameters']:,}",
                f"{encoder['bytes'] / 1e6:.1f} MB",
                "not measured" if encoder["tokens"] is None else f"{encoder['tokens'] / 1e6:,.1f} M",
                "not measured" if encoder["loss"] is None else f"{encoder['loss']:.3f}",
                _beside(encoder["held_out"], "accuracy", "unigram"),
                _beside(_means(encoder["scores"].get(TASK)), "model", "random"),
            ]
            for encoder in encoders
        ],
        notes,
    )


def _means(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: ((scores or {}).get(name) or {}).get("mean") for name in ("model", "random")}


def _beside(scores: Mapping[str, Any] | None, key: str, reference: str) -> str:
    """A number, and in brackets its baseline."""
    value, against = (scores or {}).get(key), (scores or {}).get(reference)
    if value is None:
        return "not measured"
    return f"{value:.3f} ({'not measured' if against is None else f'{against:.3f}'})"
