"""How is an encoder fine-tuned so that anybody can do it again? Every seed named, every run in the store."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.encoder import Encoder, TransformerEncoder
from ..errors import InputError, WorkError, must
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task
from ..version import VERSION
from .evaluating import Evaluation, predict, score_answers, write_answers, write_windows
from .heads import Head
from .loop import Course, make_accelerator, train
from .progress import STATE
from .recipe import Recipe, find_recipe
from .tuned import ANSWERS, RUN, Seeds, Tuned, open_tuned

if TYPE_CHECKING:
    import os

    from .modeling import TaskModel

KIND = "finetune"
Progress = Callable[[str, int, int], None]


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
    board: str | os.PathLike[str] | None = None,
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
        Also keep the model after each pass, or after these updates, and its score in the log.
    store : path, optional
        The folder of the store.
    command : str
        What a user types to do it again.
    progress : callable, optional
        Called with what is done, how much of it, and of how much.
    state_seconds : float
        How often the state of a running training is kept.
    board : path, optional
        A folder for TensorBoard (the extra `logs`).
    **values
        Other values of the recipe, such as rate=2e-5, epochs=1, batch=16.

    Returns
    -------
    Tuned
    """
    import torch

    from .methods import set_head_dropout, trainable
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
    at = _asked_updates(checkpoints)
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
        "checkpoints": at if isinstance(at, str) else list(at),
    }
    if specification["device"] == "cpu":
        # Sums are split among threads, so their number shows in the last bits.
        specification["threads"] = torch.get_num_threads()
    accelerator = make_accelerator(device, precision)
    if accelerator.num_processes > 1:
        specification["processes"] = accelerator.num_processes
    shelf = Shelf(store)

    def begin(folder: Path) -> tuple[_Run, str]:
        model = build(encoder, task, wanted, seed=drawn.init)
        if chosen.dropout is not None:
            set_head_dropout(model, chosen.dropout)
        learning = trainable(model, method)  # pyright: ignore[reportArgumentType]
        model.to(accelerator.device)
        run = _Run(
            encoder=encoder,
            model=model,
            task=task,
            recipe=chosen,
            seeds=drawn,
            longest=longest,
            accelerator=accelerator,
            folder=folder,
            shelf=shelf,
            specification=specification,
            data=data,
            judged=judged,
            progress=progress,
        )
        return run, learning.said

    if not accelerator.is_main_process:
        # The first of several processes owns the store; the others train with it and hear what came of it.
        known, folder = _agree(accelerator)
        if not known:
            begin(Path(folder))[0].train(at, state_seconds, board)
        place, found = _agree(accelerator)
        return open_tuned(place, task, address=found, shelf=shelf, device=device)
    with shelf.work(kind=KIND, specification=specification, command=command) as work:
        entry = work.entry
        _agree(accelerator, (entry is not None, "" if entry is not None else str(work.folder)))
        if entry is None:
            run, learning = begin(work.folder)
            course, kept = run.train(at, state_seconds, board)
            told = run.finish(course, kept, learning)
            # Only now: a run that is stopped while it is scored or saved need not be trained again.
            (work.folder / STATE).unlink(missing_ok=True)
            entry = work.finish(told)
    _agree(accelerator, (str(entry.folder), entry.address))
    return open_tuned(entry.folder, task, address=entry.address, shelf=shelf, device=device)


def _agree(accelerator: Any, told: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """Hear what the first process says; alone, that is what was told."""
    if accelerator.num_processes == 1 and told is not None:
        return told
    from accelerate.utils import broadcast_object_list

    said = list(told or (None, None))
    broadcast_object_list(said, from_process=0)
    return said[0], said[1]


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
    data: Split
    judged: Split
    progress: Progress | None

    @property
    def _stride(self) -> int | None:
        return self.recipe.stride if self.task.kind == "span" else None

    def train(
        self, asked: str | tuple[int, ...], state_seconds: float, board: Any
    ) -> tuple[Course, list[str]]:
        from .inputs import collate, encode

        features = encode(
            self.data.items,
            self.task,
            self.encoder.tokenizer,
            longest=self.longest,
            stride=self._stride,
            mask=self.model.mask,
            seed=self.seeds.order,
        )
        if not features:
            raise WorkError(f"{self.task.name} must leave examples to train on, but none fits the model.")
        at = _kept_updates(asked, self.recipe, len(features))
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
            board=board,
        )
        return course, [self._address(update) for update in sorted(at) if update <= course.updates]

    def judge(self) -> Evaluation:
        answers = predict(
            self.model,
            self.judged,
            self.task,
            self.encoder.tokenizer,
            longest=self.longest,
            stride=self._stride,
            progress=self.progress,
            autocast=self.accelerator.autocast,
        )
        return score_answers(self.task, self.judged, answers, train=self.data)

    def finish(self, course: Course, kept: list[str], learning: str) -> dict[str, Any]:
        """Score the model, write everything down, and say what the store is told."""
        from .saving import save

        found = self.judge()
        failure = _failure(course, found)
        save(self.model, self.folder, self.encoder.tokenizer)
        write_answers(found, self.folder / ANSWERS)
        write_windows(self.folder, self.longest, self._stride)
        told = {"model": self.encoder.name, "task": self.task.name, "recipe": self.recipe.name}
        document = {
            **told,
            "task_source": self.task.source,
            "train": {"examples": len(self.data), "notes": list(self.data.notes)},
            "recipe_values": self.recipe.specification(),
            "seeds": self.specification["seeds"],
            "learning": learning,
            "head": list(self.model.notes),
            "longest": self.longest,
            "course": _plain(course),
            "failure": failure,
            "checkpoints": kept,
            "evaluation": found.document(),
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
            "microtome": VERSION,
        }
        (self.folder / RUN).write_text(json.dumps(document, indent=1))
        return {**told, "failure": failure, "score": document["evaluation"]["score"]}

    def _address(self, update: int) -> str:
        return make_address({"run": dict(self.specification), "update": update})

    def _keep(self, update: int) -> float:
        """Keep the model as it is now in an entry of its own, with its score."""
        from .saving import save

        told = {"run": dict(self.specification), "update": update}
        score = self.judge().score.value

        def files(folder: Path) -> None:
            save(self.model, folder, self.encoder.tokenizer)
            write_windows(folder, self.longest, self._stride)

        self.shelf.put(
            files,
            kind="checkpoint",
            specification=told,
            address=self._address(update),
            provenance={
                "model": self.encoder.name,
                "task": self.task.name,
                "update": update,
                "score": score if math.isfinite(score) else None,
            },
        )
        return score


def _longest(recipe: Recipe, task: Task, encoder: TransformerEncoder) -> int:
    wanted = recipe.longest_span if task.kind == "span" else recipe.longest
    most = encoder.tokenizer.longest
    return wanted if most is None else min(wanted, most)


def _asked_updates(asked: str | Sequence[int]) -> str | tuple[int, ...]:
    if isinstance(asked, str):
        if asked != "epochs":
            raise must("checkpoints", "'epochs' or numbers of updates", asked)
        return asked
    return tuple(sorted(set(asked)))


def _kept_updates(asked: str | tuple[int, ...], recipe: Recipe, features: int) -> frozenset[int]:
    """Find the updates after which the model is kept; long passages count once a window."""
    planned = recipe.updates(features)
    if isinstance(asked, str):
        each = -(-features // recipe.batch)
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
        "losses": [[update, loss if math.isfinite(loss) else None] for update, loss in course.losses],
        "diverged": course.diverged,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _failure(course: Course, found: Evaluation) -> str | None:
    if course.diverged is not None:
        return f"diverged: {course.diverged}"
    if found.kind != "language_modeling" and found.constant:
        return f"collapsed: every example of {found.split} got the same answer"
    return None
