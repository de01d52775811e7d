"""Which encoders come with the package? The table of the zoo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .show import Screen

if TYPE_CHECKING:
    from ..zoo.shipped import Shipped

TASK = "stsb"


def list_zoo(screen: Screen) -> None:
    """List the encoders that come with the package, with what was measured of each."""
    from ..zoo.shipped import shipped

    found = list(shipped().values())
    if screen.json:
        screen.result({"format": "microtome/zoo/1", "zoo": [_document(one) for one in found]}, "")
        return
    notes = ["Loaded by name, as zoo:masked; the README.md in each folder tells the rest."]
    if not found:
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
            "STS-B (random twin)",
        ],
        [
            [
                one.name,
                one.title,
                f"{one.parameters:,}",
                f"{one.bytes / 1e6:.1f} MB",
                "not measured" if one.tokens is None else f"{one.tokens / 1e6:,.1f} M",
                "not measured" if one.loss is None else f"{one.loss:.3f}",
                _beside(one.held_out, "accuracy", "unigram"),
                _beside(_means(one.scores.get(TASK)), "model", "random"),
            ]
            for one in found
        ],
        notes,
    )


def _document(one: Shipped) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "objective": one.objective,
        "seed": one.seed,
        "steps": one.steps,
        "tokens": one.tokens,
        "loss": one.loss,
        "license": one.license,
        "sha256": one.digest,
        "parameters": one.parameters,
        "bytes": one.bytes,
        "held_out": None if one.held_out is None else dict(one.held_out),
        "scores": dict(one.scores),
    }


def _means(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: ((scores or {}).get(name) or {}).get("mean") for name in ("model", "random")}


def _beside(told: Mapping[str, Any] | None, own: str, other: str) -> str:
    """A number, and in brackets what it is to be held against."""
    value, against = (told or {}).get(own), (told or {}).get(other)
    if value is None:
        return "not measured"
    return f"{value:.3f} ({'not measured' if against is None else f'{against:.3f}'})"
