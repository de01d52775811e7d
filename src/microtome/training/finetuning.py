"""How is an encoder fine-tuned so that anybody can do it again? Every seed named, every run in the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, WorkError, must
from ..inference.estimate import Estimate
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.subset import subset
from ..tasks.task import Task
from ..version import VERSION
from .evaluating import Evaluation, predict, read_answers, score_answers, write_answers
from .heads import Head
from .loop import Course, make_accelerator, train
from .progress import STATE
from .recipe import Recipe, find_recipe

if TYPE_CHECKING:
    import os

    from .modeling import TaskModel

KIND = "finetune"
RUN, ANSWERS = "run.json", "predictions.parquet"
Progress = Callable[[str, int, int], None]


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


def finetune(
    encoder: Encoder,
    task: Task,
    recipe: str | Recipe = "devlin2019",
    *,
    seed: int = 0,
    seeds: Mapping[str, int] | None = None,
    train_size: int | None = None,
    head: str | Head | None = None,
    method: str = "full",
    device: str = "cpu",
    precision: str = "float32",
    checkpoints: str | Sequence[int] = (),
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    state_seconds: float = 60.0,
    **values: Any,
) -> Tuned:
    """
    Fine-tune an encoder on a task; a run that is in the store already is taken from there.

    Same encoder, task, values, seeds and device (on a CPU, threads too): same weights to the bit, also when
    the run was interrupted and started again.

    Parameters
    ----------
    encoder : Encoder
        Stays as it is.
    task : Task
    recipe : str or Recipe
        A name of `RECIPES`.
    seed : int
        Of everything that chance decides.
    seeds : mapping, optional
        Seeds of their own for `init`, `order` or `subset`.
    train_size : int, optional
        Train on so many examples: those of a smaller size are among those of a larger one.
    head : str or Head, optional
        The recipe's when absent.
    method : {"full", "head", "bitfit", "lora"}
        Which weights learn.
    device : str
    precision : {"float32", "bfloat16", "float16"}
        Of matrix products.
    checkpoints : "epochs" or sequence of int
        Also keep the model after each pass, or after these updates.
    store : path, optional
        The folder of the store.
    command : str
        What a user types to do it again.
    progress : callable, optional
        Called with what is done, how much of it, and of how much.
    state_seconds : float
        How often the state of a running training is kept.
    **values
        Other values of the recipe, such as rate=2e-5, epochs=1, batch=16.

    Returns
    -------
    Tuned
    """
    import torch

    from .methods import trainable
    from .modeling import build

    if not isinstance(encoder, TransformerEncoder):
        raise InputError(f"{encoder.name} must be a model of transformers to be fine-tuned, but is an ELMo.")
    chosen = find_recipe(recipe, **values)
    given = {"init": seed, "order": seed, "subset": seed, **(seeds or {})}
    if set(given) - {"init", "order", "subset"}:
        raise must("seeds", "for init, order and subset", ", ".join(sorted(given)))
    drawn = Seeds(**given)
    data = task.split(task.train, labeled=task.kind != "language_modeling")
    judged = task.split(task.validation, labeled=task.kind != "language_modeling")
    if train_size is not None:
        data = subset(data, train_size, seed=drawn.subset)
    longest = _longest(chosen, task, encoder)
    at = _kept_updates(checkpoints, chosen, len(data))
    wanted = chosen.head if head is None else head
    specification = {
        "version": 1,
        "model": encoder.digest,
        "task": task.digest(task.validation),
        "train": data.digest,
        "recipe": chosen.specification(),
        "seeds": {"init": drawn.init, "order": drawn.order, "subset": drawn.subset},
        "head": wanted if isinstance(wanted, str) else _fields(wanted),
        "method": method,
        "device": str(device).partition(":")[0],
        "precision": precision,
        "checkpoints": sorted(at),
    }
    if specification["device"] == "cpu":
        # Sums are split among threads, so their number shows in the last bits.
        specification["threads"] = torch.get_num_threads()
    shelf = Shelf(store)
    told = {"model": encoder.name, "task": task.name, "recipe": chosen.name, "source": task.source}
    with shelf.work(kind=KIND, specification=specification, command=command) as work:
        if work.entry is None:
            model = build(encoder, task, wanted, seed=drawn.init)
            learning = trainable(model, method)  # pyright: ignore[reportArgumentType]
            accelerator = make_accelerator(device, precision)
            model.to(accelerator.device)
            run = _Run(
                encoder=encoder,
                model=model,
                task=task,
                recipe=chosen,
                seeds=drawn,
                longest=longest,
                accelerator=accelerator,
                folder=work.folder,
                shelf=shelf,
                specification=specification,
                progress=progress,
            )
            course, kept = run.train(data, at, state_seconds)
            found = run.judge(judged, data)
            failure = _failure(course, found)
            run.save(found)
            (work.folder / STATE).unlink(missing_ok=True)
            document = {
                **told,
                "task_source": task.source,
                "train": {"examples": len(data), "notes": list(data.notes)},
                "recipe_values": chosen.specification(),
                "seeds": specification["seeds"],
                "learning": learning.said,
                "head": list(model.notes),
                "longest": longest,
                "course": _plain(course),
                "failure": failure,
                "checkpoints": kept,
                "evaluation": found.document(),
                "device": str(accelerator.device),
                "microtome": VERSION,
            }
            (work.folder / RUN).write_text(json.dumps(document, indent=1))
            entry = work.finish({**told, "failure": failure, "score": found.document()["score"]})
        else:
            entry = work.entry
    return open_tuned(entry.folder, task, address=entry.address, shelf=shelf, device=device)


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
    train = task.split(task.train) if task.train in task.splits else None
    found = score_answers(task, split, answers, train=train)
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


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One training, with all it needs."""

    encoder: TransformerEncoder
    model: TaskModel
    task: Task
    recipe: Recipe
    seeds: Seeds
    longest: int
    accelerator: Any
    folder: Path
    shelf: Shelf
    specification: Mapping[str, Any]
    progress: Progress | None

    @property
    def _stride(self) -> int | None:
        return self.recipe.stride if self.task.kind == "span" else None

    def train(self, data: Split, at: frozenset[int], state_seconds: float) -> tuple[Course, list[str]]:
        from .inputs import collate, encode

        features = encode(
            data.items,
            self.task,
            self.encoder.tokenizer,
            longest=self.longest,
            stride=self._stride,
            mask=self.model.mask,
            seed=self.seeds.order,
        )
        if not features:
            raise WorkError(f"{self.task.name} must leave examples to train on, but none fits the model.")
        device = self.accelerator.device
        course = train(
            self.model,
            features,
            lambda chosen: collate(chosen, device),
            self.recipe,
            seed=self.seeds.order,
            accelerator=self.accelerator,
            folder=self.folder,
            kept=self._keep,
            keep_at=at,
            progress=self.progress,
            state_seconds=state_seconds,
        )
        return course, [self._address(update) for update in sorted(at) if update <= course.updates]

    def judge(self, split: Split, data: Split) -> Evaluation:
        answers = predict(
            self.model,
            split,
            self.task,
            self.encoder.tokenizer,
            longest=self.longest,
            stride=self._stride,
            progress=self.progress,
            autocast=self.accelerator.autocast,
        )
        return score_answers(self.task, split, answers, train=data)

    def save(self, found: Evaluation) -> None:
        from .saving import save

        save(self.model, self.folder, self.encoder.tokenizer)
        write_answers(found, self.folder / ANSWERS)

    def _address(self, update: int) -> str:
        return make_address({"run": dict(self.specification), "update": update})

    def _keep(self, update: int) -> None:
        from .saving import save

        told = {"run": dict(self.specification), "update": update}
        self.shelf.put(
            lambda folder: save(self.model, folder, self.encoder.tokenizer),
            kind="checkpoint",
            specification=told,
            address=self._address(update),
            provenance={"model": self.encoder.name, "task": self.task.name, "update": update},
        )


def _longest(recipe: Recipe, task: Task, encoder: TransformerEncoder) -> int:
    wanted = recipe.longest_span if task.kind == "span" else recipe.longest
    most = encoder.tokenizer.longest
    return wanted if most is None else min(wanted, most)


def _kept_updates(asked: str | Sequence[int], recipe: Recipe, examples: int) -> frozenset[int]:
    planned = recipe.updates(examples)
    if isinstance(asked, str):
        if asked != "epochs":
            raise must("checkpoints", "'epochs' or numbers of updates", asked)
        each = -(-examples // recipe.batch)
        return frozenset(range(each, planned + 1, each))
    for update in asked:
        if not isinstance(update, int) or not 0 < update <= planned:
            raise must("checkpoints", f"updates between 1 and {planned}", update)
    return frozenset(asked)


def _fields(head: Head) -> dict[str, Any]:
    return {name: getattr(head, name) for name in head.__slots__}


def _plain(course: Course) -> dict[str, Any]:
    return {
        "updates": course.updates,
        "planned": course.planned,
        "seconds": round(course.seconds, 3),
        "resumed": course.resumed,
        "losses": [list(one) for one in course.losses],
        "diverged": course.diverged,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _failure(course: Course, found: Evaluation) -> str | None:
    if course.diverged is not None:
        return f"diverged: {course.diverged}"
    if found.kind != "language_modeling" and found.constant:
        return f"collapsed: every example of {found.split} got the same answer"
    score = find_score(found.main)
    return None if score.range is None or found.score.value == found.score.value else "no score"
