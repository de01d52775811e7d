"""How is an encoder fine-tuned so that anybody can do it again? Every seed named, every run in the store."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.encoder import Encoder
from ..errors import WorkError, must
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.task import Task
from ..version import VERSION
from .asking import Asked, ask
from .cached import Bottom
from .evaluating import Evaluation, guessed_from, predict, score_answers, write_answers, write_windows
from .heads import Head
from .loop import Course, make_accelerator, train
from .progress import STATE
from .recipe import Recipe
from .replay import LENGTHS
from .tuned import ANSWERS, RUN, Tuned, open_tuned

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
    cached: bool = False,
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
        Stays as it is. What `Freeze` froze in it stays as it is in the tuned model too, to the bit.
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
    cached : bool
        Whether a frozen bottom is run once an example, without dropout, and its states are read by every
        update. It needs frozen embeddings and a frozen first block at least.
    device : str
    precision : {"float32", "tf32", "bfloat16", "float16"}
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
    accelerator = make_accelerator(device, precision)
    asked = ask(
        encoder,
        task,
        recipe,
        seed=seed,
        seeds=seeds,
        train_size=train_size,
        head=head,
        method=method,
        cached=cached,
        device=device,
        precision=precision,
        checkpoints=checkpoints,
        processes=accelerator.num_processes,
        **values,
    )
    shelf = Shelf(store)

    def begin(folder: Path) -> Run:
        return begin_run(asked, folder, accelerator=accelerator, shelf=shelf, progress=progress)

    if not accelerator.is_main_process:
        # The first of several processes owns the store; the others train with it and hear what came of it.
        known, folder = _agree(accelerator)
        if not known:
            begin(Path(folder)).train(state_seconds, board)
        place, found = _agree(accelerator)
        return open_tuned(place, task, address=found, shelf=shelf, device=device)
    with shelf.work(kind=KIND, specification=asked.specification, command=command) as work:
        entry = work.entry
        _agree(accelerator, (entry is not None, "" if entry is not None else str(work.folder)))
        if entry is None:
            run = begin(work.folder)
            told = run.finish(*run.train(state_seconds, board))
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


def begin_run(
    asked: Asked, folder: Path, *, accelerator: Any, shelf: Shelf, progress: Progress | None
) -> Run:
    """
    Build the model of a fine-tuning.

    Parameters
    ----------
    asked : Asked
    folder : Path
        Where it is kept.
    accelerator : accelerate.Accelerator
    shelf : Shelf
    progress : callable, optional

    Returns
    -------
    Run
    """
    from .methods import set_head_dropout, trainable
    from .modeling import build

    model = build(asked.encoder, asked.task, asked.head, seed=asked.seeds.init)
    if asked.recipe.dropout is not None:
        set_head_dropout(model, asked.recipe.dropout)
    learning = trainable(model, asked.specification["method"], frozen=asked.frozen)
    model.to(accelerator.device)
    return Run(
        asked=asked,
        model=model,
        accelerator=accelerator,
        folder=folder,
        shelf=shelf,
        progress=progress,
        learning=learning.said,
    )


@dataclass(frozen=True, kw_only=True)
class Run:
    """
    One training, with all it needs.

    Parameters
    ----------
    asked : Asked
    model : TaskModel
        Before its first update.
    accelerator : accelerate.Accelerator
    folder : Path
        Where it is kept.
    shelf : Shelf
    progress : callable, optional
    learning : str
        Which weights learn, in words.
    """

    asked: Asked
    model: TaskModel
    accelerator: Any
    folder: Path
    shelf: Shelf
    progress: Progress | None
    learning: str

    def features(self) -> list[Any]:
        """Turn the examples into what the model reads."""
        from .inputs import encode

        asked = self.asked
        features = encode(
            asked.data.items,
            asked.task,
            asked.encoder.tokenizer,
            longest=asked.longest,
            stride=asked.stride,
            mask=self.model.mask,
            seed=asked.seeds.order,
        )
        if not features:
            raise WorkError(f"{asked.task.name} must leave examples to train on, but none fits the model.")
        return features

    def train(self, state_seconds: float, board: Any) -> tuple[Course, list[str]]:
        """Train the model; how it went, and what was kept on the way."""
        asked, features = self.asked, self.features()
        at = _kept_updates(asked.checkpoints, asked.recipe, len(features))
        with self._batches(features) as together:
            course = train(
                self.model,
                features,
                together,
                asked.recipe,
                seed=asked.seeds.order,
                accelerator=self.accelerator,
                folder=self.folder,
                kept=self._keep,
                keep_at=at,
                progress=self.progress,
                state_seconds=state_seconds,
                board=board,
                replay=not asked.cached,
                rounded=asked.specification["precision"] == "tf32",
            )
        return course, [self._address(update) for update in sorted(at) if update <= course.updates]

    @contextlib.contextmanager
    def _batches(self, features: Sequence[Any]) -> Iterator[Callable[[Sequence[Any]], dict[str, Any]]]:
        """What puts examples into a batch, with the states of the frozen bottom where they are cached."""
        from .inputs import collate

        accelerator = self.accelerator
        if not self.asked.cached:
            multiple = LENGTHS if accelerator.device.type == "cuda" else 1
            longest = self.asked.longest
            yield lambda chosen: collate(chosen, accelerator.device, multiple=multiple, longest=longest)
            return
        with Bottom(
            self.model,
            features,
            # Several processes share a folder, and each has states of its own.
            folder=self.folder if accelerator.num_processes == 1 else None,
            autocast=accelerator.autocast,
            progress=self.progress,
        ) as bottom:
            yield lambda chosen: bottom.add(collate(chosen, accelerator.device), chosen)

    def judge(self) -> Evaluation:
        """Score the model as it is now."""
        asked = self.asked
        answers = predict(
            self.model,
            asked.judged,
            asked.task,
            asked.encoder.tokenizer,
            longest=asked.longest,
            stride=asked.stride,
            progress=self.progress,
            autocast=self.accelerator.autocast,
        )
        return score_answers(asked.task, asked.judged, answers, train=guessed_from(asked.task))

    def finish(self, course: Course, kept: list[str]) -> dict[str, Any]:
        """Score the model, write everything down, and say what the store is told."""
        from .saving import save

        asked, found = self.asked, self.judge()
        failure = _failure(course, found)
        save(self.model, self.folder, asked.encoder.tokenizer)
        write_answers(found, self.folder / ANSWERS)
        write_windows(self.folder, asked.longest, asked.stride)
        told = {"model": asked.encoder.name, "task": asked.task.name, "recipe": asked.recipe.name}
        document = {
            **told,
            "task_source": asked.task.source,
            "changes": list(asked.encoder.source.changes),
            "train": {"examples": len(asked.data), "notes": list(asked.data.notes)},
            "recipe_values": asked.recipe.specification(),
            "seeds": asked.specification["seeds"],
            "precision": asked.specification["precision"],
            "learning": self.learning,
            "cached": asked.cached,
            "head": list(self.model.notes),
            "longest": asked.longest,
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
        return make_address({"run": dict(self.asked.specification), "update": update})

    def _keep(self, update: int) -> float:
        """Keep the model as it is now in an entry of its own, with its score."""
        from .saving import save

        asked = self.asked
        told = {"run": dict(asked.specification), "update": update}
        score = self.judge().score.value

        def files(folder: Path) -> None:
            save(self.model, folder, asked.encoder.tokenizer)
            write_windows(folder, asked.longest, asked.stride)

        self.shelf.put(
            files,
            kind="checkpoint",
            specification=told,
            address=self._address(update),
            provenance={
                "model": asked.encoder.name,
                "task": asked.task.name,
                "update": update,
                "score": score if math.isfinite(score) else None,
            },
        )
        return score


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
