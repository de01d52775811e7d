"""Tables of tasks, recipes and shipped encoders, as `microtome ls` prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .show import Columns, Table, table

Listing = tuple[Sequence[Mapping[str, Any]], list[Table]]
STSB = "stsb"


def picked(entry: Any, *names: str) -> dict[str, Any]:
    """Some attributes of an entry, as JSON can hold them."""
    values = {name: getattr(entry, name) for name in names}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def list_tasks() -> Listing:
    """List the tasks, those of files and those that are generated."""
    from ..tasks.generated.grammar import SIZES
    from ..tasks.generated.table import GENERATED
    from ..tasks.table import TASKS

    names = ("name", "title", "kind", "labels", "scores", "main")
    tasks = [
        {
            **picked(task, *names, "about", "license", "citation"),
            "sizes": dict(task.sizes),
            "hub": None if task.hub is None else task.hub.id,
            "revision": None if task.hub is None else (task.hub.revision or None),
        }
        for task in TASKS.values()
    ]
    generated = {"sizes": dict(SIZES), "hub": None, "revision": None, "citation": ""}
    for task in (make() for make in GENERATED.values()):
        card = {"about": task.card["tests"], "license": task.card["license"]}
        tasks.append({**picked(task, *names), **card, **generated})
    columns: Columns = {
        "task": "name",
        "kind": lambda task: task["kind"].replace("_", " "),
        "score": lambda task: " + ".join(task["main"]),
        "train": lambda task: _size(task, "train"),
        "validation": lambda task: _size(task, "validation"),
        "hub": lambda task: task["hub"] or "generated",
        "license": "license",
    }
    notes = [
        "With --data DIR a task is read from its original files, plain or packed; without it, from the "
        "hub, whose revision is pinned only where a source for it can be cited.",
        "Your own table: --task FILE.csv --column text=NAME --column label=NAME.",
    ]
    return tasks, [table(tasks, columns, notes)]


def _size(task: Mapping[str, Any], split: str) -> str:
    return f"{task['sizes'][split]:,}" if split in task["sizes"] else ""


def list_recipes() -> Listing:
    """List the recipes, with where a doubtful value comes from."""
    from ..training.recipe import RECIPES, changeable

    recipes = list(RECIPES.values())
    entries = [
        {**recipe.specification(), **picked(recipe, "name", "citation"), "notes": dict(recipe.notes)}
        for recipe in recipes
    ]
    columns: Columns = {
        "recipe": lambda recipe: recipe.name,
        "batch": lambda recipe: str(recipe.batch),
        "rate": lambda recipe: f"{recipe.rate:g}",
        "length": lambda recipe: (
            f"{recipe.steps:,} updates" if recipe.epochs is None else f"{recipe.epochs:g} epochs"
        ),
        "warm-up": lambda recipe: (
            f"{recipe.warmup:.0%}" if recipe.warmup_steps is None else f"{recipe.warmup_steps:,} updates"
        ),
        "decay": lambda recipe: f"{recipe.decay:g}",
        "clip": lambda recipe: "" if recipe.clip is None else f"{recipe.clip:g}",
        "tokens": lambda recipe: str(recipe.longest),
        "head": lambda recipe: recipe.head,
        "source": lambda recipe: recipe.citation,
    }
    notes = [
        *(f"{recipe.name}, {name}: {note}." for recipe in recipes for name, note in recipe.notes.items()),
        f"Other values are given as --set name=value, with these names: {', '.join(changeable())}.",
        "warmup is a share of all updates, and warmup_steps a number of them, at most all.",
    ]
    return entries, [table(recipes, columns, notes)]


def list_zoo() -> Listing:
    """List the encoders that come with the package, with what was measured of each."""
    from ..zoo.shipped import shipped

    encoders = list(shipped().values())
    notes = ["Loaded by name, as zoo:masked; the README.md in each folder tells the rest."]
    if not encoders:
        notes = ["No encoder comes with this installation; `microtome pretrain` makes them."]
    columns: Columns = {
        "encoder": "name",
        "objective": "title",
        "parameters": lambda encoder: f"{encoder['parameters']:,}",
        "size": lambda encoder: f"{encoder['bytes'] / 1e6:.1f} MB",
        "tokens seen": lambda encoder: _measured(encoder["tokens"], lambda count: f"{count / 1e6:,.1f} M"),
        "loss": lambda encoder: _measured(encoder["loss"]),
        "held-out accuracy (unigram)": lambda encoder: _beside(encoder["held_out"], "accuracy", "unigram"),
        "STS-B (random baseline)": lambda encoder: _beside(
            _means(encoder["scores"].get(STSB)), "model", "random"
        ),
    }
    return encoders, [table(encoders, columns, notes)]


def _means(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: ((scores or {}).get(name) or {}).get("mean") for name in ("model", "random")}


def _beside(scores: Mapping[str, Any] | None, key: str, reference: str) -> str:
    """A number, and in brackets its baseline."""
    value, against = (scores or {}).get(key), (scores or {}).get(reference)
    return _measured(value) if value is None else f"{value:.3f} ({_measured(against)})"


def _measured(value: float | None, write: Callable[[float], str] = "{:.3f}".format) -> str:
    return "not measured" if value is None else write(value)
