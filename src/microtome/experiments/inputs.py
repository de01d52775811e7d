"""Inputs that experiments share: models and tasks, by name or already open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks import several
from ..errors import InputError, must, unknown
from ..extraction.texts import Texts, make_texts
from ..tasks.task import Task
from .base import option

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

    def open_models(self, models: Any, device: str) -> list[Any]:
        """Load models that are given by name, each once, and take open ones as they are."""
        from ..encoders.loading import load
        from ..encoders.names import distinct_names
        from ..extraction.extracting import as_encoder

        # What `finetune` returns has the encoder in it.
        references = [
            self.reference(model.encoder if hasattr(model, "evaluation") else model)
            for model in several(models)
        ]
        if not references:
            raise must("models", "at least one", 0)
        sources = [str(ref["source"]) for ref in references if isinstance(ref, Mapping)]
        labels = iter(distinct_names(sources) if sources else ())
        return [
            load(**{"name": next(labels), "device": device, **reference})
            if isinstance(reference, Mapping)
            else as_encoder(reference)
            for reference in references
        ]


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
        given: dict[str, Any] = {"name": str(task)}
        if self.data is not None:
            given["data"] = self.data
        if self.held_out is not None:
            given["held_out"] = self.held_out
        for role, name in self.column.items():
            if role not in ROLES:
                raise unknown("role of a column", role, ROLES)
            given[role] = name.split(",") if role == "labels" and isinstance(name, str) else name
        if self.pairs is not None:
            names = self.pairs.split(",")
            if len(names) != len(PAIRS) or not all(names):
                raise must("pairs", "three columns, as TEXT,OTHER,SCORE", self.pairs)
            for role, name in zip(PAIRS, names, strict=True):
                if role in given:
                    raise must(f"column {role}", "left out where pairs names the columns", given[role])
                given[role] = name
        return given


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


def open_task(reference: Any) -> Task:
    """Take a task as it is, or open it."""
    from ..training.multi_seed import open_asked

    if isinstance(reference, Task):
        return reference
    if isinstance(reference, Mapping):
        return open_asked(reference)
    raise must("task", "a name, what microtome.task gives, or its arguments", type(reference).__name__)


def open_encoder(reference: Any) -> Any:
    """Take an encoder as it is, or load it."""
    if isinstance(reference, Mapping):
        from ..encoders.loading import load

        return load(**reference)
    if not hasattr(reference, "depth") or not hasattr(reference, "base"):
        name = getattr(reference, "name", type(reference).__name__)
        raise InputError(f"{name} must be a model of transformers to be fine-tuned, but it is none.")
    return reference


def task_notes(tasks: Sequence[Task]) -> tuple[str, ...]:
    """What was inferred about tasks, such as the kind of labels."""
    return tuple(f"{task.name}: {task.card['note']}." for task in tasks if task.card.get("note"))
