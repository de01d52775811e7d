"""The command line, one verb per module; the program starts and ends here."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

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
        0 done, 1 the work failed, 2 the request was wrong, 130 interrupted (by Ctrl-C, SIGTERM or SIGHUP),
        141 the reader of the output has left.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is written in escapes, and is no error.
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
    try:
        _check_names(arguments)
        _check_empty(arguments)
        with _interruptible():
            from .app import command

            code = command(_verb(arguments)).main(
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
            return _explain(error, arguments)
        code = INTERRUPTED
    if code == INTERRUPTED:
        _say("interrupted; nothing is left running, and the same command starts again.")
    return code if isinstance(code, int) else DONE


def _verb(arguments: Sequence[str]) -> str:
    """The verb among the arguments; empty where none is typed."""
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def _open_streams() -> None:
    """
    Let streams that the caller closed, as `>&-` does, lead nowhere.

    Otherwise the next file to be opened takes the stream's number, and gets what is printed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _check_names(arguments: Sequence[str]) -> None:
    """Refuse names that are not UTF-8: they could not be written into a result."""
    from ..errors import must

    for argument in arguments:
        raw = argument.encode("utf-8", "surrogateescape")
        if raw.decode("utf-8", "replace") != argument:
            raise must("names of files", "UTF-8; rename it", raw)


def _check_empty(arguments: Sequence[str]) -> None:
    """Refuse options with an empty value: some would be taken for a default, and --out for this folder."""
    from ..errors import InputError

    for option, value in pairwise((*arguments, "-")):
        name, separator, inner = option.partition("=")
        if name.startswith("--") and ((separator and not inner) or (not separator and not value)):
            raise InputError(f"{name} must be given a value that is not empty; leave it out for its default.")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Hear what a scheduler or a closed terminal sends as Ctrl-C; what is ignored, as by nohup, stays so."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, signal.default_int_handler)
    report, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt_again(problem: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that came inside a finalizer or a callback of a weak reference, which lose it."""
    if isinstance(problem.exc_value, KeyboardInterrupt):
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(problem)


def _leave_quietly() -> int:
    """End without a word; the interpreter must not complain either when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


def _smaller(arguments: Sequence[str]) -> str:
    """Say which options of the verb make it take less memory; nothing where it has none."""
    from .app import command

    verb = command(_verb(arguments)).commands.get(_verb(arguments))
    options = {option for parameter in getattr(verb, "params", ()) for option in parameter.opts}
    if "--sample" in options:
        options -= {"--rows"}  # a kind of rows; it is a number where there is no --sample
    ways = {
        "--memory": "a smaller --memory",
        "--rows": "fewer --rows",
        "--sample": "a smaller --sample",
        "--batch-tokens": "fewer --batch-tokens",
        "--set": "a smaller batch (--set batch=8)",
        "--longest": "a smaller --longest",
    }
    named = [words for option, words in ways.items() if option in options][:2]
    return f"; try {' or '.join(named)}" if named else ""


def _explain(error: Exception, arguments: Sequence[str] = ()) -> int:
    from ..errors import InputError, MicrotomeError, UnknownNameError

    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    # The parser's own exceptions carry their sentence and their code; their class differs between versions.
    if callable(getattr(error, "format_message", None)):
        sentence = _parsing_sentence(error)
        if sentence.startswith("Usage:"):  # a verb without any words
            sys.stdout.write(f"{error}\n")
        elif sentence:
            _say(sentence if sentence.endswith((".", "?")) else f"{sentence}.")
        return int(getattr(error, "exit_code", WRONG_REQUEST))
    if isinstance(error, MicrotomeError):
        _say(str(error))
        return WRONG_REQUEST if isinstance(error, (InputError, UnknownNameError)) else FAILED
    # torch raises its own kinds: one for CUDA, and a plain RuntimeError for the processor.
    if isinstance(error, MemoryError) or re.search(r"out of memory|can't allocate memory", str(error)):
        _say(f"there must be enough memory for the work, but it ran out{_smaller(arguments)}.")
    elif isinstance(error, OSError):
        _say(f"files must stay readable and writable, but got: {error}.")
    else:
        _say(f"this should not have happened: {type(error).__name__}: {error}; {TRACEBACK}=1 shows where.")
    return FAILED


def _parsing_sentence(error: Any) -> str:
    """Say what the parser refuses, with what the option or argument is, or the name that was meant."""
    from ..errors import guess

    sentence, context = str(error.format_message()).strip(), getattr(error, "ctx", None)
    if context is None:
        return sentence
    verb = context.command_path.removeprefix("microtome ")
    parameters = {name: parameter for parameter in context.command.params for name in parameter.opts}
    missing, name = getattr(error, "param", None), getattr(error, "option_name", None)
    if sentence.startswith("Missing") and missing is not None:
        typed = missing.opts[0] if missing.param_type_name == "option" else missing.metavar.rstrip(".")
        return f"{verb} must be given {typed}. {missing.help}"
    if sentence.startswith("No such option") and name:
        names = [option.removeprefix("--") for option in (*parameters, "--help") if option.startswith("--")]
        if hint := guess(name.lstrip("-").replace("_", "-"), names, prefix="--"):
            return f"{verb} has no option {name}.{hint}"
        values = f"; --set: {parameters['--set'].help}" if "--set" in parameters else "."
        return f"{verb} has no option {name}, see {context.command_path} --help{values}"
    if sentence.startswith("Got unexpected extra"):
        places = [p.metavar for p in parameters.values() if p.param_type_name == "argument"]
        surplus = sentence.rpartition("(")[2].rstrip(").")
        return (
            f"{verb} takes {' and '.join(places) or 'options'} only, but also got {surplus}; several values "
            "of one option are typed with commas between them, and a value with spaces in quotes."
        )
    return sentence


def _say(sentence: str) -> None:
    clean = " ".join("".join(c if c.isprintable() else " " for c in sentence).split())
    with suppress(OSError):  # of a terminal that was closed
        sys.stderr.write(f"microtome: {clean}\n")
        sys.stderr.flush()
