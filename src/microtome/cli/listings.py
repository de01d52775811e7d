"""Tables of tasks, recipes and shipped encoders, as `microtome ls` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .show import Table

Listing = tuple[list[dict[str, Any]], list[Table]]
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

    shared = ("labels", "scores", "main")
    tasks: list[dict[str, Any]] = [
        {
            **picked(task, "name", "title", "kind", "about", *shared),
            "sizes": dict(task.sizes),
            "hub": None if task.hub is None else task.hub.id,
            "revision": None if task.hub is None else (task.hub.revision or None),
            **picked(task, "license", "citation"),
        }
        for task in TASKS.values()
    ]
    tasks += [
        {
            **picked(task, "name", "title", "kind"),
            "about": task.card["tests"],
            **picked(task, *shared),
            "sizes": dict(SIZES),
            "hub": None,
            "revision": None,
            "license": task.card["license"],
            "citation": "",
        }
        for task in (make() for make in GENERATED.values())
    ]
    table: Table = (
        ["task", "kind", "score", "train", "validation", "hub", "license"],
        [
            [
                task["name"],
                task["kind"].replace("_", " "),
                " + ".join(task["main"]),
                *(
                    f"{task['sizes'][split]:,}" if split in task["sizes"] else ""
                    for split in ("train", "validation")
                ),
                task["hub"] or "generated",
                task["license"],
            ]
            for task in tasks
        ],
        [
            "With --data DIR a task is read from its original files, plain or packed; without it, from the "
            "hub, whose revision is pinned only where a source for it can be cited.",
            "Your own table: --task FILE.csv --column text=NAME --column label=NAME.",
        ],
    )
    return tasks, [table]


def list_recipes() -> Listing:
    """List the recipes, with where a doubtful value comes from."""
    from ..training.recipe import RECIPES, changeable

    recipes = list(RECIPES.values())
    table: Table = (
        ["recipe", "batch", "rate", "length", "warm-up", "decay", "clip", "tokens", "head", "source"],
        [
            [
                recipe.name,
                str(recipe.batch),
                f"{recipe.rate:g}",
                f"{recipe.epochs:g} epochs" if recipe.epochs is not None else f"{recipe.steps:,} updates",
                f"{recipe.warmup:.0%}" if recipe.warmup_steps is None else f"{recipe.warmup_steps:,} updates",
                f"{recipe.decay:g}",
                "" if recipe.clip is None else f"{recipe.clip:g}",
                str(recipe.longest),
                recipe.head,
                recipe.citation,
            ]
            for recipe in recipes
        ],
        [
            *(f"{recipe.name}, {name}: {note}." for recipe in recipes for name, note in recipe.notes.items()),
            f"Other values are given as --set name=value, with these names: {', '.join(changeable())}.",
            "warmup is a share of all updates, and warmup_steps a number of them, at most all.",
        ],
    )
    entries = [
        {
            "name": recipe.name,
            **recipe.specification(),
            "notes": dict(recipe.notes),
            "citation": recipe.citation,
        }
        for recipe in recipes
    ]
    return entries, [table]


def list_zoo() -> Listing:
    """List the encoders that come with the package, with what was measured of each."""
    from ..zoo.shipped import shipped

    encoders = list(shipped().values())
    notes = ["Loaded by name, as zoo:masked; the README.md in each folder tells the rest."]
    if not encoders:
        notes = ["No encoder comes with this installation; `microtome pretrain` makes them."]
    table: Table = (
        [
            *("encoder", "learned by", "parameters", "size", "tokens seen", "loss"),
            *("held-out accuracy (unigram)", "STS-B (random baseline)"),
        ],
        [
            [
                encoder["name"],
                encoder["title"],
                f"{encoder['parameters']:,}",
                f"{encoder['bytes'] / 1e6:.1f} MB",
                "not measured" if encoder["tokens"] is None else f"{encoder['tokens'] / 1e6:,.1f} M",
                _measured(encoder["loss"]),
                _beside(encoder["held_out"], "accuracy", "unigram"),
                _beside(_means(encoder["scores"].get(STSB)), "model", "random"),
            ]
            for encoder in encoders
        ],
        notes,
    )
    return encoders, [table]


def _means(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: ((scores or {}).get(name) or {}).get("mean") for name in ("model", "random")}


def _beside(scores: Mapping[str, Any] | None, key: str, reference: str) -> str:
    """A number, and in brackets its baseline."""
    value, against = (scores or {}).get(key), (scores or {}).get(reference)
    return _measured(value) if value is None else f"{value:.3f} ({_measured(against)})"


def _measured(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
