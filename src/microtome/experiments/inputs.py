"""Inputs that experiments share: models and tasks, by name or already open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..checks import several
from ..context import Context
from ..errors import must, unknown
from ..extraction.texts import Texts, make_texts
from ..tasks.task import Task
from ..training.opening import open_encoders
from .base import option

if TYPE_CHECKING:
    from ..encoders.encoder import Encoder

ROLES = ("text", "pair", "label", "group", "kind", "labels")
# Rows that are compared at most by default: RSA looks at every pair of them.
SAMPLE = 5_000
PAIRS = ("text", "pair", "label")
# `read={"column.text": "sentence"}` says which column is the text.
COLUMN = "column."
TASK_HELP = "Task: a name of `microtome ls tasks`, a card (.toml), or your own table."


@dataclass(frozen=True, kw_only=True)
class LoadingOptions:
    """How models that are given by name are loaded."""

    revision: str | None = option("Branch, tag or commit of models on the hub.", None, panel="Input")
    tokenizer: str | None = option(
        "Another tokenizer: a folder, a hub id or a vocab.txt.", None, panel="Input"
    )

    def reference(self, model: Any, **more: Any) -> Any:
        """Arguments of `load` for a model that is given by name; an open one as it is."""
        if not isinstance(model, str | os.PathLike):
            if isinstance(model, Mapping):
                return {**model, **more}
            for name in ("revision", "tokenizer"):
                if getattr(self, name) is not None:
                    raise must(name, "left out for a model that is open already", getattr(self, name))
            return model
        return {"source": str(model), "revision": self.revision, "tokenizer": self.tokenizer, **more}

    def open_encoders(self, models: Any, context: Context) -> list[Encoder]:
        """Load models that are given by name, and take open ones as they are."""
        references = [self.reference(model) for model in several(models)]
        if not references:
            raise must("models", "at least one", 0)
        return open_encoders(references, context=context)


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Where the examples of a task come from."""

    data: str | None = option(
        "Folder of the task's original files; the hub when absent.", None, panel="Input", metavar="DIR"
    )
    column: Mapping[str, str] = option(
        "Column of your own table: text=NAME, label=NAME, pair=NAME (the second text), group=NAME; or "
        "kind=regression, kind=classification, labels=no,yes. May be repeated.",
        {},
        panel="Input",
        repeated=True,
        metavar="ROLE=NAME",
        example="text=review",
    )
    pairs: str | None = option(
        "Columns of a table of text pairs: both texts, and the class or score.",
        None,
        panel="Input",
        metavar="TEXT,OTHER,SCORE",
    )
    held_out: int | None = option(
        "For tasks without a training split: evaluate on N validation examples, train on the others.",
        None,
        panel="Input",
        least=1,
        metavar="N",
    )

    def task_reference(self, task: Any) -> Any:
        """Arguments of `task` for a task that is given by name; an open one as it is."""
        if not isinstance(task, str | os.PathLike):
            for name in ("data", "column", "pairs", "held_out"):
                if getattr(self, name):
                    raise must(name, "left out for a task that is open already", getattr(self, name))
            return task
        reference: dict[str, Any] = {"name": str(task)}
        if self.data is not None:
            reference["data"] = self.data
        if self.held_out is not None:
            reference["held_out"] = self.held_out
        for role, name in self.column.items():
            if role not in ROLES:
                raise unknown("role of a column", role, ROLES)
            reference[role] = name.split(",") if role == "labels" and isinstance(name, str) else name
        if self.pairs is not None:
            names = self.pairs.split(",")
            if len(names) != len(PAIRS) or not all(names):
                raise must("pairs", "three columns, as TEXT,OTHER,SCORE", self.pairs)
            for role, name in zip(PAIRS, names, strict=True):
                if role in reference:
                    raise must(f"column {role}", "left out where pairs names the columns", reference[role])
                reference[role] = name
        return reference


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Which text models read."""

    on: Any = option("Corpus: a file, a folder, hub:ID or task:NAME/SPLIT.", panel="Input", metavar="CORPUS")
    read: Mapping[str, str] = option(
        "Option of the corpus reader, such as column.text=sentence. May be repeated.",
        {},
        panel="Input",
        repeated=True,
        metavar="NAME=VALUE",
        example="column.text=sentence",
    )

    def texts(self) -> Texts:
        """Open the corpus."""
        return open_texts(self.on, self.read)


def open_texts(corpus: Any, read: Mapping[str, str]) -> Texts:
    """Open a corpus with options of its reader."""
    columns = {name.removeprefix(COLUMN): value for name, value in read.items() if name.startswith(COLUMN)}
    options: dict[str, Any] = {name: value for name, value in read.items() if not name.startswith(COLUMN)}
    return make_texts(corpus, **options, **({"columns": columns} if columns else {}))


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """Which rows of a text models are compared on, where a recipe limits the length of an input."""

    rows: str = option("What one row is.", "token", choices=("cls", "mean", "token", "word"), panel="Rows")
    sample: int | None = option(
        "Use a random sample of at most N rows.", SAMPLE, least=10, panel="Rows", metavar="N"
    )
    seed: int = option(
        "Seed of the sample, the random baselines and the half-samples.", 0, panel="Statistics"
    )


@dataclass(frozen=True, kw_only=True)
class RowSelection(SampleOptions):
    """Which rows of a text models are compared on."""

    longest: int | None = option(
        "Maximum number of tokens per example.", None, least=1, panel="Rows", metavar="N"
    )


def task_notes(tasks: Sequence[Task]) -> tuple[str, ...]:
    """What was inferred about tasks, such as the kind of labels."""
    return tuple(f"{task.name}: {task.card['note']}." for task in tasks if task.card.get("note"))
