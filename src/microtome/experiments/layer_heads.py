"""Heads trained on cached vectors of every layer, and their predictions in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import Context
from ..errors import InputError
from ..store.shelf import Shelf
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import read_cuts, write_cuts
from ..training.heads.head import Head
from ..training.models.stock import SEQUENCE
from ..training.opening import Model
from ..training.recipe import Recipe

if TYPE_CHECKING:
    from ..training.heads.head_inputs import HeadRows
    from ..training.models.taskmodel import TaskModel

KIND, TABLE, TOLD = "heads", "answers.parquet", "heads.json"
# Bytes of vectors that are kept, where nobody says how many examples to train on.
MOST = {"cpu": 2_000_000_000, "cuda": 16_000_000_000}
FOLDS, FOLD_SEED = 5, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """
    What heads of one kind answered.

    Parameters
    ----------
    runs : tuple of (int or str)
        Seeds of the heads; one where nothing is drawn.
    answers : list of list of list
        For each run and layer, from layer 1 on, one answer an example.
    failed : tuple of (int, int, str)
        Layer, run and reason of trainings that diverged.
    told : mapping
        Plain data: penalties, whether solvers converged, losses.
    """

    runs: tuple[int | str, ...]
    answers: list[list[list[Any]]]
    failed: tuple[tuple[int, int, str], ...]
    told: Mapping[str, Any]


class Vectors:
    """
    What a head reads of two splits in every layer: owns the vectors, from when they are first asked for.

    Parameters
    ----------
    one : Model
    task : Task
    train, split : Split
        To learn from, and to answer.
    make : callable, optional
        Builds the model where it is not there yet.
    context : Context
    """

    def __init__(
        self,
        one: Model,
        task: Task,
        train: Split,
        split: Split,
        *,
        make: Callable[[], TaskModel] | None = None,
        context: Context,
    ) -> None:
        self.one, self.task, self.train, self.split = one, task, train, split
        self.context, self._make = context, make

    @cached_property
    def model(self) -> TaskModel:
        """The model whose head is read."""
        return self.one.task_model if self._make is None else self._make()

    @cached_property
    def learned(self) -> HeadRows:
        """Of the examples to learn from."""
        return self._rows(self.train)[0]

    @cached_property
    def answered(self) -> tuple[HeadRows, list[Any]]:
        """Of the examples to answer, and their features."""
        return self._rows(self.split)

    def _rows(self, split: Split) -> tuple[HeadRows, list[Any]]:
        from ..training.heads.head_inputs import head_rows
        from ..training.inputs import encode

        features = encode(split.items, self.task, self.one.tokenizer, longest=self.one.longest)
        found = head_rows(self.model, features, context=self.context, autocast=self.one.autocast)
        return found, features

    def decoded(self, outputs: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
        """Turn the outputs of every layer into answers."""
        from ..training.heads.decoding import decode

        _, features = self.answered
        return [decode(each, features, self.split.items, self.task) for each in outputs]


def trained_arm(
    vectors: Vectors,
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    fresh: Callable[[int], TaskModel] | None = None,
    still: Collection[str] = (),
) -> Arm:
    """
    Train the heads of all layers by a recipe, with several seeds.

    Parameters
    ----------
    vectors : Vectors
    recipe : Recipe
    seeds : sequence of int
        Of the heads: the order of examples, dropout and, for fresh heads, their weights.
    fresh : callable, optional
        Builds a model with a head drawn from a seed; heads begin as the model's own when absent.
    still : collection of str
        Names of weights of the head that stay as the model has them; see `train_heads`.

    Returns
    -------
    Arm
    """

    def compute() -> tuple[list[list[Any]], dict[str, Any]]:
        from ..training.heads.layer_heads import apply_heads, failures, head_weights, train_heads

        model = vectors.model
        starts = None
        if fresh is not None:
            drawn = (head_weights(fresh(seed)).items() for seed in seeds)
            starts = [{name: weight for name, weight in each if name not in set(still)} for each in drawn]
        heads = train_heads(
            model,
            vectors.learned,
            recipe,
            seeds=seeds,
            starts=starts,
            still=still,
            context=vectors.context,
        )
        found = [
            each for one in heads for each in vectors.decoded(apply_heads(model, one, vectors.answered[0]))
        ]
        losses = [[loss if np.isfinite(loss) else None for loss in one.losses.tolist()] for one in heads]
        told = {"failed": [[layer + 1, seed, why] for layer, seed, why in failures(heads)], "losses": losses}
        return found, {**told, "updates": heads[0].updates}

    asked = {
        "arm": "trained",
        "start": "tuned" if fresh is None else "fresh",
        "recipe": recipe.specification(),
        "seeds": list(seeds),
    }
    if still:
        asked["still"] = sorted(still)
    return _kept(vectors, asked, tuple(seeds), compute)


def converged_arm(vectors: Vectors) -> Arm:
    """
    Fit linear readouts of all layers to convergence: logistic for classes, ridge for numbers.

    Parameters
    ----------
    vectors : Vectors

    Returns
    -------
    Arm
        With one run.
    """

    def compute() -> tuple[list[list[Any]], dict[str, Any]]:
        from ..probes.linear import fit_logistic, fit_ridge

        rows, (answered, _) = vectors.learned, vectors.answered
        if rows.targets is None:
            raise InputError("examples that readouts are fitted on must have labels, but some have none.")
        groups = np.repeat(vectors.train.groups, rows.counts)
        right, more = rows.targets.cpu().numpy(), {"folds": FOLDS, "groups": groups, "seed": FOLD_SEED}
        if vectors.task.kind == "regression":
            fit = fit_ridge(rows.vectors, right, **more)
        else:
            fit = fit_logistic(
                rows.vectors, right, len(vectors.task.labels), device=rows.vectors.device, **more
            )
        said = fit.decision(answered.vectors)
        said = said[:, :, None] if vectors.task.kind == "tagging" else said
        outputs = [answered.apart(each, np.arange(len(answered.counts))) for each in said]
        told = {"penalty": fit.penalty.tolist(), "converged": fit.converged.tolist()}
        return vectors.decoded(outputs), {**told, "held_out_loss": fit.losses.tolist()}

    asked = {"arm": "converged", "folds": FOLDS, "seed": FOLD_SEED}
    return _kept(vectors, asked, ("converged",), compute)


def readout_refusal(kind: str) -> str | None:
    """Why readouts of a kind of task are not fitted to convergence; None where they are."""
    if kind in ("classification", "regression", "tagging"):
        return None
    return (
        f"Converged readouts must be of tasks with a label or a number for each vector, but {kind} has none."
    )


def fresh_model(base: Any, task: Task, like: TaskModel, seed: int) -> TaskModel:
    """
    Put a new head of the same kind on another encoder.

    Parameters
    ----------
    base : TransformerEncoder
    task : Task
    like : TaskModel
        Whose kind of head is built.
    seed : int

    Returns
    -------
    TaskModel
    """
    from ..training.models.modeling import build
    from ..training.models.stock import trained_pooler

    head: Any = "stock"
    if isinstance(like.head, Head) and like.reader is not None and task.kind in SEQUENCE:
        head = like.head
        if head.pooler == "pretrained" and trained_pooler(base) is None:
            head = replace(head, pooler="fresh")
    return build(base, task, head, seed=seed)


def fitting_size(one: Model, train: Split) -> int | None:
    """How many training examples leave vectors that fit into memory; None where all do."""
    from ..training.cuts import depth_of

    model = one.task_model
    each = 4 * depth_of(model) * int(model.config.hidden_size)
    rows = np.cumsum([max(1, len(item.choices), len(item.words)) for item in train])
    most = MOST["cpu" if model.device.type == "cpu" else "cuda"] // each
    return None if rows[-1] <= most else max(1, int(np.searchsorted(rows, most, side="right")))


def _kept(
    vectors: Vectors,
    asked: Mapping[str, Any],
    runs: tuple[int | str, ...],
    compute: Callable[[], tuple[list[list[Any]], dict[str, Any]]],
) -> Arm:
    """Read the answers from the store, or compute them and put them there."""
    one, task, split, context = vectors.one, vectors.task, vectors.split, vectors.context
    specification = {
        "version": 2,
        **asked,
        "model": one.digest,
        "kind": task.kind,
        "labels": list(task.labels),
        "train": vectors.train.digest,
        "examples": split.digest,
        "longest": one.longest,
        "device": one.device,
        "precision": one.precision,
    }
    with Shelf(context.store, context.command).work(kind=KIND, specification=specification) as work:
        entry = work.entry
        if entry is None:
            found, told = compute()
            write_cuts(work.folder / TABLE, split, found)
            (work.folder / TOLD).write_text(json.dumps(told))
            entry = work.finish(
                {"model": one.name, "task": task.name, "split": split.name, "arm": asked["arm"]}
            )
    answers = read_cuts(Path(entry.folder) / TABLE, split)
    told = json.loads((Path(entry.folder) / TOLD).read_text())
    layers = len(answers) // len(runs)
    return Arm(
        runs=runs,
        answers=[answers[i * layers : (i + 1) * layers] for i in range(len(runs))],
        failed=tuple((layer, seed, why) for layer, seed, why in told.get("failed", ())),
        told=told,
    )
