"""What a scoreboard says in plain words: how many claims hold, then the claims, as findings of the report."""

from __future__ import annotations

import math
from typing import Any

from ..findings.words import listed
from ..report.collecting import in_turns
from .board import ALL, Row, Scoreboard, ours

DECIDED = ("holds", "does not hold")
STAND = "Models of the study stand for those that a claim names."


def headlines(board: Scoreboard, section: str) -> list[dict[str, Any]]:
    """
    Write the findings of a scoreboard: decided claims come first, and those of all experiments take turns.

    Parameters
    ----------
    board : Scoreboard
    section : str
        The section of the report that has the scoreboard.

    Returns
    -------
    list of dict
        As `findings` of a report has them.
    """
    by_claim: dict[str, list[Row]] = {}
    for row in board.rows:
        by_claim.setdefault(row.claim.id, []).append(row)
    # The row over models comes last.
    verdicts = [rows[-1].verdict for rows in by_claim.values()]
    hold, fail, open_, absent = (verdicts.count(name) for name in (*DECIDED, "inconclusive", "not run"))
    text = (
        f"Claims that hold: {hold} of {len(verdicts)}; that do not hold: {fail}; inconclusive, or not the "
        f"same for all models: {open_}; not run: {absent}."
    )
    judged = [[row for row in rows if row.verdict != "not run"] for rows in by_claim.values()]
    judged = sorted(filter(None, judged), key=lambda rows: rows[-1].verdict not in DECIDED)
    findings = in_turns([(rows[0].claim.experiment, _finding(rows)) for rows in judged])
    findings.sort(key=lambda finding: finding["sure"] != "shown")
    findings = [{"text": text, "evidence": STAND, "sure": "shown"}, *findings] if verdicts else []
    return [{"section": section, "layers": [], **finding} for finding in findings]


def _finding(rows: list[Row]) -> dict[str, Any]:
    """A claim with its verdict, and what was measured as its evidence."""
    claim, over = rows[0].claim, rows[-1]
    measured = [row for row in rows if row.model != ALL or math.isfinite(row.measured.value)]
    models: dict[str, list[str]] = {}
    for row in [over] if over.model == ALL and over in measured else measured:
        models.setdefault(row.verdict, []).append(row.model)
    lead = ", ".join(f"{name} for {listed(some)}" if all(some) else name for name, some in models.items())
    lead = lead.replace(f"for {ALL}", f"over {len(measured) - 1} models")
    values = "; ".join(f"{row.model}: {ours(row.measured)}".removeprefix(": ") for row in measured)
    evidence = f"{values}. Holds where {claim.holds_where}{f' ({claim.reading})' if claim.reading else ''}."
    if claim.published != "":
        evidence += f" Published: {claim.published} ({claim.source})."
    sure = "shown" if any(name in models for name in DECIDED) else "inconclusive"
    return {"text": f"{lead[0].upper()}{lead[1:]}: {claim.statement}", "evidence": evidence, "sure": sure}
