"""How well does a head read each layer? As it is, tuned further, or on the encoder before it was tuned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
from .models import Opened, cut_answers, guess_line, named_seeds, opened, sound
from .truncated import Said, curve_of, cut_costs, said_cut, said_heads

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
    head_seeds: Sequence[int] = (0, 1, 2),
    recipe: str | Recipe | None = None,
    train_size: int | None = None,
    train_seed: int = 0,
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
    head_seeds : sequence of int
        Heads are trained once with each.
    recipe : str or Recipe, optional
        Of the heads; when absent that of the tuned model, or "devlin2019" where it is not known.
    train_size, train_seed : int, optional
        Train heads on so many examples, drawn with a seed; on all that fit into memory when absent.
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
        Curves over "layers kept", named UNTUNED, TUNED, TUNEDORIG, TUNED converged and TUNEDORIG converged.

    References
    ----------
    Phang et al. 2021.
    """
    started = time.monotonic()
    wanted = _check_arms(arms)
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    models, left_out = sound(opened(tuned, task, device=device))
    judged = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    depth, first = depth_of(models[0].model), models[0]
    chosen = find_recipe(_recipe_of(tuned) if recipe is None else recipe, **values)
    keeping: dict[str, Any] = {"store": store, "command": command}
    notes: list[str] = list(left_out)
    said: dict[str, list[Arm]] = {"untuned": []}
    cuts = list(every_truncation(depth).values())
    for one in models:
        found = cut_answers(one, task, judged, cuts, progress=progress, **keeping)
        said["untuned"].append(Arm(runs=("tuned",), answers=[found], failed=(), told={}))
    wanted, refused = _possible(wanted, task.kind, base)
    notes += refused
    train = None
    if wanted != ["untuned"]:
        train, told = _train_split(task, first, train_size, train_seed)
        notes += told
        for one in models:
            vectors = Vectors(one, task, train, judged, progress=progress)
            if "tuned" in wanted:
                arm = trained_arm(vectors, chosen, seeds=head_seeds, progress=progress, **keeping)
                said.setdefault("tuned", []).append(arm)
            if "converged" in wanted:
                said.setdefault("converged", []).append(converged_arm(vectors, **keeping))
        if base is not None:
            encoder = _base(base, first, depth)
            vectors = _base_vectors(encoder, first, task, train, judged, tuple(head_seeds), progress)
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
    score = find_score(task.main)
    costs = cut_costs(gathered["untuned"], task, level)
    return Result(
        experiment="truncation",
        model=first.name,
        task=task.name,
        split=judged.name,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=tuple(curves[name] for name in NAMES if name in curves),
        lines=MappingProxyType(guess_line(task, judged)),
        rows=tuple(row for each in gathered.values() for row in each.rows(task)),
        findings=(*said_cut(costs, score, depth), *said_heads(curves, score)),
        methods=_methods(task, models, judged, curves, chosen, head_seeds, train, level),
        references=cited("phang2021"),
        warnings=(*notes, *_warnings(gathered)),
        more=MappingProxyType(
            {
                "depth": depth,
                "cost": {"x": list(costs.x), "values": costs.values, "band_low": costs.band_low},
                "heads": {NAMES[n]: [dict(arm.told) for arm in said[n]] for n in said if n != "untuned"},
            }
        ),
        provenance=MappingProxyType(
            {
                **_versions(),
                "models": [one.digest for one in models],
                "seeds": list(named_seeds(models)),
                "head_seeds": list(head_seeds),
                "task": task.digest(judged.name),
                "task_source": task.source,
                "train": None if train is None else {"examples": len(train), "digest": train.digest},
                "recipe": {"name": chosen.name, **chosen.specification()},
                "device": first.model.device.type,
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


def _train_split(task: Task, one: Opened, size: int | None, seed: int) -> tuple[Split, list[str]]:
    train = task.split(task.train, labeled=True)
    if size is not None:
        return subset(train, size, seed=seed), []
    fits = fitting_size(one, train)
    if fits is None:
        return train, []
    part = subset(train, fits, seed=seed)
    return part, [
        f"Heads were trained on {len(part):,} of {len(train):,} examples, drawn with seed {seed}: "
        "the vectors of more would not fit into memory."
    ]


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


def _versions() -> dict[str, str]:
    import torch
    import transformers

    return {"microtome": VERSION, "torch": torch.__version__, "transformers": transformers.__version__}


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
    train: Split | None,
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
    if train is not None:
        length = f"{recipe.updates(len(train)):,} updates"
        parts.append(
            f"Heads were trained on {len(train):,} examples of {task.name}/{task.train} with the encoder "
            f"left as it was, in evaluation mode, by the recipe {recipe.name}: batches of {recipe.batch}, "
            f"learning rate {recipe.rate:g}, {length}, head seeds {', '.join(map(str, head_seeds))}."
        )
    if "tuned" in curves:
        parts.append("TUNED heads began as the tuned head.")
    if "tunedorig" in curves:
        parts.append("TUNEDORIG heads were drawn anew, on the encoder before fine-tuning.")
    if "converged" in curves:
        solver = "ridge regression" if task.kind == "regression" else "logistic regression"
        parts.append(
            f"Converged readouts are {solver} on what the head reads, with features of variance 1 and a "
            "penalty chosen for each layer by 5-fold cross-validation within the training examples."
        )
    parts.append(
        f"Scored was {score.name} on {len(judged):,} examples of {judged.name}. Intervals of "
        f"{level * 100:g}% are over examples and, with several seeds, over seeds; bands hold for all layers "
        f"at once. Computed with microtome {VERSION}."
    )
    return " ".join(parts)
