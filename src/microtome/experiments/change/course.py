"""The course of a training, step by step: change of layers, blocks of layers, scores, and their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...findings.blocks import layer_span
from ...findings.claims.claim import Claim, Quantity
from ...findings.results import Curve
from ...findings.scorecurves import score_curve
from ...findings.stackblocks import StackBlocks, blocks_document
from ...inference.answers import Answers
from ...inference.scoring import ScoredExamples, example_groups
from ...scores.table import find_score
from ...tasks.task import Task
from ..cell_errors import UNDEFINED, Points, Sample, center_of, curve_of, points_of
from ..layer_similarity import LayerSimilarity, Recorded
from .claims import overlapping_layers, similarity_claim
from .onset import Order, which_first
from .readings import CheckpointBlocks, Reading, Scoring

End = Literal["first", "last"]
ENDS: tuple[End, ...] = ("first", "last")
LINES = ("values", "low", "high", "band_low", "band_high")
# Names of curves over layers, by what was read at the layers of each checkpoint.
LAYERED = {"probes": "linear probe", "heads": "head"}
MOST_SHOWN = 5  # steps whose layers are drawn, of many


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """
    What was read along one training.

    Parameters
    ----------
    steps : tuple of int
    recorded : Recorded
        The models are called after their steps, in the same order.
    similarity : LayerSimilarity
        Of the first and the last checkpoint (left) and all (right).
    blocks : tuple of CheckpointBlocks
    scoring : Scoring, optional
        Where there is a task.
    readings : tuple of Reading
        Empty without a task.
    level : float
    """

    steps: tuple[int, ...]
    recorded: Recorded
    similarity: LayerSimilarity
    blocks: tuple[CheckpointBlocks, ...]
    scoring: Scoring | None = None
    readings: tuple[Reading, ...] = ()
    level: float = 0.95

    @property
    def names(self) -> tuple[str, ...]:
        """Of the checkpoints."""
        return tuple(self.recorded.activations)

    @property
    def task(self) -> Task | None:
        """On which checkpoints are scored."""
        return None if self.scoring is None else self.scoring.task

    def similarity_to(self, end: End) -> Sample:
        """Similarity of every checkpoint to the first or the last one, shape (steps, layers)."""
        reference = self.names[0 if end == "first" else -1]
        return self.similarity.sample([(reference, name) for name in self.names])

    @cached_property
    def change(self) -> dict[End, list[Points]]:
        """Similarity of every layer to both ends of the training, at each step."""
        limits: dict[str, Any] = {"level": self.level, "bounds": self.similarity.bounds}
        return {
            end: [points_of(sample, **limits) for sample in self.similarity_to(end).parts] for end in ENDS
        }

    def centers(self, end: End) -> list[Points | None]:
        """The center of the change from one end of the training at each step; None where nothing changed."""
        layers = self.recorded.layers
        limits: dict[str, Any] = {"level": self.level, "bounds": (layers[0], layers[-1])}
        centers = [center_of(sample, layers) for sample in self.similarity_to(end).parts]
        return [center and points_of(center, **limits) for center in centers]

    def change_document(self, end: End) -> dict[str, Any]:
        """Similarities to one end of the training with intervals and bands, and centers, as plain data."""
        lines = {name: [getattr(points, name).tolist() for points in self.change[end]] for name in LINES}
        return {**lines, "center": [center and center.plain() for center in self.centers(end)]}

    @cached_property
    def curves(self) -> list[Curve]:
        """The score of each checkpoint or, without a task, its mean similarity to both ends."""
        if self.task is not None:
            own = any(reading.heads is not None for reading in self.readings)
            answers = [reading.answers for reading in self.readings]
            curve = self._score("own head" if own else "best linear probe", self.steps, answers, "step")
            note = {"majority baseline": "before the first update: the majority baseline"}
            reasons = zip(self.readings, curve.reasons, strict=True)
            return [
                replace(curve, reasons=tuple(note.get(reading.by, reason) for reading, reason in reasons))
            ]
        curves = []
        for end in ENDS:
            mean = _over_layers(self.similarity_to(end))
            points = points_of(mean, level=self.level, bounds=self.similarity.bounds)
            unit, n = self.recorded.unit, self.recorded.examples
            curves.append(curve_of(f"similarity to the {end}", "step", self.steps, points, unit=unit, n=n))
        return curves

    @cached_property
    def layered(self) -> dict[str, list[Curve]]:
        """Scores of linear probes and own heads over layers, one curve per checkpoint that has them."""
        return {
            kind: [
                self._score(f"step {reading.step}", range(1, len(answers) + 1), answers, "layers kept")
                for reading in self.readings
                if (answers := getattr(reading, kind)) is not None
            ]
            for kind in LAYERED
        }

    def _score(self, name: str, x: Sequence[int], answers: Sequence[Answers | None], axis: str) -> Curve:
        assert self.task is not None
        return score_curve(name, x, answers, self.task.main, self.task.labels, axis=axis, level=self.level)

    def layer_curves(self) -> list[Curve]:
        """Curves over layers at a few steps, spread evenly: scores or, without a task, similarities."""
        if self.task is not None:
            return [
                replace(curves[k], name=f"{LAYERED[kind]}, {curves[k].name}")
                for kind, curves in self.layered.items()
                for k in _spread(len(curves))
            ]
        return [
            self.recorded.curve(f"step {self.steps[k + 1]:,} to the first", self.change["first"][k + 1])
            for k in _spread(len(self.steps) - 1)
        ]

    def order(self, *, draws: int, seed: int) -> Order | None:
        """Find which came first, blocks or score; None without a task."""
        if self.task is None:
            return None
        score, labels = find_score(self.task.main), self.task.labels
        sign = 1.0 if score.higher_is_better else -1.0
        values, errors = np.full(len(self.readings), np.nan), {}
        for place, reading in enumerate(self.readings):
            answers = reading.answers
            if answers is not None:
                predictions, targets = answers.predictions[0], answers.targets
                values[place] = score.compute(predictions, targets, labels)
                n, clusters = len(answers.ids), example_groups(answers.groups, len(answers.ids))
                examples = ScoredExamples(score=score, labels=labels, n=n, clusters=clusters)
                errors[place] = examples.influence(predictions, targets)
        blank = np.zeros(len(next(iter(errors.values()), (0, 0))))
        return which_first(
            self.steps,
            np.array([blocks.evidence for blocks in self.blocks]),
            np.stack([blocks.errors for blocks in self.blocks]),
            sign * values,
            sign * np.stack([errors.get(place, blank) for place in range(len(values))]),
            level=self.level,
            draws=draws,
            seed=seed,
        )

    def block_documents(self) -> list[dict[str, Any]]:
        """Findings about blocks as plain data, one per step."""
        layers = tuple(map(str, range(self.recorded.layers[-1] + 1)))
        measure = self.similarity.measure
        return [
            blocks_document(StackBlocks(stack=name, measure=measure, names=layers, finding=blocks.finding))
            for name, blocks in zip(self.names, self.blocks, strict=True)
        ]

    def records(self) -> Iterator[dict[str, Any]]:
        """One record per step, quantity and layer."""
        for end in ENDS:
            for step, points in zip(self.steps, self.change[end], strict=True):
                yield from _records(step, f"similarity to the {end}", self.recorded.layers, points.values)
        for step, blocks in zip(self.steps, self.blocks, strict=True):
            yield from _records(step, "margin", [None], [blocks.margin])
        for kind, curves in self.layered.items():
            steps = [reading.step for reading in self.readings if getattr(reading, kind) is not None]
            for step, curve in zip(steps, curves, strict=True):
                yield from _records(step, kind, curve.x, curve.values)


def curve_document(curve: Curve) -> dict[str, Any]:
    """A curve as plain data."""
    lines = {name: getattr(curve, name).tolist() for name in LINES}
    return {"name": curve.name, "x": list(curve.x), **lines}


def _over_layers(samples: Sample) -> Sample:
    """The mean over layers of each checkpoint, as points of one sample; a collapsed one leaves the others."""
    defined = np.isfinite(samples.values)
    # The same layers at all checkpoints, but for those that have none.
    layers = defined[defined.any(axis=1)].all(axis=0)
    count, _, units = samples.errors.shape
    values, errors = np.full(count, np.nan), np.zeros((count, units))
    if layers.any():
        values, errors = samples.values[:, layers].mean(axis=1), samples.errors[:, layers].mean(axis=1)
    why = tuple(sample.mean().why[0] for sample in samples.parts)
    return Sample(values=values[None], errors=errors[None], dof=samples.dof, reasons=(why,))


def _spread(count: int) -> list[int]:
    """Places of a few among many, the last one with them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, MOST_SHOWN))})


def _records(step: int, quantity: str, layers: Sequence[Any], values: Any) -> Iterator[dict[str, Any]]:
    for layer, value in zip(layers, values, strict=True):
        number = float(value) if np.isfinite(value) else None
        yield {"step": step, "quantity": quantity, "layer": layer, "value": number}


def course_claims(course: Course, order: Order | None) -> list[Claim]:
    """Claim what happened along a training."""
    claims = [_change_claim(course), _blocks_claim(course)]
    if course.task is not None:
        claims.append(_score_claim(course))
    if order is not None:
        claims.append(order.claim(claims[-1].score))
    return claims


def _change_claim(course: Course) -> Claim:
    points, measure = course.change["first"][-1], course.similarity.measure
    values = points.values
    facts = {"steps": [course.steps[0], course.steps[-1]], "reason": None}
    if not np.isfinite(values).any():
        facts["reason"] = course.similarity_to("first").parts[-1].mean().why[0] or UNDEFINED
        return similarity_claim("course change", measure, "inconclusive", facts=facts)
    if np.nanmin(values) == 1:
        return similarity_claim("course change", measure, facts=facts)
    center, layers, most = course.centers("first")[-1], course.recorded.layers, int(np.nanargmin(values))
    near = overlapping_layers(layers, points, most)
    return similarity_claim(
        "course change",
        measure,
        "holds" if near == [] else "inconclusive",
        layers=(layers[most],),
        estimate=None if center is None else center.quantity(course.recorded.unit),
        facts={**facts, "largest": 1 - float(values[most]), "overlapping": near},
    )


def _blocks_claim(course: Course) -> Claim:
    findings, unit = [blocks.finding for blocks in course.blocks], course.recorded.unit
    certain = {
        step: finding.outermost
        for step, finding in zip(course.steps, findings, strict=True)
        if finding.certain
    }
    margins = {
        f"simultaneous margin of {layer_span(*block.span)} at step {step:,}": Quantity(
            value=block.margin,
            low=block.interval.low,
            high=block.interval.high,
            level=course.level,
            unit=unit,
        )
        for step, blocks in certain.items()
        for block in blocks
        if block.interval is not None
    }
    facts = {
        "certain": [[step, [block.span for block in blocks]] for step, blocks in certain.items()],
        "checkpoints": len(findings),
        "reason": findings[0].reason if all(finding.reason for finding in findings) else None,
    }
    verdict = "holds" if certain else "inconclusive"
    return similarity_claim("course blocks", course.similarity.measure, verdict, beside=margins, facts=facts)


def _score_claim(course: Course) -> Claim:
    assert course.task is not None
    curve, score = course.curves[0], find_score(course.task.main)
    first, last = (Quantity(value=score.points * float(curve.values[place])) for place in (0, -1))
    return Claim(
        kind="course score",
        verdict="holds",
        score=score.name,
        points=score.points,
        subject=curve.name,
        estimate=last,
        beside={"start": first},
        facts={
            "task": course.task.name,
            "steps": [course.steps[0], course.steps[-1]],
            "baseline": course.readings[0].by == "majority baseline",
        },
    )
