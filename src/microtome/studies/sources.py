"""Sources of a study: what can be checked of models and tasks at once, and what is fetched before a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ..context import Context
from ..encoders.elmo.encoder import is_elmo
from ..encoders.locations import find_folder, unpack
from ..errors import InputError, MicrotomeError, must, sentence_of
from ..experiments.inputs import TaskOptions
from ..tasks.card import read_card
from ..tasks.own import check_columns, table_files
from ..tasks.table import TASKS, resolve
from ..training.opening import open_model, open_task
from .values import Study, StudyModel, StudyTask


def check_sources(study: Study, learned: Collection[str]) -> None:
    """
    Refuse models and tasks that cannot be what the study takes them for, without loading any.

    Parameters
    ----------
    study : Study
    learned : collection of str
        Tasks that need labels, as options name them; others may be mere text.
    """
    checks = {f"models.{name}": partial(_check_model, model) for name, model in study.models.items()}
    for name, task in study.tasks.items():
        checks[f"tasks.{name}"] = partial(_check_task, task, task.task in learned)
    for place, check in checks.items():
        try:
            check()
        except MicrotomeError as problem:
            raise InputError(f"{place} of {study.name}: {problem}") from problem


def _check_model(model: StudyModel) -> None:
    source = model.source
    if find_folder(source) is None and Path(source).is_dir() and not is_elmo(source):
        folder = Path(unpack(source).model)
        if folder.is_dir() and not (folder / "config.json").is_file():
            raise must("the source", "a folder of a model, with config.json", source)


def _check_task(task: StudyTask, learned: bool) -> None:
    reference = TaskOptions(**task.options).task_reference(task.task)
    name, place = resolve(task.task), Path(task.task)
    examples = None
    if name is not None:
        examples = TASKS[name].sizes.get("validation") if task.data is None else None
    elif place.suffix == ".toml":
        read_card(place.read_text(encoding="utf-8"), task.task)
    elif place.exists():
        check_columns(task.task, reference, ("text", "label") if learned else ())
        files = table_files(place)
        if "validation" in files and task.held_out is not None:
            examples = sum(1 for _ in islice(files["validation"], task.held_out + 1))
    if examples is not None and task.held_out is not None and task.held_out >= examples:
        raise must("held_out", f"smaller than the {examples:,} validation examples", task.held_out)


def fetch(study: Study, options: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, list[str]]]:
    """
    Open models of the hub and tasks once, before many workers would fetch them at the same time.

    Parameters
    ----------
    study : Study
    options : mapping of str to mapping
        Options of the jobs that are left, by their addresses.

    Yields
    ------
    name, reason, jobs
        A model or task that cannot be had, why, and the addresses of jobs that need it.
    """
    for model in study.models.values():
        users = [address for address, values in options.items() if _names(values, model.reference)]
        if users and ":" not in model.source and not Path(model.source).is_dir():
            try:
                open_model(model.reference, context=Context(device="cpu"))
            except Exception as problem:
                yield model.name, sentence_of(problem), users
    for task in study.tasks.values():
        users = [
            address
            for address, values in options.items()
            if _names(values.get("task"), task.task)
            and all(values.get(name) == value for name, value in task.options.items())
        ]
        if users:
            try:
                opened = open_task(TaskOptions(**task.options).task_reference(task.task))
                opened.split(opened.validation)
            except Exception as problem:
                yield task.name, sentence_of(problem), users


def _names(value: Any, part: Any) -> bool:
    """Whether a value of options names a model or a task."""
    if value == part:
        return True
    if isinstance(value, Mapping):
        return "source" not in value and any(_names(inner, part) for inner in value.values())
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and any(_names(inner, part) for inner in value)
    )
