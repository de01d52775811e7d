"""Models with their heads and what is known of their training, opened from any form that users give."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..arguments import checked
from ..context import Context
from ..encoders.locations import distinct_names
from ..errors import InputError, must
from ..runtime import name_device
from ..store.files import as_written, read_record
from ..store.shelf import Shelf
from ..tasks.task import Task
from .cut_store import digest_model, sentence_model
from .evaluating import guessed_from, read_answers, read_windows, score_answers
from .precision import DEFAULT, Autocast, products_in, read_precision
from .recipe import Recipe
from .tuned import ANSWERS, RUN, Failure, Seeds, Tuned, read_failure, stored_name, train_digest

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class Model:
    """
    An open model, with what is known of its training.

    Parameters
    ----------
    name : str
    encoder : Encoder
        The model in layers.
    task_model : TaskModel
        The same model with its head; None where it was opened without a task.
    digest : str
        Of weights, head, configuration and tokenizer; see `digest_model`. Empty without a head.
    longest, stride : int, optional
        Maximum number of tokens per example in training, and the overlap of windows.
    precision : {"float32", "tf32", "bfloat16", "float16"}
        Arithmetic of matrix products, as in training.
    pooling : str, optional
        Of a sentence encoder, which is judged by the cosines of its embeddings.
    seed : int
        Of the training; its place among the models of one setting where it is not known.
    failure : Failure, optional
        Why its training must not be averaged with others.
    train_task : str, optional
        The name of the task that it was trained on.
    train_size, train_seed : int, optional
        How many examples it was trained on, and the seed that they were drawn with.
    train_digest : str, optional
        Of those examples.
    folder : Path, optional
        Where it was read from.
    """

    name: str
    encoder: Any = field(repr=False)
    task_model: Any = field(repr=False, default=None)
    digest: str = ""
    longest: int | None = None
    stride: int | None = None
    precision: str = DEFAULT
    pooling: str | None = None
    seed: int = 0
    failure: Failure | None = None
    train_task: str | None = None
    train_size: int | None = None
    train_seed: int | None = None
    train_digest: str | None = None
    folder: Path | None = None

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return self.encoder.depth

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the encoder."""
        return self.encoder.tokenizer

    @property
    def device(self) -> str:
        """The type of the device that the model with its head is on."""
        return self.task_model.device.type

    @property
    def autocast(self) -> Autocast:
        """What makes the context of its precision."""
        return products_in(self.precision, self.device)

    @property
    def parameters(self) -> int:
        """Number of weights, with those of the head."""
        return sum(weight.numel() for weight in self.task_model.parameters())


def open_model(
    reference: Any,
    task: Task | None = None,
    *,
    context: Context,
    pooled: bool = False,
    place: int = 0,
) -> Model:
    """
    Open a model, with its head where a task is given.

    Parameters
    ----------
    reference : str, path, mapping, Encoder, Tuned or Model
        A folder or hub id, or a mapping with the arguments of `load`; or a model that is open already.
    task : Task, optional
        The head must be for it.
    context : Context
        Its device is for models that are loaded.
    pooled : bool
        Whether a sentence encoder may take part, which has embeddings in place of a head.
    place : int
        Number of the model among several; its seed where that is not known.

    Returns
    -------
    Model
    """
    if isinstance(reference, Model):
        return reference
    if isinstance(reference, Tuned):
        return _of_tuned(reference, task)
    if isinstance(reference, str | os.PathLike):
        reference = {"source": os.fspath(reference)}
    if not isinstance(reference, Mapping):
        if not all(hasattr(reference, name) for name in ("name", "family", "layers", "words", "run")):
            what = "what finetune returned, a checkpoint with a head, or its folder"
            if task is None:
                what = "what microtome.load gives, a hub id or a folder"
            raise must("a model", what, type(reference).__name__)
        model = Model(name=reference.name, encoder=reference, seed=place)
        return model if task is None else _with_head(model, task, pooled)
    _source(reference)
    return _load(reference, task, context, pooled, place)


def _source(reference: Mapping[str, Any]) -> str:
    """The folder or hub id among the arguments of `load`."""
    if not isinstance(reference.get("source"), str | os.PathLike):
        raise must("the source of a model", "a folder or a hub id", reference.get("source"))
    return str(reference["source"])


def open_models(references: Any, task: Task, *, context: Context) -> list[Model]:
    """
    Open the models of one setting, which differ in their seeds.

    Parameters
    ----------
    references : object or sequence of object
        As `open_model` takes them.
    task : Task
    context : Context

    Returns
    -------
    list of Model
        At least one, all of one depth.
    """
    several = list(references) if isinstance(references, list | tuple) else [references]
    if not several:
        raise must("tuned models", "at least one", 0)
    models = [
        open_model(reference, task, context=context, place=place) for place, reference in enumerate(several)
    ]
    depths = sorted({model.depth for model in models})
    if len(depths) > 1:
        raise InputError(
            "models of one setting must have as many blocks each, but they have "
            f"{', '.join(map(str, depths))}."
        )
    check_different([model.digest for model in models])
    return models


def check_different(digests: Sequence[str]) -> None:
    """Refuse models of one setting of which two are the same."""
    if len(set(digests)) < len(digests):
        raise InputError("models of one setting must be different ones, but one of them is there twice.")


def open_encoders(references: Sequence[Any], *, context: Context) -> list[Encoder]:
    """
    Open encoders, and name those that are loaded by as many folders as make their names differ.

    Fine-tuned models in a store, whose folders are addresses, are named by their training.

    Parameters
    ----------
    references : sequence
        As `open_model` takes them.
    context : Context

    Returns
    -------
    list of Encoder
    """
    sources = [_source(reference) for reference in references if isinstance(reference, Mapping)]
    sources = [os.path.join(source, stored_name(Path(source))) for source in sources]
    names = iter(distinct_names(sources) if sources else ())
    return [
        open_model(
            {"name": next(names), **reference} if isinstance(reference, Mapping) else reference,
            context=context,
        ).encoder
        for reference in references
    ]


def open_task(reference: Any) -> Task:
    """
    Open a task.

    Parameters
    ----------
    reference : Task or mapping
        A mapping holds the arguments of `task`, and `held_out`: the number of examples of the validation
        split that are scored while the others are trained on, for tasks without a training split.

    Returns
    -------
    Task
    """
    from ..tasks.loading import task as load_task
    from ..tasks.subset import held_out

    if isinstance(reference, Task):
        return reference
    if not isinstance(reference, Mapping):
        raise must("task", "a name, what microtome.task gives, or its arguments", type(reference).__name__)
    options = dict(reference)
    size = options.pop("held_out", None)
    task = load_task(**options)
    return task if size is None else held_out(task, size)


@checked
def open_tuned(
    folder: str | os.PathLike[str],
    task: Task,
    *,
    address: str = "",
    shelf: Shelf | None = None,
    device: str = "cpu",
) -> Tuned:
    """
    Open a fine-tuned model written by `finetune`.

    Parameters
    ----------
    folder : path
    task : Task
        The one it was trained on.
    address : str
    shelf : Shelf, optional
        The store of the intermediate checkpoints.
    device : str

    Returns
    -------
    Tuned

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> mt.open_tuned(tuned.folder, task).task
    'polarity'
    """
    path = Path(folder)
    if not (path / RUN).is_file():
        raise InputError(f"{path} must hold what finetune wrote ({RUN}), but it does not.")
    record = read_record(path / RUN)
    with as_written(path / RUN):
        values = {**record["recipe_values"], "betas": tuple(record["recipe_values"]["betas"])}
        run_fields: dict[str, Any] = {
            "task": str(record["task"]),
            "recipe": Recipe(name=record["recipe"], **values),
            "seeds": Seeds(**record["seeds"]),
            "train_size": int(record["train"]["examples"]),
            "longest": int(record["longest"]),
            "course": MappingProxyType(dict(record["course"])),
            "failure": read_failure(record),
        }
        notes = tuple(record["evaluation"]["notes"])
        addresses = [str(checkpoint) for checkpoint in record["checkpoints"]]
    model = open_model(path, task, context=Context(device=device))
    answers = read_answers(path / ANSWERS, task.split(task.validation))
    evaluation = score_answers(task, task.split(task.validation), answers, train=guessed_from(task))
    entries = [shelf.get(checkpoint) for checkpoint in addresses] if shelf is not None else []
    return Tuned(
        encoder=model.encoder,
        model=model.task_model,
        evaluation=replace(evaluation, notes=notes),
        **run_fields,
        folder=path,
        address=address,
        checkpoints=tuple(Path(entry.folder) for entry in entries if entry is not None),
    )


def _load(
    reference: Mapping[str, Any], task: Task | None, context: Context, pooled: bool, place: int
) -> Model:
    from ..encoders.loading import load

    reference = {"device": name_device(context.device), **reference}
    folder = Path(reference["source"])
    if task is None:
        encoder = load(**{"name": stored_name(folder) or None, **reference})
        return Model(name=encoder.name, encoder=encoder, folder=folder if folder.is_dir() else None)
    # Any other name may be one on the hub.
    if folder.is_absolute() and not folder.is_dir():
        raise must("a fine-tuned model", "a folder that exists", str(folder))
    facts = {"seed": place, **_training(folder)}
    encoder = load(**{"name": facts.pop("name", None), **reference})
    facts["folder"] = folder if folder.is_dir() else None
    return _with_head(Model(name=encoder.name, encoder=encoder, **facts), task, pooled, folder)


def _training(folder: Path) -> dict[str, Any]:
    """Read what a folder records of the training of its model."""
    record = read_record(folder / RUN)
    facts: dict[str, Any] = dict(zip(("longest", "stride"), read_windows(folder), strict=True))
    facts |= {"precision": read_precision(folder), "train_digest": train_digest(folder)}
    if record:
        with as_written(folder / RUN):
            facts |= {
                "name": f"{record['model']}-{record['task']}",
                "seed": int(record["seeds"]["init"]),
                "failure": read_failure(record),
                "train_task": str(record["task"]),
                "train_size": record.get("train", {}).get("examples"),
                "train_seed": record["seeds"].get("subset"),
            }
    return facts


def _of_tuned(tuned: Tuned, task: Task | None) -> Model:
    name, encoder = tuned.encoder.name, tuned.encoder
    if task is None:
        return Model(name=name, encoder=encoder, folder=tuned.folder)
    return Model(
        name=name,
        encoder=encoder,
        task_model=tuned.model,
        digest=digest_model(tuned.model, encoder.tokenizer),
        longest=tuned.longest,
        stride=tuned.recipe.stride if task.kind == "span" else None,
        precision=read_precision(tuned.folder),
        seed=tuned.seeds.init,
        failure=tuned.failure,
        train_task=tuned.task,
        train_size=tuned.train_size,
        train_seed=tuned.seeds.subset,
        train_digest=train_digest(tuned.folder),
        folder=tuned.folder,
    )


def _with_head(model: Model, task: Task, pooled: bool, folder: Path | None = None) -> Model:
    """Add the head of a checkpoint, or the pooling of a sentence encoder."""
    from .models.saving import read_head

    encoder = model.encoder
    if pooled and "pooling" in encoder.source.facts:
        facts, task_model = encoder.source.facts, sentence_model(encoder, task)
        model = Model(
            name=model.name,
            encoder=encoder,
            longest=facts.get("longest"),
            pooling=facts["pooling"],
            folder=Path(encoder.source.given),
        )
    else:
        task_model = read_head(encoder, task, folder)
    return replace(model, task_model=task_model, digest=digest_model(task_model, encoder.tokenizer))
