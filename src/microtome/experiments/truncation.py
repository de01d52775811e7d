"""How well does a head read each layer? As it is, tuned further, or on the encoder before it was tuned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.versions import versions
from ..errors import InputError, must, unknown
from ..findings.results import Curve, Result
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.subset import subset
from ..tasks.task import Task
from ..training.cuts import depth_of, every_truncation
from ..training.headrows import heads_refusal
from ..training.recipe import Recipe, find_recipe
from ..training.tuned import RUN
from ..version import VERSION
from .citations import cited
from .headarms import (
    Arm,
    Vectors,
    converged_arm,
    fitting_size,
    fresh_model,
    readout_refusal,
    trained_arm,
)
from .models import Opened, cut_answers, guess_line, named_seeds, opened, sound, trained_on
from .truncated import Said, by_seed, curve_of, cut_costs, gain_of
from .truncated_words import said_cut, said_heads

if TYPE_CHECKING:
    import os

ARMS = ("untuned", "tuned", "tunedorig", "converged")
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "untuned": "UNTUNED",
        "tuned": "TUNED",
        "tunedorig": "TUNEDORIG",
        "converged": "TUNED converged",
        "converged before": "TUNEDORIG converged",
    }
)
Progress = Callable[[str, int, int], None]


def truncation(
    tuned: Any,
    task: Task,
    *,
    base: Any = None,
    split: str | None = None,
    arms: Sequence[str] = ARMS,
    head_seeds: int | Sequence[int] = (0, 1, 2),
    recipe: str | Recipe | None = None,
    train_size: int | None = None,
    train_seed: int | None = None,
    level: float = 0.95,
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str = "",
    **values: Any,
) -> Result:
    """
    Cut a fine-tuned model after each of its layers, and score what a head makes of what is left.

    UNTUNED is the tuned encoder cut after a layer, with the tuned head as it is. TUNED trains that head
    further on the layer, with the encoder left as it is. TUNEDORIG trains a fresh head on the layer of the
    encoder before it was fine-tuned. The converged arms put a linear readout in place of the head, fitted
    until nothing is left to gain: logistic regression for classes, ridge for numbers.

    Parameters
    ----------
    tuned : Tuned, Encoder or path, or a list of them
        What `finetune` returned, a checkpoint with a head for the task, or its folder. Several are one
        setting trained with several seeds.
    task : Task
    base : Encoder or path, optional
        The encoder before fine-tuning; without it there is no TUNEDORIG.
    split : str, optional
        To score on; the task's validation split when absent.
    arms : sequence of {"untuned", "tuned", "tunedorig", "converged"}
        UNTUNED is always there: the others are compared with it.
    head_seeds : int or sequence of int
        Heads are trained once with each.
    recipe : str or Recipe, optional
        Of the heads; when absent that of the tuned model, or "devlin2019" where it is not known.
    train_size : int, optional
        Heads learn from the examples that the model itself was trained on, each from those of its own model,
        and TUNEDORIG from those of the first; from the training split, with a warning, where they are not
        known. From so many of them when given, else from all that fit into memory.
    train_seed : int, optional
        That some of them are drawn with; when absent the one that the model's own were drawn with, or 0.
    level : float
        Of intervals and bands.
    store : path, optional
        The folder of the store: answers are kept there, and read when they are asked for again.
    device : str
        For models that are given by their folders.
    progress : callable, optional
    command : str
        What a user types to do it again.
    **values
        Other values of the recipe.

    Returns
    -------
    Result
        Curves over "layers kept", named UNTUNED, TUNED, TUNEDORIG, TUNED converged and TUNEDORIG converged,
        and "difference TUNED", that of TUNED and UNTUNED on the same examples and models.

    References
    ----------
    Phang et al. 2021.
    """
    started = time.monotonic()
    wanted, head_seeds = _check_arms(arms), _check_seeds(head_seeds)
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    models, left_out = sound(opened(tuned, task, device=device))
    judged = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    depth, first = depth_of(models[0].model), models[0]
    chosen = find_recipe(_recipe_of(tuned) if recipe is None else recipe, **values)
    keeping: dict[str, Any] = {"store": store, "command": command}
    wanted, refused = _possible(wanted, task.kind, base)
    notes: list[str] = [*left_out, *refused]
    # What is wrong with it is said before the work, not after.
    encoder = None if base is None or wanted == ["untuned"] else _base(base, first, depth)
    trains, known = [], True
    if wanted != ["untuned"]:
        trains, known, told = _train_splits(task, models, train_size, train_seed)
        notes += told
    said: dict[str, list[Arm]] = {"untuned": []}
    cuts = list(every_truncation(depth).values())
    for one in models:
        found = cut_answers(one, task, judged, cuts, progress=progress, **keeping)
        said["untuned"].append(Arm(runs=("tuned",), answers=[found], failed=(), told={}))
    for one, train in zip(models, trains, strict=False):
        vectors = Vectors(one, task, train, judged, progress=progress)
        if "tuned" in wanted:
            arm = trained_arm(vectors, chosen, seeds=head_seeds, progress=progress, **keeping)
            said.setdefault("tuned", []).append(arm)
        if "converged" in wanted:
            said.setdefault("converged", []).append(converged_arm(vectors, **keeping))
    if encoder is not None:
        vectors = _base_vectors(encoder, first, task, trains[0], judged, head_seeds, progress)
        if "tunedorig" in wanted:
            said["tunedorig"] = [
                trained_arm(
                    vectors,
                    chosen,
                    seeds=head_seeds,
                    fresh=lambda seed: fresh_model(encoder, task, first.model, seed),
                    progress=progress,
                    **keeping,
                )
            ]
        if "converged" in wanted:
            said["converged before"] = [converged_arm(vectors, **keeping)]
    gathered = {
        name: Said(
            name=NAMES[name],
            split=judged,
            arms=tuple(found),
            seeds=named_seeds(models) if len(found) == len(models) else (first.seed,),
        )
        for name, found in said.items()
    }
    curves = {name: curve_of(each, task, level) for name, each in gathered.items()}
    if "tuned" in gathered:
        curves["gain"] = gain_of(gathered["tuned"], gathered["untuned"], task, level)
    score = find_score(task.main)
    costs = cut_costs(gathered["untuned"], task, level)
    each = by_seed(gathered, task)
    return Result(
        experiment="truncation",
        model=first.name,
        task=task.name,
        split=judged.name,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=tuple(curves[name] for name in (*NAMES, "gain") if name in curves),
        lines=MappingProxyType(guess_line(task, judged)),
        rows=tuple(row for each in gathered.values() for row in each.rows(task)),
        findings=(*said_cut(costs, score, depth, each["untuned"]), *said_heads(curves, score, each)),
        methods=_methods(task, models, judged, curves, chosen, head_seeds, trains, known, level),
        references=cited("phang2021"),
        warnings=(*notes, *_warnings(gathered)),
        more=MappingProxyType(
            {
                "depth": depth,
                "cost": {
                    "each": each["untuned"] - each["untuned"][:, -1:],
                    **{name: getattr(costs, name) for name in ("x", "values", "band_low", "band_high")},
                },
                **({"gain": {"each": each["gain"]}} if "gain" in each else {}),
                "heads": {NAMES[n]: [dict(arm.told) for arm in said[n]] for n in said if n != "untuned"},
            }
        ),
        provenance=MappingProxyType(
            {
                **versions(),
                "models": [one.digest for one in models],
                "seeds": list(named_seeds(models)),
                "head_seeds": list(head_seeds),
                "task": task.digest(judged.name),
                "task_source": task.source,
                "train": [{"examples": len(each), "digest": each.digest} for each in trains],
                "recipe": {"name": chosen.name, **chosen.specification()},
                "device": first.model.device.type,
                "precision": first.precision,
                "seconds": round(time.monotonic() - started, 3),
                "command": command,
            }
        ),
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
    return "devlin2019"


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


def _base(base: Any, one: Opened, depth: int) -> Any:
    from ..encoders.loading import load

    encoder = base if hasattr(base, "family") else load(base, device=str(one.model.device))
    found = getattr(encoder, "depth", None)
    if found != depth:
        raise InputError(f"base must have {depth} blocks, as {one.name} has, but {encoder.name} has {found}.")
    return encoder


def _base_vectors(
    encoder: Any,
    one: Opened,
    task: Task,
    train: Split,
    judged: Split,
    seeds: tuple[int, ...],
    progress: Progress | None,
) -> Vectors:
    # The head is drawn anew, so all that counts of it is its kind.
    digest = f"{encoder.digest}|{one.model.head}|{type(one.model.net).__name__}"
    known = replace(one, name=encoder.name, tokenizer=encoder.tokenizer, digest=digest, encoder=encoder)

    def make() -> Any:
        return fresh_model(encoder, task, one.model, seeds[0])

    return Vectors(known, task, train, judged, make=make, progress=progress)


def _warnings(gathered: Mapping[str, Said]) -> list[str]:
    said = []
    for each in gathered.values():
        for arm in each.arms:
            said += [
                f"{each.name}, layer {x}, head seed {run} was left out: {why}." for x, run, why in arm.failed
            ]
            open_ = [str(x + 1) for x, done in enumerate(arm.told.get("converged", ())) if not done]
            if open_:
                said.append(f"{each.name} did not converge at layer {', '.join(open_)}.")
    return list(dict.fromkeys(said))


def _methods(
    task: Task,
    models: Sequence[Opened],
    judged: Split,
    curves: Mapping[str, Curve],
    recipe: Recipe,
    head_seeds: Sequence[int],
    trains: Sequence[Split],
    known: bool,
    level: float,
) -> str:
    score, one = find_score(task.main), models[0]
    norm = " behind its final norm" if one.model.family.final_norm is not None else ""
    count = f"{len(models)} models trained with seeds {', '.join(map(str, named_seeds(models)))}"
    parts = [
        f"{one.name} ({count if len(models) > 1 else 'one model'}) was cut after each of its "
        f"{depth_of(one.model)} layers, and its tuned head read the states of that layer{norm} "
        "(UNTUNED; Phang et al. 2021). One pass of the encoder fed the head at every layer."
    ]
    if trains:
        length = f"{recipe.updates(len(trains[0])):,} updates"
        own = f" that {'each' if len(models) > 1 else 'the'} model was trained on," if known else ""
        parts.append(
            f"Heads were trained on {len(trains[0]):,} examples of {task.name}/{task.train},{own} with the "
            f"encoder left as it was, in evaluation mode, by the recipe {recipe.name}: batches of "
            f"{recipe.batch}, learning rate {recipe.rate:g}, {length}, head seeds "
            f"{', '.join(map(str, head_seeds))}."
        )
    if "tuned" in curves:
        parts.append(
            "TUNED heads began as the tuned head; their difference from it is that on the same examples and "
            "models, and its band has Bonferroni's correction for the number of layers."
        )
    if "tunedorig" in curves:
        parts.append("TUNEDORIG heads were drawn anew, on the encoder before fine-tuning.")
    if "converged" in curves:
        solver = "ridge regression" if task.kind == "regression" else "logistic regression"
        parts.append(
            f"Converged readouts are {solver} on what the head reads, with features of variance 1 and a "
            "penalty chosen for each layer within the training examples: by 5-fold cross-validation, or, for "
            "classes with more than 12,500 rows, by fitting 10,000 and foretelling others."
        )
    parts.append(
        f"Scored was {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{level * 100:g}% are over examples and, with several seeds, over seeds; bands hold for all layers "
        f"at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)
