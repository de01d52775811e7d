"""Fine-tuning with one seed or several, and its scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...context import Context
from ...findings.words import counted
from ...reading import read_numbers
from ...tasks.task import Task
from ...training.models.methods import METHODS
from ...training.multi_seed import finetune_seeds
from ...training.opening import open_model, open_task
from ...training.recipe import Recipe
from ...training.request import check_seeds
from ...training.tuned import TUNING, TunedRuns, check_runs
from ..base import Experiment, Pieces, Plan, option
from ..grid import MODEL_HELP, TrainingOptions
from ..inputs import TASK_HELP, LoadingOptions, TaskOptions, task_notes


def read_checkpoints(typed: str) -> str | tuple[int, ...]:
    """
    Read updates, or "epochs".

    Examples
    --------
    >>> read_checkpoints("2,4"), read_checkpoints("epochs")
    ((2, 4), 'epochs')
    """
    return "epochs" if typed == "epochs" else tuple(read_numbers("--checkpoints", typed, empty=True))


@dataclass(frozen=True, kw_only=True)
class FineTuningInputs:
    """
    What a fine-tuning has opened.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    recipe : Recipe
    """

    encoder: Any
    task: Task
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class FineTuning(TrainingOptions, TaskOptions, LoadingOptions, Experiment):
    """Fine-tune a model on a task, once for each seed, and score it."""

    name = TUNING

    model: Any = option(MODEL_HELP, argument=True, repeated=True, panel="Input", metavar="MODEL...")
    task: Any = option(f"{TASK_HELP} May be repeated.", repeated=True, panel="Input", metavar="TASK")
    seeds: Sequence[int] = option("Seeds of the trainings, as 1,2,3 or 1-3.", (0,))
    method: str = option("Which weights are trained.", "full", choices=METHODS)
    checkpoints: Any = option(
        "Also save the model after these updates, as 100,200, or after each epoch: epochs.",
        (),
        panel="Output",
        read=read_checkpoints,
        metavar="N,...",
    )
    board: str | None = option(
        "Folder for TensorBoard, with a folder for each seed.", None, panel="Output", metavar="DIR"
    )
    vectorized: bool = option(
        "Batch all seeds into one vectorized model (faster for small models on a GPU).", False
    )
    random_init: bool = option("Start from a randomly initialized copy of the model.", False)

    def check_out(self, folder: Path) -> None:
        """Refuse a folder with files of others that the result or a checkpoint would replace."""
        check_runs(folder, self.seeds)

    def plan(self, context: Context) -> Plan:
        """Open encoder and task, and count the updates."""
        weights = {"random_init": True} if self.random_init else {}
        recipe, task = self.chosen_recipe(), open_task(self.task_reference(self.task))
        encoder = open_model(self.reference(self.model, **weights), context=context).encoder
        request = check_seeds(
            encoder,
            task,
            self.seeds,
            device=context.device,
            vectorized=self.vectorized,
            **self._options(recipe),
        )
        examples = len(request.data)
        updates = recipe.updates(examples)
        return Plan(
            name=task.name,
            summary={"examples": examples, "updates": updates, "seeds": list(self.seeds)},
            sentence=f"{task.title}: {counted(examples, 'example')} of {task.source}, "
            f"{counted(updates, 'update')} of {recipe.batch}, {counted(len(self.seeds), 'seed')}, scored on "
            f"{task.validation} ({len(task.split(task.validation)):,})",
            inputs=FineTuningInputs(encoder=encoder, task=task, recipe=recipe),
            notes=task_notes([task]),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """One fine-tuning for each seed; seeds of one vectorized model are trained together."""
        if self.vectorized:
            return super().pieces(plan, context)
        return {
            f"seed {seed}": partial(replace(self, seeds=(seed,)).run, plan, context) for seed in self.seeds
        }

    def run(self, plan: Plan, context: Context) -> TunedRuns:
        """Fine-tune with the seeds that the store does not have yet."""
        started, inputs = time.monotonic(), plan.inputs
        runs = finetune_seeds(
            inputs.encoder,
            inputs.task,
            self.seeds,
            vectorized=self.vectorized,
            context=context,
            **self._options(inputs.recipe),
        )
        spent = time.monotonic() - started
        return TunedRuns(runs=tuple(runs), seconds=spent, level=context.level)

    def _options(self, recipe: Recipe) -> dict[str, Any]:
        return {
            "recipe": recipe,
            "train_size": self.train_size,
            "head": self.head,
            "method": self.method,
            "dtype": self.dtype,
            "checkpoints": self.checkpoints,
            "board": self.board,
        }
