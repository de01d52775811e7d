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
from ...tasks.items import Split
from ...tasks.task import Task
from ...version import VERSION
from ..cell_errors import UNDEFINED, Sample, center_of, curve_of, points_of
from ..layer_similarity import Alike, Recorded
from ..tuned_models import layer_curve
from .checkpoint_blocks import CheckpointBlocks
from .checkpoint_scores import GUESS, Reading
from .onset import Order, which_first

AXIS, LAYERS = "step", "layers kept"
MOST_SHOWN = 5  # steps whose layers are drawn, of many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """
    All that was read along one training.

    Parameters
    ----------
    steps : tuple of int
    recorded : Recorded
        The models are called after their steps, in the same order.
    against : Alike
        The first and the last checkpoint (left) against all (right).
    blocks : tuple of CheckpointBlocks
    task : Task, optional
    split : Split, optional
        That was answered.
    readings : tuple of Reading
        Empty without a task.
    level : float
    """

    steps: tuple[int, ...]
    recorded: Recorded
    against: Alike
    blocks: tuple[CheckpointBlocks, ...]
    task: Task | None = None
    split: Split | None = None
    readings: tuple[Reading, ...] = ()
    level: float = 0.95

    @property
    def names(self) -> tuple[str, ...]:
        """Of the checkpoints."""
        return tuple(self.recorded.found)

    def likeness(self, end: str) -> Sample:
        """Similarity of every checkpoint to the first or the last one, shape (steps, layers)."""
        chosen = self.names[0] if end == "first" else self.names[-1]
        return self.against.sample([(chosen, name) for name in self.names])


def change_of(course: Course, end: str) -> dict[str, Any]:
    """
    Say how like every layer is, at every step, to one end of the training.

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
    every = course.likeness(end)
    out: dict[str, list[Any]] = {name: [] for name in ("values", "low", "high", "band_low", "band_high")}
    centers: list[dict[str, float] | None] = []
    for place in range(len(course.steps)):
        one = every.alone(place)
        points = points_of(one, level=course.level, bounds=course.against.bounds)
        for name, line in out.items():
            line.append(getattr(points, name).tolist())
        layers = course.recorded.layers
        center, ends = center_of(one, layers), (layers[0], layers[-1])
        centers.append(None if center is None else points_of(center, level=course.level, bounds=ends).plain())
    return {**out, "center": centers}


def curves_of(course: Course) -> list[Curve]:
    """The score of each checkpoint or, without a task, its mean similarity to the first and to the last."""
    task = course.task
    if task is not None:
        own = any(one.heads is not None for one in course.readings)
        given: dict[str, Any] = {"axis": AXIS, "level": course.level}
        answers = [one.answers for one in course.readings]
        name = "own head" if own else "best readout"
        found = score_curve(name, course.steps, answers, task.main, task.labels, **given)
        told = [
            f"before the first update: {GUESS}" if one.by == GUESS else why
            for one, why in zip(course.readings, found.reasons, strict=True)
        ]
        return [replace(found, reasons=tuple(told))]
    found = []
    for end in ("first", "last"):
        one = _over_layers(course.likeness(end))
        points = points_of(one, level=course.level, bounds=course.against.bounds)
        unit, n = course.recorded.unit, course.recorded.examples
        found.append(curve_of(f"similarity to the {end}", AXIS, course.steps, points, unit=unit, n=n))
    return found


def _over_layers(every: Sample) -> Sample:
    """The mean over layers of each checkpoint, as points of one sample; a collapsed one leaves the others."""
    defined = np.isfinite(every.values)
    # The same layers at all checkpoints, but for those that have none.
    kept = defined[defined.any(axis=1)].all(axis=0)
    count, _, units = every.errors.shape
    values, errors = np.full(count, np.nan), np.zeros((count, units))
    if kept.any():
        values, errors = every.values[:, kept].mean(axis=1), every.errors[:, kept].mean(axis=1)
    why = tuple(every.alone(place).mean().why[0] for place in range(count))
    return Sample(values=values[None], errors=errors[None], dof=every.dof, reasons=(why,))


def layer_curves(course: Course, which: str) -> list[Curve]:
    """
    Score every layer at every step.

    Parameters
    ----------
    course : Course
    which : {"heads", "readouts"}

    Returns
    -------
    list of Curve
        One a checkpoint that has them, over the layers that are kept.
    """
    task = course.task
    if task is None:
        return []
    found = []
    for one in course.readings:
        answers: tuple[Answers, ...] | None = getattr(one, which)
        if answers is not None:
            layers, given = range(1, len(answers) + 1), {"axis": LAYERS, "level": course.level}
            found.append(
                score_curve(f"step {one.step}", layers, answers, task.main, task.labels, **given)  # pyright: ignore[reportArgumentType]
            )
    return found


def shown_curves(course: Course, layered: Mapping[str, Sequence[Curve]]) -> list[Curve]:
    """
    Curves over layers at some steps, spread evenly: scores or, without a task, similarities to the first.

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
            replace(some[k], name=f"{names[which]}, {some[k].name}")
            for which, some in layered.items()
            for k in _spread(len(some))
        ]
    every = course.likeness("first")
    found = []
    for k in _spread(len(course.steps) - 1):
        points = points_of(every.alone(k + 1), level=course.level, bounds=course.against.bounds)
        name = f"step {course.steps[k + 1]:,} to the first"
        found.append(layer_curve(name, course.recorded, points))
    return found


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
    known = next((one.answers for one in course.readings if one.answers is not None), None)
    blank = np.zeros(2 if known is None else len(_influence(task, known)))
    values, errors = [], []
    for one in course.readings:
        found = one.answers
        values.append(
            np.nan if found is None else score.compute(found.predictions[0], found.targets, task.labels)
        )
        errors.append(blank if found is None else _influence(task, found))
    return which_first(
        course.steps,
        np.array([one.evidence for one in course.blocks]),
        np.stack([one.errors for one in course.blocks]),
        sign * np.array(values, dtype=float),
        sign * np.stack(errors),
        level=course.level,
        draws=draws,
        seed=seed,
    )


def _influence(task: Task, found: Answers) -> np.ndarray:
    groups = example_groups(found.groups, len(found.ids))
    return unit_influence(find_score(task.main), found.predictions[0], found.targets, task.labels, groups)


def checkpoint_documents(course: Course) -> list[dict[str, Any]]:
    """Findings about blocks as plain data, one per step."""
    names = tuple(str(layer) for layer in range(course.recorded.layers[-1] + 1))
    return [
        blocks_document(
            StackBlocks(stack=name, measure=course.against.measure, names=names, finding=one.finding)
        )
        for name, one in zip(course.names, course.blocks, strict=True)
    ]


def curve_document(one: Curve) -> dict[str, Any]:
    """A curve as plain data."""
    fields = ("values", "low", "high", "band_low", "band_high")
    return {"name": one.name, "x": list(one.x), **{name: getattr(one, name).tolist() for name in fields}}


def long_rows(
    course: Course, change: Mapping[str, Mapping[str, Any]], curves: Mapping[str, Sequence[Curve]]
) -> Iterator[dict[str, Any]]:
    """One record a step, quantity and layer."""
    for end, told in change.items():
        for step, values in zip(course.steps, told["values"], strict=True):
            for layer, value in zip(course.recorded.layers, values, strict=True):
                yield _row(step, f"similarity to the {end}", layer, value)
    for step, one in zip(course.steps, course.blocks, strict=True):
        yield _row(step, "margin", None, one.margin)
    for which, some in curves.items():
        for one in some:
            for layer, value in zip(one.x, one.values, strict=True):
                yield _row(int(one.name.split()[1]), which, int(layer), float(value))


def _row(step: int, quantity: str, layer: int | None, value: float) -> dict[str, Any]:
    return {
        "step": step,
        "quantity": quantity,
        "layer": layer,
        "value": float(value) if np.isfinite(value) else None,
    }


def said_course(
    course: Course, change: Mapping[str, Mapping[str, Any]], curves: Sequence[Curve], order: Order | None
) -> list[str]:
    """Say what happened along the training."""
    values = np.array(change["first"]["values"], dtype=float)[-1]
    steps, layers = course.steps, course.recorded.layers
    said = []
    if not np.isfinite(values).any():
        why = course.likeness("first").alone(-1).mean().why[0] or UNDEFINED
        said.append(f"How far step {steps[-1]:,} is from step {steps[0]:,} is undefined: {why}.")
    elif np.nanmin(values) == 1:
        said.append(f"No layer changed from step {steps[0]:,} to step {steps[-1]:,}.")
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
        said.append(
            f"From step {steps[0]:,} to step {steps[-1]:,}, by {course.against.measure}, layer {most} "
            f"changed most ({small_number(1 - float(np.nanmin(values)))}){where}."
        )
    said.append(_block_sentence(course))
    if course.task is not None:
        first, last = curves[0].values[0], curves[0].values[-1]
        said.append(
            f"{find_score(course.task.main).name} on {course.task.name} ({curves[0].name}) goes from "
            f"{number(float(first), 3)} at step {steps[0]:,}"
            f"{f' ({GUESS})' if course.readings[0].by == GUESS else ''} to {number(float(last), 3)} at step "
            f"{steps[-1]:,}."
        )
    if order is not None:
        said.append(order.sentence())
    return said


def _block_sentence(course: Course) -> str:
    """State at which checkpoints layers form blocks."""
    certain = [place for place, one in enumerate(course.blocks) if one.finding.certain]
    if all(one.finding.reason is not None for one in course.blocks):
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


def said_how(course: Course, name: str) -> str:
    """Say how it was done, for the methods of a paper."""
    rec = course.recorded
    parts = [
        f"{len(course.steps)} checkpoints of {name}, from step {course.steps[0]:,} to step "
        f"{course.steps[-1]:,}, were read on {rec.rows.sentence()} of {rec.rows.extent()}. Layers "
        f"of each were compared with one another, and with those of the first and the last checkpoint, by "
        f"{course.against.measure}. At each, a run of at least three layers is a block if its least similar "
        "pair is more similar than any pair across its border, and certain if the simultaneous interval of "
        f"this margin, over {rec.unit}s and all runs, is positive."
    ]
    if course.task is not None:
        by = list(dict.fromkeys(_kind(one.by) for one in course.readings))
        parts.append(f"Checkpoints were scored on {course.task.title} by {' and '.join(by)}.")
        sizes = sorted({len(one.learned) for one in course.readings if one.learned is not None})
        if sizes:
            parts.append(
                "Readouts are logistic (ridge, for numbers) regressions fitted to convergence on "
                f"{' or '.join(f'{size:,}' for size in sizes)} training examples, with a penalty chosen by "
                "cross-validation, and the layer that is scored is the one that foretells held-out training "
                "examples best."
            )
        parts.append(
            "Blocks appear before, with or after the score by the checkpoint from which on some block is "
            "certain, and that from which on half of the final gain is kept; the interval is simulated from "
            f"errors of {rec.unit}s and examples, each shared by all checkpoints."
        )
    parts.append(
        f"Intervals of {course.level * 100:g}% are over {rec.unit}s or examples, and say nothing of another "
        f"training. Computed with microtome {VERSION}."
    )
    return " ".join(parts)


def _kind(by: str) -> str:
    return "linear readouts" if by.startswith("a linear") else by


def warned_of(course: Course) -> tuple[str, ...]:
    """What went less well."""
    # Where none could be tested, the findings say so.
    tested = any(one.finding.reason is None for one in course.blocks)
    said = [
        f"At step {step:,} blocks could not be tested: {one.finding.reason}."
        for step, one in zip(course.steps, course.blocks, strict=True)
        if tested and one.finding.reason is not None
    ]
    slow = [str(one.step) for one in course.readings if not one.converged]
    if slow:
        said.append(f"Some readouts did not converge at step {', '.join(slow)}.")
    notes = dict.fromkeys(note for one in course.readings for note in one.notes)
    return (*course.recorded.warned, *notes, *said)
