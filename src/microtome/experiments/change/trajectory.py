"""Trajectory experiment: maps, change, blocks and scores along the checkpoints of one training."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...context import Context
from ...errors import must
from ...extraction.texts import Texts
from ...findings.results import Result
from ...findings.words import counted
from ...rows.cost import row_cost
from ...rows.planning import Rows
from ...scores.table import find_score
from ...training.opening import open_task
from ...training.tuned import RUN
from ..base import Experiment, Plan, as_function, option
from ..citations import cited
from ..inputs import TASK_HELP, RowSelection, TaskOptions, TextOptions, task_notes
from ..layer_similarity import ComparisonOptions, compare_layers, plan_text, record_models
from ..tuned_models import text_provenance
from .checkpoint_blocks import MEASURE, find_checkpoint_blocks
from .checkpoint_scores import Reading, Scoring, plan_scoring, score_checkpoint
from .checkpoints import Checkpoint, checkpoint_length, find_checkpoints, missing_checkpoints
from .onset import DRAWS
from .trajectory_summary import (
    Course,
    change_of,
    checkpoint_documents,
    course_findings,
    course_methods,
    course_warnings,
    curve_document,
    curves_of,
    layer_curves,
    long_rows,
    order_of,
    shown_curves,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryInputs:
    """
    What a trajectory has opened.

    Parameters
    ----------
    checkpoints : tuple of Checkpoint
    first : Encoder
        Of the first checkpoint; the others are loaded one after the other.
    texts : Texts
    rows : Rows
    scoring : Scoring, optional
        Where there is a task.
    missing : tuple of str
        Warnings about checkpoints that are lost.
    """

    checkpoints: tuple[Checkpoint, ...]
    first: Any
    texts: Texts
    rows: Rows
    scoring: Scoring | None
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Trajectory(ComparisonOptions, RowSelection, TaskOptions, TextOptions, Experiment):
    """
    Follow the layers of a model along its training: maps, change, blocks of layers and score by step.

    At every checkpoint the same rows are read. They give the map of its layers by debiased CKA, how far each
    layer is from the first and the last checkpoint, and which layers form blocks. With a task the checkpoint
    is scored as well: by its own head where fine-tuning wrote it, else by linear probes that are fitted to
    convergence. The result has curves over the steps: the score of each checkpoint or, without a task, the
    mean similarity to the first and to the last one; and the same over layers, at a few of the steps. `more`
    has, one per step, "maps" (layers by layers), "change" from the "first" and the "last" (similarities and
    centers), "blocks", "margins" of the best run, "certain", the curves over layers of linear probes
    ("readouts") and "heads", and in "order" which came first, blocks or score (Phang et al. 2021 for blocks
    of layers).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> result = mt.trajectory({0: base, 1: tuned}, on=sentences)
    >>> [curve.name for curve in result.curves]
    ['similarity to the first', 'similarity to the last', 'step 1 to the first']
    """

    name = "trajectory"

    checkpoints: Any = option(
        "Folder with checkpoints in step-N, as pretrain and finetune keep them; in Python also what "
        "`finetune` returned, or a mapping of steps to models.",
        argument=True,
        panel="Input",
        metavar="DIR",
    )
    task: Any = option(f"Also score every checkpoint. {TASK_HELP}", None, panel="Input", metavar="TASK")
    start: Any = option("The model before the first update, as step 0.", None, panel="Input", metavar="MODEL")
    split: str | None = option("Split to score on; the validation split when absent.", None, panel="Input")
    linear_probes: bool = option("Fit linear probes also where checkpoints have heads of their own.", True)
    train_size: int | None = option(
        "Training examples of the linear probes; all that fit into memory when absent.", None, least=1
    )
    draws: int = option(
        "Number of simulated errors, for the order of blocks and score.", DRAWS, least=100, panel="Statistics"
    )

    def plan(self, context: Context) -> Plan:
        """Find the checkpoints, open text and task, and find the rows that are compared."""
        self._check_task_options()
        checkpoints = find_checkpoints(
            self.checkpoints, start=self.start, store=context.store, device=context.device
        )
        texts, task = self.texts(), None
        scoring = None
        if self.task is not None:
            task = open_task(self.task_reference(self.task))
            scoring = plan_scoring(
                checkpoints,
                task,
                split=self.split,
                linear_probes=self.linear_probes,
                train_size=self.train_size,
                longest=self.longest,
            )
        first = checkpoints[0].load()
        length = checkpoint_length(checkpoints, self.longest)
        rows = plan_text({checkpoints[0].name: first}, texts, self.row_options(length))
        cost, summary = row_cost([first] * len(checkpoints), rows, storage=self.storage)
        steps = [checkpoint.step for checkpoint in checkpoints]
        summary |= {"models": [checkpoint.name for checkpoint in checkpoints], "steps": steps}
        sentence = f"{counted(len(steps), 'checkpoint')}: {', '.join(f'{step:,}' for step in steps)}; {cost}"
        if scoring is not None:
            examples = counted(len(scoring.split), "example")
            sentence += f"; scored on {examples} of {scoring.task.name}/{scoring.split.name}"
            summary["examples"] = len(scoring.split)
        missing = missing_checkpoints(self.checkpoints, store=context.store)
        return Plan(
            name=texts.name if task is None else task.name,
            summary=summary,
            sentence=sentence,
            inputs=TrajectoryInputs(
                checkpoints=checkpoints,
                first=first,
                texts=texts,
                rows=rows,
                scoring=scoring,
                missing=missing,
            ),
            notes=(*missing, *(() if task is None else task_notes([task]))),
        )

    def _check_task_options(self) -> None:
        for name in ("data", "column", "pairs", "held_out", "split", "train_size"):
            if self.task is None and getattr(self, name):
                raise must(name, "given with a task", getattr(self, name))

    def run(self, plan: Plan, context: Context) -> Result:
        """Read every checkpoint, compare layers and find blocks, and describe the course of the training."""
        started, inputs, level = time.monotonic(), plan.inputs, context.level
        checkpoints, scoring = inputs.checkpoints, inputs.scoring
        readings: list[Reading] = []

        def score(name: str, encoder: Any) -> None:
            if scoring is not None:
                place = len(readings)
                readings.append(score_checkpoint(scoring, checkpoints[place], encoder, context.named(name)))

        models = {checkpoint.name: checkpoint.load for checkpoint in checkpoints}
        models[checkpoints[0].name] = inputs.first
        recorded = record_models(
            models, inputs.texts, inputs.rows, storage=self.storage, visit=score, context=context
        )
        names, computing = list(models), self.computing(context)
        similarity = compare_layers(
            recorded,
            MEASURE,
            left=[names[0], names[-1]],
            right=names,
            progress=context.progress,
            **computing,
        )[MEASURE]
        blocks = []
        for place, name in enumerate(names):
            blocks.append(find_checkpoint_blocks(recorded, name, level=level, **computing))
            if context.progress is not None:
                context.progress("blocks", place + 1, len(names))
        course = Course(
            steps=tuple(checkpoint.step for checkpoint in checkpoints),
            recorded=recorded,
            similarity=similarity,
            blocks=tuple(blocks),
            scoring=scoring,
            readings=tuple(readings),
            level=level,
        )
        return self._result(course, inputs, context, started)

    def _result(self, course: Course, inputs: TrajectoryInputs, context: Context, started: float) -> Result:
        recorded, scoring, task = course.recorded, course.scoring, course.task
        change = {end: change_of(course, end) for end in ("first", "last")}
        curves, order = curves_of(course), order_of(course, draws=self.draws, seed=self.seed)
        layered = {kind: layer_curves(course, kind) for kind in ("readouts", "heads")}
        score = None if task is None else find_score(task.main)
        label = _label(self.checkpoints, inputs.checkpoints)
        measure = course.similarity.measure
        return Result(
            experiment=self.name,
            model=label,
            task=inputs.texts.name if task is None else task.name,
            split=inputs.texts.name if scoring is None else scoring.split.name,
            score=measure if score is None else score.name,
            points=1.0 if score is None else score.points,
            higher_is_better=True if score is None else score.higher_is_better,
            curves=(*curves, *shown_curves(course, layered)),
            rows=tuple(long_rows(course, change, layered)),
            findings=tuple(course_findings(course, change, curves, order)),
            methods=course_methods(course, label),
            references=cited("phang2021"),
            warnings=(*inputs.missing, *course_warnings(course)),
            more=MappingProxyType(
                {
                    "steps": list(course.steps),
                    "layers": list(recorded.layers),
                    "measure": measure,
                    "maps": [blocks.map.tolist() for blocks in course.blocks],
                    "change": change,
                    "blocks": checkpoint_documents(course),
                    "margins": [blocks.margin for blocks in course.blocks],
                    "certain": [bool(blocks.finding.certain) for blocks in course.blocks],
                    "score": None if task is None else curve_document(curves[0]),
                    "read_layer": [reading.layer for reading in course.readings],
                    **{kind: [curve_document(curve) for curve in lines] for kind, lines in layered.items()},
                    "order": None if order is None else order.document(),
                }
            ),
            provenance=MappingProxyType(
                text_provenance(
                    [recorded],
                    [inputs.texts],
                    context,
                    started=started,
                    task=None if scoring is None else scoring.task.digest(scoring.split.name),
                    task_source=None if task is None else task.source,
                    train=_learned(course.readings),
                    options={**{name: getattr(self, name) for name in _OPTIONS}, "level": context.level},
                    seed=self.seed,
                )
            ),
        )


trajectory = as_function(Trajectory, "trajectory")

# What decides the numbers, beside the inputs.
_OPTIONS = (
    *("split", "linear_probes", "train_size", "rows", "sample", "longest", "draws"),
    *("storage", "precision", "memory"),
)


def _learned(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """What linear probes were fitted on; one entry, unless checkpoints fit different numbers into memory."""
    splits = {reading.learned.digest: reading.learned for reading in readings if reading.learned is not None}
    return [{"examples": len(split), "digest": digest} for digest, split in splits.items()]


def _label(training: Any, checkpoints: Sequence[Checkpoint]) -> str:
    if isinstance(training, str | os.PathLike):
        run = Path(training) / RUN
        record = json.loads(run.read_text()) if run.is_file() else {}
        return f"{record['model']}-{record['task']}" if record else Path(training).name
    for model in (training, getattr(training, "encoder", None)):
        name = getattr(model, "name", None)
        if isinstance(name, str):
            return name
    folder = checkpoints[-1].folder
    return "checkpoints" if folder is None else folder.parent.name
