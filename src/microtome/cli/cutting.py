"""What do the layers of a tuned model give to its answers? The verbs `truncate` and `skip`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .finetune import ColumnsOption, DataOption, HeldOutOption, TaskOption
from .models import RevisionOption, StoreOption, TokenizerOption
from .reading import read_names, read_numbers, read_values, task_options
from .results import show_result
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, ThreadsOption
from .surgery import (
    AtOnceOption,
    DryRunOption,
    HeadOption,
    LevelOption,
    PrecisionOption,
    Progress,
    RecipeOption,
    SetOption,
    TrainSizeOption,
    changed_recipe,
    check,
    counted,
    given_head,
    loading,
)

if TYPE_CHECKING:
    from ..tasks.task import Task
    from ..training.recipe import Recipe

ARMS = ("untuned", "tuned", "tunedorig", "converged")
# Of a model that is fine-tuned first; a tuned one has its own.
RECIPE = "devlin2019"

ModelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="Folders of fine-tuned models, one a seed; or with --seeds a model to fine-tune first.",
        show_default=False,
    ),
]
TunedSeedsOption = Annotated[
    str,
    typer.Option(help="Fine-tune MODEL first, with these seeds, as 1,2,3 or 1-3.", show_default=False),
]
SplitOption = Annotated[
    str | None, typer.Option(help="What is scored on; validation when absent.", show_default=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """Which tuned models, on which task: there already, or to be made first."""

    models: list[str]
    asked: dict[str, Any]
    seeds: list[int]
    recipe: Recipe | None
    train_size: int | None
    head: str | None
    revision: str | None
    tokenizer: str | None
    at_once: int
    threads: int | None
    precision: str
    device: str
    store: str | None
    command: str


def _plan(request: _Request, task: Task, split: str | None) -> tuple[dict[str, Any], str, int]:
    """What will be run, as data and in words, and the number of blocks."""
    from ..encoders.loading import load

    encoder: Any = load(**loading(request.models[0], request.revision, request.tokenizer))
    if not request.seeds:
        _check_head(request.models[0], encoder, task)
    labeled = task.kind != "language_modeling"
    scored = task.split(split or task.validation, labeled=labeled)
    models, updates = len(request.seeds or request.models), 0
    said = [f"{encoder.name}, {encoder.depth} blocks; {task.title}, {scored.name} ({len(scored):,} examples)"]
    if request.seeds and request.recipe is not None:
        size = request.train_size
        examples = len(task.split(task.train, labeled=labeled)) if size is None else size
        updates = request.recipe.updates(examples) * models
        said.append(f"first fine-tuned with {counted(models, 'seed')}, {counted(updates, 'update')} in all")
    else:
        said.append(counted(models, "tuned model"))
    document = {"format": "microtome/plan/1", "models": models, "blocks": encoder.depth}
    return {**document, "examples": len(scored), "updates": updates}, "; ".join(said), encoder.depth


def _check_head(model: str, encoder: Any, task: Task) -> None:
    """Refuse a model that has no head for the task, and say that it can get one."""
    from pathlib import Path

    from ..errors import InputError
    from ..training.saving import HEAD_JSON
    from ..training.stock import stock_class

    if (Path(model) / HEAD_JSON).is_file():
        return
    kind = stock_class(encoder.config, task.kind, causal=encoder.family.causal)
    if kind is None or type(encoder.model) is not kind:
        raise InputError(
            f"{encoder.name} must be fine-tuned for {task.kind}, or be given with --seeds to be fine-tuned "
            f"first, but it is a {type(encoder.model).__name__}."
        )


def _tuned(request: _Request, progress: Progress | None) -> list[Any]:
    """The tuned models: folders as they were given, or what the seeds give."""
    from ..training.several import finetune_seeds

    if not request.seeds:
        return list(request.models)
    found = finetune_seeds(
        loading(request.models[0], request.revision, request.tokenizer),
        request.asked,
        request.seeds,
        at_once=request.at_once,
        threads=request.threads,
        progress=progress,
        recipe=request.recipe or RECIPE,
        train_size=request.train_size,
        device=request.device,
        precision=request.precision,
        store=request.store,
        command=request.command,
        **given_head(request.head),
    )
    return list(found)


def _request(
    context: typer.Context,
    seeds: str,
    recipe: str | None,
    change: list[str],
    *,
    trained: tuple[str, ...] = (),
    **more: Any,
) -> _Request:
    """Check the options; those named in `trained` are for models that are fine-tuned first."""
    from ..errors import must

    drawn = read_numbers("--seeds", seeds) if seeds else []
    models = more["models"]
    if drawn and len(models) != 1:
        raise must("the number of models", "1 where --seeds are given, since it is fine-tuned", len(models))
    given = {"recipe": recipe, "set": ", ".join(change) or None, **more}
    for name in (*trained, "head", "revision", "tokenizer"):
        if given[name] is not None and not drawn:
            option = f"--{name.replace('_', '-')}"
            raise must(option, "given with --seeds, for a model that is fine-tuned first", given[name])
    chosen = changed_recipe(recipe, change, RECIPE) if drawn else None
    return _Request(seeds=drawn, recipe=chosen, command=context.obj or "", **more)


def truncate(
    context: typer.Context,
    models: ModelsArgument,
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
    base: Annotated[
        str | None,
        typer.Option(help="The model before fine-tuning, for the arm tunedorig.", show_default=False),
    ] = None,
    arms: Annotated[str, typer.Option(help="Which heads read the layers.")] = ",".join(ARMS),
    head_seeds: Annotated[str, typer.Option(help="Seeds of the heads that are trained.")] = "0,1,2",
    split: SplitOption = None,
    seeds: TunedSeedsOption = "",
    recipe: RecipeOption = None,
    change: SetOption = [],  # noqa: B006
    train_size: TrainSizeOption = None,
    head: HeadOption = None,
    level: LevelOption = 0.95,
    at_once: AtOnceOption = 1,
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: DryRunOption = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read every layer of fine-tuned models with their heads, as they are and tuned further."""
    from ..comparison.inputs import using_threads
    from ..training.several import open_asked

    screen = Screen(json=json, quiet=quiet)
    chosen = read_names("--arms", arms, ARMS)
    drawn = read_numbers("--head-seeds", head_seeds)
    check(device=device, level=level, out=out, dry_run=dry_run)
    request = _request(
        context,
        seeds,
        recipe,
        change,
        models=models,
        asked=task_options(task, data, column, held_out),
        train_size=train_size,
        head=head,
        revision=revision,
        tokenizer=tokenizer,
        at_once=at_once,
        threads=threads,
        precision=precision,
        device=device,
        store=store,
    )
    opened = open_asked(request.asked)
    document, said, depth = _plan(request, opened, split)
    said = f"{said}; heads at {depth} layers: {', '.join(chosen)}"
    if dry_run:
        screen.result({**document, "arms": list(chosen), "head_seeds": drawn}, said)
        return
    screen.note(said)
    from ..experiments.truncation import truncation

    with screen.working() as progress, using_threads(threads):
        # What cannot be opened is said before anything is trained.
        before = _base(base, request)
        result = truncation(
            _tuned(request, progress),
            opened,
            base=before,
            split=split,
            arms=chosen,
            head_seeds=drawn,
            recipe=recipe,
            # Models that are trained here know their examples, which groups may make fewer than asked for.
            train_size=None if request.seeds else train_size,
            level=level,
            store=store,
            device=device,
            progress=progress,
            command=request.command,
            **read_values(change),
        )
    show_result(screen, result, out)


def _base(base: str | None, request: _Request) -> Any:
    """The model before fine-tuning: the one that is named, or the one that was fine-tuned here."""
    from ..encoders.loading import load

    if base is not None:
        return load(base, device=request.device)
    if request.seeds:
        options = loading(request.models[0], request.revision, request.tokenizer)
        return load(**{**options, "device": request.device})
    return None


def skip(
    context: typer.Context,
    models: ModelsArgument,
    task: TaskOption,
    data: DataOption = None,
    column: ColumnsOption = [],  # noqa: B006 - typer reads the default and changes nothing
    held_out: HeldOutOption = None,
    split: SplitOption = None,
    seeds: TunedSeedsOption = "",
    recipe: RecipeOption = None,
    change: SetOption = [],  # noqa: B006
    train_size: TrainSizeOption = None,
    head: HeadOption = None,
    level: LevelOption = 0.95,
    at_once: AtOnceOption = 1,
    revision: RevisionOption = None,
    tokenizer: TokenizerOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    store: StoreOption = None,
    dry_run: DryRunOption = False,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Leave out every span of blocks of fine-tuned models, and say what it costs."""
    from ..comparison.inputs import using_threads
    from ..training.several import open_asked

    screen = Screen(json=json, quiet=quiet)
    check(device=device, level=level, out=out, dry_run=dry_run)
    request = _request(
        context,
        seeds,
        recipe,
        change,
        trained=("recipe", "set", "train_size"),
        models=models,
        asked=task_options(task, data, column, held_out),
        train_size=train_size,
        head=head,
        revision=revision,
        tokenizer=tokenizer,
        at_once=at_once,
        threads=threads,
        precision=precision,
        device=device,
        store=store,
    )
    opened = open_asked(request.asked)
    document, said, depth = _plan(request, opened, split)
    spans = depth * (depth + 1) // 2
    said = f"{said}; {counted(spans, 'span')} of blocks"
    if dry_run:
        screen.result({**document, "spans": spans}, said)
        return
    screen.note(said)
    from ..experiments.skipping import skipping

    with screen.working() as progress, using_threads(threads):
        result = skipping(
            _tuned(request, progress),
            opened,
            split=split,
            level=level,
            store=store,
            device=device,
            progress=progress,
            command=request.command,
        )
    show_result(screen, result, out)
