"""How does a piece of work end? Each runs in a forked process of its own, with limits of time and memory."""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEMORY = 2 << 30  # bytes that a piece of work may take beyond what the process has when it begins
ESCAPED = 70  # of a child in which an exception escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """
    The end of a piece of work.

    Parameters
    ----------
    code : int
        The exit status; minus the number of the signal that ended it.
    out, err : str
        What it wrote.
    seconds : float
    hung : bool
        Whether it was ended because its time was up.
    megabytes : int
        The most memory beyond what it began with.
    """

    code: int
    out: str
    err: str
    seconds: float
    hung: bool
    megabytes: int


def prepare() -> None:
    """Set what every process of the attack needs, and import once what is large."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # it would complain of every fork
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
    load_modules(["torch", "transformers", "safetensors.torch", "pyarrow.parquet", "microtome.cli.app"])
    sys.modules["torch"].set_num_threads(1)


def load_modules(names: Iterable[str]) -> None:
    """Import modules before anything forks, so that no child imports them again; those that can be."""
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)


def start(
    action: Callable[[], int], folder: Path, memory: int = MEMORY, seconds: float = math.inf
) -> tuple[int, Path, Path]:
    """
    Begin a piece of work in a child, and say which.

    Parameters
    ----------
    action : callable
        Its answer is the exit status.
    folder : Path
        Where it works; it is the leader of a group of processes of its own.
    memory : int
    seconds : float
        Of processor time.

    Returns
    -------
    int, Path, Path
        The process, and the files that its standard output and its errors go to.
    """
    files = []
    for name in ("out", "err"):
        handle, path = tempfile.mkstemp(prefix=f"{name}-", dir=folder.parent)
        files.append((handle, Path(path)))
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of libraries do nothing meanwhile
        process = os.fork()
    if process == 0:
        _work(action, folder, [handle for handle, _ in files], memory, seconds)
    for handle, _ in files:
        os.close(handle)
    return process, files[0][1], files[1][1]


def _work(action: Callable[[], int], folder: Path, handles: list[int], memory: int, seconds: float) -> None:
    code = ESCAPED
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(handles[0], 1)
        os.dup2(handles[1], 2)
        # Whoever forked may have put other streams in their place, as pytest does.
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        limit = address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if math.isfinite(seconds):
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        code = action()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else ESCAPED
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def run(action: Callable[[], int], folder: Path, seconds: float, memory: int = MEMORY) -> Ended:
    """
    Do a piece of work in a child.

    Parameters
    ----------
    action : callable
    folder : Path
    seconds : float
        Of processor time, after which it is ended; one that waits is ended after ten times as many.
    memory : int

    Returns
    -------
    Ended
    """
    before, begun = resident(), time.monotonic()
    process, out, err = start(action, folder, memory, seconds)
    hung = not wait_for(process, begun + 10 * seconds)
    if hung:
        os.killpg(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
    hung |= os.waitstatus_to_exitcode(status) == -signal.SIGXCPU
    end_group(process)
    texts = []
    for path in (out, err):
        texts.append(path.read_bytes().decode("utf-8", "replace"))
        path.unlink()
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        out=texts[0],
        err=texts[1],
        seconds=time.monotonic() - begun,
        hung=hung,
        megabytes=max(0, (usage.ru_maxrss - before) >> 10),
    )


def wait_for(process: int, until: float) -> bool:
    """Whether a child ends before a moment of the monotonic clock; it stays to be waited for."""
    pause = 0.002
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(0.05, 1.3 * pause)
    return True


def end_group(process: int) -> None:
    """End what a child has started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def address_space() -> int:
    """Bytes of virtual memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def resident() -> int:
    """Kilobytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 10


def spread(
    jobs: Sequence[Any], work: Callable[[Any, Path], dict[str, Any]], place: Path, processes: int
) -> list[dict[str, Any]]:
    """
    Do jobs in several processes.

    Parameters
    ----------
    jobs : sequence
    work : callable
        Is given a job and a folder of its process, and answers with what can be written as JSON.
    place : Path
    processes : int

    Returns
    -------
    list of dict
        In the order of the jobs.
    """
    children = []
    for number in range(processes):
        folder = place / f"process-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child:
            children.append(child)
            continue
        code = ESCAPED
        try:
            with (folder / "done.jsonl").open("w") as file:
                for at in range(number, len(jobs), processes):
                    file.write(json.dumps({"at": at, **work(jobs[at], folder)}) + "\n")
                    file.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        raise RuntimeError(f"the attack itself failed: {codes}")
    done: list[dict[str, Any]] = []
    for number in range(processes):
        lines = (place / f"process-{number}" / "done.jsonl").read_text().splitlines()
        done += [json.loads(line) for line in lines]
    return sorted(done, key=lambda one: one["at"])
