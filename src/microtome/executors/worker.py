"""What a worker does: it performs calls one after the other, and records why one failed."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict
from pkgutil import resolve_name
from typing import Any

from ..context import Context
from ..errors import sentence_of
from ..store.shelf import Shelf
from ..training.optimization.progress import INTERRUPTED, in_child
from .base import Call, Outcome

# Seconds in which an interrupted call saves its state.
GRACE = 60.0


def attempt(call: Call, context: Context, perform: str) -> Outcome:
    """
    Perform a call, say how it ended, and record a failure.

    Parameters
    ----------
    call : mapping
    context : Context
        Names the store.
    perform : str
        See `ExecutorSettings`.

    Returns
    -------
    Outcome
        "done" or "failed".
    """
    start = time.monotonic()
    try:
        resolve_name(perform)(dict(call), context)
    except Exception as error:
        kind = type(error).__name__
        message = sentence_of(error)
        Shelf(context.store).fail(call["address"], message=message, kind=kind)
        spent = time.monotonic() - start
        broken = _breaks_gpu(error)
        return Outcome(address=call["address"], state="failed", message=message, seconds=spent, broken=broken)
    return Outcome(address=call["address"], state="done", seconds=time.monotonic() - start)


def _breaks_gpu(error: BaseException | None) -> bool:
    """Whether an error, or one that it follows from, makes CUDA fail for good in this process."""
    while error is not None:
        # Memory that is not enough is torch.OutOfMemoryError, with other words.
        if type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def serve(root: str, perform: str) -> None:
    """
    Perform the calls that come as lines of JSON, and answer with outcomes, until they end.

    Parameters
    ----------
    root : str
        The folder of the store.
    perform : str
        See `ExecutorSettings`.
    """
    # What libraries print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()

    def answer() -> None:
        while True:
            outcome = attempt(json.loads(lines.get()), Context(store=root), perform)
            print(json.dumps(asdict(outcome)), file=answers, flush=True)

    in_child(answer)


def _listen(lines: queue.SimpleQueue[Any]) -> None:
    """Take lines; at their end, which a coordinator's death brings too, what runs is interrupted."""
    for line in sys.stdin:
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    serve(*sys.argv[1:])
