"""Examples that a model was trained on, by the record that `finetune` wrote beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..tasks.items import Split
from ..tasks.subset import subset
from ..tasks.task import Task

if TYPE_CHECKING:
    from ..training.opening import Model


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
