"""What do the verbs that train many models share? Their options, and how a plan becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .results import show_result
from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import changed_recipe, counted, given_head, loading

if TYPE_CHECKING:
    from ..experiments.runs import Run

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Hub id or folder.", show_default=False)]
TasksOption = Annotated[
    list[str],
    typer.Option(
        "--task",
        help="A name of `microtome ls tasks`, a card (.toml), or a table of one's own; may be repeated.",
        show_default=False,
    ),
]
RecipeOption = Annotated[str, typer.Option(help="A name of `microtome ls recipes`.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Many fine-tunings of one model: what a user asked for."""

    experiment: str
    context: typer.Context
    model: str
    tasks: Sequence[str]
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
    from ..comparison.inputs import using_threads
    from ..encoders.loading import load
    from ..experiments.runs import count_updates
    from ..training.several import open_asked

    training, working, screen = grid.training, grid.working, grid.shown.screen
    recipe = changed_recipe(grid.recipe, training.change, grid.recipe)
    every = [grid.files.asked(one) for one in grid.tasks]
    grid.shown.check(working, grid.experiment)
    tasks = [open_asked(asked) for asked in every]
    loaded = loading(grid.model, grid.loading.revision, grid.loading.tokenizer)
    encoder: Any = load(**loaded)
    runs = planned(encoder)
    counts = [count_updates(runs, task, recipe) for task in tasks]
    trained, updates = (sum(some) for some in zip(*counts, strict=True))
    titles = ", ".join(task.title for task in tasks)
    said = (
        f"{encoder.name}, {counted(encoder.depth, 'block')}; {titles}: {counted(trained, 'run')}, "
        f"{counted(updates, 'update')} in all with {recipe.name}; those in the store are not run again"
    )
    if working.dry_run:
        arms = list(dict.fromkeys(run.arm for run in runs))
        document = {"format": "microtome/plan/1", "runs": trained, "updates": updates, "arms": arms}
        screen.result(document, said)
        return
    screen.note(said)
    # Processes of their own open model and task themselves.
    apart = training.at_once > 1
    given: list[Any] = every if apart else tasks
    with screen.working() as progress, using_threads(working.threads):
        result = function(
            loaded if apart else encoder,
            given if len(given) > 1 else given[0],
            **options,
            recipe=recipe,
            level=working.level,
            at_once=training.at_once,
            threads=working.threads,
            device=working.device,
            precision=training.precision,
            store=working.store,
            keep_models=training.keep_models,
            progress=progress,
            command=grid.context.obj or "",
            **given_head(training.head),
        )
    show_result(screen, result, grid.shown.out)
