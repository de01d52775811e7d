"""What does each layer know? The verb `probe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .models import RevisionOption, StoreOption, TokenizerOption
from .reading import read_numbers
from .results import show_result
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, ThreadsOption
from .surgery import DryRunOption, LevelOption, check, counted


def probe(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Hub ids or folders; the others are compared with the first.",
            show_default=False,
        ),
    ],
    on: Annotated[
        Path,
        typer.Option(help="A file with the annotation, or a folder of files that name their splits."),
    ],
    target: Annotated[str, typer.Option(help="What to read: a name of `microtome ls targets`.")] = "upos",
    control: Annotated[
        bool, typer.Option("--control", metavar="", help="Read random labels of word types too.")
    ] = False,
    twin: Annotated[bool, typer.Option(help="Probe the first model with weights drawn anew too.")] = True,
    train_size: Annotated[
        int | None, typer.Option(min=1, help="Learn from so many sentences at most.", show_default=False)
    ] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of probes that begin at random, as 0,1 or 0-4.")] = "0",
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Updates of an edge probe; as published when absent.", show_default=False),
    ] = None,
    level: LevelOption = 0.95,
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: DryRunOption = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read annotation of words, trees or spans out of every layer, all layers at once."""
    from ..comparison.inputs import using_threads
    from ..experiments.probing import probing
    from ..probes.asking import divide
    from ..probes.targets import read_target

    screen = Screen(json=json, quiet=quiet)
    check(device=device, level=level, out=out, dry_run=dry_run)
    chosen = read_numbers("--seeds", seeds)
    if dry_run:
        train, held, judged, split = divide(read_target(on, target), train_size=train_size)
        sizes = {"train": len(train), "held": len(held), "judged": len(judged)}
        said = (
            f"{target} of {counted(len(train), 'sentence')} to learn from, {len(held):,} to stop by and "
            f"{len(judged):,} ({split}) to judge on, by probes of all layers of "
            f"{counted(len(models), 'model')}"
        )
        screen.result({"format": "microtome/plan/1", "target": target, "sentences": sizes}, said)
        return
    with screen.working() as progress, using_threads(threads):
        from .models import load_models

        encoders = load_models(models, revision=revision, tokenizer=tokenizer, device=device)
        found = probing(
            encoders[0],
            on,
            target,
            others=encoders[1:],
            twin=twin,
            control=control,
            train_size=train_size,
            seeds=chosen,
            steps=steps,
            level=level,
            store=store,
            device=device,
            progress=progress,
            command=context.obj or "",
        )
    show_result(screen, found, out)
