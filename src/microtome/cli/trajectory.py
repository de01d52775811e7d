"""How do layers come to be what they are? The verb `trajectory`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .models import OnOption, ReadOption
from .results import show_result
from .sharing import Compared, Shown, TaskFiles, Working
from .surgery import counted


def trajectory(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Checkpoints in step-N, as pretrain and finetune keep them.",
            show_default=False,
        ),
    ],
    on: OnOption,
    task: Annotated[
        str | None,
        typer.Option(help="Also score every checkpoint, on a name of `microtome ls tasks`."),
    ] = None,
    *,
    files: TaskFiles,
    start: Annotated[
        str | None, typer.Option(help="The model before the first update.", show_default=False)
    ] = None,
    compared: Compared,
    train_size: Annotated[
        int | None, typer.Option(min=1, help="Examples that readouts learn from.", show_default=False)
    ] = None,
    read: ReadOption = [],  # noqa: B006 - typer reads the default and changes nothing
    working: Working,
    shown: Shown,
) -> None:
    """Follow layers along a training: maps, change, blocks of layers, and the score, by step."""
    from ..experiments.change.checkpoint_scores import check_reading
    from ..experiments.change.checkpoints import checkpoint_length, find_checkpoints, said_lost
    from ..experiments.change.trajectory import trajectory as run
    from ..runtime import using_threads
    from .models import cost, read_texts
    from .reading import open_noted

    screen = shown.screen
    shown.check(working, "trajectory")
    files.check_alone(task, train_size)
    found = find_checkpoints(folder, start=start, store=working.store, device=working.device)
    steps = [one.step for one in found]
    texts, asked = read_texts(on, read), None if task is None else open_noted(files.asked(task), screen)
    judged = None if asked is None else check_reading(found, asked, train_size=train_size)[0]
    with screen.working() as progress, using_threads(working.threads):
        first = found[0].load()
        length = checkpoint_length(found, compared.longest)
        planned = replace(compared, longest=length).planned([first], texts, progress)
        told, document = cost([first] * len(found), planned)
    document |= {"models": [one.name for one in found], "steps": steps}
    said = f"{counted(len(steps), 'checkpoint')}: {', '.join(f'{step:,}' for step in steps)}; {told}"
    if asked is not None and judged is not None:
        said += f"; scored on {counted(len(judged), 'example')} of {asked.name}/{judged.name}"
        document["examples"] = len(judged)
    if working.dry_run:
        for lost in said_lost(folder, store=working.store):
            screen.note(f"warning: {lost}")
        screen.result({"format": "microtome/plan/1", **document}, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(working.threads):
        result = run(
            folder,
            texts,
            task=asked,
            start=start,
            train_size=train_size,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=context.obj or "",
            **compared.given,
        )
    show_result(screen, result, shown.out)
