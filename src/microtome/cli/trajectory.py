"""How do layers come to be what they are? The verb `trajectory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption
from .models import LongestOption, OnOption, ReadOption, RowsOption, StoreOption
from .results import show_result
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, SeedOption, ThreadsOption
from .surgery import DryRunOption, LevelOption, check, counted


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
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
    start: Annotated[
        str | None, typer.Option(help="The model before the first update.", show_default=False)
    ] = None,
    rows: RowsOption = "token",
    sample: Annotated[int, typer.Option(min=10, help="Rows at most, drawn with the seed.")] = 5_000,
    train_size: Annotated[
        int | None, typer.Option(min=1, help="Examples that readouts learn from.", show_default=False)
    ] = None,
    longest: LongestOption = None,
    read: ReadOption = [],  # noqa: B006
    level: LevelOption = 0.95,
    seed: SeedOption = 0,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: DryRunOption = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Follow layers along a training: maps, change, the border between blocks, and the score, by step."""
    from ..comparison.inputs import using_threads
    from ..experiments.checkpoints import find_checkpoints
    from ..experiments.trajectory import trajectory as run
    from ..tasks.loading import task as open_task
    from .models import read_texts
    from .reading import task_options

    screen = Screen(json=json, quiet=quiet)
    check(device=device, level=level, out=out, dry_run=dry_run)
    if dry_run:
        found = find_checkpoints(folder, start=start, store=store, device=device)
        steps = [one.step for one in found]
        said = f"{counted(len(steps), 'checkpoint')}: {', '.join(f'{step:,}' for step in steps)}"
        screen.result({"format": "microtome/plan/1", "steps": steps}, said)
        return
    with screen.working() as progress, using_threads(threads):
        result = run(
            folder,
            read_texts(on, read),
            task=None if task is None else open_task(**task_options(task, data, column, held_out)),
            start=start,
            train_size=train_size,
            rows=rows,
            sample=sample,
            longest=longest,
            level=level,
            seed=seed,
            store=store,
            device=device,
            progress=progress,
            command=context.obj or "",
        )
    show_result(screen, result, out)
