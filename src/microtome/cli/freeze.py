"""Which blocks need to learn, and what does it save if they do not? The verb `freeze`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

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


def freeze(
    context: typer.Context,
    model: ModelArgument,
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
    ks: Annotated[
        str,
        typer.Option(
            help="How many blocks are frozen, as 4,6 or 1-12; all numbers when absent.", show_default=False
        ),
    ] = "",
    parts: Annotated[str, typer.Option(help="Which end is frozen.")] = "bottom,top",
    embeddings: Annotated[bool, typer.Option(help="Freeze the embeddings with the bottom.")] = True,
    cached: Annotated[
        bool, typer.Option("--cached", metavar="", help="Run a frozen bottom once, without dropout.")
    ] = False,
    measure_time: Annotated[bool, typer.Option(help="Measure time and memory of an update.")] = True,
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
    """Fine-tune with more and more blocks frozen, from the bottom and from the top."""
    from ..experiments.freezing import PARTS, freezing, planned

    options = {
        "ks": read_numbers("--ks", ks) if ks else None,
        "parts": read_names("--parts", parts, PARTS),
        "embeddings": embeddings,
        "cached": cached,
        "seeds": read_numbers("--seeds", seeds),
        "train_size": train_size,
    }
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
    run_grid(
        Screen(json=json, quiet=quiet),
        grid,
        partial(freezing, measure_time=measure_time),
        partial(planned, **options),
        options,
    )
