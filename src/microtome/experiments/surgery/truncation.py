"""How well does a head read each layer? As it is, tuned further, or on the encoder before it was tuned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...arguments import checked
from ...encoders.versions import provenance
from ...findings.results import Result
from ...scores.table import find_score
from ...tasks.items import Split
from ...tasks.task import Task
from ...training.cuts import depth_of, every_truncation
from ...training.recipe import Recipe
from ..baselines import plain_weak, weak_models
from ..citations import cited
from ..layer_heads import (
    Arm,
    Vectors,
    converged_arm,
    fresh_model,
    trained_arm,
)
from ..models import Opened, cut_answers, guess_line, named_seeds
from ..truncation_curves import Said, by_seed, costs_of, curve_of, cut_costs, gain_of, model_answers
from .truncation_claims import said_cut, said_heads
from .truncation_methods import methods
from .truncation_plan import ARMS, NAMES, prepared

if TYPE_CHECKING:
    import os

Progress = Callable[[str, int, int], None]


@checked
def truncation(
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
    encoder before it was fine-tuned. A pooler that the head reads is a part of it, unless it is kept; that of
    TUNEDORIG begins as the checkpoint's own, where it has one. The converged arms put a linear readout in
    place of the head, fitted until nothing is left to gain: logistic regression for classes, ridge for
    numbers.

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
    pooler : {"trained", "kept"}
        What becomes, in TUNED and TUNEDORIG, of the pooler that a head reads: it is trained with the head, or
        it stays as the model has it, so that the output head alone is trained.
    recipe : str or Recipe, optional
        Of the heads; when absent that of the tuned model, or "phang2021" where it is not known.
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
    asked = prepared(
        tuned,
        task,
        base=base,
        split=split,
        arms=arms,
        head_seeds=head_seeds,
        pooler=pooler,
        recipe=recipe,
        train_size=train_size,
        train_seed=train_seed,
        level=level,
        device=device,
        **values,
    )
    models, judged, chosen, wanted = asked.models, asked.judged, asked.recipe, asked.arms
    encoder, trains, head_seeds = asked.base, asked.trains, asked.head_seeds
    depth, first = depth_of(models[0].model), models[0]
    keeping: dict[str, Any] = {"store": store, "command": command}
    said: dict[str, list[Arm]] = {"untuned": []}
    cuts = list(every_truncation(depth).values())
    for one in models:
        found = cut_answers(one, task, judged, cuts, progress=progress, **keeping)
        said["untuned"].append(Arm(runs=("tuned",), answers=[found], failed=(), told={}))
    for one, train in zip(models, trains, strict=False):
        vectors = Vectors(one, task, train, judged, progress=progress)
        if "tuned" in wanted:
            arm = trained_arm(
                vectors, chosen, seeds=head_seeds, still=asked.still, progress=progress, **keeping
            )
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
                    still=asked.still,
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
    score, each = find_score(task.main), by_seed(gathered, task)
    costs = cut_costs(gathered["untuned"], task, level)
    lines, whole = guess_line(task, judged), model_answers(gathered["untuned"], 0, depth - 1)
    weak = weak_models(task, whole, lines, NAMES["untuned"], level=level)
    findings = [found.sentence("the whole model") for found in weak.values()]
    if not weak:
        findings += [*said_cut(costs, score, depth, each["untuned"]), *said_heads(curves, score, each, lines)]
    return Result(
        experiment="truncation",
        model=first.name,
        task=task.name,
        split=judged.name,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=tuple(curves[name] for name in (*NAMES, "gain") if name in curves),
        lines=MappingProxyType(lines),
        rows=tuple(row for each in gathered.values() for row in each.rows(task)),
        findings=tuple(findings),
        methods=methods(asked, task, curves, level),
        references=cited("phang2021"),
        warnings=(*asked.notes, *_warnings(gathered)),
        more=MappingProxyType(
            {
                "depth": depth,
                "cost": {
                    "each": each["untuned"] - each["untuned"][:, -1:],
                    **costs_of(costs),
                },
                **({"gain": {"each": each["gain"]}} if "gain" in each else {}),
                "heads": {NAMES[n]: [dict(arm.told) for arm in said[n]] for n in said if n != "untuned"},
                **plain_weak(weak),
            }
        ),
        provenance=MappingProxyType(
            provenance(
                {
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
            )
        ),
    )


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
