"""Grids of fine-tunings: one encoder, fine-tuned once per point and seed (freeze, reinit, permute, drop)."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks import several
from ..context import Context
from ..errors import must
from ..findings.results import Result
from ..findings.words import counted
from ..interventions.applying import apply
from ..tasks.task import Task
from ..training.heads.head import read_head
from ..training.models.saving import check_weights
from ..training.opening import open_model, open_task
from ..training.precision import DTYPES
from ..training.recipe import Recipe, find_recipe
from ..training.request import check_run
from .base import Experiment, Pieces, Plan, option
from .inputs import TASK_HELP, LoadingOptions, TaskOptions, task_notes
from .run_curves import RunPoints, gather_points
from .runs import Done, Run, Trainer, count_updates

MODEL_HELP = "Model: hub id, folder or zoo:NAME. Each of several has its own result."
RECIPE_HELP = "Recipe: a name of `microtome ls recipes`."


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Values of a training."""

    recipe: str | Recipe | None = option(RECIPE_HELP, "devlin2019")
    changes: Mapping[str, Any] = option(
        "Change a value of the recipe, such as rate=2e-5 or warmup_steps=40. May be repeated.",
        {},
        name="set",
        repeated=True,
        metavar="NAME=VALUE",
        example="warmup_steps=40",
    )
    dtype: str = option(
        "Arithmetic of matrix products in training; auto: bfloat16 on a GPU that has it, else float32.",
        "auto",
        choices=DTYPES,
    )

    def chosen_recipe(self, default: str = "devlin2019") -> Recipe:
        """The recipe with its changed values."""
        return find_recipe(self.recipe or default, **self.changes)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(RecipeOptions):
    """How models are fine-tuned."""

    train_size: int | None = option("Train on N examples.", None, least=1, metavar="N")
    head: Any = option(
        "Head: stock, jiant, own, or its parts as reads=cls,dense=1,pooler=none; the recipe's when absent.",
        None,
        read=read_head,
    )
    at_once: int = option("Number of models that train in parallel processes.", 1, least=1, most=256)

    def settings(self) -> dict[str, Any]:
        """Options of `finetune` that are the same for all models."""
        return {"dtype": self.dtype, **({} if self.head is None else {"head": self.head})}


@dataclass(frozen=True, kw_only=True)
class GridInputs:
    """
    Opened inputs of a grid.

    Parameters
    ----------
    encoder : TransformerEncoder
    tasks : list of Task
    runs : list of Run
    recipe : Recipe
    """

    encoder: Any
    tasks: list[Task]
    runs: list[Run]
    recipe: Recipe


@dataclass(frozen=True, kw_only=True)
class GridRuns:
    """
    Outcomes of a grid for one task.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    done : list of Done
    recipe : Recipe
    settings : mapping
        Of `finetune`, the same for all runs.
    context : Context
    started : float
        Start of the grid, by `time.monotonic`.
    choices : object, optional
        Of an experiment that chooses between plan and training, such as which blocks it drops.
    """

    encoder: Any
    task: Task
    done: list[Done]
    recipe: Recipe
    settings: Mapping[str, Any]
    context: Context
    started: float
    choices: Any = None

    def points(self, arm: str) -> RunPoints:
        """The runs of an arm, by the point they belong to."""
        return gather_points(self.done, self.task.split(self.task.validation), arm)


@dataclass(frozen=True, kw_only=True)
class TrainingGrid(TrainingOptions, TaskOptions, LoadingOptions, Experiment):
    """Options and plan of experiments that fine-tune one encoder at every point of a grid."""

    divides = ("seeds",)

    model: Any = option(MODEL_HELP, argument=True, repeated=True, panel="Input", metavar="MODEL...")
    task: Any = option(f"{TASK_HELP} May be repeated.", repeated=True, panel="Input", metavar="TASK")
    seeds: Sequence[int] = option("Seeds of the trainings, as 1,2,3 or 1-3.", (1, 2, 3))
    keep_models: bool = option(
        "Keep the weights of every run, not only its predictions.", False, panel="Output"
    )

    @abstractmethod
    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings: every point of the grid with every seed."""

    def plan(self, context: Context) -> Plan:
        """Open encoder and tasks, and check and count the fine-tunings."""
        tasks = [open_task(self.task_reference(task)) for task in several(self.task)]
        names = [task.name for task in tasks]
        if not names or len(set(names)) != len(names) or (len(names) > 1 and not self.together):
            raise must("task", "one or more, each once" if self.together else "one task", names)
        recipe = self.chosen_recipe()
        encoder = open_model(self.reference(self.model), context=context).encoder
        check_weights(encoder)
        runs = self.grid(encoder)
        for task in tasks:
            self._check_runs(encoder, task, runs, recipe, context)
        counts = [count_updates(runs, task, recipe) for task in tasks]
        trainings, updates = (sum(column) for column in zip(*counts, strict=True))
        arms = list(dict.fromkeys(run.arm for run in runs))
        return Plan(
            name=tasks[0].name,
            summary={"runs": trainings, "updates": updates, "arms": arms},
            sentence=f"{encoder.name}, {counted(encoder.depth, 'block')}; "
            f"{', '.join(task.title for task in tasks)}: {counted(trainings, 'run')}, "
            f"{counted(updates, 'update')} in all with {recipe.name}; those in the store are not run again",
            inputs=GridInputs(encoder=encoder, tasks=tasks, runs=runs, recipe=recipe),
            notes=task_notes(tasks),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The fine-tunings that the store does not have yet."""
        inputs: GridInputs = plan.inputs
        return {
            name: piece
            for place in range(len(inputs.tasks))
            for name, piece in self.trainer(inputs, place, context).pieces(inputs.runs).items()
        }

    def trainer(self, inputs: GridInputs, place: int, context: Context) -> Trainer:
        """What fine-tunes for the task at a place of the inputs."""
        return Trainer(
            encoder=inputs.encoder,
            task=inputs.tasks[place],
            recipe=inputs.recipe,
            options=self.settings(),
            context=context.resolved(),
            keep_models=self.keep_models,
        )

    def _check_runs(
        self, encoder: Any, task: Task, runs: Sequence[Run], recipe: Recipe, context: Context
    ) -> None:
        """Check the arguments of every run before the first one begins."""
        built: set[Any] = set()
        for run in {run.work[2]: run for run in reversed(runs)}.values():
            cached = bool(run.options.get("cached"))
            changed = apply(encoder, *run.interventions) if cached else encoder
            # Which weights learn does not depend on size and rate.
            kind = run.options.get("method"), cached
            options = {"device": context.device, **self.settings(), "seed": run.seed, **run.options}
            check_run(changed, task, recipe, building=kind not in built, **options)
            built.add(kind)


@dataclass(frozen=True, kw_only=True)
class Grid(TrainingGrid):
    """An encoder is fine-tuned at every point of a grid, with every seed, and each task is summarized."""

    @abstractmethod
    def summarize(self, runs: GridRuns) -> Result:
        """Make curves and findings from the outcomes of one task."""

    def combine(self, results: Sequence[Result], runs: Sequence[GridRuns]) -> Result:
        """Make one result of several tasks, where an experiment takes them together."""
        return results[0]

    def train(self, inputs: GridInputs, place: int, context: Context) -> tuple[list[Done], Any]:
        """
        Fine-tune for one task.

        Returns
        -------
        outcomes : list of Done
        choices : object
            See `GridRuns`.
        """
        return self.trainer(inputs, place, context).run_all(inputs.runs), None

    def run(self, plan: Plan, context: Context) -> Result:
        """Fine-tune where the store has no outcome yet, and summarize."""
        started, inputs, outcomes = time.monotonic(), plan.inputs, []
        for place, task in enumerate(inputs.tasks):
            done, choices = self.train(
                inputs, place, context.named(task.name) if len(inputs.tasks) > 1 else context
            )
            outcomes.append(
                GridRuns(
                    encoder=inputs.encoder,
                    task=task,
                    done=done,
                    recipe=inputs.recipe,
                    settings=self.settings(),
                    context=context,
                    started=started,
                    choices=choices,
                )
            )
        return self.combine([self.summarize(runs) for runs in outcomes], outcomes)
