"""Which model is to be cut, and what do its cuts answer? Opened with its head, or as a sentence encoder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import must
from ..inference.answers import Answers
from ..store.reading import read_record
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import answer_cuts, digest_model
from ..training.cuts import Cut
from ..training.precision import DEFAULT, read_precision
from .embedding import embedded_cuts, sentence_model
from .seen import digest_trained

if TYPE_CHECKING:
    from ..training.taskmodel import TaskModel

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """
    A model that is to be cut.

    Parameters
    ----------
    name : str
    model : TaskModel
    encoder : TransformerEncoder
        The same model in layers.
    longest, stride : int, optional
        How its examples were cut when it was trained.
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products, as it was trained.
    pooling : str, optional
        Of a sentence encoder, which is judged by the cosines of its embeddings.
    train_size, subset_seed : int, optional
        How many examples it was trained on, and the seed they were drawn with.
    train_task, train_digest : str, optional
        The name of the task that it was trained on, and the digest of those examples.
    folder : Path, optional
        Where it was read from.
    """

    name: str
    model: TaskModel = field(repr=False)
    encoder: Any = field(repr=False)
    longest: int | None = None
    stride: int | None = None
    precision: str = DEFAULT
    pooling: str | None = None
    train_size: int | None = None
    subset_seed: int | None = None
    train_task: str | None = None
    train_digest: str | None = None
    folder: Path | None = None

    @property
    def depth(self) -> int:
        """Blocks of the whole model."""
        return self.encoder.depth


def open_subject(given: Any, task: Task, *, device: str = "cpu") -> Subject:
    """
    Open a model that is to be cut.

    Parameters
    ----------
    given : Tuned, Encoder, path or Subject
        What `finetune` returned, a loaded checkpoint with a head for the task, its folder or name on the
        hub, or the folder of a sentence encoder.
    task : Task
    device : str
        For models that are given by their folder.

    Returns
    -------
    Subject
    """
    from ..encoders.encoder import TransformerEncoder
    from ..encoders.loading import load
    from ..training.evaluating import read_windows
    from ..training.modeling import build
    from ..training.saving import load_task_model
    from ..training.tuned import RUN, Tuned

    if isinstance(given, Subject):
        return given
    if isinstance(given, Tuned):
        return Subject(
            name=given.encoder.name,
            model=given.model,
            encoder=given.encoder,
            longest=given.longest,
            stride=given.recipe.stride if task.kind == "span" else None,
            precision=read_precision(given.folder),
            train_size=given.train_size,
            subset_seed=given.seeds.subset,
            train_task=given.task,
            train_digest=digest_trained(given.folder),
            folder=given.folder,
        )
    if isinstance(given, str | os.PathLike):
        place = Path(given)
        # Any other name may be one on the hub.
        if place.is_absolute() and not place.is_dir():
            raise must("a model to be cut", "a folder that exists", str(given))
        told = read_record(place / RUN)
        name = f"{told['model']}-{told['task']}" if told else None
        encoder: Any = load(given, name=name, device=device)
        if "pooling" in encoder.source.facts:
            return _sentence(encoder, task)
        longest, stride = read_windows(place)
        return Subject(
            name=encoder.name,
            model=load_task_model(given, task, device=device),
            encoder=encoder,
            longest=longest,
            stride=stride,
            precision=read_precision(place),
            train_size=told["train"]["examples"] if told else None,
            subset_seed=told["seeds"]["subset"] if told else None,
            train_task=told.get("task"),
            train_digest=digest_trained(place) if told else None,
            folder=place if place.is_dir() else None,
        )
    if isinstance(given, TransformerEncoder):
        if "pooling" in given.source.facts:
            return _sentence(given, task)
        return Subject(name=given.name, model=build(given, task, "own"), encoder=given)
    raise must("a model to be cut", "what finetune returned, a checkpoint with a head, or its folder", given)


def _sentence(encoder: Any, task: Task) -> Subject:
    facts = encoder.source.facts
    return Subject(
        name=encoder.name,
        model=sentence_model(encoder, task),
        encoder=encoder,
        longest=facts.get("longest"),
        pooling=facts["pooling"],
        folder=Path(encoder.source.given),
    )


def kept_answers(
    one: Subject,
    task: Task,
    split: Split,
    cuts: Sequence[Cut],
    *,
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> dict[Cut, list[Any]]:
    """
    Answer a split with many cuts, or read from the store what they answered before.

    Parameters
    ----------
    one : Subject
    task : Task
    split : Split
    cuts : sequence of tuple of int
        Blocks that run.
    store : path, optional
    progress : callable, optional
    command : str

    Returns
    -------
    dict of cut to list
        One answer an example.
    """
    if not cuts:
        return {}
    answers = answer_cuts(
        one.model,
        task,
        split,
        cuts,
        one.encoder.tokenizer,
        name=one.name,
        digest=digest_model(one.model, one.encoder.tokenizer),
        longest=one.longest,
        stride=one.stride,
        precision=one.precision,
        **({} if one.pooling is None else _pooled(one.pooling)),
        store=store,
        progress=progress,
        command=command,
    )
    return dict(zip(cuts, answers, strict=True))


def _pooled(pooling: str) -> dict[str, Any]:
    """How a sentence encoder answers: by the cosines of its embeddings."""

    def predict(
        model: TaskModel, split: Split, task: Task, tokenizer: Any, cuts: Sequence[Cut], **options: Any
    ) -> list[list[Any]]:
        longest, progress = options["longest"], options["progress"]
        return embedded_cuts(model, split, task, tokenizer, cuts, pooling, longest=longest, progress=progress)

    return {"predict": predict, "more": {"pooling": pooling}}


def as_answers(split: Split, predictions: Sequence[Any]) -> Answers:
    """One model's predictions in the form that tests take."""
    return Answers(
        ids=tuple(item.id for item in split),
        targets=tuple(item.target for item in split),
        predictions=(tuple(predictions),),
        groups=tuple(item.group for item in split),
    )
