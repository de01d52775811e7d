"""Which blocks' pretrained weights matter, against depth alone? The verb `reinit`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .grids import Grid, ModelArgument, RecipeOption, run_grid
from .reading import read_names, read_numbers
from .sharing import Loading, Shown, TaskFiles, Training, Working
from .surgery import SeedsOption
from .tasks import TasksOption


def reinit(
    context: typer.Context,
    model: ModelArgument,
    task: TasksOption,
    *,
    files: TaskFiles,
    plan: Annotated[
        str,
        typer.Option(help="Which blocks are redrawn: progressive, blocks, inverse, single; or several."),
    ] = "progressive",
    width: Annotated[int, typer.Option(min=1, help="Blocks of a run in the plans blocks and inverse.")] = 3,
    schemes: Annotated[
        str,
        typer.Option(
            help="library, trunc_normal, tamkin_code, moment_matched, shuffled, near_identity; or several."
        ),
    ] = "library",
    bias: Annotated[
        str,
        typer.Option(help="Biases: keep, zero, or both; the scheme decides when absent.", show_default=False),
    ] = "",
    layernorm: Annotated[str, typer.Option(help="Norms: reset, keep, or both.")] = "reset",
    sizes: Annotated[
        str, typer.Option(help="Examples to train on, as 500,5000,all.", show_default=False)
    ] = "",
    control: Annotated[bool, typer.Option(help="Also truncate to the same depth.")] = True,
    fixed_updates: Annotated[
        int | None,
        typer.Option(min=1, help="Also train everything with so many updates.", show_default=False),
    ] = None,
    reinit_seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of drawn weights; that of the run when absent.", show_default=False),
    ] = None,
    seeds: SeedsOption = "1,2,3",
    recipe: RecipeOption = "tamkin2020",
    training: Training,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Redraw the weights of some blocks, fine-tune, and see what is missed."""
    from ..experiments.surgery.reinit_plan import PLANS
    from ..experiments.surgery.reinitialization import planned, reinitialization
    from ..interventions.schemes import SCHEMES

    options = {
        "plan": read_names("--plan", plan, PLANS),
        "width": width,
        "schemes": read_names("--schemes", schemes, tuple(SCHEMES)),
        "bias": read_names("--bias", bias, ("keep", "zero")) if bias else None,
        "layernorm": read_names("--layernorm", layernorm, ("reset", "keep")),
        "sizes": _sizes(sizes, training.train_size),
        "control": control,
        "fixed_updates": fixed_updates,
        "reinit_seed": reinit_seed,
        "seeds": read_numbers("--seeds", seeds),
    }
    grid = Grid(
        experiment="reinitialization",
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
    run_grid(grid, reinitialization, partial(planned, **options), options)


def _sizes(sizes: str, train_size: int | None) -> tuple[int | None, ...]:
    """Read numbers of examples, where "all" is what the training split has."""
    from ..errors import must

    if sizes and train_size is not None:
        raise must("--train-size", "absent where --sizes are given", train_size)
    if not sizes:
        return (train_size,)
    found: list[int | None] = []
    for part in (part.strip() for part in sizes.split(",") if part.strip()):
        if part != "all" and not (part.isdecimal() and int(part)):
            raise must("--sizes", "numbers above 0 or all, with commas between them", sizes)
        found.append(None if part == "all" else int(part))
    if not found or len(set(found)) != len(found):
        raise must("--sizes", "one number or more, each once", sizes)
    return tuple(found)
