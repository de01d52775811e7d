"""Trajectory experiment: maps, change, blocks and scores along the checkpoints of one training."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...context import Context
from ...errors import must
from ...findings.results import Result
from ...findings.words import counted, coverage
from ...rows.planning import row_cost
from ...scores.table import find_score
from ...training.opening import open_task
from ...training.tuned import RUN
from ..base import Experiment, Pieces, Plan, as_function, option
from ..citations import cited
from ..comparison_options import ComparisonOptions, TextInputs
from ..inputs import TASK_HELP, RowSelection, TaskOptions, TextOptions, task_notes
from ..layer_similarity import compare_layers, plan_text, record_models
from .checkpoints import Checkpoint, checkpoint_length, find_checkpoints, missing_checkpoints
from .course import ENDS, Course, course_claims, curve_document
from .onset import DRAWS
from .readings import MEASURE, Reading, Scoring, find_checkpoint_blocks, plan_scoring, score_checkpoint


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
    ("probes") and "heads", and in "order" which came first, blocks or score (Phang et al. 2021 for blocks
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
        "Folder with checkpoints in step-N, as `pretrain` and `finetune` write them.",
        argument=True,
        panel="Input",
        metavar="DIR",
        python="Also what `finetune` returned, or a mapping of steps to models.",
    )
    task: Any = option(f"Also score every checkpoint. {TASK_HELP}", None, panel="Input", metavar="TASK")
    start: Any = option("The model before the first update, as step 0.", None, panel="Input", metavar="MODEL")
    split: str | None = option("Split to score on; the validation split when absent.", None, panel="Input")
    linear_probes: bool = option(
        "Score by linear probes also where checkpoints have classification heads.", True
    )
    train_size: int | None = option(
        "Training examples of the linear probes; all that fit into memory when absent.", None, least=1
    )
    draws: int = option(
        "Number of simulations that decide whether blocks or the score came first.",
        DRAWS,
        least=100,
        panel="Statistics",
    )

    def plan(self, context: Context) -> Plan:
        """Find the checkpoints, open text and task, and find the rows that are compared."""
        self._check_task_options()
        checkpoints = find_checkpoints(self.checkpoints, context, start=self.start)
        missing = missing_checkpoints(self.checkpoints, context)
        texts, task, scoring = self.texts(), None, None
        if self.task is not None:
            task = open_task(self.task_reference(self.task))
            options = {"linear_probes": self.linear_probes, "train_size": self.train_size}
            scoring = plan_scoring(checkpoints, task, split=self.split, longest=self.longest, **options)
        models = {checkpoint.name: checkpoint.model for checkpoint in checkpoints}
        first = models[checkpoints[0].name] = checkpoints[0].open(context)
        length = checkpoint_length(checkpoints, self.longest)
        rows = plan_text({checkpoints[0].name: first}, texts, self.row_options(length))
        cost, summary = row_cost([first] * len(checkpoints), rows, storage=self.storage)
        steps = [checkpoint.step for checkpoint in checkpoints]
        summary |= {"models": list(models), "steps": steps}
        sentence = f"{counted(len(steps), 'checkpoint')}: {', '.join(f'{step:,}' for step in steps)}; {cost}"
        if scoring is not None:
            examples = counted(len(scoring.split), "example")
            sentence += f"; scored on {examples} of {scoring.task.name}/{scoring.split.name}"
            summary["examples"] = len(scoring.split)
        text = TextInputs(models=models, texts=texts, rows=rows)
        return Plan(
            name=texts.name if task is None else task.name,
            summary=summary,
            sentence=sentence,
            inputs=(checkpoints, text, scoring, missing),
            notes=(*missing, *(() if task is None else task_notes([task]))),
        )

    def _check_task_options(self) -> None:
        for name in ("data", "column", "pairs", "held_out", "split", "train_size"):
            if self.task is None and getattr(self, name):
                raise must(name, "given with a task", getattr(self, name))

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """For each checkpoint, its rows and its answers."""
        (checkpoints, text, scoring, _), pieces = plan.inputs, {}
        for checkpoint, (name, model) in zip(checkpoints, text.models.items(), strict=True):

            def score(label: str, encoder: Any, checkpoint: Checkpoint = checkpoint) -> None:
                if scoring is not None:
                    score_checkpoint(scoring, checkpoint, encoder, context.named(label))

            pieces |= self.recordings(replace(text, models={name: model}), context, visit=score)
        return pieces

    def run(self, plan: Plan, context: Context) -> Result:
        """Read every checkpoint, compare layers and find blocks, and describe the course of the training."""
        started, (checkpoints, text, scoring, missing) = time.monotonic(), plan.inputs
        course = self._follow(checkpoints, text, scoring, context)
        texts, task = text.texts, course.task
        order = course.order(draws=self.draws, seed=self.seed)
        label, measure = _label(self.checkpoints, checkpoints), course.similarity.measure
        scored: dict[str, Any] = {"score": measure}
        if scoring is not None:
            task = scoring.task
            scored = {"task": task, "split": scoring.split.name, "score": find_score(task.main)}
        return self.result(
            [course.recorded],
            [texts],
            context,
            started=started,
            model=label,
            **scored,
            curves=(*course.curves, *course.layer_curves()),
            rows=list(course.records()),
            claims=course_claims(course, order),
            methods=_methods(course, label),
            references=cited("phang2021"),
            warnings=(*missing, *_warnings(course)),
            more={
                "steps": list(course.steps),
                "layers": list(course.recorded.layers),
                "measure": measure,
                "maps": [blocks.map.tolist() for blocks in course.blocks],
                "change": {end: course.change_document(end) for end in ENDS},
                "blocks": course.block_documents(),
                "margins": [blocks.margin for blocks in course.blocks],
                "certain": [bool(blocks.finding.certain) for blocks in course.blocks],
                "score": None if task is None else curve_document(course.curves[0]),
                "read_layer": [reading.layer for reading in course.readings],
                **{kind: list(map(curve_document, curves)) for kind, curves in course.layered.items()},
                "order": None if order is None else order.document(),
            },
            made_from={
                "task": None,
                "task_source": None,
                "train": _learned(course.readings),
            },
        )

    def _follow(
        self, checkpoints: Sequence[Checkpoint], text: TextInputs, scoring: Scoring | None, context: Context
    ) -> Course:
        """Record the rows of every checkpoint, score it, compare its layers, and find its blocks."""
        readings: list[Reading] = []

        def score(name: str, encoder: Any) -> None:
            if scoring is not None:
                checkpoint = checkpoints[len(readings)]
                readings.append(score_checkpoint(scoring, checkpoint, encoder, context.named(name)))

        recorded = record_models(
            text.models, text.texts, text.rows, storage=self.storage, visit=score, context=context
        )
        names, computing = list(text.models), self.computing(context)
        similarity = compare_layers(
            recorded, MEASURE, context, left=[names[0], names[-1]], right=names, **computing
        )
        blocks = []
        for place, name in enumerate(names):
            blocks.append(find_checkpoint_blocks(recorded, name, level=context.level, **computing))
            if context.progress is not None:
                context.progress("blocks", place + 1, len(names))
        return Course(
            steps=tuple(checkpoint.step for checkpoint in checkpoints),
            recorded=recorded,
            similarity=similarity[MEASURE],
            blocks=tuple(blocks),
            scoring=scoring,
            readings=tuple(readings),
            level=context.level,
        )


trajectory = as_function(Trajectory, "trajectory")


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


def _methods(course: Course, name: str) -> str:
    """How it was done, for the methods of a paper."""
    recorded = course.recorded
    parts = [
        f"{len(course.steps)} checkpoints of {name}, from step {course.steps[0]:,} to step "
        f"{course.steps[-1]:,}, were read on {recorded.sentence}. Layers of each were compared with one "
        f"another, and with those of the first and the last checkpoint, by {course.similarity.measure}. At "
        "each, a run of at least three layers is a block if its least similar pair is more similar than any "
        f"pair across its border, and certain if the simultaneous interval of this margin, over "
        f"{recorded.unit}s and all runs, is positive."
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
        f"Intervals of {coverage(course.level)} are over {recorded.unit}s or examples, and say nothing about "
        "another training."
    )
    return " ".join(parts)


_SCORERS = {
    "own head": "their own heads",
    "majority baseline": "the majority baseline",
    "linear probe": "linear probes",
}


def _warnings(course: Course) -> tuple[str, ...]:
    """What went less well."""
    untested = {
        step: blocks.finding.reason
        for step, blocks in zip(course.steps, course.blocks, strict=True)
        if blocks.finding.reason is not None
    }
    # Where none could be tested, the claims say so.
    tested = len(untested) < len(course.steps)
    warnings = [f"At step {step:,} blocks could not be tested: {why}." for step, why in untested.items()]
    slow = [str(reading.step) for reading in course.readings if not reading.converged]
    if slow:
        warnings.append(f"Linear probes did not all converge at step {', '.join(slow)}.")
    notes = dict.fromkeys(note for reading in course.readings for note in reading.notes)
    return (*notes, *(warnings if tested else warnings[len(untested) :]))
