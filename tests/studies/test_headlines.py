"""What a scoreboard says at the top of a report."""

from __future__ import annotations

import math
from typing import Any

from microtome.studies.board import ALL, Row, Scoreboard, Verdict
from microtome.studies.claims import StudyClaim
from microtome.studies.headlines import headlines
from microtome.studies.statistics.values import Measured


def rows(name: str, verdicts: dict[str, Verdict], *, experiment: str = "maps", mean: float = math.nan) -> Any:
    claim = StudyClaim(
        id=name,
        statement=f"Statement {name}.",
        source="phang2021 section 3",
        experiment=experiment,
        statistic="similarity",
        published="in words",
        reading="a mean",
        least=0.5,
    )
    return [
        Row(
            claim=claim,
            model=model,
            verdict=verdict,
            measured=Measured(value=mean if model == ALL else 0.7, low=0.6, high=0.8),
        )
        for model, verdict in verdicts.items()
    ]


def test_how_many_hold_comes_first_and_then_claims_by_their_verdicts() -> None:
    board = Scoreboard(
        name="s",
        title="S",
        rows=(
            *rows("open", {"a": "inconclusive"}),
            *rows("mixed", {"a": "holds", "b": "inconclusive", ALL: "inconclusive"}),
            *rows("holds", {"a": "holds", "b": "holds", ALL: "holds"}),
            *rows("fails", {"b": "does not hold"}),
            *rows("other", {"": "holds"}, experiment="skip"),
            *rows("absent", {"a": "not run"}),
            *rows("many", {"a": "holds", "b": "holds", "c": "inconclusive", ALL: "holds"}, mean=0.7),
        ),
    )
    summary, *claims = headlines(board, "s0")
    assert summary["text"] == (
        "Claims that hold: 3 of 7; that do not hold: 1; inconclusive, or not the same for all models: 2; "
        "not run: 1."
    )
    assert [claim["text"] for claim in claims] == [
        "Holds for a and b: Statement holds.",
        "Holds: Statement other.",
        "Does not hold for b: Statement fails.",
        "Holds over 3 models: Statement many.",
        "Holds for a, inconclusive for b: Statement mixed.",
        "Inconclusive for a: Statement open.",
    ]
    assert [claim["sure"] for claim in claims] == ["shown"] * 5 + ["inconclusive"]
    assert claims[0]["evidence"] == (
        "a: 0.700 [0.600, 0.800]; b: 0.700 [0.600, 0.800]. Holds where at least 0.5 (a mean). "
        "Published: in words (phang2021 section 3)."
    )
    assert {claim["section"] for claim in claims} == {"s0"}
    assert "over models: 0.700" in claims[3]["evidence"]


def test_a_study_without_claims_has_no_headline() -> None:
    assert headlines(Scoreboard(name="s", title="S"), "s0") == []
