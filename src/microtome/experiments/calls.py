"""Calls: the expensive, independent pieces of an experiment as plain JSON, for any process with its store."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..errors import InputError, WorkError, must, unknown
from ..runtime import using_threads
from ..store.files import write_whole
from ..store.outfolder import RESULT as RESULT_FILE
from ..store.outfolder import TABLE
from ..store.shelf import Shelf
from ..training.heads.head import Head
from ..training.optimization.progress import in_child, stopping_children
from ..training.recipe import Recipe
from ..training.tuned import Tuned
from .base import default_of, is_required, options_of
from .table import EXPERIMENTS

if TYPE_CHECKING:
    from .base import Experiment, Plan

# {"kind": verb, "options": {...}, "piece": name, "context": {...}}, and "address" for RESULT and PIECES.
Call = dict[str, Any]
# The piece that is the whole experiment: its saved result becomes an entry of the store, at the address of
# the call; and all pieces of it without the result, for an experiment on one of several seeds or models.
RESULT, PIECES = "result", "pieces"
# In options: {"$tuned": ADDRESS} is the fine-tuned model of the result at an address.
TUNED = "$tuned"
PIECES_FILE = "pieces.json"
# Settings of a context that decide numbers; the others are those of the process that performs a call.
SETTINGS = ("device", "threads", "level")
# Values that are written with the name of their class.
_CLASSES = {"head": Head, "recipe": Recipe}


def calls_of(experiment: Experiment, plan: Plan, context: Context) -> list[Call]:
    """
    List the pieces of an experiment that can be computed next, each as plain JSON.

    Whoever performs them asks again until there is no new one: some pieces follow from the outcomes of
    others.

    Parameters
    ----------
    experiment : Experiment
    plan : Plan
    context : Context

    Returns
    -------
    list of dict
    """
    pieces = experiment.pieces(plan, context)
    if not pieces:
        return []
    import torch

    threads = torch.get_num_threads() if context.threads is None else context.threads
    settings = {"device": context.resolved().device, "threads": threads, "level": context.level}
    shared = {"kind": _verb(type(experiment)), "options": options_as_json(experiment), "context": settings}
    return [{**shared, "piece": name} for name in pieces]


def perform(call: Call, context: Context) -> None:
    """
    Compute one piece of an experiment, and leave its outcome in the store.

    Parameters
    ----------
    call : dict
        Of `calls_of`; a piece that was computed in the meantime is not computed again.
    context : Context
        Store and progress; what decides numbers is in the call.
    """
    if not isinstance(call, dict) or set(call) - {"address"} != {"kind", "options", "piece", "context"}:
        raise must("a call", "an object with kind, options, piece and context", call)
    if ("address" in call) != (call["piece"] in (RESULT, PIECES)):
        raise must("a call", f"one with an address for {RESULT!r} and {PIECES!r}, and for no other", call)
    if call["kind"] not in EXPERIMENTS:
        raise unknown("kind of a call", call["kind"], EXPERIMENTS)
    if set(call["context"]) != set(SETTINGS):
        raise must("context of a call", f"an object with {', '.join(SETTINGS)}", call["context"])
    context = replace(context, **call["context"])
    if "address" in call:
        _perform_whole(call, context)
        return
    with using_threads(context.threads):
        experiment, plan = _planned(
            call["kind"], json.dumps(call["options"]), replace(context, progress=None)
        )
        pieces = experiment.pieces(plan, context)
        if call["piece"] in pieces:
            pieces[call["piece"]]()


def _perform_whole(call: Call, context: Context) -> None:
    """Run an experiment and keep its result in the store; one that is there already is not computed again."""
    shelf = Shelf(context.store, context.command)
    specification = {name: call[name] for name in ("kind", "options", "piece", "context")}
    with shelf.work(call["address"], kind=call["piece"], specification=specification) as work:
        if work.entry is not None:
            return
        options = {name: _from_json(_opened(value, shelf)) for name, value in call["options"].items()}
        experiment = EXPERIMENTS[call["kind"]].load()(**options)
        context = context.resolved()
        with using_threads(context.threads):
            plan = experiment.plan(context)
            if call["piece"] == PIECES:
                names = _perform_pieces(experiment, plan, context)
                write_whole(work.folder / PIECES_FILE, [json.dumps(names).encode()])
            else:
                _write_record(experiment.complete(plan, context), work.folder)
        work.finish()


def _perform_pieces(experiment: Experiment, plan: Plan, context: Context) -> list[str]:
    """Perform all pieces, also those that follow from others, and name them."""
    names: list[str] = []
    while pieces := {n: p for n, p in experiment.pieces(plan, context).items() if n not in names}:
        for name, piece in pieces.items():
            piece()
            names.append(name)
    return names


def _write_record(result: Any, folder: Path) -> None:
    """Write the document and the table of a result; files of its models stand in entries of their own."""
    with TemporaryDirectory() as place:
        (result.record if hasattr(result, "record") else result.save)(place)
        for name in (RESULT_FILE, TABLE):
            if (Path(place) / name).is_file():
                shutil.copyfile(Path(place) / name, folder / name)


def _opened(value: Any, shelf: Shelf) -> Any:
    """Options in which fine-tuned models are the folders that the store has them in."""
    if isinstance(value, list):
        return [_opened(part, shelf) for part in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {TUNED}:
        return str(tuned_folder(shelf, value[TUNED]))
    return {name: _opened(part, shelf) for name, part in value.items()}


def tuned_folder(shelf: Shelf, address: str) -> Path:
    """
    Find the model that a fine-tuning of one seed left in the store.

    Parameters
    ----------
    shelf : Shelf
    address : str
        Of its result.

    Returns
    -------
    Path
    """
    entry = shelf.get(address)
    if entry is None:
        raise WorkError(f"the fine-tuning {address} must be in the store {shelf.root}, but it is not.")
    document = json.loads(entry.path(RESULT_FILE).read_bytes())
    model = shelf.get(document["runs"][0]["address"])
    if model is None:
        raise WorkError(
            f"the model of the fine-tuning {address} was removed from the store; "
            f"`microtome store rm {address}` makes room for another one."
        )
    return model.folder


# Calls of one experiment follow one another in a process: its models and data are opened once.
@lru_cache(maxsize=1)
def _planned(kind: str, options: str, context: Context) -> tuple[Experiment, Plan]:
    values = {name: _from_json(value) for name, value in json.loads(options).items()}
    experiment = EXPERIMENTS[kind].load()(**values)
    return experiment, experiment.plan(context)


def perform_in_processes(experiment: Experiment, plan: Plan, context: Context, processes: int) -> None:
    """
    Perform the calls of an experiment in parallel processes, as long as there are new ones.

    Parameters
    ----------
    experiment : Experiment
        What it names must not be open in memory.
    plan : Plan
    context : Context
    processes : int
    """
    performed: list[Call] = []
    while len(calls := [c for c in calls_of(experiment, plan, context) if c not in performed]) > 1:
        # Spawned processes: a forked one would inherit a GPU that it cannot use.
        pool = ProcessPoolExecutor(min(processes, len(calls)), mp_context=get_context("spawn"))
        try:
            with stopping_children(pool):
                silent = context.reporting(None)
                running = [pool.submit(in_child, perform, call, silent) for call in calls]
                for done, finished in enumerate(as_completed(running), start=1):
                    finished.result()
                    context.report("runs", done, len(calls))
        finally:
            pool.shutdown(cancel_futures=True)
        performed += calls


def options_as_json(experiment: Experiment, *, named: bool = False) -> dict[str, Any]:
    """
    Write the options of an experiment that have another value than their default.

    Parameters
    ----------
    experiment : Experiment
    named : bool
        Whether what is open in memory is written by its name; otherwise it is refused.

    Returns
    -------
    dict
        Plain JSON.
    """
    written = {}
    for option_field, _ in options_of(type(experiment)):
        value = getattr(experiment, option_field.name)
        if not is_required(option_field):
            default = default_of(option_field)
            # Only values of one type are compared: arrays and corpora do so in their own way.
            if value is default or (type(value) is type(default) and value == default):
                continue
        written[option_field.name] = _to_json(option_field.name, value, named)
    return written


def _to_json(option: str, value: Any, named: bool) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Tuned):
        return str(value.folder)
    if isinstance(value, Mapping):
        return {str(name): _to_json(option, part, named) for name, part in value.items()}
    if isinstance(value, list | tuple | range | set | frozenset):
        return [_to_json(option, part, named) for part in value]
    for name, kind in _CLASSES.items():
        if isinstance(value, kind):
            return {f"${name}": asdict(value)}
    if named:
        return str(getattr(value, "name", type(value).__name__))
    raise InputError(
        f"{option} must be given by its name, folder or file for calls, which open it elsewhere, but got "
        f"{getattr(value, 'name', None) or type(value).__name__!r}, which is open in memory."
    )


def _from_json(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    for name, kind in _CLASSES.items():
        if set(value) == {f"${name}"}:
            parts = value[f"${name}"].items()
            return kind(**{key: tuple(part) if isinstance(part, list) else part for key, part in parts})
    return dict(value)


def _verb(kind: type[Experiment]) -> str:
    path = f"{kind.__module__}.{kind.__qualname__}"
    for verb, entry in EXPERIMENTS.items():
        if path.endswith(f".{entry.path}"):
            return verb
    raise must("an experiment with calls", "in the table of experiments", path)
