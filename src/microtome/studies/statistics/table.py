"""The table of statistics that claims name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from . import curves, maps, quantities
from .pairs import KINDS, REGIONS
from .values import Statistic, Value

# Of a table: allowed values of its keys, or their type.
POINT = {"arm": "str", "x": "float | str", "pick": ("first", "last")}
CUT = {"first": POINT, "second": POINT, "of": ("points", "score", "room")}
SPANS = {"within": "Sequence[float]", **dict.fromkeys(("first", "last", "shortest", "longest", "but"), "int")}
NAMES = dict.fromkeys(("left", "right"), "Sequence[str]")
SIDE = {"between": KINDS, "region": REGIONS, **NAMES, "measure": "str"}
# Keys without which such a table means nothing.
REQUIRED = frozenset(["arm", "between"])
SIDES = {"first": SIDE, "minus": SIDE}
THIRD = ("early", "middle", "late")
REDUCE = {"reduce": curves.REDUCE}
CURVES = {"first": POINT, "second": POINT, "minus": POINT}
# Function, and allowed values of its arguments, by the name that claims have for it.
_ALL: Mapping[str, tuple[Callable[..., Value | list[Value]], Mapping[str, Any]]] = {
    "score": (curves.score, {"point": POINT}),
    "score difference": (curves.score_difference, CUT),
    "score difference of two tables": (curves.difference_beside, CUT),
    "arm difference": (curves.arm_difference, REDUCE),
    "model difference": (curves.model_difference, {"reduce": ("max", "mean")}),
    "removable share": (curves.removable, {}),
    "trend": (curves.trend, {"models": ("first", "others", "all")}),
    "curve agreement": (curves.agreement, CURVES),
    "span cost": (quantities.span_cost, {"spans": SPANS, "minus": SPANS, **REDUCE}),
    "span growth": (quantities.span_growth, {}),
    "stored quantity": (quantities.stored, {}),
    "estimate": (quantities.claimed, {}),
    "saving": (quantities.saved, {}),
    "similarity": (maps.similarity, SIDES),
    "similarity of two tables": (maps.similarity_beside, SIDES),
    "best match": (maps.best_match, {"between": KINDS, "region": THIRD, "minus": THIRD}),
    "decay": (maps.decay, {"between": KINDS}),
    "block margin": (maps.block_margin, {"between": KINDS, "count": (1, 2)}),
    "certain blocks": (maps.certain_blocks, {"between": ("base", "tuned")}),
    "map agreement": (maps.map_agreement, {}),
}
SHARES = frozenset(["certain blocks"])
STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        name: Statistic(name=name, compute=compute, allowed=allowed, share=name in SHARES)
        for name, (compute, allowed) in _ALL.items()
    }
)
