"""Which output of a checkpoint's own head is which label of the task? They are matched by name."""

from __future__ import annotations

import re
from typing import Any

from ..errors import InputError
from ..tasks.task import Task


def label_order(config: Any, task: Task, name: str) -> tuple[tuple[int, ...], str]:
    """
    Find for each label of a task the output that stands for it.

    Names are compared without regard to case, hyphens, underscores and spaces. Outputs that are only
    numbered (LABEL_0, LABEL_1, ...) are taken in the order of the task.

    Parameters
    ----------
    config : transformers.PretrainedConfig
        Of the checkpoint.
    task : Task
    name : str
        How errors call the checkpoint.

    Returns
    -------
    order : tuple of int
        Output of each label.
    said : str
        What was done, in words.
    """
    own = {int(number): str(label) for number, label in (config.id2label or {}).items()}
    count = len(task.labels)
    if len(own) != count:
        raise InputError(
            f"the head of {name} must have {count} outputs for {task.name}, but it has {len(own)}."
        )
    if all(re.fullmatch(r"LABEL_\d+", label) for label in own.values()):
        return tuple(range(count)), f"outputs of {name} have no names: taken in the order of {task.name}"
    places = {_plain(label): number for number, label in own.items()}
    wanted = [_plain(label) for label in task.labels]
    if len(places) != count or set(places) != set(wanted):
        raise InputError(
            f"the labels of {name} must be those of {task.name} ({', '.join(task.labels)}), but they are "
            f"{', '.join(own[number] for number in sorted(own))}."
        )
    order = tuple(places[label] for label in wanted)
    if order == tuple(range(count)):
        return order, f"outputs of {name} are in the order of {task.name}, by name"
    return order, f"outputs of {name} reordered to the labels of {task.name}, by name: {list(order)}"


def _plain(label: str) -> str:
    return re.sub(r"[\s_-]+", "", label.casefold())
