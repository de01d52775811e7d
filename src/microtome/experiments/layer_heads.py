"""Heads trained on cached vectors of every layer, and their predictions in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import Context
from ..errors import InputError
from ..store.shelf import Shelf
from ..tasks.subset import subset
from ..tasks.task import Split, Task
from ..training.cut_store import read_cuts, write_cuts
from ..training.heads.head import Head
from ..training.models.stock import SEQUENCE
from ..training.opening import Model
from ..training.recipe import Recipe

if TYPE_CHECKING:
    from ..training.heads.head_inputs import HeadRows
    from ..training.models.taskmodel import TaskModel

KIND, TABLE, DETAILS = "heads", "answers.parquet", "heads.json"
# Bytes of vectors that are kept, where nobody says how many examples to train on.
MOST = {"cpu": 2_000_000_000, "cuda": 16_000_000_000}
FOLDS, FOLD_SEED = 5, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """
    Predictions of heads of one kind on one model.

    Parameters
    ----------
    runs : tuple of (int or str)
        Seeds of the heads; one where nothing is random.
    answers : list of list of list
        For each run and layer, from layer 1 on, one prediction per example.
    failed : tuple of (int, int, str)
        Layer, run and reason of trainings that diverged.
    details : mapping
        Plain data: penalties, whether solvers converged, losses.
    """

    runs: tuple[int | str, ...]
    answers: list[list[list[Any]]]
    failed: tuple[tuple[int, int, str], ...]
    details: Mapping[str, Any]


@dataclass(kw_only=True)
class Vectors:
    """
    What a head reads of two splits in every layer: owns the vectors, from their first use on.

    Parameters
    ----------
    source : Model
    task : Task
    train, split : Split
        To train on, and to predict.
    make : callable, optional
        Builds the model where it is not there yet.
    context : Context
    """

    source: Model
    task: Task
    train: Split
    split: Split
    make: Callable[[], TaskModel] | None = None
    context: Context

    @cached_property
    def model(self) -> TaskModel:
        """The model whose head is read."""
        return self.source.task_model if self.make is None else self.make()

    @cached_property
    def train_rows(self) -> HeadRows:
        """Vectors of the examples to train on."""
        return self._rows(self.train)[0]

    @cached_property
    def split_rows(self) -> tuple[HeadRows, list[Any]]:
        """Vectors of the examples to predict, and their features."""
        return self._rows(self.split)

    def _rows(self, split: Split) -> tuple[HeadRows, list[Any]]:
        from ..training.heads.head_inputs import head_rows
        from ..training.inputs import encode

        source = self.source
        features = encode(split.items, self.task, source.tokenizer, longest=source.longest)
        rows = head_rows(self.model, features, context=self.context, autocast=source.autocast)
        return rows, features

    def decoded(self, outputs: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
        """Turn the outputs of every layer into predictions."""
        from ..training.heads.decoding import decode

        _, features = self.split_rows
        return [decode(by_layer, features, self.split.items, self.task) for by_layer in outputs]

    def arm(
        self,
        kind: Mapping[str, Any],
        runs: tuple[int | str, ...],
        compute: Callable[[], tuple[list[list[Any]], dict[str, Any]]],
    ) -> Arm:
        """Read the predictions of a kind of head from the store, or compute them and put them there."""
        source, task, split, context = self.source, self.task, self.split, self.context
        specification = {
            "version": 2,
            **kind,
            "model": source.digest,
            "kind": task.kind,
            "labels": list(task.labels),
            "train": self.train.digest,
            "examples": split.digest,
            "longest": source.longest,
            "device": source.device,
            "precision": source.precision,
        }
        with Shelf(context.store, context.command).work(kind=KIND, specification=specification) as work:
            entry = work.entry
            if entry is None:
                predictions, details = compute()
                write_cuts(work.folder / TABLE, split, predictions)
                (work.folder / DETAILS).write_text(json.dumps(details))
                entry = work.finish(
                    {"model": source.name, "task": task.name, "split": split.name, "arm": kind["arm"]}
                )
        answers = read_cuts(Path(entry.folder) / TABLE, split)
        details = json.loads((Path(entry.folder) / DETAILS).read_text())
        layers = len(answers) // len(runs)
        return Arm(
            runs=runs,
            answers=[answers[i * layers : (i + 1) * layers] for i in range(len(runs))],
            failed=tuple((layer, seed, why) for layer, seed, why in details.get("failed", ())),
            details=details,
        )


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
        Builds a model with a head initialized from a seed; heads begin as the model's own when absent.
    still : collection of str
        Names of weights of the head that stay as the model has them; see `train_heads`.

    Returns
    -------
    Arm
    """

    def compute() -> tuple[list[list[Any]], dict[str, Any]]:
        from ..training.heads.layer_heads import apply_heads, failures, head_weights, train_heads

        model, starts = vectors.model, None
        if fresh is not None:
            starts = [
                {name: weight for name, weight in head_weights(fresh(seed)).items() if name not in set(still)}
                for seed in seeds
            ]
        options = {"seeds": seeds, "starts": starts, "still": still, "context": vectors.context}
        heads = train_heads(model, vectors.train_rows, recipe, **options)
        outputs = [apply_heads(model, of_seed, vectors.split_rows[0]) for of_seed in heads]
        predictions = [by_layer for of_seed in outputs for by_layer in vectors.decoded(of_seed)]
        losses = [[loss if np.isfinite(loss) else None for loss in head.losses.tolist()] for head in heads]
        failed = [[layer + 1, seed, why] for layer, seed, why in failures(heads)]
        return predictions, {"failed": failed, "losses": losses, "updates": heads[0].updates}

    kind = {
        "arm": "trained",
        "start": "tuned" if fresh is None else "fresh",
        "recipe": recipe.specification(),
        "seeds": list(seeds),
        **({"still": sorted(still)} if still else {}),
    }
    return vectors.arm(kind, tuple(seeds), compute)


def converged_arm(vectors: Vectors) -> Arm:
    """
    Fit linear probes of all layers to convergence: logistic for classes, ridge for numbers.

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

        rows, (split_rows, _) = vectors.train_rows, vectors.split_rows
        if rows.targets is None:
            raise InputError("examples of linear probes must have labels, but some have none.")
        groups = np.repeat(vectors.train.groups, rows.counts)
        targets, options = rows.targets.cpu().numpy(), {"folds": FOLDS, "groups": groups, "seed": FOLD_SEED}
        if vectors.task.kind == "regression":
            fit = fit_ridge(rows.vectors, targets, **options)
        else:
            options["device"] = rows.vectors.device
            fit = fit_logistic(rows.vectors, targets, len(vectors.task.labels), **options)
        decision = fit.decision(split_rows.vectors)
        decision = decision[:, :, None] if vectors.task.kind == "tagging" else decision
        outputs = [split_rows.apart(by_layer, np.arange(len(split_rows.counts))) for by_layer in decision]
        details = {"penalty": fit.penalty, "converged": fit.converged, "held_out_loss": fit.losses}
        return vectors.decoded(outputs), {name: array.tolist() for name, array in details.items()}

    return vectors.arm({"arm": "converged", "folds": FOLDS, "seed": FOLD_SEED}, ("converged",), compute)


def converged_refusal(kind: str) -> str | None:
    """Why linear probes of a kind of task are not fitted to convergence; None where they are."""
    if kind in ("classification", "regression", "tagging"):
        return None
    return f"Converged probes must be of tasks with a label or a number for each vector, but {kind} has none."


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


def fitting_sample(
    train: Split, models: Iterable[Model], seed: int, work: str = "Heads were trained"
) -> tuple[Split, list[str]]:
    """
    Take as many training examples as leave vectors of all models that fit into memory.

    Parameters
    ----------
    train : Split
    models : iterable of Model
    seed : int
        Of the sample.
    work : str
        What is done with them, for the note.

    Returns
    -------
    split : Split
    notes : list of str
        Empty where all of them are taken.
    """
    sizes = [size for model in models if (size := fitting_size(model, train)) is not None]
    if not sizes:
        return train, []
    sample = subset(train, min(sizes), seed=seed)
    return sample, [
        f"{work} on a random sample of {len(sample):,} of {len(train):,} examples (seed {seed}): the vectors "
        "of more would not fit into memory."
    ]


def fitting_size(model: Model, train: Split) -> int | None:
    """How many training examples leave vectors that fit into memory; None where all do."""
    from ..training.cuts import depth_of

    net = model.task_model
    row_bytes = 4 * depth_of(net) * int(net.config.hidden_size)
    rows = np.cumsum([max(1, len(item.choices), len(item.words)) for item in train])
    most = MOST["cpu" if net.device.type == "cpu" else "cuda"] // row_bytes
    return None if rows[-1] <= most else max(1, int(np.searchsorted(rows, most, side="right")))
