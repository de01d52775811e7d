"""Which blocks can be left out before fine-tuning? The verb `drop`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption, TaskOption
from .grids import Grid, KeepModelsOption, ModelArgument, RecipeOption, run_grid
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

STRATEGIES = "top,bottom,alternate,symmetric,contribution,similarity,random"


def drop(
    context: typer.Context,
    model: ModelArgument,
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
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
    """Drop blocks by several strategies, fine-tune, and hold the scores against random choices."""
    from ..experiments.dropping import THEN, dropping
    from ..experiments.strategies import RANDOM
    from ..experiments.strategies import STRATEGIES as KNOWN
    from ..measures.table import chosen_all

    options = {
        "count": None if count is None else read_numbers("--count", count),
        "strategies": read_names("--strategies", strategies, (*KNOWN, RANDOM)),
        "measure": measure,
        "random_draws": random_draws,
        "then": read_names("--then", then, THEN),
        "seeds": read_numbers("--seeds", seeds),
        "train_size": train_size,
    }
    chosen_all(measure)
    grid = Grid(
        model=loading(model, revision, tokenizer),
        tasks=[task_options(task, data, column, held_out)],
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
    run_grid(Screen(json=json, quiet=quiet), grid, dropping, partial(_planned, **options), options)


def _planned(
    encoder: Any, *, count: list[int] | None, strategies: tuple[str, ...], random_draws: int, **options: Any
) -> Any:
    """List the runs without reading any layer."""
    from ..experiments.dropping import Choice, counts_for, planned
    from ..experiments.strategies import RANDOM, chosen_blocks, random_blocks
    from ..experiments.strategies import STRATEGIES as KNOWN

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
