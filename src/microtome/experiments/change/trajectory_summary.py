"""A training step by step: change of layers, blocks of layers, scores, and which of them came first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...findings.results import Curve
from ...findings.scorecurves import score_curve
from ...findings.stackblocks import StackBlocks, blocks_document
from ...findings.words import between, number, small_number
from ...inference.answers import Answers
from ...inference.scoring import example_groups, unit_influence
from ...scores.table import find_score
from ...tasks.task import Task
from ...version import VERSION
from ..cell_errors import UNDEFINED, Sample, center_of, curve_of, points_of
from ..layer_similarity import LayerSimilarity, Recorded
from ..tuned_models import layer_curve
from .checkpoint_blocks import CheckpointBlocks
from .checkpoint_scores import Reading, Scoring
from .onset import Order, which_first

AXIS, LAYERS = "step", "layers kept"
MOST_SHOWN = 5  # steps whose layers are drawn, of many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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

    def similarity_to(self, end: str) -> Sample:
        """Similarity of every checkpoint to the first or the last one, shape (steps, layers)."""
        reference = self.names[0] if end == "first" else self.names[-1]
        return self.similarity.sample([(reference, name) for name in self.names])


def change_of(course: Course, end: str) -> dict[str, Any]:
    """
    Similarity of every layer, at every step, to one end of the training.

    Parameters
    ----------
    course : Course
    end : {"first", "last"}

    Returns
    -------
    dict
        Similarities of shape (steps, layers) as lists, with intervals and bands, and the center of the
        change at each step; None where nothing has changed.
    """
    samples = course.similarity_to(end)
    document: dict[str, list[Any]] = {name: [] for name in ("values", "low", "high", "band_low", "band_high")}
    centers: list[dict[str, float] | None] = []
    for place in range(len(course.steps)):
        sample = samples.alone(place)
        points = points_of(sample, level=course.level, bounds=course.similarity.bounds)
        for name, line in document.items():
            line.append(getattr(points, name).tolist())
        layers = course.recorded.layers
        center, ends = center_of(sample, layers), (layers[0], layers[-1])
        centers.append(None if center is None else points_of(center, level=course.level, bounds=ends).plain())
    return {**document, "center": centers}


def curves_of(course: Course) -> list[Curve]:
    """The score of each checkpoint or, without a task, its mean similarity to the first and to the last."""
    task = course.task
    if task is not None:
        name = "own head" if any(reading.heads is not None for reading in course.readings) else "best readout"
        answers = [reading.answers for reading in course.readings]
        curve = score_curve(
            name, course.steps, answers, task.main, task.labels, axis=AXIS, level=course.level
        )
        reasons = [
            "before the first update: the majority baseline" if reading.by == "majority baseline" else reason
            for reading, reason in zip(course.readings, curve.reasons, strict=True)
        ]
        return [replace(curve, reasons=tuple(reasons))]
    curves = []
    for end in ("first", "last"):
        mean = _over_layers(course.similarity_to(end))
        points = points_of(mean, level=course.level, bounds=course.similarity.bounds)
        unit, n = course.recorded.unit, course.recorded.examples
        curves.append(curve_of(f"similarity to the {end}", AXIS, course.steps, points, unit=unit, n=n))
    return curves


def _over_layers(samples: Sample) -> Sample:
    """The mean over layers of each checkpoint, as points of one sample; a collapsed one leaves the others."""
    defined = np.isfinite(samples.values)
    # The same layers at all checkpoints, but for those that have none.
    layers = defined[defined.any(axis=1)].all(axis=0)
    count, _, units = samples.errors.shape
    values, errors = np.full(count, np.nan), np.zeros((count, units))
    if layers.any():
        values, errors = samples.values[:, layers].mean(axis=1), samples.errors[:, layers].mean(axis=1)
    why = tuple(samples.alone(place).mean().why[0] for place in range(count))
    return Sample(values=values[None], errors=errors[None], dof=samples.dof, reasons=(why,))


def layer_curves(course: Course, kind: str) -> list[Curve]:
    """
    Score every layer at every step.

    Parameters
    ----------
    course : Course
    kind : {"heads", "readouts"}
        Own heads or linear probes.

    Returns
    -------
    list of Curve
        One per checkpoint that has them, over the layers that are kept.
    """
    task = course.task
    if task is None:
        return []
    curves = []
    for reading in course.readings:
        answers: tuple[Answers, ...] | None = getattr(reading, kind)
        if answers is not None:
            layers, options = range(1, len(answers) + 1), {"axis": LAYERS, "level": course.level}
            curves.append(
                score_curve(f"step {reading.step}", layers, answers, task.main, task.labels, **options)  # pyright: ignore[reportArgumentType]
            )
    return curves


def shown_curves(course: Course, layered: Mapping[str, Sequence[Curve]]) -> list[Curve]:
    """
    Curves over layers at a few steps, spread evenly: scores or, without a task, similarities to the first.

    Parameters
    ----------
    course : Course
    layered : mapping of str to sequence of Curve
        As `layer_curves` gives them, by what was read.

    Returns
    -------
    list of Curve
    """
    if course.task is not None:
        names = {"readouts": "readout", "heads": "head"}
        return [
            replace(lines[k], name=f"{names[kind]}, {lines[k].name}")
            for kind, lines in layered.items()
            for k in _spread(len(lines))
        ]
    samples = course.similarity_to("first")
    curves = []
    for k in _spread(len(course.steps) - 1):
        points = points_of(samples.alone(k + 1), level=course.level, bounds=course.similarity.bounds)
        name = f"step {course.steps[k + 1]:,} to the first"
        curves.append(layer_curve(name, course.recorded, points))
    return curves


def _spread(count: int) -> list[int]:
    """Places of a few among many, the last one with them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, MOST_SHOWN))})


def order_of(course: Course, *, draws: int, seed: int) -> Order | None:
    """State which came first, blocks or score; None without a task."""
    task = course.task
    if task is None:
        return None
    score = find_score(task.main)
    sign = 1.0 if score.higher_is_better else -1.0
    first = next((reading.answers for reading in course.readings if reading.answers is not None), None)
    blank = np.zeros(2 if first is None else len(_influence(task, first)))
    values, errors = [], []
    for reading in course.readings:
        answers = reading.answers
        values.append(
            np.nan if answers is None else score.compute(answers.predictions[0], answers.targets, task.labels)
        )
        errors.append(blank if answers is None else _influence(task, answers))
    return which_first(
        course.steps,
        np.array([blocks.evidence for blocks in course.blocks]),
        np.stack([blocks.errors for blocks in course.blocks]),
        sign * np.array(values, dtype=float),
        sign * np.stack(errors),
        level=course.level,
        draws=draws,
        seed=seed,
    )


def _influence(task: Task, answers: Answers) -> np.ndarray:
    groups = example_groups(answers.groups, len(answers.ids))
    score, predictions = find_score(task.main), answers.predictions[0]
    return unit_influence(score, predictions, answers.targets, task.labels, groups)


def checkpoint_documents(course: Course) -> list[dict[str, Any]]:
    """Findings about blocks as plain data, one per step."""
    names = tuple(str(layer) for layer in range(course.recorded.layers[-1] + 1))
    return [
        blocks_document(
            StackBlocks(stack=name, measure=course.similarity.measure, names=names, finding=blocks.finding)
        )
        for name, blocks in zip(course.names, course.blocks, strict=True)
    ]


def curve_document(curve: Curve) -> dict[str, Any]:
    """A curve as plain data."""
    fields = ("values", "low", "high", "band_low", "band_high")
    return {
        "name": curve.name,
        "x": list(curve.x),
        **{name: getattr(curve, name).tolist() for name in fields},
    }


def long_rows(
    course: Course, change: Mapping[str, Mapping[str, Any]], curves: Mapping[str, Sequence[Curve]]
) -> Iterator[dict[str, Any]]:
    """One record per step, quantity and layer."""
    for end, similarities in change.items():
        for step, values in zip(course.steps, similarities["values"], strict=True):
            for layer, value in zip(course.recorded.layers, values, strict=True):
                yield _row(step, f"similarity to the {end}", layer, value)
    for step, blocks in zip(course.steps, course.blocks, strict=True):
        yield _row(step, "margin", None, blocks.margin)
    for kind, lines in curves.items():
        steps = [reading.step for reading in course.readings if getattr(reading, kind) is not None]
        for step, curve in zip(steps, lines, strict=True):
            for layer, value in zip(curve.x, curve.values, strict=True):
                yield _row(step, kind, int(layer), float(value))


def _row(step: int, quantity: str, layer: int | None, value: float) -> dict[str, Any]:
    return {
        "step": step,
        "quantity": quantity,
        "layer": layer,
        "value": float(value) if np.isfinite(value) else None,
    }


def course_findings(
    course: Course, change: Mapping[str, Mapping[str, Any]], curves: Sequence[Curve], order: Order | None
) -> list[str]:
    """State what happened along the training."""
    values = np.array(change["first"]["values"], dtype=float)[-1]
    steps, layers = course.steps, course.recorded.layers
    findings = []
    if not np.isfinite(values).any():
        why = course.similarity_to("first").alone(-1).mean().why[0] or UNDEFINED
        findings.append(f"How far step {steps[-1]:,} is from step {steps[0]:,} is undefined: {why}.")
    elif np.nanmin(values) == 1:
        findings.append(f"No layer changed from step {steps[0]:,} to step {steps[-1]:,}.")
    else:
        most = layers[int(np.nanargmin(values))]
        center = change["first"]["center"][-1]
        where = (
            ""
            if center is None
            else (
                f"; the center of the change is at layer {number(center['value'])} "
                f"{between(center['low'], center['high'])}"
            )
        )
        findings.append(
            f"From step {steps[0]:,} to step {steps[-1]:,}, by {course.similarity.measure}, layer {most} "
            f"changed most ({small_number(1 - float(np.nanmin(values)))}){where}."
        )
    findings.append(_block_sentence(course))
    if course.task is not None:
        first, last = curves[0].values[0], curves[0].values[-1]
        by = "best linear probe" if curves[0].name == "best readout" else curves[0].name
        baseline = " (the majority baseline)" if course.readings[0].by == "majority baseline" else ""
        findings.append(
            f"{find_score(course.task.main).name} on {course.task.name} ({by}) goes from "
            f"{number(float(first), 3)} at step {steps[0]:,}{baseline} to {number(float(last), 3)} at step "
            f"{steps[-1]:,}."
        )
    if order is not None:
        findings.append(order.sentence())
    return findings


def _block_sentence(course: Course) -> str:
    """State at which checkpoints layers form blocks."""
    certain = [place for place, blocks in enumerate(course.blocks) if blocks.finding.certain]
    if all(blocks.finding.reason is not None for blocks in course.blocks):
        return course.blocks[0].finding.headline()
    if not certain:
        return f"At none of {len(course.blocks)} checkpoints is a block of layers certain."
    parts = []
    for place in certain:
        headline = course.blocks[place].finding.headline()
        parts.append(f"step {course.steps[place]:,}: {headline[0].lower()}{headline[1:-1]}")
    return (
        f"Blocks of layers are certain at {len(certain)} of {len(course.blocks)} checkpoints. "
        f"At {'; '.join(parts)}."
    )


def course_methods(course: Course, name: str) -> str:
    """How it was done, for the methods of a paper."""
    recorded = course.recorded
    parts = [
        f"{len(course.steps)} checkpoints of {name}, from step {course.steps[0]:,} to step "
        f"{course.steps[-1]:,}, were read on {recorded.rows.sentence()} of {recorded.rows.extent()}. Layers "
        f"of each were compared with one another, and with those of the first and the last checkpoint, by "
        f"{course.similarity.measure}. At each, a run of at least three layers is a block if its least "
        "similar pair is more similar than any pair across its border, and certain if the simultaneous "
        f"interval of this margin, over {recorded.unit}s and all runs, is positive."
    ]
    if course.task is not None:
        scorers = dict.fromkeys(_SCORERS[reading.by] for reading in course.readings)
        parts.append(f"Checkpoints were scored on {course.task.title} by {' and '.join(scorers)}.")
        sizes = sorted({len(reading.learned) for reading in course.readings if reading.learned is not None})
        if sizes:
            parts.append(
                "Linear probes are logistic (ridge, for numbers) regressions fitted to convergence on "
                f"{' or '.join(f'{size:,}' for size in sizes)} training examples, with a penalty chosen by "
                "cross-validation, and the layer that is scored is the one that predicts held-out training "
                "examples best."
            )
        parts.append(
            "Blocks appear before, with or after the score by the checkpoint from which on a block is "
            "certain, and that from which on half of the final gain is kept; the interval is simulated from "
            f"errors of {recorded.unit}s and examples, each shared by all checkpoints."
        )
    parts.append(
        f"Intervals of {course.level * 100:g} % are over {recorded.unit}s or examples, and say nothing about "
        f"another training. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


_SCORERS = {
    "own head": "their own heads",
    "majority baseline": "the majority baseline",
    "linear probe": "linear probes",
}


def course_warnings(course: Course) -> tuple[str, ...]:
    """What went less well."""
    # Where none could be tested, the findings say so.
    tested = any(blocks.finding.reason is None for blocks in course.blocks)
    warnings = [
        f"At step {step:,} blocks could not be tested: {blocks.finding.reason}."
        for step, blocks in zip(course.steps, course.blocks, strict=True)
        if tested and blocks.finding.reason is not None
    ]
    slow = [str(reading.step) for reading in course.readings if not reading.converged]
    if slow:
        warnings.append(f"Linear probes did not all converge at step {', '.join(slow)}.")
    notes = dict.fromkeys(note for reading in course.readings for note in reading.notes)
    return (*course.recorded.warnings, *notes, *warnings)
