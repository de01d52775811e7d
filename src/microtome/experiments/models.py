"""Models with heads that an experiment opens, and the predictions of their cuts in the store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import InputError, must
from ..inference.answers import Answers
from ..scores.table import find_score
from ..store.entry import RECORD
from ..store.reading import read_record
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task
from ..training.cut_store import CutModel, answer_cuts, digest_model
from ..training.cuts import Cut
from ..training.evaluating import guessed_from
from ..training.precision import products_in, read_precision
from ..training.tuned import RUN, Failure, Tuned, read_failure

if TYPE_CHECKING:
    from ..training.models.taskmodel import TaskModel

GUESS = "majority baseline"


@dataclass(frozen=True, kw_only=True)
class Opened:
    """
    A model that answers a task, and how its examples are cut.

    Parameters
    ----------
    name : str
    model : TaskModel
    tokenizer : Tokenizer
    longest, stride : int, optional
        As it was trained.
    seed : int
        That it was trained with; its place among the given models where that is not known.
    digest : str
        Of weights, head, configuration and tokenizer.
    failure : Failure, optional
        Why its training must not be averaged with others.
    train_size, train_seed : int, optional
        How many examples it was trained on, and the seed that they were drawn with, where that is known.
    train_digest : str, optional
        Of those examples.
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products, as it was scored after its training.
    encoder : TransformerEncoder
        The same model in layers.
    """

    name: str
    model: TaskModel = field(repr=False)
    tokenizer: Any = field(repr=False)
    longest: int | None = None
    stride: int | None = None
    seed: int = 0
    digest: str
    failure: Failure | None = None
    train_size: int | None = None
    train_seed: int | None = None
    train_digest: str | None = None
    precision: str = "float32"
    encoder: Any = field(repr=False, default=None)

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return len(self.model.family.blocks_of(self.model.base))


def opened(given: Any, task: Task, *, device: str | None = None) -> list[Opened]:
    """
    Open the models of an experiment.

    Parameters
    ----------
    given : Tuned, Encoder, Opened or path, or a list of them
        What `finetune` returned, a loaded checkpoint with a head for the task, or its folder or name on
        the hub. Several are one setting trained with several seeds.
    task : Task
    device : str, optional
        For models that are given by their folder; the CPU when absent.

    Returns
    -------
    list of Opened
    """
    several = list(given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise must("tuned models", "at least one", 0)
    found = [_open(each, task, place, device or "cpu") for place, each in enumerate(several)]
    depths = {one.depth for one in found}
    if len(depths) > 1:
        raise InputError(
            f"models of one setting must have as many blocks each, but they have {_listed(depths)}."
        )
    if len({one.digest for one in found}) < len(found):
        raise InputError("models of one setting must be different ones, but one of them is there twice.")
    return found


def sound(models: Sequence[Opened]) -> tuple[list[Opened], tuple[str, ...]]:
    """
    Leave out models whose training failed, unless all did.

    Parameters
    ----------
    models : sequence of Opened

    Returns
    -------
    kept : list of Opened
        At least one.
    said : tuple of str
        A sentence for each whose training failed.
    """
    kept = [one for one in models if one.failure is None]
    done = "was left out" if kept else "is looked at although its training failed"
    said = tuple(
        f"{one.name}, seed {one.seed} {done}: {one.failure}." for one in models if one.failure is not None
    )
    return kept or list(models), said


def named_seeds(models: Sequence[Opened]) -> tuple[int, ...]:
    """Seeds of the models, or their places where two have the same one."""
    found = tuple(one.seed for one in models)
    return found if len(set(found)) == len(found) else tuple(range(len(found)))


def trained_on(one: Opened, task: Task) -> Split | None:
    """
    Find the examples that a model was trained on.

    Parameters
    ----------
    one : Opened
    task : Task

    Returns
    -------
    Split or None
        None where nobody wrote down which they were, or where they are not in this task's training split.
    """
    if one.train_size is None or task.train not in task.splits:
        return None
    train = task.split(task.train)
    if one.train_size > len(train) or (one.train_size < len(train) and one.train_seed is None):
        return None
    found = subset(train, one.train_size, seed=one.train_seed or 0)
    return found if one.train_digest in (None, found.digest) else None


def guess_line(task: Task, split: Split) -> dict[str, float]:
    """Score the majority baseline of the whole training split, by its name, where it is known."""
    train = guessed_from(task)
    if train is None or task.kind == "language_modeling":
        return {}
    targets = [item.target for item in split]
    answers = baseline(task.kind, [item.target for item in train], targets, task.labels)
    value = math.nan if answers is None else find_score(task.main).compute(answers, targets, task.labels)
    return {GUESS: float(value)} if math.isfinite(value) else {}


def cut_answers(
    one: Opened,
    task: Task,
    split: Split,
    cuts: Sequence[Cut],
    *,
    context: Context,
) -> list[list[Any]]:
    """
    Answer a split with many cuts of a model, or read from the store what they answered before.

    Parameters
    ----------
    one : Opened
    task : Task
    split : Split
    cuts : sequence of tuple of int
        The blocks that run; see `predict_cuts`.
    context : Context

    Returns
    -------
    list of list
        For each cut, one answer an example.
    """
    source = CutModel(
        model=one.model,
        tokenizer=one.tokenizer,
        name=one.name,
        digest=one.digest,
        longest=one.longest,
        stride=one.stride,
        dtype=one.precision,
    )
    return answer_cuts(source, task, split, cuts, context=context)


def mixed(one: Opened) -> Callable[[], Any] | None:
    """What makes the context of a model's precision; None where it is float32."""
    return products_in(one.precision, one.model.device.type)


def as_answers(
    split: Split, predictions_by_seed: Sequence[Sequence[Any]], seeds: Sequence[int | str] = ()
) -> Answers:
    """
    Put predictions into the form that intervals and tests take.

    Parameters
    ----------
    split : Split
    predictions_by_seed : sequence of sequence
        For each seed, one prediction an example.
    seeds : sequence of int or str
        Names of the seeds, which are needed to pair them.

    Returns
    -------
    Answers
    """
    return Answers(
        ids=tuple(item.id for item in split),
        # What is right in language modeling is in the predictions: likelihoods of the text itself.
        targets=tuple(item.target for item in split),
        predictions=tuple(predictions_by_seed),
        groups=tuple(item.group for item in split),
        seeds=tuple(seeds),
    )


def _open(given: Any, task: Task, place: int, device: str) -> Opened:
    from ..encoders.loading import load
    from ..training.evaluating import read_windows
    from ..training.models.modeling import build
    from ..training.models.saving import load_task_model

    if isinstance(given, Opened):
        return given
    if isinstance(given, Tuned):
        return _opened(
            given.encoder.name,
            given.model,
            given.encoder,
            longest=given.longest,
            stride=given.recipe.stride if task.kind == "span" else None,
            seed=given.seeds.init,
            failure=given.failure,
            train_size=given.train_size,
            train_seed=given.seeds.subset,
            **_asked(given.folder),
        )
    if isinstance(given, str | os.PathLike):
        folder = Path(given)
        # Any other name may be one on the hub.
        if folder.is_absolute() and not folder.is_dir():
            raise must("a tuned model", "a folder that exists", str(given))
        told = _run(folder)
        name = f"{told['model']}-{told['task']}" if told else None
        longest, stride = read_windows(folder)
        encoder: Any = load(given, name=name, device=device)
        _check_head(folder, encoder, task)
        return _opened(
            encoder.name,
            load_task_model(given, task, device=device),
            encoder,
            longest=longest,
            stride=stride,
            seed=told["seeds"]["init"] if told else place,
            failure=read_failure(told),
            train_size=told.get("train", {}).get("examples"),
            train_seed=told.get("seeds", {}).get("subset"),
            **_asked(folder),
        )
    if hasattr(given, "model") and hasattr(given, "tokenizer"):
        return _opened(given.name, build(given, task, "own"), given, seed=place)
    raise must("a tuned model", "what finetune returned, a checkpoint with a head, or its folder", given)


def _check_head(folder: Path, encoder: Any, task: Task) -> None:
    """Refuse a model that has no head for the task."""
    from ..training.models.saving import HEAD_JSON
    from ..training.models.stock import stock_class

    if (folder / HEAD_JSON).is_file():
        return
    kind = stock_class(encoder.config, task.kind, causal=encoder.family.causal)
    if kind is None or type(encoder.model) is not kind:
        raise InputError(
            f"{encoder.name} must be fine-tuned for {task.kind}, or be given with seeds to be fine-tuned "
            f"first, but it is a {type(encoder.model).__name__}."
        )


def _run(folder: Path) -> dict[str, Any]:
    return read_record(folder / RUN)


def _asked(folder: Path) -> dict[str, Any]:
    """Which examples and which precision a training was asked for, where it lies in a store or says so."""
    record = folder / RECORD
    asked = read_record(record).get("specification", {})
    return {"train_digest": asked.get("train"), "precision": read_precision(folder)}


def _opened(name: str, model: TaskModel, encoder: Any, **more: Any) -> Opened:
    return Opened(
        name=name,
        model=model,
        tokenizer=encoder.tokenizer,
        digest=digest_model(model, encoder.tokenizer),
        encoder=encoder,
        **more,
    )


def _listed(values: set[int]) -> str:
    return ", ".join(str(value) for value in sorted(values))
