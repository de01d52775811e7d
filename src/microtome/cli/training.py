"""What can a model be trained on, and how? The tables of tasks and recipes."""

from __future__ import annotations

from typing import Any

from .show import Screen


def list_tasks(screen: Screen) -> None:
    """List the tasks, those of files and those that are generated."""
    from ..tasks.generated.grammar import SIZES
    from ..tasks.generated.table import GENERATED
    from ..tasks.table import TASKS

    told: list[dict[str, Any]] = [
        {
            "name": one.name,
            "title": one.title,
            "kind": one.kind,
            "about": one.about,
            "labels": list(one.labels),
            "scores": list(one.scores),
            "main": list(one.main),
            "sizes": dict(one.sizes),
            "hub": None if one.hub is None else one.hub.id,
            "revision": None if one.hub is None else (one.hub.revision or None),
            "license": one.license,
            "citation": one.citation,
        }
        for one in TASKS.values()
    ]
    for make in GENERATED.values():
        made = make()
        told.append(
            {
                "name": made.name,
                "title": made.title,
                "kind": made.kind,
                "about": made.card["tests"],
                "labels": list(made.labels),
                "scores": list(made.scores),
                "main": list(made.main),
                "sizes": dict(SIZES),
                "hub": None,
                "revision": None,
                "license": made.card["license"],
                "citation": "",
            }
        )
    if screen.json:
        screen.result({"format": "microtome/tasks/1", "tasks": told}, "")
        return
    screen.rows(
        ["task", "kind", "score", "train", "validation", "hub", "license"],
        [
            [
                one["name"],
                one["kind"].replace("_", " "),
                " + ".join(one["main"]),
                _count(one["sizes"].get("train")),
                _count(one["sizes"].get("validation")),
                one["hub"] or "generated",
                one["license"],
            ]
            for one in told
        ],
        [
            "With --data DIR a task is read from its original files, plain or packed; without it, from the "
            "hub, whose revision is pinned only where a source for it can be cited.",
            "One's own: --task FILE.csv --column text=NAME --column label=NAME.",
        ],
    )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def list_recipes(screen: Screen) -> None:
    """List the recipes, with where a doubtful value comes from."""
    from ..training.recipe import RECIPES, changeable

    if screen.json:
        told = [
            {
                "name": one.name,
                **one.specification(),
                "notes": dict(one.notes),
                "citation": one.citation,
            }
            for one in RECIPES.values()
        ]
        screen.result({"format": "microtome/recipes/1", "recipes": told}, "")
        return
    screen.rows(
        ["recipe", "batch", "rate", "length", "warm-up", "decay", "clip", "tokens", "head", "source"],
        [
            [
                one.name,
                str(one.batch),
                f"{one.rate:g}",
                f"{one.epochs:g} epochs" if one.epochs is not None else f"{one.steps:,} updates",
                f"{one.warmup_steps:,} updates" if one.warmup_steps is not None else f"{one.warmup:.0%}",
                f"{one.decay:g}",
                "" if one.clip is None else f"{one.clip:g}",
                str(one.longest),
                one.head,
                one.citation,
            ]
            for one in RECIPES.values()
        ],
        [
            *(f"{one.name}, {name}: {note}." for one in RECIPES.values() for name, note in one.notes.items()),
            f"Other values are given as --set name=value, with these names: {', '.join(changeable())}.",
            "warmup is a share of all updates, and warmup_steps a number of them, at most all.",
        ],
    )
