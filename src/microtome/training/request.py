"""Fine-tuning requests: every input resolved and checked, and the address that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from ..context import Context
from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, must
from ..interventions.blocks import frozen_names
from ..lazy import torch
from ..runtime import name_device
from ..store.address import address
from ..store.outfolder import check_folder
from ..tasks.subset import subset
from ..tasks.task import Split, Task
from .heads.head import Head
from .inputs import encode
from .models.methods import trainable
from .models.modeling import build
from .optimization.frozen_features import still_blocks
from .optimization.vmapped import check_vectorized
from .precision import choose_dtype
from .recipe import Recipe, find_recipe
from .tuned import Seeds

# Options of `finetune` that vectorized training does not support, and the only value allowed there.
UNSUPPORTED: Mapping[str, Any] = MappingProxyType(
    {"train_size": None, "method": "full", "cached": False, "checkpoints": (), "board": None}
)
# Kinds of tasks whose long examples are split into several windows.
WINDOWED = ("span", "language_modeling")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRequest:
    """
    A resolved request for a fine-tuning.

    Parameters
    ----------
    encoder : TransformerEncoder
    task : Task
    recipe : Recipe
    seeds : Seeds
    data, judged : Split
        Training examples, and the examples that are scored.
    longest : int
        Maximum number of tokens per example.
    stride : int, optional
        Overlap of neighboring windows of a passage, in tokens.
    checkpoints : "epochs" or tuple of int
        Updates after which the model is saved.
    head : str or Head
    frozen : frozenset of str
        Names of the frozen parameters of the encoder, relative to its base model.
    cached : bool
        Whether the frozen bottom blocks run once and their states are cached.
    specification : mapping
        The request as plain data, from which the address is computed.
    """

    encoder: TransformerEncoder
    task: Task
    recipe: Recipe
    seeds: Seeds
    data: Split
    judged: Split
    longest: int
    stride: int | None
    checkpoints: str | tuple[int, ...]
    head: str | Head
    frozen: frozenset[str]
    cached: bool
    specification: Mapping[str, Any]

    @property
    def address(self) -> str:
        """Address of the run in a store."""
        return address(self.specification)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """
    Options of a fine-tuning beside encoder, task and recipe; see `finetune`.

    Parameters
    ----------
    seed, seeds, train_size, head, method, cached, dtype, checkpoints
        As in `finetune`.
    """

    seed: int = 0
    seeds: Mapping[str, int] | None = None
    train_size: int | None = None
    head: str | Head | None = None
    method: str = "full"
    cached: bool = False
    dtype: str = "auto"
    checkpoints: str | Sequence[int] = ()

    def run_seeds(self) -> Seeds:
        """Seeds of the random parts."""
        if self.seeds is not None and not isinstance(self.seeds, Mapping):
            raise must("seeds", "a mapping from init, order or subset to a number, or use seed=", self.seeds)
        values = {**dict.fromkeys(("init", "order", "subset"), self.seed), **(self.seeds or {})}
        if set(values) - {"init", "order", "subset"}:
            raise must("seeds", "for init, order and subset", ", ".join(sorted(values)))
        return Seeds(**values)


def ask(
    encoder: Encoder,
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    device: str = "auto",
    processes: int = 1,
    vectorized: bool = False,
    **options: Any,
) -> TuningRequest:
    """
    Resolve the arguments of `finetune`.

    Parameters
    ----------
    encoder, task, recipe, device
        As in `finetune`.
    processes : int
        Number of processes that train together.
    vectorized : bool
        Whether the model is batched with others (vmap).
    **options
        Of `TuningOptions`, and values of the recipe to override.

    Returns
    -------
    TuningRequest
    """
    if not isinstance(encoder, TransformerEncoder):
        raise InputError(f"{encoder.name} must be a model of transformers to be fine-tuned, but is an ELMo.")
    settings = TuningOptions(
        **{name: options.pop(name) for name in TuningOptions.__slots__ if name in options}
    )
    if not isinstance(settings.cached, bool):
        raise must("cached", "true or false", settings.cached)
    resolved_recipe = find_recipe(recipe, **options)
    run_seeds = settings.run_seeds()
    data = task.split(task.train, labeled=task.kind != "language_modeling")
    judged = task.split(task.validation, labeled=task.kind != "language_modeling")
    if settings.train_size is not None:
        data = subset(data, settings.train_size, seed=run_seeds.subset)
    checkpoints = _checkpoints(settings.checkpoints)
    resolved_head = resolved_recipe.head if settings.head is None else settings.head
    if not isinstance(resolved_head, str | Head):
        raise must("head", "a Head or the name of one", resolved_head)
    frozen, device = frozen_names(encoder), str(name_device(device))
    specification: dict[str, Any] = {
        "version": 2,
        "model": encoder.digest,
        "task": task.digest(task.validation),
        "train": data.digest,
        "recipe": resolved_recipe.specification(),
        "seeds": {"init": run_seeds.init, "order": run_seeds.order, "subset": run_seeds.subset},
        "head": resolved_head if isinstance(resolved_head, str) else asdict(resolved_head),
        "method": settings.method,
        "device": device.partition(":")[0],
        "precision": choose_dtype(device, settings.dtype, encoder.family, vectorized=vectorized),
        "checkpoints": checkpoints if isinstance(checkpoints, str) else list(checkpoints),
    }
    if device == "cpu":
        # Sums are split among threads, so the number of threads affects the last bits.
        specification["threads"] = torch.get_num_threads()
    if processes > 1:
        specification["processes"] = processes
    if frozen:
        specification["frozen"] = address({"frozen": sorted(frozen)})
    if settings.cached:
        specification["cached"] = True
    if vectorized:
        specification["vectorized"] = True
    return TuningRequest(
        encoder=encoder,
        task=task,
        recipe=resolved_recipe,
        seeds=run_seeds,
        data=data,
        judged=judged,
        longest=_longest(resolved_recipe, task, encoder),
        stride=resolved_recipe.stride if task.kind == "span" else None,
        checkpoints=checkpoints,
        head=resolved_head,
        frozen=frozen,
        cached=settings.cached,
        specification=specification,
    )


def split_context(options: Mapping[str, Any]) -> tuple[Context, dict[str, Any]]:
    """
    Separate the settings of a `Context` from other options.

    Parameters
    ----------
    options : mapping
        With single settings of a context by their names, or with `context`.

    Returns
    -------
    Context
        With its device named.
    dict
        The other options.
    """
    remaining = dict(options)
    context = remaining.pop("context", None)
    settings = {name: remaining.pop(name) for name in Context.__slots__ if name in remaining}
    context = Context(**settings) if context is None else replace(context, **settings)
    return replace(context, device=name_device(context.device)), remaining


def _longest(recipe: Recipe, task: Task, encoder: TransformerEncoder) -> int:
    recipe_limit = recipe.longest_span if task.kind == "span" else recipe.longest
    model_limit = encoder.tokenizer.longest
    return recipe_limit if model_limit is None else min(recipe_limit, model_limit)


def _checkpoints(checkpoints: str | Sequence[int]) -> str | tuple[int, ...]:
    if isinstance(checkpoints, str):
        if checkpoints != "epochs":
            raise must("checkpoints", "'epochs' or numbers of updates", checkpoints)
        return checkpoints
    return tuple(sorted(set(checkpoints)))


def checkpoint_updates(checkpoints: str | tuple[int, ...], recipe: Recipe, features: int) -> frozenset[int]:
    """Find the updates after which the model is saved; a long passage counts once per window."""
    planned = recipe.updates(features)
    if isinstance(checkpoints, str):
        per_epoch = -(-features // recipe.batch)
        return frozenset(range(per_epoch, planned + 1, per_epoch))
    for update in checkpoints:
        if not isinstance(update, int) or not 0 < update <= planned:
            raise must("checkpoints", f"updates between 1 and {planned}", update)
    return frozenset(checkpoints)


def check_seeds(
    encoder: Any,
    task: Task,
    seeds: Sequence[int],
    *,
    vectorized: bool = False,
    **options: Any,
) -> TuningRequest:
    """
    Check the arguments of `finetune_seeds` before anything is trained.

    Parameters
    ----------
    encoder : Encoder
    task : Task
    seeds, vectorized
        As in `finetune_seeds`.
    **options
        Of `finetune`.

    Returns
    -------
    TuningRequest
        The request of the first seed.
    """
    check_many(seeds, vectorized=vectorized, **options)
    return check_run(encoder, task, seed=seeds[0], vectorized=vectorized, **options)


def check_many(seeds: Sequence[int], *, vectorized: bool, **options: Any) -> None:
    """Check that seeds and options of `finetune_seeds` are compatible."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise must("seeds", "one or more, each once", list(seeds))
    if vectorized:
        for name, value in options.items():
            # An empty list of checkpoints is the default as well as an empty tuple.
            plain = tuple(value) if isinstance(value, list) else value
            if name in UNSUPPORTED and plain != UNSUPPORTED[name]:
                raise must(name, "left at its default for vectorized training", value)


def check_run(
    encoder: Any,
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    device: str = "auto",
    vectorized: bool = False,
    board: Any = None,
    building: bool = True,
    **options: Any,
) -> TuningRequest:
    """
    Check the arguments of `finetune` before anything is trained.

    Parameters
    ----------
    encoder, task, recipe, device, board
        As in `finetune`.
    vectorized : bool
        Whether all seeds are batched into one model (vmap).
    building : bool
        Whether the head and the method are tried on a copy of the encoder.
    **options
        Other options of `finetune`.

    Returns
    -------
    TuningRequest
    """
    device = name_device(device)
    request = ask(encoder, task, recipe, device=device, vectorized=vectorized, **options)
    if building:
        _check_model(request, vectorized)
    if board is not None:
        check_folder(board)
    lengths = {"longest": request.longest, "stride": request.stride}
    encode(request.data.items[:1], task, request.encoder.tokenizer, **lengths)
    features = len(request.data)
    last = max((request.recipe.warmup_steps or 0, *(n for n in request.checkpoints if isinstance(n, int))))
    if task.kind in WINDOWED and last > request.recipe.updates(features):
        features = len(encode(request.data.items, task, request.encoder.tokenizer, **lengths))
    request.recipe.rising(request.recipe.updates(features))
    checkpoint_updates(request.checkpoints, request.recipe, features)
    return request


def _check_model(request: TuningRequest, vectorized: bool) -> None:
    """Try the head and the method on a copy of the encoder."""
    model = build(request.encoder, request.task, request.head, seed=request.seeds.init)
    trainable(model, request.specification["method"], frozen=request.frozen)
    if request.cached:
        still_blocks(model)
    if vectorized:
        check_vectorized([model], [request.recipe])
