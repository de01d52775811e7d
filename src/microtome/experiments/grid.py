"""Grids of fine-tunings: one encoder, fine-tuned once per point and seed (freeze, reinit, permute, drop)."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..checks import several
from ..context import Context
from ..errors import must
from ..findings.results import Result
from ..findings.words import counted
from ..interventions.applying import apply
from ..tasks.task import Task
from ..training.heads.head import read_head
from ..training.opening import open_model, open_task
from ..training.precision import DTYPES
from ..training.recipe import Recipe, find_recipe
from ..training.request import check_run
from .base import Experiment, Pieces, Plan, option
from .inputs import TASK_HELP, LoadingOptions, TaskOptions, task_notes
from .runs import Done, Run, count_updates, missing_runs, run_all

RECIPE_HELP = "Recipe: a name of `microtome ls recipes`."


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Values of a training."""

    recipe: str | Recipe | None = option(RECIPE_HELP, "devlin2019")
    changes: Mapping[str, Any] = option(
        "Change a value of the recipe, such as rate=2e-5. May be repeated.",
        {},
        name="set",
        repeated=True,
        metavar="NAME=VALUE",
    )
    dtype: str = option("Arithmetic of matrix products in training.", "float32", choices=DTYPES)

    def chosen_recipe(self) -> Recipe:
        """The recipe with its changed values."""
        return find_recipe(self.recipe or "devlin2019", **self.changes)


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


@dataclass(frozen=True, kw_only=True)
class TrainingGrid(TrainingOptions, TaskOptions, LoadingOptions, Experiment):
    """Options and plan of experiments that fine-tune one encoder at every point of a grid."""

    model: Any = option("Model: hub id, folder or zoo:NAME.", argument=True, panel="Input", metavar="MODEL")
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
            for name, piece in self.run_pieces(inputs, place, inputs.runs, context).items()
        }

    def run_pieces(
        self,
        inputs: GridInputs,
        place: int,
        runs: Sequence[Run],
        context: Context,
        *,
        keep_models: bool = False,
    ) -> Pieces:
        """Fine-tunings on the task at a place of the inputs that the store does not have yet, by name."""
        task = inputs.tasks[place]
        keep_models = keep_models or self.keep_models
        options = {"recipe": inputs.recipe, "keep_models": keep_models, **self._settings()}
        missing = missing_runs(inputs.encoder, task, runs, context=context, **options)
        return {
            f"{task.name}: {run.arm} {run.x} seed {run.name}": partial(
                self.fine_tune, inputs, place, [run], context, keep_models=keep_models
            )
            for run in missing
        }

    def fine_tune(
        self,
        inputs: GridInputs,
        place: int,
        runs: Sequence[Run],
        context: Context,
        *,
        keep_models: bool = False,
    ) -> list[Done]:
        """Fine-tune on the task at a place of the inputs."""
        return run_all(
            inputs.encoder,
            inputs.tasks[place],
            runs,
            context=context,
            recipe=inputs.recipe,
            keep_models=keep_models or self.keep_models,
            **self._settings(),
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
            options = {"device": context.device, **self._settings(), "seed": run.seed, **run.options}
            check_run(changed, task, recipe, building=kind not in built, **options)
            built.add(kind)

    def _settings(self) -> dict[str, Any]:
        head = {} if self.head is None else {"head": self.head}
        return {"dtype": self.dtype, **head}


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
        return self.fine_tune(inputs, place, inputs.runs, context), None

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
                    settings=self._settings(),
                    context=context,
                    started=started,
                    choices=choices,
                )
            )
        return self.combine([self.summarize(runs) for runs in outcomes], outcomes)
