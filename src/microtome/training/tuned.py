"""What is a fine-tuned model? Its weights, its answers, and how it came to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.encoder import TransformerEncoder
from ..errors import InputError, must
from ..inference.estimate import Estimate
from ..store.shelf import Shelf
from ..tasks.task import Task
from .evaluating import Evaluation, guessed_from, read_answers, score_answers
from .recipe import Recipe

if TYPE_CHECKING:
    import os

    from .modeling import TaskModel

RUN, ANSWERS = "run.json", "predictions.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """
    What chance decides, each from a seed of its own.

    Parameters
    ----------
    init : int
        New weights: the head, a fresh pooler.
    order : int
        Which examples come when, and dropout.
    subset : int
        Which examples are trained on, where not all are.
    """

    init: int
    order: int
    subset: int

    def __post_init__(self) -> None:
        for name in ("init", "order", "subset"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise must(f"seed of {name}", "a whole number of at least 0", value)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """
    A fine-tuned model, and how it came to be.

    Parameters
    ----------
    encoder : Encoder
        The tuned model in layers, with its head.
    model : TaskModel
        The same as it answers the task.
    task : str
    recipe : Recipe
    seeds : Seeds
    train_size : int
        Examples that were trained on.
    longest : int
        Tokens of an example at most.
    evaluation : Evaluation
        On the validation split.
    course : mapping
        Updates, losses and seconds.
    failure : str, optional
        Why the run must not be averaged with others: it diverged, or gives one answer to everything.
    folder : Path
        The checkpoint, as `from_pretrained` reads it.
    address : str
        In the store.
    checkpoints : tuple of Path
        Those kept along the way, in their order.
    """

    encoder: TransformerEncoder = field(repr=False)
    model: TaskModel = field(repr=False)
    task: str
    recipe: Recipe = field(repr=False)
    seeds: Seeds
    train_size: int
    longest: int
    evaluation: Evaluation = field(repr=False)
    course: Mapping[str, Any] = field(repr=False)
    failure: str | None = None
    folder: Path
    address: str
    checkpoints: tuple[Path, ...] = ()

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """Every score of the task on its validation split."""
        return self.evaluation.scores

    @property
    def score(self) -> Estimate:
        """The score of the task."""
        return self.evaluation.score

    @property
    def predictions(self) -> tuple[Any, ...]:
        """The answers on the validation split, in its order."""
        return self.evaluation.predictions


def open_tuned(
    folder: str | os.PathLike[str],
    task: Task,
    *,
    address: str = "",
    shelf: Shelf | None = None,
    device: str = "cpu",
) -> Tuned:
    """
    Open a fine-tuned model that `finetune` wrote.

    Parameters
    ----------
    folder : path
    task : Task
        The one it was trained on.
    address : str
    shelf : Shelf, optional
        Where checkpoints along the way are.
    device : str

    Returns
    -------
    Tuned
    """
    from ..encoders.loading import load
    from .saving import load_task_model

    place = Path(folder)
    if not (place / RUN).is_file():
        raise InputError(f"{place} must hold what finetune wrote ({RUN}), but it does not.")
    told = json.loads((place / RUN).read_text())
    model = load_task_model(place, task, device=device)
    encoder: Any = load(place, name=f"{told['model']}-{told['task']}", device=device)
    split = task.split(task.validation)
    answers = read_answers(place / ANSWERS, split)
    found = score_answers(task, split, answers, train=guessed_from(task))
    recipe_values = {**told["recipe_values"], "betas": tuple(told["recipe_values"]["betas"])}
    paths = []
    for kept in told["checkpoints"]:
        entry = None if shelf is None else shelf.get(kept)
        if entry is not None:
            paths.append(Path(entry.folder))
    return Tuned(
        encoder=encoder,
        model=model,
        task=told["task"],
        recipe=Recipe(name=told["recipe"], **recipe_values),
        seeds=Seeds(**told["seeds"]),
        train_size=told["train"]["examples"],
        longest=told["longest"],
        evaluation=replace(found, notes=tuple(told["evaluation"]["notes"])),
        course=MappingProxyType(told["course"]),
        failure=told["failure"],
        folder=place,
        address=address,
        checkpoints=tuple(paths),
    )
