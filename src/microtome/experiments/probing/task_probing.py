"""Which layers tell the answers of a task? A linear head on the vector of the whole input, layer by layer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...arguments import checked
from ...encoders.versions import provenance
from ...errors import InputError, must, unknown
from ...findings.results import Curve, Result
from ...probes.dataset import Probed
from ...scores.table import find_score
from ...tasks.items import Split
from ...tasks.subset import subset
from ...tasks.task import Task
from ...training.recipe import Recipe, find_recipe
from ...training.stock import SEQUENCE
from ..citations import cited
from ..curve_claims import Difference
from ..layer_heads import Arm, Vectors, converged_arm, fitting_size, readout_refusal, trained_arm
from ..models import Opened, Progress, as_answers, guess_line
from ..truncation_curves import Said, curve_of
from .probing import AXIS, layer_differences
from .rows import TWIN
from .task_claims import task_findings, task_methods
from .task_heads import Read, pooler_note, reads_of, ready

if TYPE_CHECKING:
    import os

SOLVERS = ("published", "converged")
RECIPE = "tamkin2020"
# Of the plotted series; the published script names 40.
EPOCHS = 10
# Examples that heads learn from are drawn with it, where not all of them are taken.
DRAWN = 0


@checked
def task_probing(
    encoder: Any,
    task: Task,
    *,
    others: Sequence[Any] = (),
    twin: bool = True,
    solvers: Sequence[str] = SOLVERS,
    train_size: int | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    epochs: float | None = None,
    level: float = 0.95,
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str = "",
) -> Result:
    """
    Read the answers of a task out of every layer of a model, with all of its weights left as they are.

    "published" deletes the layers above, keeps the pretrained pooler frozen and trains a linear layer on it
    by the recipe "tamkin2020", whose small rate ends far from convergence. "converged" fits logistic
    regression (ridge for numbers) to the vector itself, without a pooler, until nothing is left to gain. One
    pass over the examples feeds the heads of all layers.

    Parameters
    ----------
    encoder : Encoder, hub id or folder
        The one that others are compared with.
    task : Task
        With one answer for a whole input.
    others : sequence of Encoder, hub id or folder
        Such as fine-tuned ones.
    twin : bool
        Whether the encoder with weights drawn anew is read too: what its layers give is no knowledge.
    solvers : sequence of {"published", "converged"}
    train_size : int, optional
        Learn from so many examples of the training split; when absent from all that fit into memory.
    seeds : sequence of int
        Of published heads: their weights, the order of examples and dropout.
    epochs : float, optional
        Of published heads; 10, as in the plotted series, when absent.
    level : float
        Of intervals and bands.
    store : path, optional
        The folder of the store: answers are kept there, and read when they are asked for again.
    device : str
        For models that are given by their folders.
    progress : callable, optional
    command : str
        What a user types to do it again.

    Returns
    -------
    Result
        Of the experiment "probing": curves over layers from 1 on, called "MODEL (published)" and "MODEL
        (converged)", also for the random twin; differences of each other model and of the twin from the
        first, and of the first model's converged readouts from its published heads.

    References
    ----------
    Tamkin et al. 2020.
    """
    started = time.monotonic()
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if not seeds or len(set(seeds)) < len(seeds):
        raise must("seeds", "one or more, each once", list(seeds))
    wanted, notes = _possible(solvers, task)
    recipe = find_recipe(RECIPE, epochs=EPOCHS if epochs is None else epochs)
    judged = task.split(task.validation, labeled=True)
    models = ready(encoder, others, task, longest=recipe.longest, twin=TWIN if twin else None, device=device)
    names = [name for name in models if name != TWIN]
    if "published" in wanted:
        notes += [said for name in names if (said := pooler_note(models[name])) is not None]
    train, told = _train_split(task, [each.one for each in models.values()], train_size)
    keeping: dict[str, Any] = {"store": store, "command": command}
    arms: dict[tuple[str, str], Arm] = {}
    for name, each in models.items():
        vectors = Vectors(each.one, task, train, judged, progress=progress)
        if "published" in wanted:
            arms[name, "published"] = _published(vectors, each, recipe, seeds, progress, keeping)
        if "converged" in wanted:
            arms[name, "converged"] = converged_arm(vectors, **keeping)
    said = {
        key: Said(name=f"{key[0]} ({key[1]})", split=judged, arms=(arm,), seeds=(0,))
        for key, arm in arms.items()
    }
    curves = {key: replace(curve_of(each, task, level), axis=AXIS) for key, each in said.items()}
    differences, left_out = _differences(said, curves, names, task, level)
    score, lines = find_score(task.main), guess_line(task, judged)
    return Result(
        experiment="probing",
        model=", ".join(names),
        task=task.name,
        split=judged.name,
        score=score.name,
        points=score.points,
        higher_is_better=score.higher_is_better,
        curves=(*curves.values(), *(one.curve for one in differences)),
        lines=MappingProxyType(lines),
        rows=tuple(_rows(said, task)),
        findings=task_findings(
            [curve for (name, _), curve in curves.items() if name != TWIN],
            differences,
            score,
            lines,
            task.name,
        ),
        methods=task_methods(
            task,
            {name: models[name].one.model for name in names},
            wanted,
            recipe,
            train=train,
            judged=judged,
            seeds=seeds,
            twin=twin,
            level=level,
        ),
        references=cited("tamkin2020"),
        warnings=tuple(dict.fromkeys([*notes, *told, *left_out, *_warnings(said)])),
        more=MappingProxyType(
            {
                "target": f"task:{task.name}",
                "probe": ", ".join(wanted),
                "examples": {"train": len(train), "judged": len(judged)},
                "depth": {name: each.depth for name, each in models.items()},
                "reads": {name: reads_of(each.head, drawn=name == TWIN) for name, each in models.items()},
                "heads": {one.name: dict(one.arms[0].told) for one in said.values()},
            }
        ),
        provenance=MappingProxyType(
            provenance(
                {
                    "models": {name: each.one.digest for name, each in models.items()},
                    "seeds": list(seeds),
                    "task": task.digest(judged.name),
                    "task_source": task.source,
                    "train": {"examples": len(train), "digest": train.digest},
                    "recipe": {"name": recipe.name, **recipe.specification()},
                    "device": models[names[0]].one.model.device.type,
                    "seconds": round(time.monotonic() - started, 3),
                    "command": command,
                }
            )
        ),
    )


def check_task(task: Task) -> None:
    """Refuse tasks without one answer for a whole input."""
    if task.kind not in SEQUENCE:
        raise InputError(
            "a task whose answers are read from the vector of the whole input must have one answer an input "
            f"(classification, regression, multiple choice), but {task.name} is "
            f"{task.kind.replace('_', ' ')}."
        )


def _possible(solvers: Sequence[str], task: Task) -> tuple[list[str], list[str]]:
    """Which solvers the task allows, in their order, and why others are left out."""
    given = [solvers] if isinstance(solvers, str) else list(solvers)
    for each in given:
        if each not in SOLVERS:
            raise unknown("solver", each, SOLVERS)
    if not given:
        raise must("solvers", "one or more of published, converged", given)
    check_task(task)
    refused = readout_refusal(task.kind) if "converged" in given else None
    if refused is None:
        return [each for each in SOLVERS if each in given], []
    if "published" not in given:
        raise InputError(refused)
    return ["published"], [f"converged was left out: {refused}"]


def _train_split(task: Task, models: Sequence[Opened], size: int | None) -> tuple[Split, list[str]]:
    """What all models learn from: the same examples, as many as were asked for or as fit into memory."""
    train = task.split(task.train, labeled=True)
    if size is not None:
        if size > len(train):
            raise must("train_size", f"at most {len(train):,}, the size of {task.name}/{task.train}", size)
        return subset(train, size, seed=DRAWN), []
    fitting = [fits for one in models if (fits := fitting_size(one, train)) is not None]
    if not fitting:
        return train, []
    part = subset(train, min(fitting), seed=DRAWN)
    return part, [
        f"Heads were trained on {len(part):,} of {len(train):,} examples, drawn with seed {DRAWN}: the "
        "vectors of more would not fit into memory."
    ]


def _published(
    vectors: Vectors,
    each: Read,
    recipe: Recipe,
    seeds: Sequence[int],
    progress: Progress | None,
    keeping: Mapping[str, Any],
) -> Arm:
    from ...training.layer_heads import pooler_names

    return trained_arm(
        vectors,
        recipe,
        seeds=seeds,
        fresh=lambda seed: each.fresh(vectors.task, seed),
        still=pooler_names(each.one.model),
        progress=progress,
        **keeping,
    )


def _differences(
    said: Mapping[tuple[str, str], Said],
    curves: Mapping[tuple[str, str], Curve],
    names: Sequence[str],
    task: Task,
    level: float,
) -> tuple[list[Difference], list[str]]:
    """Of other models and of the twin from the first, and of what converged from what did not."""
    first, found, notes = names[0], [], []
    pairs = [
        (name, f"{first} ({solver})", (name, solver), (first, solver))
        for name, solver in said
        if name != first
    ]
    both = (first, "converged"), (first, "published")
    if all(key in said for key in both):
        pairs.append((said[both[0]].name, said[both[1]].name, *both))
    for left, right, *keys in pairs:
        name = f"{left} from {right}"
        one, other = (said[key] for key in keys)
        if len(one.layers) != len(other.layers):
            notes.append(f"{name}: no difference, since they have different numbers of layers.")
        elif one.arms[0].failed or other.arms[0].failed:
            notes.append(f"{name}: no difference, since some heads diverged.")
        else:
            runs = max(one.arms[0].runs, other.arms[0].runs, key=len)
            sides = [_probed(each, runs, task) for each in (one, other)]
            curve = layer_differences(f"difference, {name}", sides[0], sides[1], level, sides[0].score)
            # What is independent in either of them is so in their difference.
            unit = max((curves[key].unit for key in keys), key=len)
            curve = replace(curve, x=one.layers, unit=unit)
            found.append(Difference(curve=curve, one=left, other=right))
    return found, notes


def _probed(one: Said, runs: Sequence[int | str], task: Task) -> Probed:
    """Answers of every layer, where nothing is drawn the same for all runs."""
    answers = one.arms[0].answers
    answers = answers * len(runs) if len(answers) == 1 else answers
    return Probed(
        answers=tuple(
            as_answers(one.split, [each[place] for each in answers], runs) for place in range(len(one.layers))
        ),
        score=find_score(task.main),
        labels=task.labels,
    )


def _rows(said: Mapping[tuple[str, str], Said], task: Task) -> list[dict[str, Any]]:
    out = []
    for (name, solver), one in said.items():
        told = one.arms[0].told
        for row in one.rows(task):
            layer = row["layers_kept"]
            out.append(
                {
                    "model": name,
                    "solver": solver,
                    "layer": layer,
                    "seed": row["head_seed"],
                    "score": row["score"],
                    "penalty": told["penalty"][layer - 1] if "penalty" in told else None,
                }
            )
    return out


def _warnings(said: Mapping[tuple[str, str], Said]) -> list[str]:
    found = []
    for one in said.values():
        arm = one.arms[0]
        found += [f"{one.name}, layer {x}, seed {run} was left out: {why}." for x, run, why in arm.failed]
        still = [str(x + 1) for x, done in enumerate(arm.told.get("converged", ())) if not done]
        if still:
            found.append(f"{one.name} did not converge at layer {', '.join(still)}.")
    return found
