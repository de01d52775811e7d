"""What do the verbs that train many models share? Their options, and how a plan becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import Progress, changed_recipe, counted, given_head, loading
from .tasks import Plan, run_plans

if TYPE_CHECKING:
    from ..experiments.runs import Run

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder.", show_default=False)]
RecipeOption = Annotated[str, typer.Option(help="A name of `microtome ls recipes`.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Many fine-tunings of one model: what a user asked for."""

    experiment: str
    context: typer.Context
    model: str
    tasks: Sequence[str]
    # Whether all tasks go into one result.
    together: bool = False
    recipe: str
    files: TaskFiles
    training: Training
    loading: Loading
    working: Working
    shown: Shown


def run_grid(
    grid: Grid,
    function: Callable[..., Any],
    planned: Callable[[Any], Sequence[Run]],
    options: Mapping[str, Any],
) -> None:
    """Say how much there is to train, train it, and show what was found."""
    from ..encoders.loading import load
    from ..runtime import using_threads
    from .reading import open_noted

    working = grid.working
    recipe = changed_recipe(grid.recipe, grid.training.change, grid.recipe)
    every = [grid.files.asked(one) for one in grid.tasks]
    how = {**options, **given_head(grid.training.head), "recipe": recipe}
    grid.shown.check(working, grid.experiment)
    with grid.shown.screen.working(), using_threads(working.threads):
        tasks = [open_noted(asked, grid.shown.screen) for asked in every]
        loaded = loading(grid.model, grid.loading.revision, grid.loading.tokenizer)
        encoder: Any = load(**loaded)
        runs = planned(encoder)
        given = list(zip(every, tasks, strict=True))
        groups = [given] if grid.together else [[one] for one in given]
        plans = [_plan(grid, function, (loaded, encoder), group, runs, how) for group in groups]
    run_plans(plans, working, grid.shown, grid.experiment)


def _plan(
    grid: Grid,
    function: Callable[..., Any],
    model: tuple[dict[str, Any], Any],
    given: Sequence[tuple[dict[str, Any], Any]],
    runs: Sequence[Run],
    how: Mapping[str, Any],
) -> Plan:
    """Check the runs of one task, or of tasks that are taken together, and say how many there are."""
    from ..experiments.checking import check_runs
    from ..experiments.runs import count_updates

    training, working = grid.training, grid.working
    (loaded, encoder), tasks, recipe = model, [task for _, task in given], how["recipe"]
    where = {"device": working.device, "dtype": training.dtype}
    for task in tasks:
        check_runs(encoder, task, runs, recipe=recipe, **where, **given_head(training.head))
    counts = [count_updates(runs, task, recipe) for task in tasks]
    trained, updates = (sum(some) for some in zip(*counts, strict=True))
    titles = ", ".join(task.title for task in tasks)
    sentence = (
        f"{encoder.name}, {counted(encoder.depth, 'block')}; {titles}: {counted(trained, 'run')}, "
        f"{counted(updates, 'update')} in all with {recipe.name}; those in the store are not run again"
    )
    arms = list(dict.fromkeys(run.arm for run in runs))
    # Processes of their own open model and task themselves.
    apart = training.at_once > 1
    examples: list[Any] = [asked for asked, _ in given] if apart else tasks

    def run(progress: Progress | None) -> Any:
        return function(
            loaded if apart else encoder,
            examples if len(examples) > 1 else examples[0],
            **how,
            level=working.level,
            at_once=training.at_once,
            threads=working.threads,
            **where,
            store=working.store,
            keep_models=training.keep_models,
            progress=progress,
            command=grid.context.obj or "",
        )

    document = {"format": "microtome/plan/1", "runs": trained, "updates": updates, "arms": arms}
    return Plan(task=tasks[0].name, document=document, sentence=sentence, run=run)
