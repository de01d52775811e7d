"""What do the layers of a tuned model give to its answers? The verbs `truncate` and `skip`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .finetune import TaskOption
from .reading import read_names, read_numbers, read_values
from .results import show_result
from .sharing import Loading, Shown, TaskFiles, Tuning, Working
from .surgery import Progress, RecipeOption, changed_recipe, counted, given_head
from .surgery import loading as loaded

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
    tuning: Tuning
    loading: Loading
    working: Working
    command: str

    @property
    def first(self) -> dict[str, Any]:
        """How the first model is loaded."""
        return loaded(self.models[0], self.loading.revision, self.loading.tokenizer)


def _plan(request: _Request, task: Task, split: str | None) -> tuple[dict[str, Any], str, int]:
    """What will be run, as data and in words, and the number of blocks."""
    from ..encoders.loading import load

    encoder: Any = load(**request.first)
    if not request.seeds:
        _check_head(request.models[0], encoder, task)
    labeled = task.kind != "language_modeling"
    scored = task.split(split or task.validation, labeled=labeled)
    models, updates = len(request.seeds or request.models), 0
    said = [f"{encoder.name}, {encoder.depth} blocks; {task.title}, {scored.name} ({len(scored):,} examples)"]
    if request.seeds and request.recipe is not None:
        size = request.tuning.train_size
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
    tuning, working = request.tuning, request.working
    found = finetune_seeds(
        request.first,
        request.asked,
        request.seeds,
        at_once=tuning.at_once,
        threads=working.threads,
        progress=progress,
        recipe=request.recipe or RECIPE,
        train_size=tuning.train_size,
        device=working.device,
        precision=tuning.precision,
        store=working.store,
        command=request.command,
        **given_head(tuning.head),
    )
    return list(found)


def _request(
    context: typer.Context,
    models: list[str],
    seeds: str,
    recipe: str | None,
    *,
    tuning: Tuning,
    loading: Loading,
    trained: Sequence[str] = (),
    **more: Any,
) -> _Request:
    """Check the options; those named in `trained` are for models that are fine-tuned first."""
    from ..errors import must

    drawn = read_numbers("--seeds", seeds) if seeds else []
    if drawn and len(models) != 1:
        raise must("the number of models", "1 where --seeds are given, since it is fine-tuned", len(models))
    given = {
        "recipe": recipe,
        "set": ", ".join(tuning.change) or None,
        "train_size": tuning.train_size,
        "head": tuning.head,
        **asdict(loading),
    }
    for name in (*trained, "head", *asdict(loading)):
        if given[name] is not None and not drawn:
            option = f"--{name.replace('_', '-')}"
            raise must(option, "given with --seeds, for a model that is fine-tuned first", given[name])
    chosen = changed_recipe(recipe, tuning.change, RECIPE) if drawn else None
    return _Request(
        models=models,
        seeds=drawn,
        recipe=chosen,
        tuning=tuning,
        loading=loading,
        command=context.obj or "",
        **more,
    )


def truncate(
    context: typer.Context,
    models: ModelsArgument,
    task: TaskOption,
    *,
    files: TaskFiles,
    base: Annotated[
        str | None,
        typer.Option(help="The model before fine-tuning, for the arm tunedorig.", show_default=False),
    ] = None,
    arms: Annotated[str, typer.Option(help="Which heads read the layers.")] = ",".join(ARMS),
    head_seeds: Annotated[str, typer.Option(help="Seeds of the heads that are trained.")] = "0,1,2",
    split: SplitOption = None,
    seeds: TunedSeedsOption = "",
    recipe: RecipeOption = None,
    tuning: Tuning,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Read every layer of fine-tuned models with their heads, as they are and tuned further."""
    from ..comparison.inputs import using_threads
    from ..training.several import open_asked

    screen = shown.screen
    chosen = read_names("--arms", arms, ARMS)
    drawn = read_numbers("--head-seeds", head_seeds)
    shown.check(working, "truncation")
    asked = files.asked(task)
    request = _request(
        context, models, seeds, recipe, asked=asked, tuning=tuning, loading=loading, working=working
    )
    opened = open_asked(request.asked)
    document, said, depth = _plan(request, opened, split)
    said = f"{said}; heads at {depth} layers: {', '.join(chosen)}"
    if working.dry_run:
        screen.result({**document, "arms": list(chosen), "head_seeds": drawn}, said)
        return
    screen.note(said)
    from ..experiments.truncation import truncation

    with screen.working() as progress, using_threads(working.threads):
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
            train_size=None if request.seeds else tuning.train_size,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=request.command,
            **read_values(tuning.change),
        )
    show_result(screen, result, shown.out)


def _base(base: str | None, request: _Request) -> Any:
    """The model before fine-tuning: the one that is named, or the one that was fine-tuned here."""
    from ..encoders.loading import load

    if base is not None:
        return load(base, device=request.working.device)
    if request.seeds:
        return load(**{**request.first, "device": request.working.device})
    return None


def skip(
    context: typer.Context,
    models: ModelsArgument,
    task: TaskOption,
    *,
    files: TaskFiles,
    split: SplitOption = None,
    seeds: TunedSeedsOption = "",
    recipe: RecipeOption = None,
    tuning: Tuning,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Leave out every span of blocks of fine-tuned models, and say what it costs."""
    from ..comparison.inputs import using_threads
    from ..training.several import open_asked

    screen = shown.screen
    shown.check(working, "skipping")
    request = _request(
        context,
        models,
        seeds,
        recipe,
        trained=("recipe", "set", "train_size"),
        asked=files.asked(task),
        tuning=tuning,
        loading=loading,
        working=working,
    )
    opened = open_asked(request.asked)
    document, said, depth = _plan(request, opened, split)
    spans = depth * (depth + 1) // 2
    said = f"{said}; {counted(spans, 'span')} of blocks"
    if working.dry_run:
        screen.result({**document, "spans": spans}, said)
        return
    screen.note(said)
    from ..experiments.skipping import skipping

    with screen.working() as progress, using_threads(working.threads):
        result = skipping(
            _tuned(request, progress),
            opened,
            split=split,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=request.command,
        )
    show_result(screen, result, shown.out)
