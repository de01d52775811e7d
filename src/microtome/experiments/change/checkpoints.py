"""Which states of one training are there? Its checkpoints, in the order of their steps."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...encoders.series import Series, series
from ...errors import InputError, must
from ...extraction.extracting import as_encoder
from ...store.entry import RECORD
from ...store.reading import as_written, read_record
from ...store.shelf import Shelf
from ...training.evaluating import WINDOWS, read_windows
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
    """Tokens of an example at most: as asked for, or as fine-tuning had them; None for the model's limit."""
    if longest is not None:
        return longest
    told = [read_windows(one.folder)[0] for one in checkpoints if one.folder is not None and one.tuned]
    return min((length for length in told if length is not None), default=None)


def find_checkpoints(
    given: Any,
    *,
    start: Any = None,
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
) -> tuple[Checkpoint, ...]:
    """
    Find the checkpoints of one training.

    Parameters
    ----------
    given : path, Series, Tuned, or mapping of int to Encoder or path
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
    found = _found(given, store, device)
    if start is not None:
        if 0 in found:
            raise InputError(
                f"start must be left out where a checkpoint is of step 0, but one of {_called(given)} is."
            )
        found = {0: _one(0, start, device), **found}
    if len(found) < 2:
        raise must("a training", "of at least two checkpoints", f"{len(found)} in {_called(given)}")
    return tuple(found[step] for step in sorted(found))


def said_lost(given: Any, *, store: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """
    Say which checkpoints a fine-tuning kept that the store no longer has.

    Parameters
    ----------
    given, store
        As in `find_checkpoints`.

    Returns
    -------
    tuple of str
        One sentence with their steps, or none.
    """
    if not _is_tuning(given):
        return ()
    last, kept = _kept(given, store)
    there = {k: read_record(folder / RECORD)["specification"] for k, folder in enumerate(kept) if folder}
    if not there:
        return ()
    with as_written(last / RUN):
        end = int(read_record(last / RUN)["course"]["updates"])
    place, told = next(iter(there.items()))
    asked = told["run"]["checkpoints"]
    # They are kept in the order of their steps, and all epochs have as many.
    steps = (
        [told["update"] // (place + 1) * (k + 1) for k in range(len(kept))]
        if isinstance(asked, str)
        else [step for step in asked if step <= end]
    )
    lost = [f"{step:,}" for k, step in enumerate(steps) if k not in there and step != end]
    if not lost:
        return ()
    return (
        f"Checkpoints that the fine-tuning kept are not in the store any more, and are left out: those of "
        f"step{'' if len(lost) == 1 else 's'} {', '.join(lost)}.",
    )


def _found(given: Any, store: Any, device: str) -> dict[int, Checkpoint]:
    if isinstance(given, Mapping):
        return {step: _one(step, one, device) for step, one in given.items()}
    if isinstance(given, Series):
        return _of_series(given, device)
    if _is_tuning(given):
        last, kept = _kept(given, store)
        if kept and not any(kept):
            raise InputError(
                f"the checkpoints of {last} must be in the store {Shelf(store).root}, but none is."
            )
        return _of_tuning(last, [folder for folder in kept if folder is not None], device)
    if not isinstance(given, str | os.PathLike):
        raise must("checkpoints", "a folder, a fine-tuned model, or encoders by their steps", given)
    place = Path(given)
    found = _of_series(series(place), device)
    record = read_record(place / PRETRAINING)
    if record and (place / "config.json").is_file():
        with as_written(place / PRETRAINING):
            last = operator.index(record["updates"])
        if last not in found:
            found[last] = _one(last, place, device)
    return found


def _of_series(given: Series, device: str) -> dict[int, Checkpoint]:
    def loader(place: int) -> Callable[[], Any]:
        return lambda: given.load(place, device=device)

    return {
        step: Checkpoint(step=step, load=loader(place), folder=given.folders[place])
        for place, step in enumerate(given.steps)
    }


def _is_tuning(given: Any) -> bool:
    """Whether this is what fine-tuning returned, or the folder that it wrote."""
    if isinstance(given, str | os.PathLike):
        return (Path(given) / RUN).is_file()
    return hasattr(given, "checkpoints") and hasattr(given, "folder")


def _kept(given: Any, store: Any) -> tuple[Path, list[Path | None]]:
    """The folder of a fine-tuning, and those of the checkpoints it kept, in order; None where one is lost."""
    last = Path(getattr(given, "folder", given))
    known = {
        read_record(Path(one) / RECORD).get("address"): Path(one) for one in getattr(given, "checkpoints", ())
    }
    shelf, found = Shelf(store), []
    for address in read_record(last / RUN).get("checkpoints", ()):
        entry = None if address in known else shelf.get(address)
        found.append(known.get(address) if entry is None else Path(entry.folder))
    return last, found


def _of_tuning(last: Path, kept: Sequence[Path], device: str) -> dict[int, Checkpoint]:
    found = {}
    for folder in kept:
        with as_written(folder / RECORD):
            step = int(read_record(folder / RECORD)["specification"]["update"])
        found[step] = _one(step, folder, device)
    with as_written(last / RUN):
        end = int(read_record(last / RUN)["course"]["updates"])
    return {**found, end: _one(end, last, device)}


def _one(step: Any, given: Any, device: str) -> Checkpoint:
    from ...encoders.loading import load

    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise must("a step", "a whole number of at least 0", step)
    if isinstance(given, str | os.PathLike):
        place = Path(given)
        return Checkpoint(
            step=step, load=lambda: load(given, device=device), folder=place if place.is_dir() else None
        )
    encoder = as_encoder(given.encoder if hasattr(given, "evaluation") else given)
    return Checkpoint(step=step, load=lambda: encoder)


def _called(given: Any) -> str:
    return str(given) if isinstance(given, str | os.PathLike) else type(given).__name__
