"""Matching of a checkpoint's outputs with the labels of a task, by name."""

from __future__ import annotations

import re
from typing import Any

from ...errors import InputError
from ...tasks.task import Task


def label_order(config: Any, task: Task, name: str) -> tuple[tuple[int, ...], str]:
    """
    Find the output of each label of a task.

    Names are compared without regard to case, hyphens, underscores and spaces. Outputs that are only
    numbered (LABEL_0, LABEL_1, ...) are taken in the order of the task.

    Parameters
    ----------
    config : transformers.PretrainedConfig
        Of the checkpoint.
    task : Task
    name : str
        Name of the checkpoint in error messages.

    Returns
    -------
    order : tuple of int
        Output of each label.
    note : str
        Description of the matching.
    """
    model_labels = {int(number): str(label) for number, label in (config.id2label or {}).items()}
    count = len(task.labels)
    if len(model_labels) != count:
        raise InputError(
            f"the head of {name} must have {count} outputs for {task.name}, but it has {len(model_labels)}."
        )
    if all(re.fullmatch(r"LABEL_\d+", label) for label in model_labels.values()):
        return tuple(range(count)), f"outputs of {name} have no names: taken in the order of {task.name}"
    outputs = {_plain(label): number for number, label in model_labels.items()}
    task_labels = [_plain(label) for label in task.labels]
    if len(outputs) != count or set(outputs) != set(task_labels):
        raise InputError(
            f"the labels of {name} must be those of {task.name} ({', '.join(task.labels)}), but they are "
            f"{', '.join(model_labels[number] for number in sorted(model_labels))}."
        )
    order = tuple(outputs[label] for label in task_labels)
    if order == tuple(range(count)):
        return order, f"outputs of {name} are in the order of {task.name}, by name"
    return order, f"outputs of {name} reordered to the labels of {task.name}, by name: {list(order)}"


def _plain(label: str) -> str:
    return re.sub(r"[\s_-]+", "", label.casefold())
