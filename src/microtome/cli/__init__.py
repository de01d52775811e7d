"""What does a user type? One verb a module; this is where the program starts and where it ends."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence

DONE, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130
# What a shell reports of any tool whose reader has left, as in `microtome ls measures | head`.
READER_LEFT = 141
# Set to anything, an error is followed by where it came from.
TRACEBACK = "MICROTOME_TRACEBACK"


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        What follows the program's name; that of the process when absent.

    Returns
    -------
    int
        0 done, 1 the work failed, 2 the request was wrong, 130 interrupted, 141 the reader of the output
        has left.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is written in escapes, and is no error.
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
    try:
        from .app import command

        code = command().main(
            arguments,
            prog_name="microtome",
            standalone_mode=False,
            obj=shlex.join(["microtome", *arguments]),
        )
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        return _leave_quietly()
    except SystemExit as end:
        # Tables are printed by a library that makes an exit of a closed pipe.
        if isinstance(end.__context__, BrokenPipeError):
            return _leave_quietly()
        raise
    except Exception as error:
        from typer import Abort

        if not isinstance(error, Abort):
            return _explain(error)
        code = INTERRUPTED
    if code == INTERRUPTED:
        _say("interrupted; nothing is left running, and the same command starts again.")
    return code if isinstance(code, int) else DONE


def _leave_quietly() -> int:
    """End without a word; the interpreter must not complain either when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


def _explain(error: Exception) -> int:
    from ..errors import InputError, MicrotomeError, UnknownNameError

    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    # The parser's own exceptions carry their sentence and their code; their class differs between versions.
    parsed = getattr(error, "format_message", None)
    if callable(parsed):
        sentence = str(parsed()).strip()
        if sentence:
            _say(sentence if sentence.endswith((".", "?")) else f"{sentence}.")
        return int(getattr(error, "exit_code", WRONG_REQUEST))
    if isinstance(error, MicrotomeError):
        _say(str(error))
        return WRONG_REQUEST if isinstance(error, (InputError, UnknownNameError)) else FAILED
    # torch raises its own kinds: one for CUDA, and a plain RuntimeError for the processor.
    if isinstance(error, MemoryError) or re.search(r"out of memory|can't allocate memory", str(error)):
        _say("there must be enough memory for the work, but it ran out; try a smaller --memory or --rows.")
    elif isinstance(error, OSError):
        _say(f"files must stay readable and writable, but got: {error}.")
    else:
        _say(f"this should not have happened: {type(error).__name__}: {error}; {TRACEBACK}=1 shows where.")
    return FAILED


def _say(sentence: str) -> None:
    clean = " ".join("".join(c if c.isprintable() else " " for c in sentence).split())
    sys.stderr.write(f"microtome: {clean}\n")
    sys.stderr.flush()
