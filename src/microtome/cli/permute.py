"""Does the order of the blocks matter, and alike in different tasks? The verb `permute`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .grids import Grid, ModelArgument, RecipeOption, run_grid
from .reading import read_names, read_numbers
from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import SeedsOption
from .tasks import TasksOption


def permute(
    context: typer.Context,
    model: ModelArgument,
    task: TasksOption,
    *,
    files: TaskFiles,
    permutations: Annotated[str, typer.Option(help="Seeds of random orders, as 1-10.")] = "1-10",
    kinds: Annotated[
        str, typer.Option(help="Which orders: random, swap, reverse, move; or several.")
    ] = "random",
    order: Annotated[
        list[str],
        typer.Option("--order", help="An order of one's own, as 3,2,1; may be repeated.", show_default=False),
    ] = [],  # noqa: B006
    seeds: SeedsOption = "1",
    recipe: RecipeOption = "tamkin2020",
    training: Training,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Put the blocks into other orders, fine-tune, and compare with the model as it is."""
    from ..experiments.surgery.permutation import KINDS, permutation, planned

    options = {
        "permutations": read_numbers("--permutations", permutations),
        "kinds": read_names("--kinds", kinds, KINDS),
        "orders": [tuple(read_numbers("--order", one)) for one in order],
        "seeds": read_numbers("--seeds", seeds),
        "train_size": training.train_size,
    }
    grid = Grid(
        experiment="permutation",
        context=context,
        model=model,
        tasks=task,
        together=True,
        recipe=recipe,
        files=files,
        training=training,
        loading=loading,
        working=working,
        shown=shown,
    )
    run_grid(
        grid,
        permutation,
        partial(planned, **options),
        options,
    )
