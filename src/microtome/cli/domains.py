"""Does fine-tuning change sentences of the task more than others? The verb `domains`."""

from __future__ import annotations

from typing import Annotated

import typer

from .models import BaseArgument, HalvesOption, MeasuresOption, TunedArgument
from .results import show_result
from .sharing import Compared, Loading, Shown, Working
from .surgery import counted


def domains(
    context: typer.Context,
    base: BaseArgument,
    tuned: TunedArgument,
    *,
    inside: Annotated[
        str,
        typer.Option(
            help="Sentences of the task: a file, a folder, hub:ID or task:NAME/SPLIT.", show_default=False
        ),
    ],
    outside: Annotated[str, typer.Option(help="Other sentences, in the same ways.", show_default=False)],
    read_inside: Annotated[
        list[str],
        typer.Option(help="An option of the reader of --inside, as name=value.", show_default=False),
    ] = [],  # noqa: B006 - typer reads the default and changes nothing
    read_outside: Annotated[
        list[str],
        typer.Option(help="An option of the reader of --outside, as name=value.", show_default=False),
    ] = [],  # noqa: B006
    template: Annotated[str, typer.Option(help="The form that all inputs get: single or pair.")] = "single",
    measures: MeasuresOption = "rsa,debiased_cka",
    halves: HalvesOption = 40,
    compared: Compared,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Compare the change on sentences of the task with that on others, paired at equal length."""
    from ..experiments.change.domains import domains as run
    from ..experiments.change.length_matching import match_lengths
    from ..measures.table import chosen_all
    from ..rows.options import row_options
    from ..runtime import using_threads
    from .models import read_texts

    screen = shown.screen
    chosen_all(measures)
    shown.check(working, "domains")
    row_options(compared.rows)
    texts = [
        read_texts(inside, read_inside, "--read-inside"),
        read_texts(outside, read_outside, "--read-outside"),
    ]
    with screen.working(), using_threads(working.threads):
        first, *others = loading.models([base, *tuned], working.device)
        found = match_lengths(first, *texts, template=template, longest=compared.longest, seed=compared.seed)
    models, pairs = [one.name for one in (first, *others)], len(found.lengths)
    said = f"{counted(len(models), 'model')}, {counted(pairs, 'pair')} of inputs. {found.sentence()}"
    if working.dry_run:
        screen.result({"format": "microtome/plan/1", "models": models, "pairs": pairs}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(working.threads):
        result = run(
            first,
            others,
            *texts,
            template=template,
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
