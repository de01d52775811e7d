"""Tables of tasks and recipes, as `microtome ls` prints them."""

from __future__ import annotations

from typing import Any

from .show import Screen


def list_tasks(screen: Screen) -> None:
    """List the tasks, those of files and those that are generated."""
    from ..tasks.generated.grammar import SIZES
    from ..tasks.generated.table import GENERATED
    from ..tasks.table import TASKS

    tasks: list[dict[str, Any]] = [
        {
            "name": task.name,
            "title": task.title,
            "kind": task.kind,
            "about": task.about,
            "labels": list(task.labels),
            "scores": list(task.scores),
            "main": list(task.main),
            "sizes": dict(task.sizes),
            "hub": None if task.hub is None else task.hub.id,
            "revision": None if task.hub is None else (task.hub.revision or None),
            "license": task.license,
            "citation": task.citation,
        }
        for task in TASKS.values()
    ]
    for make in GENERATED.values():
        task = make()
        tasks.append(
            {
                "name": task.name,
                "title": task.title,
                "kind": task.kind,
                "about": task.card["tests"],
                "labels": list(task.labels),
                "scores": list(task.scores),
                "main": list(task.main),
                "sizes": dict(SIZES),
                "hub": None,
                "revision": None,
                "license": task.card["license"],
                "citation": "",
            }
        )
    if screen.json:
        screen.result({"format": "microtome/tasks/1", "tasks": tasks}, "")
        return
    screen.rows(
        ["task", "kind", "score", "train", "validation", "hub", "license"],
        [
            [
                entry["name"],
                entry["kind"].replace("_", " "),
                " + ".join(entry["main"]),
                _count(entry["sizes"].get("train")),
                _count(entry["sizes"].get("validation")),
                entry["hub"] or "generated",
                entry["license"],
            ]
            for entry in tasks
        ],
        [
            "With --data DIR a task is read from its original files, plain or packed; without it, from the "
            "hub, whose revision is pinned only where a source for it can be cited.",
            "Your own table: --task FILE.csv --column text=NAME --column label=NAME.",
        ],
    )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def list_recipes(screen: Screen) -> None:
    """List the recipes, with where a doubtful value comes from."""
    from ..training.recipe import RECIPES, changeable

    if screen.json:
        recipes = [
            {
                "name": recipe.name,
                **recipe.specification(),
                "notes": dict(recipe.notes),
                "citation": recipe.citation,
            }
            for recipe in RECIPES.values()
        ]
        screen.result({"format": "microtome/recipes/1", "recipes": recipes}, "")
        return
    screen.rows(
        ["recipe", "batch", "rate", "length", "warm-up", "decay", "clip", "tokens", "head", "source"],
        [
            [
                recipe.name,
                str(recipe.batch),
                f"{recipe.rate:g}",
                f"{recipe.epochs:g} epochs" if recipe.epochs is not None else f"{recipe.steps:,} updates",
                f"{recipe.warmup_steps:,} updates"
                if recipe.warmup_steps is not None
                else f"{recipe.warmup:.0%}",
                f"{recipe.decay:g}",
                "" if recipe.clip is None else f"{recipe.clip:g}",
                str(recipe.longest),
                recipe.head,
                recipe.citation,
            ]
            for recipe in RECIPES.values()
        ],
        [
            *(
                f"{recipe.name}, {name}: {note}."
                for recipe in RECIPES.values()
                for name, note in recipe.notes.items()
            ),
            f"Other values are given as --set name=value, with these names: {', '.join(changeable())}.",
            "warmup is a share of all updates, and warmup_steps a number of them, at most all.",
        ],
    )
