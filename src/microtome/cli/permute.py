"""Does the order of the blocks matter, and alike in different tasks? The verb `permute`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption
from .grids import Grid, KeepModelsOption, ModelArgument, RecipeOption, TasksOption, run_grid
from .models import RevisionOption, StoreOption, TokenizerOption
from .reading import read_names, read_numbers, task_options
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, ThreadsOption
from .surgery import (
    AtOnceOption,
    DryRunOption,
    HeadOption,
    LevelOption,
    PrecisionOption,
    SeedsOption,
    SetOption,
    TrainSizeOption,
    changed_recipe,
    loading,
)


def permute(
    context: typer.Context,
    model: ModelArgument,
    task: TasksOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
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
    change: SetOption = [],  # noqa: B006
    train_size: TrainSizeOption = None,
    head: HeadOption = None,
    level: LevelOption = 0.95,
    at_once: AtOnceOption = 1,
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    keep_models: KeepModelsOption = False,
    dry_run: DryRunOption = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put the blocks into other orders, fine-tune, and compare with the model as it is."""
    from ..experiments.permutation import KINDS, permutation, planned

    options = {
        "permutations": read_numbers("--permutations", permutations),
        "kinds": read_names("--kinds", kinds, KINDS),
        "orders": [tuple(read_numbers("--order", one)) for one in order],
        "seeds": read_numbers("--seeds", seeds),
        "train_size": train_size,
    }
    grid = Grid(
        model=loading(model, revision, tokenizer),
        tasks=[task_options(one, data, column, held_out) for one in task],
        recipe=changed_recipe(recipe, change, recipe),
        head=head,
        level=level,
        at_once=at_once,
        precision=precision,
        device=device,
        threads=threads,
        store=store,
        keep_models=keep_models,
        dry_run=dry_run,
        out=out,
        command=context.obj or "",
    )
    run_grid(
        Screen(json=json, quiet=quiet),
        grid,
        permutation,
        partial(planned, **options),
        options,
        several=len(task) > 1,
    )
