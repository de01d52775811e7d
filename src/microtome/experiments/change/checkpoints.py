"""Checkpoints of one training, in the order of their steps."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...context import Context
from ...encoders.series import Series, series
from ...errors import InputError, must
from ...store.entry import RECORD
from ...store.reading import as_written, read_record
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
    load : callable
        Gives the encoder.
    folder : Path, optional
        Where it lies.
    """

    step: int
    load: Callable[[], Any] = field(repr=False)
    folder: Path | None = None

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
    training: Any,
    *,
    start: Any = None,
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> tuple[Checkpoint, ...]:
    """
    Find the checkpoints of one training.

    Parameters
    ----------
    training : path, Series, Tuned, or mapping of int to Encoder or path
        A folder with a folder for each step, as `microtome pretrain --checkpoints` writes them, the last
        state beside them; the folder of a fine-tuning that kept checkpoints, or what `finetune` returned;
        or encoders by their steps.
    start : Encoder or path, optional
        The model before the first update: step 0, where no checkpoint is of it.
    store : path, optional
        Where the checkpoints of a fine-tuning are, for one that is given by its folder.
    device : str
        For models that are loaded.

    Returns
    -------
    tuple of Checkpoint
        At least two, in the order of their steps.
    """
    checkpoints = _by_step(training, store, device)
    if start is not None:
        if 0 in checkpoints:
            raise InputError(
                f"start must be left out where a checkpoint is of step 0, but one of {_label(training)} is."
            )
        checkpoints = {0: _checkpoint(0, start, device), **checkpoints}
    if len(checkpoints) < 2:
        count = f"{len(checkpoints)} in {_label(training)}"
        raise must("a training", "of at least two checkpoints", count)
    return tuple(checkpoints[step] for step in sorted(checkpoints))


def missing_checkpoints(training: Any, *, store: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """
    Name the checkpoints of a fine-tuning that the store no longer has.

    Parameters
    ----------
    training, store
        As in `find_checkpoints`.

    Returns
    -------
    tuple of str
        One sentence with their steps, or none.
    """
    if not _is_tuning(training):
        return ()
    last, folders = _kept_folders(training, store)
    records = {k: read_record(folder / RECORD)["specification"] for k, folder in enumerate(folders) if folder}
    if not records:
        return ()
    with as_written(last / RUN):
        end = int(read_record(last / RUN)["course"]["updates"])
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


def _by_step(training: Any, store: Any, device: str) -> dict[int, Checkpoint]:
    if isinstance(training, Mapping):
        return {step: _checkpoint(step, model, device) for step, model in training.items()}
    if isinstance(training, Series):
        return _of_series(training, device)
    if _is_tuning(training):
        last, folders = _kept_folders(training, store)
        if folders and not any(folders):
            raise InputError(
                f"the checkpoints of {last} must be in the store {Shelf(store).root}, but none is."
            )
        return _of_tuning(last, [folder for folder in folders if folder is not None], device)
    if not isinstance(training, str | os.PathLike):
        raise must("checkpoints", "a folder, a fine-tuned model, or encoders by their steps", training)
    place = Path(training)
    checkpoints = _of_series(series(place), device)
    record = read_record(place / PRETRAINING)
    if record and (place / "config.json").is_file():
        with as_written(place / PRETRAINING):
            last = operator.index(record["updates"])
        if last not in checkpoints:
            checkpoints[last] = _checkpoint(last, place, device)
    return checkpoints


def _of_series(models: Series, device: str) -> dict[int, Checkpoint]:
    def loader(place: int) -> Callable[[], Any]:
        return lambda: models.load(place, device=device)

    return {
        step: Checkpoint(step=step, load=loader(place), folder=models.folders[place])
        for place, step in enumerate(models.steps)
    }


def _is_tuning(training: Any) -> bool:
    """Whether this is what fine-tuning returned, or the folder that it wrote."""
    if isinstance(training, str | os.PathLike):
        return (Path(training) / RUN).is_file()
    return hasattr(training, "checkpoints") and hasattr(training, "folder")


def _kept_folders(training: Any, store: Any) -> tuple[Path, list[Path | None]]:
    """The folder of a fine-tuning, and those of the checkpoints it kept, in order; None where one is lost."""
    last = Path(getattr(training, "folder", training))
    by_address = {
        read_record(Path(folder) / RECORD).get("address"): Path(folder)
        for folder in getattr(training, "checkpoints", ())
    }
    shelf, folders = Shelf(store), []
    for address in read_record(last / RUN).get("checkpoints", ()):
        entry = None if address in by_address else shelf.get(address)
        folders.append(by_address.get(address) if entry is None else Path(entry.folder))
    return last, folders


def _of_tuning(last: Path, folders: Sequence[Path], device: str) -> dict[int, Checkpoint]:
    checkpoints = {}
    for folder in folders:
        with as_written(folder / RECORD):
            step = int(read_record(folder / RECORD)["specification"]["update"])
        checkpoints[step] = _checkpoint(step, folder, device)
    with as_written(last / RUN):
        end = int(read_record(last / RUN)["course"]["updates"])
    return {**checkpoints, end: _checkpoint(end, last, device)}


def _checkpoint(step: Any, model: Any, device: str) -> Checkpoint:
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise must("a step", "a whole number of at least 0", step)
    context = Context(device=device)
    if isinstance(model, str | os.PathLike):
        place = Path(model)
        return Checkpoint(
            step=step,
            load=lambda: open_model(model, context=context).encoder,
            folder=place if place.is_dir() else None,
        )
    encoder = open_model(model, context=context).encoder
    return Checkpoint(step=step, load=lambda: encoder)


def _label(training: Any) -> str:
    return str(training) if isinstance(training, str | os.PathLike) else type(training).__name__
