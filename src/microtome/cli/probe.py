"""What does each layer know? The verb `probe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption
from .models import RevisionOption, StoreOption, TokenizerOption
from .reading import read_names, read_numbers, task_options
from .results import show_result
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, ThreadsOption
from .surgery import DryRunOption, LevelOption, check, counted

# A target that begins so is a task, whose answers are read.
TASK = "task:"


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
        Path | None,
        typer.Option(
            help="A file with the annotation, or a folder of files that name their splits; not for tasks.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(help="What to read: a name of `microtome ls targets`, or a task as task:rte.")
    ] = "upos",
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
    control: Annotated[
        bool, typer.Option("--control", metavar="", help="Read random labels of word types too.")
    ] = False,
    mdl: Annotated[
        bool,
        typer.Option(
            "--mdl", metavar="", help="Count the bits that labels of words take, by an online code."
        ),
    ] = False,
    twin: Annotated[bool, typer.Option(help="Probe the first model with weights drawn anew too.")] = True,
    train_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Learn from so many sentences at most, or examples of a task.", show_default=False
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Seeds of probes that begin at random, as 0,1 or 0-4; 0, or 0-2 for a task, when absent.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Updates of an edge probe; as published when absent.", show_default=False),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="How answers of a task are read: published, converged or both, which is so when absent.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help="Of published heads of a task; 10 when absent.", show_default=False),
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
    """Read annotation of words, trees or spans, or answers of a task, out of every layer at once."""
    from ..comparison.inputs import using_threads
    from ..errors import InputError

    screen = Screen(json=json, quiet=quiet)
    of_task = target.startswith(TASK)
    corpus_only = {"--on": on is not None, "--control": control, "--mdl": mdl, "--steps": steps is not None}
    task_only = {
        "--data": data is not None,
        "--column": bool(column),
        "--held-out": held_out is not None,
        "--solver": solver is not None,
        "--epochs": epochs is not None,
    }
    for option, given in (corpus_only if of_task else task_only).items():
        if given:
            where = f"another --target than a task, but got {target}" if of_task else "--target task:NAME"
            raise InputError(f"{option} must be given with {where}.")
    if on is None and not of_task:
        raise InputError(
            f"--on must name a file with the annotation to read {target} from, but it is absent."
        )
    check(device=device, level=level, out=out, dry_run=dry_run)
    shared: dict[str, Any] = {
        "twin": twin,
        "train_size": train_size,
        "seeds": read_numbers("--seeds", seeds or ("0-2" if of_task else "0")),
        "level": level,
    }
    if of_task:
        name = target.removeprefix(TASK)
        run = _task(
            models, task_options(name, data, column, held_out), solver, epochs, shared, screen, dry_run
        )
    else:
        run = _corpus(models, on, target, control, mdl, steps, shared, screen, dry_run)
    if run is None:
        return
    with screen.working() as progress, using_threads(threads):
        from .models import load_models

        encoders = load_models(models, revision=revision, tokenizer=tokenizer, device=device)
        found = run(
            encoders[0],
            others=encoders[1:],
            store=store,
            device=device,
            progress=progress,
            command=context.obj or "",
            **shared,
        )
    show_result(screen, found, out)


def _corpus(
    models: list[str],
    on: Path | None,
    target: str,
    control: bool,
    mdl: bool,
    steps: int | None,
    shared: dict[str, Any],
    screen: Screen,
    dry_run: bool,
) -> Any:
    """What reads annotation; None where only the plan was asked for."""
    from functools import partial

    from ..errors import must
    from ..experiments.describing import description_length
    from ..experiments.probing import probing
    from ..probes.asking import divide
    from ..probes.targets import read_target

    if mdl and not dry_run:
        seeds = shared.pop("seeds")
        if len(seeds) > 1 or steps is not None:
            raise must("--mdl", "given one seed and no --steps", f"seeds {seeds}, steps {steps}")
        return partial(description_length, on=on, target=target, control=control, seed=seeds[0])
    if not dry_run:
        return partial(probing, on=on, target=target, control=control, steps=steps)
    train, held, judged, split = divide(read_target(on, target), train_size=shared["train_size"])
    sizes = {"train": len(train), "held": len(held), "judged": len(judged)}
    said = (
        f"{target} of {counted(len(train), 'sentence')} to learn from, {len(held):,} to stop by and "
        f"{len(judged):,} ({split}) to judge on, by probes of all layers of "
        f"{counted(len(models), 'model')}"
    )
    screen.result({"format": "microtome/plan/1", "target": target, "sentences": sizes}, said)
    return None


def _task(
    models: list[str],
    asked: dict[str, Any],
    solver: str | None,
    epochs: float | None,
    shared: dict[str, Any],
    screen: Screen,
    dry_run: bool,
) -> Any:
    """What reads the answers of a task; None where only the plan was asked for."""
    from functools import partial

    from ..experiments.taskprobing import EPOCHS, RECIPE, SOLVERS, check_task, task_probing
    from ..training.recipe import find_recipe
    from ..training.several import open_asked

    solvers = SOLVERS if solver is None else read_names("--solver", solver, SOLVERS)
    recipe = find_recipe(RECIPE, epochs=EPOCHS if epochs is None else epochs)
    task = open_asked(asked)
    check_task(task)
    if not dry_run:
        return partial(task_probing, task=task, solvers=solvers, epochs=epochs)
    judged, seeds = len(task.split(task.validation)), shared["seeds"]
    size = shared["train_size"]
    examples = len(task.split(task.train)) if size is None else size
    updates = recipe.updates(examples)
    ways = {
        "published": f"published heads ({counted(updates, 'update')} of {recipe.batch}, "
        f"{counted(len(seeds), 'seed')})",
        "converged": "converged readouts",
    }
    said = (
        f"answers of {task.title}: {counted(examples, 'example')} of {task.source} to learn from and "
        f"{judged:,} ({task.validation}) to judge on, by {' and '.join(ways[each] for each in solvers)} at "
        f"all layers of {counted(len(models), 'model')}{' and a random twin' if shared['twin'] else ''}"
    )
    document = {
        "format": "microtome/plan/1",
        "target": f"{TASK}{task.name}",
        "examples": {"train": examples, "judged": judged},
        "solvers": list(solvers),
        "updates": updates,
        "seeds": seeds,
    }
    screen.result(document, said)
    return None
