"""What did fine-tuning change, layer by layer? The verb `change`."""

from __future__ import annotations

import typer

from .models import (
    BaseArgument,
    HalvesOption,
    MeasuresOption,
    OnOption,
    ReadOption,
    TunedArgument,
    TwinsOption,
)
from .results import show_result
from .sharing import Compared, Loading, Shown, Working


def change(
    context: typer.Context,
    base: BaseArgument,
    tuned: TunedArgument,
    *,
    on: OnOption,
    read: ReadOption = [],  # noqa: B006 - typer reads the default and changes nothing
    measures: MeasuresOption = "rsa,debiased_cka",
    twins: TwinsOption = 1,
    halves: HalvesOption = 40,
    compared: Compared,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Compare a model with what fine-tuning made of it, between two seeds above and a random twin below."""
    from ..experiments.change.change import change as run
    from ..measures.table import chosen_all
    from ..runtime import using_threads
    from .models import cost, read_texts

    screen = shown.screen
    chosen_all(measures)
    shown.check(working, "change")
    texts = read_texts(on, read)
    with screen.working() as progress, using_threads(working.threads):
        first, *others = loading.models([base, *tuned], working.device)
        every = [first, *others, *[first] * twins]
        said, document = cost(every, compared.planned([first, *others], texts, progress))
    if working.dry_run:
        screen.result({"format": "microtome/plan/1", **document}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(working.threads):
        result = run(
            first,
            others,
            texts,
            twin=twins,
            measures=measures,
            halves=halves,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=context.obj or "",
            **compared.given,
        )
    show_result(screen, result, shown.out)
