"""What do the layers of a tuned model give to its answers? The verbs `truncate` and `skip`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .reading import open_noted, read_names, read_numbers, read_values
from .sharing import Loading, Shown, TaskFiles, Tuning, Working
from .surgery import Progress, RecipeOption, changed_recipe, counted, given_head
from .surgery import loading as loaded
from .tasks import Plan, TasksOption, run_plans

if TYPE_CHECKING:
    from ..tasks.task import Task
    from ..training.recipe import Recipe

ARMS = ("untuned", "tuned", "tunedorig", "converged")
POOLER = ("trained", "kept")
# Of a model that is fine-tuned first: that of the paper, with its head; a tuned one has its own.
RECIPE = "phang2021"

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

    @property
    def training(self) -> dict[str, Any]:
        """How it is fine-tuned, as `finetune_seeds` takes it."""
        return {
            "at_once": self.tuning.at_once,
            "recipe": self.recipe,
            "train_size": self.tuning.train_size,
            "device": self.working.device,
            "dtype": self.tuning.dtype,
            **given_head(self.tuning.head),
        }


def _plan(request: _Request, task: Task, split: str | None) -> tuple[dict[str, Any], str, Any]:
    """What will be run, as data and in words, and the first model; what the run would refuse is refused."""
    from ..encoders.loading import load
    from ..experiments.models import opened
    from ..training.checking import check_seeds

    encoder: Any = load(**request.first)
    models, updates = len(request.seeds or request.models), 0
    made = counted(models, "tuned model")
    labeled = task.kind != "language_modeling"
    if not request.seeds:
        _check_head(request.models[0], encoder, task)
        opened(list(request.models), task, device=request.working.device)
    scored = task.split(split or task.validation, labeled=labeled)
    said = [f"{encoder.name}, {encoder.depth} blocks; {task.title}, {scored.name} ({len(scored):,} examples)"]
    if request.seeds and request.recipe is not None:
        recipe, first = request.recipe, check_seeds(encoder, task, request.seeds, **request.training)
        updates = recipe.updates(len(first.data)) * models
        head = first.head if isinstance(first.head, str) else "given"
        made = (
            f"first fine-tuned with {counted(models, 'seed')}, {counted(updates, 'update')} in all, by the "
            f"recipe {recipe.name} with the {head} head"
        )
    said.append(made)
    document = {"format": "microtome/plan/1", "models": models, "blocks": encoder.depth}
    if request.recipe is not None:
        document["recipe"] = request.recipe.name
    return {**document, "examples": len(scored), "updates": updates}, "; ".join(said), encoder


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
    from ..training.multi_seed import finetune_seeds

    if not request.seeds:
        return list(request.models)
    found = finetune_seeds(
        request.first,
        request.asked,
        request.seeds,
        threads=request.working.threads,
        progress=progress,
        store=request.working.store,
        command=request.command,
        **request.training,
    )
    return list(found)


def _requests(
    context: typer.Context,
    models: list[str],
    tasks: list[str],
    files: TaskFiles,
    seeds: str,
    recipe: str | None,
    *,
    tuning: Tuning,
    loading: Loading,
    trained: Sequence[str] = (),
    **more: Any,
) -> list[_Request]:
    """Check the options, for each task; those in `trained` are for models that are fine-tuned first."""
    from ..errors import must
    from ..training.loop import DTYPES

    if tuning.dtype not in DTYPES:
        raise must("--dtype", f"one of {', '.join(DTYPES)}", tuning.dtype)
    drawn = read_numbers("--seeds", seeds) if seeds else []
    if drawn and len(models) != 1:
        raise must("the number of models", "1 where --seeds are given, since it is fine-tuned", len(models))
    given = {
        "recipe": recipe,
        "set": ", ".join(tuning.change) or None,
        "train_size": tuning.train_size,
        "head": tuning.head,
        "dtype": None if tuning.dtype == Tuning().dtype else tuning.dtype,
        **asdict(loading),
    }
    for name in (*trained, "head", "dtype", *asdict(loading)):
        if given[name] is not None and not drawn:
            option = f"--{name.replace('_', '-')}"
            raise must(option, "given with --seeds, for a model that is fine-tuned first", given[name])
    chosen = changed_recipe(recipe, tuning.change, RECIPE) if drawn else None
    return [
        _Request(
            models=models,
            asked=files.asked(task),
            seeds=drawn,
            recipe=chosen,
            tuning=tuning,
            loading=loading,
            command=context.obj or "",
            **more,
        )
        for task in tasks
    ]


def truncate(
    context: typer.Context,
    models: ModelsArgument,
    task: TasksOption,
    *,
    files: TaskFiles,
    base: Annotated[
        str | None,
        typer.Option(help="The model before fine-tuning, for the arm tunedorig.", show_default=False),
    ] = None,
    arms: Annotated[str, typer.Option(help="Which heads read the layers.")] = ",".join(ARMS),
    head_seeds: Annotated[str, typer.Option(help="Seeds of the heads that are trained.")] = "0,1,2",
    pooler: Annotated[
        str, typer.Option(help="Of heads that read a pooler: trained with them, or kept as it is.")
    ] = "trained",
    split: SplitOption = None,
    seeds: TunedSeedsOption = "",
    recipe: RecipeOption = None,
    tuning: Tuning,
    loading: Loading,
    working: Working,
    shown: Shown,
) -> None:
    """Read every layer of fine-tuned models with their heads, as they are and tuned further."""
    from ..runtime import using_threads

    chosen = read_names("--arms", arms, ARMS)
    drawn = read_numbers("--head-seeds", head_seeds)
    shown.check(working, "truncation")
    requests = _requests(
        context, models, task, files, seeds, recipe, tuning=tuning, loading=loading, working=working
    )
    options = {
        "base": base,
        "split": split,
        "arms": chosen,
        "head_seeds": drawn,
        "pooler": read_names("--pooler", pooler, POOLER)[0],
        "recipe": recipe,
        # Models that are trained here know their examples, which groups may make fewer than asked for.
        "train_size": None if seeds else tuning.train_size,
        "level": working.level,
        **read_values(tuning.change),
    }
    with shown.screen.working(), using_threads(working.threads):
        tasks = [open_noted(request.asked, shown.screen) for request in requests]
        plans = [_truncation(*both, options) for both in zip(requests, tasks, strict=True)]
    run_plans(plans, working, shown, "truncation")


def _truncation(request: _Request, task: Task, options: dict[str, Any]) -> Plan:
    from ..experiments.surgery.truncation import truncation
    from ..experiments.surgery.truncation_plan import check_base, prepared

    working = request.working
    document, sentence, encoder = _plan(request, task, options["split"])
    base = _base(options["base"], request)
    if request.seeds:
        check_base(base, encoder.depth, encoder.name)
    else:
        prepared(list(request.models), task, **{**options, "base": base}, device=working.device)

    def run(progress: Progress | None) -> Any:
        return truncation(
            _tuned(request, progress),
            task,
            **{**options, "base": base},
            store=working.store,
            device=working.device,
            progress=progress,
            command=request.command,
        )

    chosen = list(options["arms"])
    return Plan(
        task=task.name,
        document={**document, "arms": chosen, "head_seeds": options["head_seeds"]},
        sentence=f"{sentence}; heads at {encoder.depth} layers: {', '.join(chosen)}",
        run=run,
    )


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
    task: TasksOption,
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
    from ..runtime import using_threads

    shown.check(working, "skipping")
    requests = _requests(
        context,
        models,
        task,
        files,
        seeds,
        recipe,
        trained=("recipe", "set", "train_size"),
        tuning=tuning,
        loading=loading,
        working=working,
    )
    with shown.screen.working(), using_threads(working.threads):
        tasks = [open_noted(request.asked, shown.screen) for request in requests]
        plans = [_skipping(*both, split) for both in zip(requests, tasks, strict=True)]
    run_plans(plans, working, shown, "skipping")


def _skipping(request: _Request, task: Task, split: str | None) -> Plan:
    from ..experiments.surgery.skipping import skipping

    working = request.working
    document, sentence, encoder = _plan(request, task, split)
    spans = encoder.depth * (encoder.depth + 1) // 2

    def run(progress: Progress | None) -> Any:
        return skipping(
            _tuned(request, progress),
            task,
            split=split,
            level=working.level,
            store=working.store,
            device=working.device,
            progress=progress,
            command=request.command,
        )

    return Plan(
        task=task.name,
        document={**document, "spans": spans},
        sentence=f"{sentence}; {counted(spans, 'span')} of blocks",
        run=run,
    )
