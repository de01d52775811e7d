"""What do the verbs that train many models share? Their options, and how a plan becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .results import show_result
from .show import Screen
from .surgery import check, counted, given_head

if TYPE_CHECKING:
    from ..experiments.runs import Run
    from ..training.recipe import Recipe

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
KeepModelsOption = Annotated[
    bool,
    typer.Option("--keep-models", metavar="", help="Keep the weights of every run, not only its answers."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Many fine-tunings of one model: what they share."""

    model: dict[str, Any]
    tasks: list[dict[str, Any]]
    recipe: Recipe
    head: str | None
    level: float
    at_once: int
    precision: str
    device: str
    threads: int | None
    store: str | None
    keep_models: bool
    dry_run: bool
    out: Path | None
    command: str


def run_grid(
    screen: Screen,
    grid: Grid,
    function: Callable[..., Any],
    planned: Callable[[Any], Sequence[Run]],
    options: Mapping[str, Any],
    *,
    several: bool = False,
) -> None:
    """Say how much there is to train, train it, and show what was found."""
    from ..comparison.inputs import using_threads
    from ..encoders.loading import load
    from ..experiments.runs import count_updates
    from ..training.several import open_asked

    check(device=grid.device, level=grid.level, out=grid.out, dry_run=grid.dry_run)
    tasks = [open_asked(asked) for asked in grid.tasks]
    encoder: Any = load(**grid.model)
    runs = planned(encoder)
    counts = [count_updates(runs, task, grid.recipe) for task in tasks]
    trained, updates = (sum(some) for some in zip(*counts, strict=True))
    titles = ", ".join(task.title for task in tasks)
    said = (
        f"{encoder.name}, {counted(encoder.depth, 'block')}; {titles}: {counted(trained, 'run')}, "
        f"{counted(updates, 'update')} in all with {grid.recipe.name}; those in the store are not run again"
    )
    if grid.dry_run:
        arms = list(dict.fromkeys(run.arm for run in runs))
        document = {"format": "microtome/plan/1", "runs": trained, "updates": updates, "arms": arms}
        screen.result(document, said)
        return
    screen.note(said)
    # Processes of their own open model and task themselves.
    given: Any = grid.tasks if grid.at_once > 1 else tasks
    with screen.working() as progress, using_threads(grid.threads):
        result = function(
            grid.model if grid.at_once > 1 else encoder,
            list(given) if several else given[0],
            **options,
            recipe=grid.recipe,
            level=grid.level,
            at_once=grid.at_once,
            threads=grid.threads,
            device=grid.device,
            precision=grid.precision,
            store=grid.store,
            keep_models=grid.keep_models,
            progress=progress,
            command=grid.command,
            **given_head(grid.head),
        )
    show_result(screen, result, grid.out)
