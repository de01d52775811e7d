"""What does each layer know? The verb `probe`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .reading import read_names, read_numbers
from .results import show_result
from .sharing import Loading, Shown, TaskFiles, Working
from .surgery import counted

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
    *,
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
    files: TaskFiles,
    probe: Annotated[
        str | None,
        typer.Option(
            help="How to read it: linear, edge or structural; the target's own when absent.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="What an edge probe reads: single (every layer alone; so when absent), upto (layers 0 to l, "
            "mixed), mix (all of them); or several.",
            show_default=False,
        ),
    ] = None,
    control: Annotated[
        bool,
        typer.Option(
            "--control", metavar="", help="Read labels drawn at random for each type of word or span too."
        ),
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option(
            "--control-draws",
            min=1,
            help="Draw control labels so often, for intervals that cover other draws; once when absent.",
            show_default=False,
        ),
    ] = None,
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
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Principal components of a layer that a linear probe sees; the whole layer when absent.",
            show_default=False,
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="How answers of a task are read: published or converged; both when absent.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help="Of published heads of a task; 10 when absent.", show_default=False),
    ] = None,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Read annotation of words, trees or spans, or answers of a task, out of every layer at once."""
    from ..errors import InputError
    from ..runtime import using_threads

    screen = shown.screen
    of_task = target.startswith(TASK)
    corpus_only = {
        "--on": on is not None,
        "--control": control,
        "--control-draws": draws is not None,
        "--mdl": mdl,
        "--steps": steps is not None,
        "--size": size is not None,
        "--probe": probe is not None,
        "--layers": layers is not None,
    }
    task_only = {
        "--data": files.data is not None,
        "--column": bool(files.column),
        "--held-out": files.held_out is not None,
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
    if draws is not None and (mdl or not control):
        raise InputError("--control-draws must be given with --control, and not with --mdl.")
    shown.check(working, "probing")
    shared: dict[str, Any] = {
        "twin": twin,
        "train_size": train_size,
        "seeds": read_numbers("--seeds", seeds or ("0-2" if of_task else "0")),
        "level": working.level,
    }
    with screen.working(), using_threads(working.threads):
        load = partial(loading.models, models, working.device)
        if of_task:
            asked = files.asked(target.removeprefix(TASK))
            run, said, document = _task(asked, solver, epochs, shared, load)
        else:
            how = {"probe": probe, "layers": layers, "steps": steps, "size": size}
            run, said, document = _corpus(on, target, int(control) * (draws or 1), mdl, how, shared, load)
    if working.dry_run:
        screen.result(document, said)
        return
    screen.note(said)
    with screen.working() as progress, using_threads(working.threads):
        found = run(
            store=working.store,
            device=working.device,
            progress=progress,
            command=context.obj or "",
            **shared,
        )
    show_result(screen, found, shown.out)


def _corpus(
    on: Path | None,
    target: str,
    control: int,
    mdl: bool,
    how: dict[str, Any],
    shared: dict[str, Any],
    load: Callable[[], list[Any]],
) -> tuple[Any, str, dict[str, Any]]:
    """What reads annotation, and the plan for the models, in words and as data."""
    from ..errors import must
    from ..experiments.probing.layer_mixes import LAYERS, find_probe
    from ..experiments.probing.mdl import check_words, description_length
    from ..experiments.probing.probing import probing
    from ..experiments.probing.rows import check_enough, check_size, sentences_read
    from ..probes.dataset import divide
    from ..probes.targets import read_target

    seeds = shared["seeds"]
    if mdl:
        apart = [f"--{name} {value}" for name, value in how.items() if value is not None]
        apart += [f"--seeds {','.join(map(str, seeds))}"] if len(seeds) > 1 else []
        if apart:
            raise must(
                "--mdl", "given one seed, and none of --probe, --layers, --steps, --size", ", ".join(apart)
            )
    how["layers"] = read_names("--layers", how["layers"] or "single", tuple(LAYERS))
    found = read_target(on, target)
    if mdl:
        check_words(found)
    limits = {name: how[name] for name in ("steps", "size")}
    chosen = find_probe(found, how["probe"], how["layers"], control > 0, seeds=seeds, **limits)
    train, held, judged, split = divide(found, train_size=shared["train_size"])
    check_enough(found, train, None if mdl else judged)
    sizes = {"train": len(train), "held": len(held), "judged": len(judged)}
    read = sentences_read(chosen, train, held, judged, judging=not mdl)
    words = sum(len(found.sentences[place]) for place in read)
    models = load()
    check_size(how["size"], {one.name: one for one in models})
    rows = 4 * words * sum(sum(one.widths) for one in _with_twin(models, shared["twin"]))
    way = (
        f"bits of {target} of {counted(len(train), 'sentence')}, by an online code, at"
        if mdl
        else f"{target} of {counted(len(train), 'sentence')} to learn from, "
        f"{f'{len(held):,} to stop by ' if chosen.seeded else ''}and {len(judged):,} ({split}) to judge on, "
        f"by {chosen.name} probes of"
    )
    said = (
        f"{way} all layers of {counted(len(models), 'model')}"
        f"{' and a random twin' if shared['twin'] else ''}{', and of control labels' if control else ''}: "
        f"about {max(rows / 1e6, 1):,.0f} MB of rows of words in the store"
    )
    document = {
        "format": "microtome/plan/1",
        "target": target,
        "models": [one.name for one in models],
        "sentences": sizes,
        "words": words,
        "bytes": rows,
    }
    given: dict[str, Any] = {"others": models[1:], "on": on, "target": target, "control": control}
    if mdl:
        del shared["seeds"]
        given["control"] = control > 0
        return partial(description_length, models[0], **given, seed=seeds[0]), said, document
    return partial(probing, models[0], **given, **how), said, document


def _task(
    asked: dict[str, Any],
    solver: str | None,
    epochs: float | None,
    shared: dict[str, Any],
    load: Callable[[], list[Any]],
) -> tuple[Any, str, dict[str, Any]]:
    """What reads the answers of a task, and the plan for the models, in words and as data."""
    from ..experiments.probing.task_probing import DRAWN, EPOCHS, RECIPE, SOLVERS, check_task, task_probing
    from ..tasks.subset import subset
    from ..training.multi_seed import open_asked
    from ..training.recipe import find_recipe

    solvers = SOLVERS if solver is None else read_names("--solver", solver, SOLVERS)
    recipe = find_recipe(RECIPE, epochs=EPOCHS if epochs is None else epochs)
    task = open_asked(asked)
    check_task(task)
    judged, seeds = len(task.split(task.validation)), shared["seeds"]
    size = shared["train_size"]
    train = task.split(task.train)
    examples = len(train if size is None else subset(train, size, seed=DRAWN))
    updates = recipe.updates(examples)
    ways = {
        "published": f"published heads ({counted(updates, 'update')} of {recipe.batch}, "
        f"{counted(len(seeds), 'seed')})",
        "converged": "converged readouts",
    }
    models = load()
    said = (
        f"answers of {task.title}: {counted(examples, 'example')} of {task.source} to learn from and "
        f"{judged:,} ({task.validation}) to judge on, by {' and '.join(ways[each] for each in solvers)} at "
        f"all layers of {counted(len(models), 'model')}{' and a random twin' if shared['twin'] else ''}"
    )
    document = {
        "format": "microtome/plan/1",
        "target": f"{TASK}{task.name}",
        "models": [one.name for one in models],
        "examples": {"train": examples, "judged": judged},
        "solvers": list(solvers),
        "updates": updates,
        "seeds": seeds,
    }
    given: dict[str, Any] = {"others": models[1:], "task": task, "solvers": solvers, "epochs": epochs}
    return partial(task_probing, models[0], **given), said, document


def _with_twin(models: list[Any], twin: bool) -> list[Any]:
    """The models whose layers are read; the twin of the first has its shape."""
    return [*models, models[0]] if twin else models
