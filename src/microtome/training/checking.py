"""Checks of the arguments of a fine-tuning before its first update, in dry runs and real runs alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..errors import must
from ..runtime import name_device
from ..tasks.task import Task
from .precision import check_dtype
from .recipe import Recipe
from .request import TuningRequest, ask

# Options of `finetune` that vectorized training does not support, and the only value allowed there.
UNSUPPORTED: Mapping[str, Any] = MappingProxyType(
    {"train_size": None, "method": "full", "cached": False, "checkpoints": (), "board": None}
)
# Kinds of tasks whose long examples are split into several windows.
WINDOWED = ("span", "language_modeling")


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
    dtype: str = "float32",
    vectorized: bool = False,
    board: Any = None,
    building: bool = True,
    **options: Any,
) -> TuningRequest:
    """
    Check the arguments of `finetune` before anything is trained.

    Parameters
    ----------
    encoder, task, recipe, device, dtype, board
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
    from .finetuning import checkpoint_updates
    from .inputs import encode

    device = name_device(device)
    check_dtype(device, dtype)
    request = ask(encoder, task, recipe, device=device, dtype=dtype, vectorized=vectorized, **options)
    if building:
        _check_model(request, vectorized)
    if board is not None:
        from ..store.outfolder import check_folder

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
    from .models.methods import trainable
    from .models.modeling import build
    from .optimization.frozen_features import still_blocks
    from .optimization.vmapped import check_vectorized

    model = build(request.encoder, request.task, request.head, seed=request.seeds.init)
    trainable(model, request.specification["method"], frozen=request.frozen)
    if request.cached:
        still_blocks(model)
    if vectorized:
        check_vectorized([model], [request.recipe])
