"""Which blocks need to learn, and what does it save if they do not? The verb `freeze`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .grids import Grid, ModelArgument, RecipeOption, run_grid
from .reading import read_names, read_numbers
from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import SeedsOption
from .tasks import TasksOption


def freeze(
    context: typer.Context,
    model: ModelArgument,
    task: TasksOption,
    *,
    files: TaskFiles,
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
    training: Training,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Fine-tune with more and more blocks frozen, from the bottom and from the top."""
    from ..experiments.surgery.freezing import PARTS, freezing, planned

    options = {
        "ks": read_numbers("--ks", ks) if ks else None,
        "parts": read_names("--parts", parts, PARTS),
        "embeddings": embeddings,
        "cached": cached,
        "seeds": read_numbers("--seeds", seeds),
        "train_size": training.train_size,
    }
    grid = Grid(
        experiment="freezing",
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
    run_grid(
        grid,
        partial(freezing, measure_time=measure_time),
        partial(planned, **options),
        options,
    )
