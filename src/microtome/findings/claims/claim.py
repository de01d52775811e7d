"""Claims: what follows from a result, as plain typed data; `render` writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

Verdict = Literal["holds", "does not hold", "inconclusive"]
# A cost up to here, in points of 100 or in units of a score without points, counts as small.
MARGIN = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """
    A score, cost or gain with its own interval, in points of 100 or in units of a score without points.

    Parameters
    ----------
    value : float
    low, high : float
        NaN without an interval.
    level : float
    unit : str
        What was treated as independent.
    seeds : int
    by_seed : tuple of float
        Value of each seed, where available.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    level: float = 0.95
    unit: str = "example"
    seeds: int = 1
    by_seed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """
    The end of a simultaneous band that a claim is decided by.

    Parameters
    ----------
    side : {"most", "least"}
    value : float
    family : str
        What the band covers, such as "all cuts".
    """

    side: Literal["most", "least"]
    value: float
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    One claim of a result.

    Parameters
    ----------
    kind : str
        A key of `microtome.findings.claims.render.KINDS`.
    verdict : {"holds", "does not hold", "inconclusive"}
    score : str
    points : float
        Points per unit of the score.
    subject : str
        The arm or curve that it is about; empty where a result has only one.
    layers : tuple of int
        Layers or blocks that it is about, from 1.
    depth : int
        Number of layers or blocks of the model.
    estimate : Quantity, optional
    bound : Bound, optional
    n : int
        Number of examples; 0 where there is no one number.
    task : str
        Where a result has several.
    beside : mapping of str to Quantity
        Further quantities, by their names.
    facts : mapping of str to object
        Plain data of this kind of claim.
    """

    kind: str
    verdict: Verdict
    score: str
    points: float = 100.0
    subject: str = ""
    layers: tuple[int, ...] = ()
    depth: int = 0
    estimate: Quantity | None = None
    bound: Bound | None = None
    n: int = 0
    task: str = ""
    beside: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def document(self) -> dict[str, Any]:
        """Convert the claim to data for JSON, in which NaN and infinities become null by `plain`."""
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name in ("estimate", "bound"):
            entries[name] = None if entries[name] is None else asdict(entries[name])
        beside = {name: asdict(quantity) for name, quantity in self.beside.items()}
        return {**entries, "layers": list(self.layers), "beside": beside, "facts": dict(self.facts)}


def read_claim(document: Mapping[str, Any]) -> Claim:
    """Build a claim from the output of `Claim.document`, also after a way through JSON."""
    bound = document["bound"]
    return Claim(
        **{
            **document,
            "layers": tuple(document["layers"]),
            "estimate": _quantity(document["estimate"]),
            "bound": None if bound is None else Bound(**{**bound, "value": _number(bound["value"])}),
            "beside": MappingProxyType({name: _quantity(q) for name, q in document["beside"].items()}),
            "facts": MappingProxyType(dict(document["facts"])),
        }
    )


def verdict_of(least: float, most: float, margin: float = MARGIN) -> Verdict:
    """
    Decide whether a cost is at most a margin, by the ends of its band.

    Examples
    --------
    >>> verdict_of(0.1, 0.9), verdict_of(0.1, 1.2), verdict_of(1.1, 4.0), verdict_of(math.nan, math.nan)
    ('holds', 'inconclusive', 'does not hold', 'inconclusive')
    """
    return "holds" if most <= margin else "does not hold" if least > margin else "inconclusive"


def _quantity(document: Mapping[str, Any] | None) -> Any:
    if document is None:
        return None
    numbers = {name: _number(document[name]) for name in ("value", "low", "high")}
    return Quantity(**{**document, **numbers, "by_seed": tuple(map(_number, document["by_seed"]))})


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
