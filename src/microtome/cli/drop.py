"""Which blocks can be left out before fine-tuning? The verb `drop`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from .grids import Grid, ModelArgument, RecipeOption, run_grid
from .reading import read_names, read_numbers
from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import SeedsOption
from .tasks import TasksOption

STRATEGIES = "top,bottom,alternate,symmetric,contribution,similarity,random"


def drop(
    context: typer.Context,
    model: ModelArgument,
    task: TasksOption,
    *,
    files: TaskFiles,
    count: Annotated[
        str | None,
        typer.Option(help="How many blocks are dropped; of 2, 4, 6 those below the depth when absent."),
    ] = None,
    strategies: Annotated[str, typer.Option(help="How they are chosen.")] = STRATEGIES,
    measure: Annotated[
        str, typer.Option(help="A name of `microtome ls measures`, for the strategy similarity.")
    ] = "debiased_cka",
    random_draws: Annotated[int, typer.Option(min=1, help="Choices of the strategy random.")] = 5,
    then: Annotated[str, typer.Option(help="What learns afterwards: full, head, none; or several.")] = "full",
    seeds: SeedsOption = "1,2,3",
    recipe: RecipeOption = "wu2020",
    training: Training,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Drop blocks by several strategies, fine-tune, and hold the scores against random choices."""
    from ..experiments.surgery.drop_strategies import RANDOM
    from ..experiments.surgery.drop_strategies import STRATEGIES as KNOWN
    from ..experiments.surgery.dropping import THEN, dropping
    from ..measures.table import chosen_all

    options = {
        "count": None if count is None else read_numbers("--count", count),
        "strategies": read_names("--strategies", strategies, (*KNOWN, RANDOM)),
        "measure": measure,
        "random_draws": random_draws,
        "then": read_names("--then", then, THEN),
        "seeds": read_numbers("--seeds", seeds),
        "train_size": training.train_size,
    }
    chosen_all(measure)
    grid = Grid(
        experiment="dropping",
        context=context,
        model=model,
        tasks=task,
        recipe=recipe,
        files=files,
        training=training,
        loading=loading,
        working=working,
        shown=shown,
    )
    run_grid(grid, dropping, partial(_planned, **options), options)


def _planned(
    encoder: Any, *, count: list[int] | None, strategies: tuple[str, ...], random_draws: int, **options: Any
) -> Any:
    """List the runs without reading any layer."""
    from ..experiments.surgery.drop_strategies import RANDOM, chosen_blocks, random_blocks
    from ..experiments.surgery.drop_strategies import STRATEGIES as KNOWN
    from ..experiments.surgery.dropping import Choice, counts_for, planned

    options.pop("measure")
    found: list[Choice] = []
    for number, name in enumerate(strategies):
        for one in counts_for(encoder.depth, count, "--count"):
            if name == RANDOM:
                drawn = random_blocks(encoder, one, random_draws)
            elif KNOWN[name].reads:
                # Which blocks these are is known only when layers were read; numbers beyond stand for them.
                drawn = [tuple(range(1000 * (number + 1), 1000 * (number + 1) + one))]
            else:
                blocks, _ = chosen_blocks(encoder, name, one, {})
                drawn = [] if blocks is None else [blocks]
            found += [Choice(strategy=name, count=one, draw=draw, blocks=b) for draw, b in enumerate(drawn)]
    return planned(found, **options)
