"""Claims about the course of a training: change, blocks of layers, scores, and which of them came first."""

from __future__ import annotations

import numpy as np

from ...findings.claims.claim import Claim, Quantity
from ...scores.table import find_score
from ..cell_errors import UNDEFINED
from .claims import similarity_claim
from .course import Course
from .onset import Order


def course_claims(course: Course, order: Order | None) -> list[Claim]:
    """Claim what happened along a training."""
    claims = [_change_claim(course), _blocks_claim(course)]
    if course.task is not None:
        claims.append(_score_claim(course))
    if order is not None:
        claims.append(order.claim(find_score(course.task.main).name if course.task else ""))
    return claims


def _change_claim(course: Course) -> Claim:
    values, measure = course.change["first"][-1].values, course.similarity.measure
    facts = {"steps": [course.steps[0], course.steps[-1]], "reason": None}
    if not np.isfinite(values).any():
        facts["reason"] = course.similarity_to("first").alone(-1).mean().why[0] or UNDEFINED
        return similarity_claim("course change", measure, "inconclusive", facts=facts)
    if np.nanmin(values) == 1:
        return similarity_claim("course change", measure, facts=facts)
    center = course.centers("first")[-1]
    return similarity_claim(
        "course change",
        measure,
        layers=(course.recorded.layers[int(np.nanargmin(values))],),
        estimate=None if center is None else center.quantity(course.recorded.unit),
        facts={**facts, "largest": 1 - float(np.nanmin(values))},
    )


def _blocks_claim(course: Course) -> Claim:
    findings = [blocks.finding for blocks in course.blocks]
    certain = [
        {
            "step": step,
            "blocks": [
                {
                    "layers": [block.first, block.last, list(block.without)],
                    "margin": block.margin,
                    "low": block.interval.low,
                    "high": block.interval.high,
                }
                for block in finding.outermost
                if block.interval is not None
            ],
        }
        for step, finding in zip(course.steps, findings, strict=True)
        if finding.certain
    ]
    undefined = all(finding.reason is not None for finding in findings)
    facts = {
        "certain": certain,
        "checkpoints": len(findings),
        "reason": findings[0].reason if undefined else None,
        "level": course.level,
        "unit": course.recorded.unit,
    }
    verdict = "holds" if certain else "inconclusive"
    return similarity_claim("course blocks", course.similarity.measure, verdict, facts=facts)


def _score_claim(course: Course) -> Claim:
    assert course.task is not None
    curve, score = course.curves[0], find_score(course.task.main)
    first, last = (Quantity(value=score.points * float(curve.values[place])) for place in (0, -1))
    return Claim(
        kind="course score",
        verdict="holds",
        score=score.name,
        points=score.points,
        subject="best linear probe" if curve.name == "best readout" else curve.name,
        estimate=last,
        beside={"start": first},
        facts={
            "task": course.task.name,
            "steps": [course.steps[0], course.steps[-1]],
            "baseline": course.readings[0].by == "majority baseline",
        },
    )
