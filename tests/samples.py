"""A few examples of every kind of task, for tests of models that learn them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from microtome.tasks.task import Item, Kind, Split, Task
from tiny import TEXT

LABELS = ("no", "yes", "maybe")
KINDS: tuple[Kind, ...] = (
    "classification",
    "regression",
    "multiple_choice",
    "span",
    "tagging",
    "parsing",
    "language_modeling",
)
SEQUENCE_KINDS: tuple[Kind, ...] = KINDS[:3]


def items_of(kind: Kind) -> tuple[Item, ...]:
    """Four examples of different lengths."""
    out = []
    for number, text in enumerate(TEXT):
        words = tuple(text.split())
        given: dict[str, Any]
        if kind == "classification":
            given = {"texts": (text, TEXT[-1 - number])[: 1 + number % 2], "target": number % 3}
        elif kind == "regression":
            given = {"texts": (text,), "target": number / 2}
        elif kind == "multiple_choice":
            given = {"choices": ((text, "cats"), (text, "long books sleep"), (text, "tea")), "target": 1}
        elif kind == "span":
            given = {"texts": ("Who sits?", text), "target": ((4, text[4:8]),) if number < 3 else ()}
        elif kind == "tagging":
            given = {"words": words, "target": tuple(place % 3 for place in range(len(words)))}
        elif kind == "parsing":
            given = {"words": words, "target": tuple((place, place % 3) for place in range(len(words)))}
        else:
            given = {"texts": (text,)}
        out.append(Item(id=str(number), **given))
    return tuple(out)


def task_of(kind: Kind, labels: tuple[str, ...] = LABELS, **more: Any) -> Task:
    """A task of these examples."""
    items = items_of(kind)
    return Task(
        name=kind,
        title=kind,
        kind=kind,
        labels=labels if kind in ("classification", "tagging", "parsing") else (),
        scores=(),
        main=(),
        readers=MappingProxyType({"train": lambda: Split(name="train", items=items)}),
        source="tests",
        **more,
    )
