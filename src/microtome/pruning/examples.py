"""Examples that choose, certify and confirm a cut: sets without a common example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from ..errors import InputError, must
from ..randomness import generator
from ..tasks.own import WHOLE
from ..tasks.subset import subset
from ..tasks.task import Item, Split, Task
from ..training.opening import Model

REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """
    What is known of the examples that a model was trained on.

    Parameters
    ----------
    items : Split or None
        Those of the task that it was trained on; None where it was trained on another task, or where nobody
        wrote down what it was trained on.
    unclear : bool
        Whether it was trained on a task of this name, but not on these examples.
    doubt : str
        What must be taken for granted of examples of the task, in words.
    """

    items: Split | None = None
    unclear: bool = False
    doubt: str = ""


def find_seen(task: Task, model: Model, *, read: bool = True) -> Seen:
    """
    Find which examples of a task a model was trained on.

    Examples are compared by their digest, where the model came from a store; by the name of the task
    otherwise.

    Parameters
    ----------
    task : Task
    model : Model
    read : bool
        Whether the training split is read. Where only other splits judge, the name of the task is enough.

    Returns
    -------
    Seen
    """
    name, size, seed = model.name, model.train_size, model.train_seed
    if size is None or seed is None:
        return Seen(doubt=f"; that {name} was not trained on them is taken for granted")
    if not read and model.train_task == task.name:
        return Seen()
    if read and task.train in task.splits:
        train = task.split(task.train)
        trained = subset(train, size, seed=seed) if size <= len(train) else None
        digest = model.train_digest or (trained and model.train_task == task.name and trained.digest)
        if trained is not None and trained.digest == digest:
            return Seen(items=trained)
        if model.train_task == task.name:
            return Seen(unclear=True)
    return Seen(doubt=f"; that they are not among what {name} was trained on is taken for granted")


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
    doubt : str
        What is taken for granted of them, in words; empty where it is known that the model was not trained
        on them.
    """

    choose: Split
    certify: Split
    confirm: Split | None
    share: float | None
    doubt: str = ""

    def said(self) -> tuple[str, str]:
        """Which examples choose, and which certify."""
        first, second = (f"{len(part):,} examples of {part.name}" for part in (self.choose, self.certify))
        return f"Chosen on {first}", f"Certified on {second}, never used to choose{self.doubt}"


def find_examples(
    task: Task,
    model: Model,
    *,
    split: str | None = None,
    certify_on: str | None = None,
    confirm_on: str | None = None,
    share: float = 0.5,
    seed: int = 0,
    learns: bool = False,
) -> Examples:
    """
    Find the examples of each role.

    Parameters
    ----------
    task : Task
    model : Model
    split : str, optional
        The split that is split in two. When absent, the task's validation split; of a lone table, all rows
        that the model was not trained on and that have no other role. "rest" is what the training split has
        beside the examples that the model was trained on.
    certify_on : str, optional
        A split of its own to certify on; all of `split` chooses then.
    confirm_on : str, optional
        A split that is looked at once, after everything.
    share : float
        Of the examples that choose.
    seed : int
        Of the draw.
    learns : bool
        Whether cuts are fine-tuned, so that what they learn from must not judge them.

    Returns
    -------
    Examples
    """
    separate = [name for name in (certify_on, confirm_on) if name is not None]
    lone = split is None and WHOLE in task.splits
    names = separate if lone else [split or task.validation, *separate]
    if len(set(names)) < len(names) or (WHOLE in names and (lone or len(names) > 1)):
        raise InputError(
            "splits to choose on, to certify on and to confirm on must be different ones, but got "
            f"{', '.join(names)}."
        )
    # Only where it may matter: a training split can be large, or not at hand.
    needs_train = WHOLE in task.splits or not {task.train, REST}.isdisjoint(names)
    seen = find_seen(task, model, read=needs_train)
    _check_unseen(task, model, seen, names, learns=learns)
    parts = [_split(task, model, seen, name) for name in names]
    if lone:
        parts.insert(0, _left(task, seen, dict(zip(names, parts, strict=True)), learns=learns))
    certify = None if certify_on is None else parts[1]
    confirm = None if confirm_on is None else parts[-1]
    if certify is not None:
        return Examples(choose=parts[0], certify=certify, confirm=confirm, share=None, doubt=seen.doubt)
    choose, certify = halves(parts[0], share, seed)
    return Examples(choose=choose, certify=certify, confirm=confirm, share=share, doubt=seen.doubt)


def _check_unseen(task: Task, model: Model, seen: Seen, names: Sequence[str], *, learns: bool) -> None:
    """Refuse to judge a model on what it was trained on, or is about to be."""
    whose = [name for name in names if name in (task.train, WHOLE)]
    if seen.unclear and (whose or REST in names or WHOLE in task.splits):
        raise InputError(
            f"a cut must be judged on examples that the model was not trained on, but {model.name} was "
            f"trained on other examples of {task.name}, or in another order: which of these, nobody can tell."
        )
    if seen.items is not None and whose:
        hint = f"{REST!r} names the part of it that was left out"
        if WHOLE in task.splits:
            hint = "without a split named, all other rows of the table are used"
        raise InputError(
            f"a cut must be judged on examples that the model was not trained on, but {whose[0]!r} is what "
            f"it was trained on; {hint}."
        )
    if learns and whose:
        raise InputError(
            "a cut that is fine-tuned must be judged on examples that it does not learn from, but it learns "
            f"from {task.train!r}."
        )


def _split(task: Task, model: Model, seen: Seen, name: str) -> Split:
    labeled = task.kind != "language_modeling"
    if name == WHOLE and WHOLE in task.splits:
        return replace(task.split(WHOLE, labeled=labeled), name=f"the whole table {task.name}")
    if name != REST or REST in task.splits:
        return task.split(name, labeled=labeled)
    if seen.items is None:
        raise InputError(
            f"{REST!r} must be of a model that finetune trained on some of the examples, but {model.name} "
            f"does not say which of {task.name} it was trained on."
        )
    complete = task.split(task.train, labeled=labeled)
    if len(seen.items) >= len(complete):
        raise InputError(
            f"{REST!r} must leave examples, but {model.name} was trained on all {len(complete):,} of "
            f"{task.train}."
        )
    return _without(complete, seen.items, f"{REST} of {complete.name}", "those that were not trained on")


def _left(task: Task, seen: Seen, parts: Mapping[str, Split], *, learns: bool) -> Split:
    """All rows of a lone table that nothing else is done with."""
    table = task.split(WHOLE, labeled=True)
    taken = dict(parts)
    if seen.items is not None:
        taken[f"the {len(seen.items):,} that were trained on"] = seen.items
    elif learns and task.train not in taken:
        taken[task.train] = task.split(task.train)
    if not taken:
        return replace(table, name=f"the whole table {task.name}")
    names = " and ".join(taken)
    items = [item for part in taken.values() for item in part]
    return _without(table, items, f"the table {task.name} without {names}", f"those without {names}")


def _without(complete: Split, items: Iterable[Item], name: str, description: str) -> Split:
    used = {item.group for item in items}
    left = tuple(item for item in complete if item.group not in used)
    note = f"{len(left):,} of {len(complete):,} examples, {description}"
    return replace(complete, name=name, items=left, notes=(*complete.notes, note))


def trained_part(task: Task, model: Model) -> Task:
    """
    Leave a task only the training examples that the model has seen before.

    Parameters
    ----------
    task : Task
    model : Model

    Returns
    -------
    Task
        So that fine-tuning a cut model uses no example that judges it.
    """
    part = find_seen(task, model).items
    if part is None or len(part) >= len(task.split(task.train)):
        return task
    readers: Mapping = {**task.readers, task.train: partial(_same, part)}
    return replace(task, readers=MappingProxyType(readers))


def _same(part: Split) -> Split:
    return part


def halves(split: Split, share: float = 0.5, seed: int = 0) -> tuple[Split, Split]:
    """
    Split examples in two by chance, groups kept together.

    Labels are not balanced on purpose: halves with equal shares of labels would have part of their luck in
    common, and the second must not know that of the first.

    Parameters
    ----------
    split : Split
    share : float
        Of the examples in the first part, as nearly as groups allow.
    seed : int

    Returns
    -------
    choose, certify : Split
    """
    if not 0 < share < 1:
        raise must("share", "between 0 and 1", share)
    groups = split.groups
    count = int(groups.max()) + 1
    if count < 4:
        raise InputError(
            f"{split.name} must have at least 4 independent examples to be split in two, but it has {count}."
        )
    order = generator(seed, "prune", "halves").permutation(count)
    sizes = np.bincount(groups)[order]
    # A group belongs to the part that holds its middle.
    first = np.cumsum(sizes) - sizes / 2 < share * len(split)
    first[0], first[-1] = True, False
    first_groups = set(order[first].tolist())
    parts = []
    for is_first, role in ((True, "choose"), (False, "certify")):
        items = tuple(
            i for i, group in zip(split, groups.tolist(), strict=True) if (group in first_groups) is is_first
        )
        note = f"{len(items):,} of {len(split):,} examples that {role}, drawn with seed {seed}"
        parts.append(replace(split, items=items, notes=(*split.notes, note)))
    return parts[0], parts[1]
