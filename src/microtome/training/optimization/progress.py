"""State and log of a training on disk, restored bit by bit, and its interruption by signals."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...errors import MissingExtraError
from ...lazy import torch
from ...store.files import temporary_name, writing_weights

STATE = "state.safetensors"
LOG = "log.jsonl"
PREFIXES = {"model": "model/", "optimizer": "optimizer/", "loss": "loss/"}
# Ctrl-C; what a scheduler such as Slurm sends when the time is up; what a closed terminal sends.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130


def write_state(
    folder: Path, model: torch.nn.Module, optimizer: Any, update: int, loss: Mapping[str, torch.Tensor]
) -> None:
    """
    Save everything that a training needs to continue after this update.

    Parameters
    ----------
    folder : Path
    model : Module
        Trained weights and buffers are saved; frozen weights do not change.
    optimizer : torch.optim.Optimizer
    update : int
        Number of updates done.
    loss : mapping of str to Tensor
        Sums since the last line of the log.
    """
    from safetensors.torch import save_file

    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    tensors = {
        f"{PREFIXES['model']}{name}": tensor.detach().cpu().contiguous().clone()
        for name, tensor in model.state_dict().items()
        if name not in frozen
    }
    for number, state in optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            tensors[f"{PREFIXES['optimizer']}{number}/{name}"] = tensor.detach().cpu().contiguous().clone()
    for name, tensor in loss.items():
        tensors[f"{PREFIXES['loss']}{name}"] = tensor.detach().cpu().clone()
    path = temporary_name(folder / STATE)
    try:
        with writing_weights(folder):
            save_file(tensors, str(path), metadata={"update": str(update)})
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.replace(folder / STATE)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_state(
    folder: Path | None, model: torch.nn.Module, optimizer: Any
) -> tuple[int, dict[str, torch.Tensor]]:
    """
    Restore a model and its optimizer from an interrupted training.

    Parameters
    ----------
    folder : Path, optional
    model, optimizer
        Changed in place.

    Returns
    -------
    update : int
        Number of updates done; 0 when there is nothing to resume.
    loss : dict of str to Tensor
        As it was written.
    """
    from safetensors import SafetensorError, safe_open

    if folder is None or not (folder / STATE).is_file():
        return 0, {}
    try:
        with safe_open(str(folder / STATE), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            update = int(file.metadata()["update"])
    except (SafetensorError, KeyError, TypeError, ValueError):
        # Writes are atomic, so this is not a partial file but a foreign one: training starts from scratch.
        return 0, {}
    model.load_state_dict(_under(tensors, "model"), strict=False)
    states: dict[int, dict[str, Any]] = {}
    for name, tensor in _under(tensors, "optimizer").items():
        number, _, key = name.partition("/")
        states.setdefault(int(number), {})[key] = tensor
    optimizer_state = optimizer.state_dict()
    optimizer.load_state_dict({**optimizer_state, "state": states})
    return update, _under(tensors, "loss")


def _under(tensors: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    prefix = PREFIXES[part]
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


class Log:
    """
    Log of a training, one JSON object per line; owns a file, and TensorBoard's where one is requested.

    Parameters
    ----------
    path : Path, optional
        Nothing is written without it.
    update : int
        Lines of later updates, from a run that was interrupted, are dropped.
    board : path, optional
        The folder that TensorBoard reads.
    """

    def __init__(self, path: Path | None, update: int, board: str | os.PathLike[str] | None = None) -> None:
        self.lines: list[dict[str, Any]] = []
        self._path, self._board = path, None if board is None else _board(board)
        if path is None:
            return
        if path.is_file():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:  # truncated when the run was stopped
                    continue
                if entry.get("update", 0) <= update:
                    self.lines.append(entry)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines))
        for line in self.lines:
            self._show(line)

    def add(self, **values: Any) -> None:
        """Add a line; non-finite numbers become null."""
        values = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        self.lines.append(values)
        self._show(values)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{json.dumps(values)}\n")

    def close(self) -> None:
        """Close TensorBoard's file."""
        if self._board is not None:
            self._board.close()

    def _show(self, line: dict[str, Any]) -> None:
        if self._board is not None:
            for name in [name for name in ("loss", "rate", "score") if line.get(name) is not None]:
                self._board.add_scalar(name, line[name], line["update"])


def _board(folder: str | os.PathLike[str]) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError(
            "logs for TensorBoard must find it; try `pip install microtome[logs]`."
        ) from error
    return SummaryWriter(os.fspath(folder))


class Stopping:
    """
    Defers signals to stop (Ctrl-C, SIGTERM, SIGHUP) while a training runs; owns their handlers.

    The first signal is only recorded, for the loop to see between two updates, and takes effect at the end of
    the block as KeyboardInterrupt; a second Ctrl-C stops at once. Signals are left alone in other threads,
    and where they have another handler or are ignored, as SIGHUP is under nohup.

    Parameters
    ----------
    here : bool
        Whether signals are deferred at all.

    Examples
    --------
    >>> with Stopping() as stopping:
    ...     stopping.asked
    False
    """

    def __init__(self, here: bool = True) -> None:
        self.asked = False
        self._here = here
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if self._here and threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                default_handlers = (
                    signal.default_int_handler,
                    *(() if number == signal.SIGINT else (signal.SIG_DFL,)),
                )
                if signal.getsignal(number) in default_handlers:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
        if self.asked and kind is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Schedulers may send several signals at once; only a person insists.
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True


def in_child(function: Callable[..., Any], *given: Any) -> Any:
    """Run a function in a process of a pool, which exits when it is interrupted."""
    try:
        return function(*given)
    except KeyboardInterrupt:
        # Otherwise the pool would give the process its next task.
        os._exit(INTERRUPTED)


@contextmanager
def stopping_children(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Forward an interrupt to the processes of a pool, each of which saves its state before it exits."""
    try:
        yield
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
