"""Where does the change sit when less learns? The verb `ways`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .grids import Grid, ModelArgument, RecipeOption, run_grid
from .models import HalvesOption, MeasuresOption, ReadOption
from .reading import read_names, read_numbers, read_values
from .sharing import Loading, Sampled, Shown, TaskFiles, TaskOption, Training, Working
from .surgery import SeedsOption

if TYPE_CHECKING:
    from ..experiments.runs import Run


def ways(
    context: typer.Context,
    model: ModelArgument,
    task: TaskOption,
    *,
    files: TaskFiles,
    ways: Annotated[
        str, typer.Option(help="Which weights learn; others are compared with the first.")
    ] = "full,lora,bitfit,head",
    rates: Annotated[
        list[str],
        typer.Option(
            "--rates",
            help="Learning rates to try for a way, as lora=1e-4,3e-4; multiples of the recipe's when absent.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer reads the default and changes nothing
    match: Annotated[
        str,
        typer.Option(
            help="The score that all ways are to have: weakest (the best of the way that can do least), best "
            "(each its own), or a number in points."
        ),
    ] = "weakest",
    trial_seeds: Annotated[int, typer.Option(min=1, help="Seeds that every rate is tried with.")] = 1,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="A corpus to compare on; the task's validation split when absent.",
            show_default=False,
        ),
    ] = None,
    read: ReadOption = [],  # noqa: B006
    measures: MeasuresOption = "debiased_cka",
    sampled: Sampled,
    halves: HalvesOption = 40,
    seeds: SeedsOption = "1,2,3",
    recipe: RecipeOption = "wu2020",
    training: Training,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Fine-tune all weights, adapters, biases or the head to about one score, and see where each changes."""
    from ..errors import InputError
    from ..experiments.change.learning_rates import WAYS
    from ..experiments.change.tuning_methods import tuning_ways
    from ..measures.table import chosen_all
    from .models import read_texts

    chosen_all(measures)
    if read and on is None:
        raise InputError("--read must be given with --on, but it is absent.")
    trials: dict[str, Any] = {
        "ways": read_names("--ways", ways, WAYS),
        "rates": _rates(rates),
        "seeds": read_numbers("--seeds", seeds),
        "trial_seeds": trial_seeds,
        "train_size": training.train_size,
    }
    options: dict[str, Any] = {
        **trials,
        "match": _match(match),
        "on": None if on is None else read_texts(on, read),
        "measures": measures,
        "halves": halves,
        **sampled.given,
    }
    grid = Grid(
        experiment="tuning_ways",
        context=context,
        model=model,
        tasks=[task],
        recipe=recipe,
        files=files,
        training=training,
        loading=loading,
        working=working,
        shown=shown,
    )
    run_grid(grid, tuning_ways, partial(_planned, **trials), options)


def _planned(encoder: Any, *, seeds: list[int], trial_seeds: int, **options: Any) -> Sequence[Run]:
    """List the runs: all rates with some seeds, and one rate of each way, not yet known, with the others."""
    from ..experiments.change.learning_rates import rate_runs

    tried = rate_runs(seeds=seeds[:trial_seeds], **options)
    first = {one.arm: one.x for one in reversed(tried)}
    rest = rate_runs(seeds=seeds[trial_seeds:], **options) if seeds[trial_seeds:] else []
    return [*tried, *(one for one in rest if one.x == first[one.arm])]


def _rates(given: list[str]) -> dict[str, tuple[float, ...]] | None:
    """Read learning rates by way."""
    found = read_values(given, "--rates", "lora=1e-4,3e-4")
    return {way: each if isinstance(each, tuple) else (each,) for way, each in found.items()} or None


def _match(given: str) -> str | float:
    """Read a score to be matched: a name, or a number."""
    from ..experiments.change.learning_rates import check_match

    try:
        return check_match(float(given))
    except ValueError:
        return check_match(given)
