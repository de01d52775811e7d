"""Reading of tasks for verbs that are not derived from an experiment yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..experiments.inputs import PAIRS, ROLES
from ..reading import read_names as read_names
from ..reading import read_numbers as read_numbers
from ..reading import read_pairs as read_pairs
from ..reading import read_values as read_values
from ..training.heads import read_head as _read_head

if TYPE_CHECKING:
    from ..tasks.task import Task
    from .show import Screen


def read_head(given: str | None) -> Any:
    """Read a head, where one was typed."""
    return None if given is None else _read_head(given)


def task_options(
    task: str, data: str | None, columns: list[str], held_out: int | None, pairs: str | None = None
) -> dict[str, Any]:
    """What `microtome.task` is called with."""
    from ..errors import must, unknown

    asked: dict[str, Any] = {"name": task}
    if data is not None:
        asked["data"] = data
    if held_out is not None:
        asked["held_out"] = held_out
    for name, value in read_pairs("--column", columns, "role=NAME, such as text=review").items():
        if name not in ROLES:
            raise unknown("role of a column", name, ROLES)
        asked[name] = value.split(",") if name == "labels" else value
    if pairs is not None:
        names = pairs.split(",")
        if len(names) != len(PAIRS) or not all(names):
            raise must("--pairs", "three columns, as TEXT,OTHER,SCORE", pairs)
        for name, value in zip(PAIRS, names, strict=True):
            if name in asked:
                raise must(f"--column {name}", "left out where --pairs names the columns", asked[name])
            asked[name] = value
    return asked


def open_noted(asked: dict[str, Any], screen: Screen) -> Task:
    """Open the task that was asked for, and tell what was found out about it."""
    from ..training.multi_seed import open_asked

    opened = open_asked(asked)
    if opened.card.get("note"):
        screen.note(f"{opened.name}: {opened.card['note']}.")
    return opened
