"""Evaluation of a fine-tuned model, alone or against another one on the same examples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...context import Context
from ...reading import names_apart
from ...store.outfolder import RESULT, TABLE, check_earlier
from ...tasks.task import Task
from ...training.evaluating import score_model
from ...training.evaluation import EVALUATION, Evaluation
from ...training.inputs import encode
from ...training.opening import Model, open_model, open_task
from ..base import Experiment, Pieces, Plan, option
from ..inputs import TASK_HELP, TaskOptions, task_notes


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """
    What an evaluation has opened.

    Parameters
    ----------
    task : Task
    models : list of (str, Model)
        With their names; the first is evaluated, and the second, if any, is what it is compared with.
    """

    task: Task
    models: list[tuple[str, Model]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelEvaluation(TaskOptions, Experiment):
    """Score a fine-tuned model on a task, with intervals over examples."""

    name = EVALUATION

    model: Any = option("Folder of a fine-tuned model.", argument=True, panel="Input", metavar="CKPT")
    task: Any = option(TASK_HELP, panel="Input", metavar="TASK")
    split: str | None = option("Split of the task; validation when absent.", None, panel="Input")
    against: Any = option(
        "Another fine-tuned model, compared on the same examples.", None, panel="Input", metavar="CKPT"
    )
    longest: int | None = option(
        "Maximum number of tokens per example; as in training when absent.", None, least=1
    )

    def check_out(self, folder: Path) -> None:
        """Refuse a folder with files of others that the result would replace."""
        check_earlier(folder, self.name, (RESULT, TABLE))

    def plan(self, context: Context) -> Plan:
        """Open the models with their heads, and count the examples."""
        task = open_task(self.task_reference(self.task))
        split = task.split(self.split or task.validation, labeled=task.kind != "language_modeling")
        models = []
        sources = [source for source in (self.model, self.against) if source is not None]
        for name, source in zip(_names(sources), sources, strict=True):
            model = open_model(source, task, context=context)
            model = replace(model, longest=self.longest or model.longest)
            encode(split.items[:1], task, model.tokenizer, longest=model.longest, stride=model.stride)
            models.append((name, model))
        sizes = ", ".join(f"{name} ({model.parameters:,} weights)" for name, model in models)
        return Plan(
            name=task.name,
            summary={
                "models": [name for name, _ in models],
                "parameters": [model.parameters for _, model in models],
                "split": split.name,
                "examples": len(split),
                "scores": list(task.scores),
            },
            sentence=f"{sizes}: {len(split):,} examples of {task.name}/{split.name}, scored by "
            f"{', '.join(task.scores)}",
            inputs=EvaluationInputs(task=task, models=models),
            notes=task_notes([task]),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """None: predictions of an evaluation are not stored."""
        return {}

    def run(self, plan: Plan, context: Context) -> Evaluation:
        """Predict and score every example."""
        evaluation, *others = [
            replace(score_model(model, plan.inputs.task, split=self.split, context=context), model=name)
            for name, model in plan.inputs.models
        ]
        return replace(evaluation, reference=others[0] if others else None)


def _names(models: Sequence[Any]) -> list[str]:
    """The names of models; of folders and hub ids the shortest that tell them apart."""
    paths = []
    for model in models:
        if isinstance(model, str | os.PathLike):
            paths.append(Path(model).parts or (str(model),))
        else:
            encoder = getattr(model, "encoder", model)
            paths.append((str(getattr(encoder, "name", model)),))
    return names_apart(paths)
