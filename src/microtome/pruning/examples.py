"""Which examples choose, which certify, and which confirm? Sets without an example in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from ..errors import InputError
from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task
from .certifying import halves
from .opening import Subject

REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """
    The examples of each role.

    Parameters
    ----------
    choose, certify : Split
    confirm : Split or None
    share : float or None
        Of the examples that choose, where one split was split in two.
    """

    choose: Split
    certify: Split
    confirm: Split | None
    share: float | None

    def said(self) -> tuple[str, str]:
        """Which examples choose, and which certify."""
        first, second = (f"{len(part):,} examples of {part.name}" for part in (self.choose, self.certify))
        return f"Chosen on {first}", f"Certified on {second}, never used to choose"


def find_examples(
    task: Task,
    subject: Subject,
    *,
    on: str | None = None,
    certify_on: str | None = None,
    confirm_on: str | None = None,
    share: float = 0.5,
    seed: int = 0,
) -> Examples:
    """
    Find the examples of each role.

    Parameters
    ----------
    task : Task
    subject : Subject
    on : str, optional
        The split that is split in two, the task's validation split when absent; "rest" is what the training
        split has beside the examples that the model was trained on.
    certify_on : str, optional
        A split of its own to certify on; all of `on` chooses then.
    confirm_on : str, optional
        A split that is looked at once, after everything.
    share : float
        Of the examples that choose.
    seed : int
        Of the draw.

    Returns
    -------
    Examples
    """
    first = on or task.validation
    names = [first, *(name for name in (certify_on, confirm_on) if name is not None)]
    if len(set(names)) < len(names):
        raise InputError(
            "splits to choose on, to certify on and to confirm on must be different ones, but got "
            f"{', '.join(names)}."
        )
    if subject.train_size is not None and task.train in names:
        raise InputError(
            f"a cut must be judged on examples that the model was not trained on, but {task.train!r} is what "
            f"it was trained on; {REST!r} names the part of it that was left out."
        )
    parts = [_split(task, subject, name) for name in names]
    certify = None if certify_on is None else parts[1]
    confirm = None if confirm_on is None else parts[-1]
    if certify is not None:
        return Examples(choose=parts[0], certify=certify, confirm=confirm, share=None)
    choose, certify = halves(parts[0], share, seed)
    return Examples(choose=choose, certify=certify, confirm=confirm, share=share)


def _split(task: Task, subject: Subject, name: str) -> Split:
    labeled = task.kind != "language_modeling"
    if name != REST or REST in task.splits:
        return task.split(name, labeled=labeled)
    whole = task.split(task.train, labeled=labeled)
    if subject.train_size is None or subject.subset_seed is None:
        raise InputError(
            f"{REST!r} must be of a model that finetune trained on some of the examples, but {subject.name} "
            "does not say which it was trained on."
        )
    if subject.train_size >= len(whole):
        raise InputError(
            f"{REST!r} must leave examples, but {subject.name} was trained on all {len(whole):,} of "
            f"{task.train}."
        )
    used = {item.group for item in subset(whole, subject.train_size, seed=subject.subset_seed)}
    items = tuple(item for item in whole if item.group not in used)
    told = f"{len(items):,} of {len(whole):,} examples, those that were not trained on"
    return replace(whole, name=f"{REST} of {whole.name}", items=items, notes=(*whole.notes, told))


def trained_part(task: Task, subject: Subject) -> Task:
    """
    Leave a task only the training examples that the model has seen before.

    Parameters
    ----------
    task : Task
    subject : Subject

    Returns
    -------
    Task
        So that tuning a cut model anew uses no example that judges it.
    """
    if subject.train_size is None or subject.subset_seed is None:
        return task
    whole = task.split(task.train)
    if subject.train_size >= len(whole):
        return task
    part = subset(whole, subject.train_size, seed=subject.subset_seed)
    readers: Mapping = {**task.readers, task.train: partial(_same, part)}
    return replace(task, readers=MappingProxyType(readers))


def _same(part: Split) -> Split:
    return part
