"""Claims of every kind, as experiments make them: one or more per branch of their text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from microtome.findings.claims.claim import Bound, Claim, Quantity
from microtome.findings.words import Unit

COST = Quantity(value=0.416, low=-0.2, high=0.931, unit=Unit("example", "seed"), seeds=2, by_seed=(0.2, 0.63))
CUT = Claim(
    kind="cut",
    verdict="holds",
    score="accuracy",
    layers=(10, 11, 12),
    depth=12,
    estimate=COST,
    bound=Bound(side="most", value=0.93, family="all cuts"),
    n=1277,
)
LEAST = replace(CUT, bound=Bound(side="least", value=1.2, family="all points"), facts={"onward": True})
UNSURE = replace(CUT, verdict="inconclusive", bound=None)
BEFORE: Any = {"layers": (3,), "subject": "TUNEDORIG", "beside": {"TUNEDORIG": COST}, "estimate": None}


def _extent(kind: str, **fields: Any) -> list[Claim]:
    return [replace(claim, kind=kind, **fields) for claim in (CUT, LEAST, UNSURE)]


def _extreme(kind: str) -> list[Claim]:
    facts = [
        {"extreme": extreme, "among": count} for extreme, count in (("least", 3), ("most", 3), ("least", 1))
    ]
    return [replace(claim, kind=kind, facts=fact) for claim in (CUT, UNSURE) for fact in facts]


def _compared(kind: str) -> list[Claim]:
    better = replace(UNSURE, kind=kind, verdict="holds", facts={"tests": 3, "ahead": 2, "x": 4, "p": 0.01})
    worse = replace(better, estimate=replace(COST, value=-0.4))
    return [better, worse, replace(better, verdict="inconclusive", estimate=None)]


ORDERS = {"orders": 3, "worse": 2, "unit": Unit("example")}
CORRELATED = {"tasks": ["rte", "sst2"], "orders": 9, "over": "random orders", "reason": "fewer than 4 orders"}
SAMPLES: dict[str, list[Claim]] = {
    "baseline": [
        replace(UNSURE, kind="baseline", facts={"experiment": "freezing", "model": "the model", **standing})
        for standing in (
            {"value": 0.5, "baseline": 0.4, "ahead": True},
            {"value": 0.5, "baseline": 0.6, "ahead": False},
        )
    ],
    "undefined": [
        replace(UNSURE, kind="undefined", facts={"experiment": "truncation", "reason": reason})
        for reason in ("one layer", "no cut", "diverged")
    ],
    "few seeds": [Claim(kind="few seeds", verdict="inconclusive", score="", facts={"seeds": 2})],
    "cut": _extent("cut", layers=(12,)),
    "frozen": _extent("frozen", subject="bottom"),
    "re-initialized": _extent("re-initialized", subject="progressive, library"),
    "dropped": [
        *_extent("dropped", subject="top"),
        replace(CUT, kind="dropped", subject="random", layers=(), facts={"x": 2}),
    ],
    **{kind: _extreme(kind) for kind in ("one block", "window", "window kept", "swap", "move")},
    "orders": [
        replace(UNSURE, kind="orders", subject=kind, estimate=replace(COST, unit=Unit("order")), facts=ORDERS)
        for kind in ("random", "swap", "reverse", "move", "given")
    ],
    "order correlation": [
        replace(UNSURE, kind="order correlation", score="pearson", points=1.0, estimate=e, facts=CORRELATED)
        for e in (COST, None)
    ],
    "frozen sides": _compared("frozen sides"),
    "re-initialized or removed": _compared("re-initialized or removed"),
    "against random": [
        replace(UNSURE, kind="against random", facts={"x": 2, "better": 4, "draws": 5, "p": 0.2})
    ],
    "saving": [replace(UNSURE, kind="saving", subject="bottom", facts={"backward": 0.4, "memory": 0.3})],
    "halving": [
        replace(UNSURE, kind="halving", subject="top", facts={"onward": onward}) for onward in (True, False)
    ],
    "head gain": [
        *(replace(claim, kind="head gain", layers=(3,), facts={"helped": 2}) for claim in (CUT, UNSURE)),
        *(
            replace(
                CUT,
                kind="head gain",
                subject="TUNED converged",
                verdict=verdict,
                layers=(3,),
                facts={"head": "converged", "helped": 2, "hurt": 1},
            )
            for verdict in ("holds", "does not hold")
        ),
    ],
    "before tuning": [
        replace(CUT, kind="before tuning", **BEFORE, facts={"ahead": 4}),
        replace(UNSURE, kind="before tuning", **BEFORE),
    ],
    "span": [
        replace(CUT, kind="span"),
        replace(UNSURE, kind="span"),
        replace(UNSURE, kind="span", layers=()),
    ],
}
