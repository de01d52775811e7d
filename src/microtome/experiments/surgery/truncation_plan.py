"""What exactly is a truncation asked to do? Everything opened and checked, before any head is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import InputError, must, unknown
from ...tasks.items import Split
from ...tasks.subset import subset
from ...tasks.task import Task
from ...training.cuts import depth_of
from ...training.head_inputs import heads_refusal
from ...training.layer_heads import pooler_names
from ...training.recipe import Recipe, find_recipe
from ...training.tuned import RUN
from ..layer_heads import fitting_size, readout_refusal
from ..models import Opened, opened, sound, trained_on

ARMS = ("untuned", "tuned", "tunedorig", "converged")
POOLER = ("trained", "kept")
# Of Phang et al. 2021, for heads of models whose own recipe is not known.
RECIPE = "phang2021"
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "untuned": "UNTUNED",
        "tuned": "TUNED",
        "tunedorig": "TUNEDORIG",
        "converged": "TUNED converged",
        "converged before": "TUNEDORIG converged",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """
    A truncation that can begin.

    Parameters
    ----------
    models : list of Opened
        The tuned models that are sound.
    judged : Split
        What is scored on.
    recipe : Recipe
        Of the heads.
    head_seeds : tuple of int
    arms : list of str
    base : Encoder, optional
        The encoder before fine-tuning, where an arm reads it.
    trains : list of Split
        What the heads of each model learn from; empty where none does.
    known : bool
        Whether these are the examples that the models were trained on.
    still : frozenset of str
        Names of the weights of heads that are not trained.
    notes : tuple of str
        What a reader must know.
    """

    models: list[Opened]
    judged: Split
    recipe: Recipe
    head_seeds: tuple[int, ...]
    arms: list[str]
    base: Any
    trains: list[Split]
    known: bool
    still: frozenset[str]
    notes: tuple[str, ...]


def prepared(
    tuned: Any,
    task: Task,
    *,
    base: Any = None,
    split: str | None = None,
    arms: Sequence[str] = ARMS,
    head_seeds: int | Sequence[int] = (0, 1, 2),
    pooler: str = "trained",
    recipe: str | Recipe | None = None,
    train_size: int | None = None,
    train_seed: int | None = None,
    level: float = 0.95,
    device: str = "cpu",
    **values: Any,
) -> Prepared:
    """
    Open everything that `truncation` needs, and refuse what it would refuse.

    Parameters
    ----------
    tuned, task, base, split, arms, head_seeds, pooler, recipe, train_size, train_seed, level, device
        As in `truncation`.
    **values
        Other values of the recipe.

    Returns
    -------
    Prepared
    """
    wanted, seeds = _check_arms(arms), _check_seeds(head_seeds)
    if pooler not in POOLER:
        raise unknown("what becomes of the pooler", pooler, POOLER)
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    models, left_out = sound(opened(tuned, task, device=device))
    judged = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    chosen = find_recipe(_recipe_of(tuned) if recipe is None else recipe, **values)
    wanted, refused = _possible(wanted, task.kind, base)
    notes: list[str] = [*left_out, *refused]
    notes += [f"{task.name}: {task.card['note']}."] if task.card.get("note") else []
    encoder = None
    if base is not None and wanted != ["untuned"]:
        encoder = _base(base, models[0])
    trains, known = [], True
    if wanted != ["untuned"]:
        trains, known, told = _train_splits(task, models, train_size, train_seed)
        notes += told
        chosen.rising(chosen.updates(len(trains[0])))
    return Prepared(
        models=models,
        judged=judged,
        recipe=chosen,
        head_seeds=seeds,
        arms=wanted,
        base=encoder,
        trains=trains,
        known=known,
        still=pooler_names(models[0].model) if pooler == "kept" else frozenset(),
        notes=tuple(notes),
    )


def _check_arms(arms: Sequence[str]) -> list[str]:
    given = [arms] if isinstance(arms, str) else list(arms)
    for each in given:
        if each not in ARMS:
            raise unknown("arm", each, ARMS)
    return ["untuned", *(each for each in ARMS[1:] if each in given)]


def _check_seeds(given: int | Sequence[int]) -> tuple[int, ...]:
    seeds = tuple(given) if isinstance(given, Sequence | range) and not isinstance(given, str) else (given,)
    fine = all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in seeds)
    if not seeds or not fine or len(set(seeds)) < len(seeds):
        raise must("head_seeds", "one or more different whole numbers of at least 0", given)
    return seeds  # pyright: ignore[reportReturnType]


def _possible(wanted: list[str], kind: str, base: Any) -> tuple[list[str], list[str]]:
    """Leave out what the kind of task or what was given does not allow, and say so."""
    refused, notes = {}, []
    for each in wanted[1:]:
        why = readout_refusal(kind) if each == "converged" else heads_refusal(kind)
        if each == "tunedorig" and base is None:
            why = "TUNEDORIG must be given the encoder before fine-tuning (base), but there is none."
        if why is not None:
            refused[each] = why
            notes.append(f"{NAMES[each]} was left out: {why}")
    if "converged" in wanted and "converged" not in refused and base is None and "tunedorig" not in wanted:
        notes.append("TUNEDORIG converged was left out: the encoder before fine-tuning (base) was not given.")
    return [each for each in wanted if each not in refused], list(dict.fromkeys(notes))


def _recipe_of(tuned: Any) -> str | Recipe:
    one = tuned[0] if isinstance(tuned, list | tuple) else tuned
    if isinstance(getattr(one, "recipe", None), Recipe):
        return one.recipe
    if isinstance(one, str | Path) and (Path(one) / RUN).is_file():
        told = json.loads((Path(one) / RUN).read_text())
        given = told["recipe_values"]
        return Recipe(name=told["recipe"], **{**given, "betas": tuple(given["betas"])})
    return RECIPE


def _train_splits(
    task: Task, models: Sequence[Opened], size: int | None, seed: int | None
) -> tuple[list[Split], bool, list[str]]:
    """What heads of each model learn from: what the model itself did, where that is known."""
    found, known, notes = [], True, []
    for one in models:
        train = trained_on(one, task)
        if train is None:
            known = False
            train = task.split(task.train, labeled=True)
            notes.append(
                f"Which examples {one.name} was trained on is not known: its heads learned from "
                f"{task.name}/{task.train}, which may be more."
            )
        drawn = (one.train_seed or 0) if seed is None else seed
        if size is not None:
            if size > len(train):
                raise must("train_size", f"at most {len(train):,}, what {one.name} was trained on", size)
            found.append(subset(train, size, seed=drawn))
            continue
        fits = fitting_size(one, train)
        if fits is not None:
            part = subset(train, fits, seed=drawn)
            notes.append(
                f"Heads were trained on {len(part):,} of {len(train):,} examples, drawn with seed {drawn}: "
                "the vectors of more would not fit into memory."
            )
            train = part
        found.append(train)
    return found, known, list(dict.fromkeys(notes))


def check_base(base: Any, depth: int, name: str) -> None:
    """
    Refuse an encoder before fine-tuning that has not as many blocks as the tuned model.

    Parameters
    ----------
    base : Encoder
    depth, name
        Of the tuned model.
    """
    found = getattr(base, "depth", None)
    if found != depth:
        raise InputError(f"base must have {depth} blocks, as {name} has, but {base.name} has {found}.")


def _base(base: Any, one: Opened) -> Any:
    from ...encoders.loading import load

    encoder = base if hasattr(base, "family") else load(base, device=str(one.model.device))
    check_base(encoder, depth_of(one.model), one.name)
    return encoder
