"""Reproducible fine-tuning of encoders: explicit seeds, and every run in the store."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..arguments import checked, taking
from ..context import Context
from ..encoders.encoder import Encoder
from ..errors import WorkError
from ..runtime import using_threads
from ..store.address import address as make_address
from ..store.shelf import Shelf
from ..tasks.loading import as_task
from ..tasks.task import Task
from ..version import VERSION
from .cuts import predict
from .evaluating import guessed_from, score_answers, write_windows
from .evaluation import Evaluation
from .inputs import collate, encode
from .models.methods import set_head_dropout, trainable
from .models.modeling import build
from .models.saving import save
from .opening import open_tuned
from .optimization.cuda_graphs import LENGTHS
from .optimization.frozen_features import Bottom
from .optimization.loop import STATE_SECONDS, TrainingCourse, TrainingRecords, train
from .optimization.progress import STATE
from .precision import make_accelerator, products_in
from .recipe import Recipe
from .request import TuningOptions, TuningRequest, ask, checkpoint_updates, split_context
from .tuned import ANSWERS, RUN, Failure, Tuned

KIND = "finetune"


@checked
@taking(TuningOptions, Context, without=("level",))
def finetune(
    encoder: Encoder,
    task: Task | str | os.PathLike[str],
    recipe: str | Recipe = "devlin2019",
    *,
    state_seconds: float = STATE_SECONDS,
    board: str | os.PathLike[str] | None = None,
    context: Context | None = None,
    **options: Any,
) -> Tuned:
    """
    Fine-tune an encoder on a task; a run that is already in the store is read from there.

    The same encoder, task, values, seeds and device (on a CPU, also the number of threads) give bit-identical
    weights, even if the run was interrupted and resumed.

    Parameters
    ----------
    encoder : Encoder
        Left unchanged. Parameters that `Freeze` froze are bit-identical in the tuned model.
    task : Task or str
        A name is loaded as by `microtome.task`.
    recipe : str or Recipe
        A name of `RECIPES`.
    seed : int
        Seed of everything random.
    seeds : mapping, optional
        Separate seeds for `init`, `order` or `subset`.
    train_size : int, optional
        Number of training examples; a smaller subset is contained in a larger one.
    head : str or Head, optional
        The recipe's when absent.
    method : {"full", "head", "bitfit", "lora"}
        Which weights are trained.
    cached : bool
        Whether the frozen bottom blocks run once per example, without dropout, and every update reuses their
        states. At least the embeddings and the first block must be frozen.
    dtype : {"auto", "float32", "tf32", "bfloat16", "float16"}
        Arithmetic of matrix products. By default bfloat16 on a GPU that has it, and float32 elsewhere.
    checkpoints : "epochs" or sequence of int
        Also save the model, and log its score, after each epoch or after these updates.
    state_seconds : float
        Interval between saved states of a running training.
    board : path, optional
        A folder for TensorBoard (the extra `logs`).
    context : Context, optional
        Or its settings by name: store, device, threads, command, progress.
    **options
        Values of the recipe to override, such as rate=2e-5, epochs=1, batch=16.

    Returns
    -------
    Tuned

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> tuned.evaluation.score.n
    20
    """
    context, options = split_context({**options, "context": context})
    task, shelf = as_task(task), Shelf(context.store)
    records = TrainingRecords(state_seconds=state_seconds, board=board)
    folder, address = finetune_in_store(encoder, task, recipe, context=context, records=records, **options)
    return open_tuned(folder, task, address=address, shelf=shelf, device=context.device)


def finetune_in_store(
    encoder: Encoder,
    task: Task,
    recipe: str | Recipe,
    *,
    context: Context,
    records: TrainingRecords | None = None,
    **options: Any,
) -> tuple[str, str]:
    """
    Fine-tune an encoder as `finetune` does, and leave the model in the store without opening it.

    Returns
    -------
    folder, address : str
    """
    context, options = split_context({**options, "context": context})
    with using_threads(context.threads):
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        request = ask(encoder, task, recipe, device=context.device, processes=processes, **options)
        accelerator = make_accelerator(context.device, request.specification["precision"])
        return _run(request, records or TrainingRecords(), accelerator, context)


def _run(
    request: TuningRequest, records: TrainingRecords, accelerator: Any, context: Context
) -> tuple[str, str]:
    """Train what a request asks for, or find it in the store: its folder and address."""
    shelf = Shelf(context.store, context.command)
    begin = partial(TrainingRun, request, accelerator, context)
    if not accelerator.is_main_process:
        # The first of several processes owns the store; the others train with it and receive the result.
        stored, folder = _agree(accelerator)
        if not stored:
            begin(Path(folder)).train(records)
        return _agree(accelerator)
    with shelf.work(kind=KIND, specification=request.specification) as work:
        entry = work.entry
        _agree(accelerator, (entry is not None, "" if entry is not None else str(work.folder)))
        if entry is None:
            run = begin(work.folder)
            provenance = run.finish(*run.train(records))
            # Removed only now: a run that is stopped while it is scored or saved is not trained again.
            (work.folder / STATE).unlink(missing_ok=True)
            entry = work.finish(provenance)
    return _agree(accelerator, (str(entry.folder), entry.address))


def _agree(accelerator: Any, message: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """Broadcast a message from the first process; a single process gets its own message back."""
    if accelerator.num_processes == 1 and message is not None:
        return message
    from accelerate.utils import broadcast_object_list

    received = list(message or (None, None))
    broadcast_object_list(received, from_process=0)
    return received[0], received[1]


class TrainingRun:
    """
    A fine-tuning run; owns its model, which is built for it.

    Parameters
    ----------
    request : TuningRequest
    accelerator : accelerate.Accelerator
    context : Context
    folder : Path
        Folder of the run.
    """

    def __init__(self, request: TuningRequest, accelerator: Any, context: Context, folder: Path) -> None:
        self.request, self.accelerator, self.context, self.folder = request, accelerator, context, folder
        self.model = build(request.encoder, request.task, request.head, seed=request.seeds.init)
        if request.recipe.dropout is not None:
            set_head_dropout(self.model, request.recipe.dropout)
        trained = trainable(self.model, request.specification["method"], frozen=request.frozen)
        self.learning = trained.said
        self.model.to(accelerator.device)

    def features(self) -> list[Any]:
        """Encode the training examples as model inputs."""
        request = self.request
        features = encode(
            request.data.items,
            request.task,
            request.encoder.tokenizer,
            longest=request.longest,
            stride=request.stride,
            mask=self.model.mask,
            seed=request.seeds.order,
        )
        if not features:
            raise WorkError(f"{request.task.name} must leave examples to train on, but none fits the model.")
        return features

    def train(self, records: TrainingRecords) -> tuple[TrainingCourse, list[str]]:
        """Train the model; return its course and the addresses of the saved checkpoints."""
        request, features = self.request, self.features()
        save_at = checkpoint_updates(request.checkpoints, request.recipe, len(features))
        with self._collating(features) as collate_batch:
            course = train(
                self.model,
                features,
                collate_batch,
                request.recipe,
                seed=request.seeds.order,
                accelerator=self.accelerator,
                records=replace(
                    records,
                    folder=self.folder,
                    save=self._keep,
                    save_at=save_at,
                    context=self.context,
                ),
                dtype=request.specification["precision"],
                cached=request.cached,
            )
        return course, [self._address(update) for update in sorted(save_at) if update <= course.updates]

    @contextlib.contextmanager
    def _collating(self, features: Sequence[Any]) -> Iterator[Callable[[Sequence[Any]], dict[str, Any]]]:
        """Yield the collate function, which adds the states of the frozen blocks if they are cached."""
        accelerator = self.accelerator
        if not self.request.cached:
            multiple = LENGTHS if accelerator.device.type == "cuda" else 1
            yield partial(collate, multiple=multiple, longest=self.request.longest)
            return
        with Bottom(
            self.model,
            features,
            # Several processes share a folder, but each has its own states.
            folder=self.folder if accelerator.num_processes == 1 else None,
            autocast=accelerator.autocast,
            context=self.context,
        ) as bottom:
            yield lambda examples: bottom.add(collate(examples), examples)

    def judge(self) -> Evaluation:
        """Evaluate the current model."""
        request = self.request
        answers = predict(
            self.model,
            request.judged,
            request.task,
            request.encoder.tokenizer,
            longest=request.longest,
            stride=request.stride,
            context=self.context,
            autocast=products_in(request.specification["precision"], self.accelerator.device.type),
        )
        return score_answers(request.task, request.judged, answers, train=guessed_from(request.task))

    def finish(self, course: TrainingCourse, checkpoints: list[str]) -> dict[str, Any]:
        """Evaluate the model, write all files, and return the provenance of the store entry."""
        request, evaluation = self.request, self.judge()
        failure = _failure(course, evaluation)
        failure_text = None if failure is None else str(failure)
        save(self.model, self.folder, request.encoder.tokenizer)
        evaluation.write_table(self.folder / ANSWERS)
        write_windows(self.folder, request.longest, request.stride)
        summary = {"model": request.encoder.name, "task": request.task.name, "recipe": request.recipe.name}
        document = {
            **summary,
            "task_source": request.task.source,
            "changes": list(request.encoder.source.changes),
            "train": {"examples": len(request.data), "notes": list(request.data.notes)},
            "recipe_values": request.recipe.specification(),
            "seeds": request.specification["seeds"],
            "precision": request.specification["precision"],
            "learning": self.learning,
            "cached": request.cached,
            "head": list(self.model.notes),
            "longest": request.longest,
            "course": _plain(course),
            "failure": failure_text,
            "checkpoints": checkpoints,
            "evaluation": evaluation.scored(),
            "device": str(self.accelerator.device),
            "processes": self.accelerator.num_processes,
            "microtome": VERSION,
        }
        (self.folder / RUN).write_text(json.dumps(document, indent=1))
        return {**summary, "failure": failure_text, "score": document["evaluation"]["score"]}

    def _address(self, update: int) -> str:
        return make_address({"run": dict(self.request.specification), "update": update})

    def _keep(self, update: int) -> float:
        """Save the current model in a store entry of its own, and return its score."""
        request = self.request
        specification = {"run": dict(request.specification), "update": update}
        score = self.judge().score.value

        def files(folder: Path) -> None:
            save(self.model, folder, request.encoder.tokenizer)
            write_windows(folder, request.longest, request.stride)

        Shelf(self.context.store).put(
            files,
            kind="checkpoint",
            specification=specification,
            address=self._address(update),
            provenance={
                "model": request.encoder.name,
                "task": request.task.name,
                "update": update,
                "score": score if math.isfinite(score) else None,
            },
        )
        return score


def _plain(course: TrainingCourse) -> dict[str, Any]:
    return {
        **asdict(course),
        "seconds": round(course.seconds, 3),
        "losses": [[update, loss if math.isfinite(loss) else None] for update, loss in course.losses],
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _failure(course: TrainingCourse, evaluation: Evaluation) -> Failure | None:
    if course.diverged is not None:
        return Failure("diverged", course.diverged)
    if evaluation.task_kind != "language_modeling" and evaluation.constant:
        return Failure("collapsed", f"every example of {evaluation.split} got the same answer")
    return None
