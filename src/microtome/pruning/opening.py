"""Models that are pruned, opened with their head or as sentence encoders, and predictions of their cuts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import must
from ..inference.answers import Answers
from ..runtime import name_device
from ..store.reading import read_record
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import CutModel, answer_cuts, digest_model
from ..training.cuts import Cut
from ..training.precision import DEFAULT, read_precision
from .embedding import embedded_cuts, sentence_model
from .seen import digest_trained

if TYPE_CHECKING:
    from ..training.models.taskmodel import TaskModel


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
        Maximum length and overlap of its examples, as it was trained.
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Arithmetic of matrix products, as it was trained.
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
    dtype: str = DEFAULT
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


def open_subject(model: Any, task: Task, *, device: str = "auto") -> Subject:
    """
    Open a model that is to be cut.

    Parameters
    ----------
    model : Tuned, Encoder, path or Subject
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
    from ..training.models.modeling import build
    from ..training.models.saving import load_task_model
    from ..training.tuned import RUN, Tuned

    if isinstance(model, Subject):
        return model
    if isinstance(model, Tuned):
        return Subject(
            name=model.encoder.name,
            model=model.model,
            encoder=model.encoder,
            longest=model.longest,
            stride=model.recipe.stride if task.kind == "span" else None,
            dtype=read_precision(model.folder),
            train_size=model.train_size,
            subset_seed=model.seeds.subset,
            train_task=model.task,
            train_digest=digest_trained(model.folder),
            folder=model.folder,
        )
    if isinstance(model, str | os.PathLike):
        place, device = Path(model), name_device(device)
        # Any other name may be one on the hub.
        if place.is_absolute() and not place.is_dir():
            raise must("a model to be cut", "a folder that exists", str(model))
        record = read_record(place / RUN)
        name = f"{record['model']}-{record['task']}" if record else None
        encoder: Any = load(model, name=name, device=device)
        if "pooling" in encoder.source.facts:
            return _sentence(encoder, task)
        longest, stride = read_windows(place)
        return Subject(
            name=encoder.name,
            model=load_task_model(model, task, device=device),
            encoder=encoder,
            longest=longest,
            stride=stride,
            dtype=read_precision(place),
            train_size=record["train"]["examples"] if record else None,
            subset_seed=record["seeds"]["subset"] if record else None,
            train_task=record.get("task"),
            train_digest=digest_trained(place) if record else None,
            folder=place if place.is_dir() else None,
        )
    if isinstance(model, TransformerEncoder):
        if "pooling" in model.source.facts:
            return _sentence(model, task)
        return Subject(name=model.name, model=build(model, task, "own"), encoder=model)
    raise must("a model to be cut", "what finetune returned, a checkpoint with a head, or its folder", model)


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
    subject: Subject, task: Task, split: Split, cuts: Sequence[Cut], *, context: Context
) -> dict[Cut, list[Any]]:
    """
    Predict a split with many cuts, or read from the store what they predicted before.

    Parameters
    ----------
    subject : Subject
    task : Task
    split : Split
    cuts : sequence of tuple of int
        Blocks that run.
    context : Context

    Returns
    -------
    dict of cut to list
        One prediction per example.
    """
    if not cuts:
        return {}
    model = CutModel(
        model=subject.model,
        tokenizer=subject.encoder.tokenizer,
        name=subject.name,
        digest=digest_model(subject.model, subject.encoder.tokenizer),
        longest=subject.longest,
        stride=subject.stride,
        dtype=subject.dtype,
    )
    pooled = {} if subject.pooling is None else _pooled(subject.pooling)
    answers = answer_cuts(model, task, split, cuts, context=context, **pooled)
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
