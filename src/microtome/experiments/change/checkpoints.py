"""Checkpoints of one training, in the order of their steps."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...checks import whole_number
from ...context import Context
from ...encoders.series import Series, series
from ...errors import InputError, must
from ...store.entry import RECORD
from ...store.files import as_written, read_record
from ...store.shelf import Shelf
from ...training.evaluating import WINDOWS, read_windows
from ...training.opening import open_model
from ...training.tuned import RUN
from ...zoo.pretraining import RUN as PRETRAINING


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """
    One state of a training.

    Parameters
    ----------
    step : int
        Updates that were done.
    model : Encoder, path or mapping
        The encoder, or what `open_model` opens.
    folder : Path, optional
        Where it lies.
    """

    step: int
    model: Any = field(repr=False)
    folder: Path | None = None

    def open(self, context: Context) -> Any:
        """The encoder."""
        return open_model(self.model, context=context).encoder

    @property
    def name(self) -> str:
        """What its layers are called after."""
        return f"step {self.step}"

    @property
    def tuned(self) -> bool:
        """Whether fine-tuning wrote it, with a head that answers the task."""
        return self.folder is not None and (self.folder / WINDOWS).is_file()


def checkpoint_length(checkpoints: Iterable[Checkpoint], longest: int | None = None) -> int | None:
    """Maximum number of tokens per example: `longest`, or that of the fine-tuning; None for the model's."""
    if longest is not None:
        return longest
    lengths = [
        read_windows(checkpoint.folder)[0]
        for checkpoint in checkpoints
        if checkpoint.folder is not None and checkpoint.tuned
    ]
    return min((length for length in lengths if length is not None), default=None)


def find_checkpoints(
    training: Any, context: Context | None = None, *, start: Any = None
) -> tuple[Checkpoint, ...]:
    """
    Find the checkpoints of one training.

    Parameters
    ----------
    training : path, Series, Tuned, or mapping of int to Encoder or path
        A folder with a folder for each step, as `microtome pretrain --checkpoints` writes them, the last
        state beside them; the folder of a fine-tuning that kept checkpoints, or what `finetune` returned;
        or encoders by their steps.
    context : Context, optional
        Its store has the checkpoints of a fine-tuning that is given by its folder; models are loaded onto its
        device.
    start : Encoder or path, optional
        The model before the first update: step 0, where no checkpoint is of it.

    Returns
    -------
    tuple of Checkpoint
        At least two, in the order of their steps.
    """
    context = context or Context(device="cpu")
    checkpoints = _by_step(training, context)
    if start is not None:
        if 0 in checkpoints:
            raise InputError(
                f"start must be left out where a checkpoint is of step 0, but one of {_label(training)} is."
            )
        checkpoints[0] = _checkpoint(0, start, context)
    if len(checkpoints) < 2:
        count = f"{len(checkpoints)} in {_label(training)}"
        raise must("a training", "of at least two checkpoints", count)
    return tuple(checkpoints[step] for step in sorted(checkpoints))


def missing_checkpoints(training: Any, context: Context | None = None) -> tuple[str, ...]:
    """
    Name the checkpoints of a fine-tuning that the store no longer has.

    Parameters
    ----------
    training, context
        As in `find_checkpoints`.

    Returns
    -------
    tuple of str
        One sentence with their steps, or none.
    """
    if not _is_tuning(training):
        return ()
    last, folders = _stored_folders(training, context or Context())
    records = {k: read_record(folder / RECORD)["specification"] for k, folder in enumerate(folders) if folder}
    if not records:
        return ()
    end = _updates(last)
    place, record = next(iter(records.items()))
    requested = record["run"]["checkpoints"]
    # They are kept in the order of their steps, and all epochs have as many.
    steps = (
        [record["update"] // (place + 1) * (k + 1) for k in range(len(folders))]
        if isinstance(requested, str)
        else [step for step in requested if step <= end]
    )
    missing = [f"{step:,}" for k, step in enumerate(steps) if k not in records and step != end]
    if not missing:
        return ()
    return (
        f"Checkpoints of the fine-tuning are no longer in the store, and are left out: those of "
        f"step{'' if len(missing) == 1 else 's'} {', '.join(missing)}.",
    )


def _by_step(training: Any, context: Context) -> dict[int, Checkpoint]:
    if isinstance(training, Mapping):
        return {step: _checkpoint(step, model, context) for step, model in training.items()}
    if isinstance(training, Series):
        return _of_series(training)
    if _is_tuning(training):
        return _of_tuning(training, context)
    if not isinstance(training, str | os.PathLike):
        raise must("checkpoints", "a folder, a fine-tuned model, or encoders by their steps", training)
    place = Path(training)
    try:
        place.is_dir()
    except OSError as problem:  # such as a name that is too long
        raise InputError(
            f"checkpoints must be in a folder that can be read, but got: {problem}."
        ) from problem
    checkpoints = _of_series(series(place))
    record = read_record(place / PRETRAINING)
    if record and (place / "config.json").is_file():
        with as_written(place / PRETRAINING):
            last = operator.index(record["updates"])
        checkpoints.setdefault(last, _checkpoint(last, place, context))
    return checkpoints


def _of_series(models: Series) -> dict[int, Checkpoint]:
    parts = zip(models.steps, models.folders, models.revisions, strict=True)
    return {
        step: Checkpoint(
            step=step, model={"source": str(folder or models.source), "revision": revision}, folder=folder
        )
        for step, folder, revision in parts
    }


def _is_tuning(training: Any) -> bool:
    """Whether this is what fine-tuning returned, or the folder that it wrote."""
    if isinstance(training, str | os.PathLike):
        return os.path.isfile(Path(training) / RUN)  # also of names that are too long for a file
    return hasattr(training, "checkpoints") and hasattr(training, "folder")


def _stored_folders(training: Any, context: Context) -> tuple[Path, list[Path | None]]:
    """The folder of a fine-tuning, and those of the checkpoints it kept, in order; None where one is lost."""
    last, shelf = Path(getattr(training, "folder", training)), Shelf(context.store)
    by_address = {
        read_record(Path(folder) / RECORD).get("address"): Path(folder)
        for folder in getattr(training, "checkpoints", ())
    }
    folders = []
    for address in read_record(last / RUN).get("checkpoints", ()):
        entry = None if address in by_address else shelf.get(address)
        folders.append(by_address.get(address) if entry is None else Path(entry.folder))
    return last, folders


def _of_tuning(training: Any, context: Context) -> dict[int, Checkpoint]:
    last, folders = _stored_folders(training, context)
    if folders and not any(folders):
        store = Shelf(context.store).root
        raise InputError(f"the checkpoints of {last} must be in the store {store}, but none is.")
    by_step = {}
    for folder in filter(None, folders):
        with as_written(folder / RECORD):
            by_step[int(read_record(folder / RECORD)["specification"]["update"])] = folder
    by_step[_updates(last)] = last
    return {step: _checkpoint(step, folder, context) for step, folder in by_step.items()}


def _updates(folder: Path) -> int:
    """The number of updates of a fine-tuning."""
    with as_written(folder / RUN):
        return int(read_record(folder / RUN)["course"]["updates"])


def _checkpoint(step: Any, model: Any, context: Context) -> Checkpoint:
    step = whole_number("a step", step, 0)
    if isinstance(model, str | os.PathLike):
        place = Path(model)
        return Checkpoint(step=step, model=model, folder=place if place.is_dir() else None)
    return Checkpoint(step=step, model=open_model(model, context=context).encoder)


def _label(training: Any) -> str:
    return str(training) if isinstance(training, str | os.PathLike) else type(training).__name__
