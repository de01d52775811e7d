"""Fine-tuned models of one seed or several: predictions, records of the training, and results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from ..arguments import checked
from ..checks import whole_number
from ..encoders.encoder import TransformerEncoder
from ..encoders.versions import provenance
from ..errors import must
from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.claims.tuning import failure_claim, score_claim
from ..findings.scorecurves import score_curve
from ..findings.words import counted, fine_tuned_name
from ..inference.estimate import Estimate, Interval
from ..inference.scoring import several_groups
from ..lazy import torch
from ..store.entry import RECORD, read_entry
from ..store.files import as_written, read_record
from ..store.outfolder import RESULT, TABLE, check_earlier, check_foreign, deliver, listed, make_folder
from .evaluation import Evaluation, plain, sentences_of, write_document
from .recipe import Recipe

if TYPE_CHECKING:
    from .models.taskmodel import TaskModel

RUN, ANSWERS = "run.json", "predictions.parquet"
FailureKind = Literal["diverged", "collapsed"]
TUNING = "finetune"
TARGET = "mean score of models trained with these or other seeds, on other examples"


class Failure(str):
    """
    How a training failed.

    Parameters
    ----------
    kind : {"diverged", "collapsed"}
        The loss became non-finite, or all predictions are the same.
    detail : str

    Examples
    --------
    >>> Failure("diverged", "the loss was inf at update 3"), Failure("collapsed: one answer").kind
    ('diverged: the loss was inf at update 3', 'collapsed')
    """

    __slots__ = ()

    def __new__(cls, kind: str, detail: str = "") -> Self:
        """Join both parts; a failure that is written already has them."""
        return super().__new__(cls, f"{kind}: {detail}" if detail else kind)

    @property
    def kind(self) -> FailureKind:
        """Whether training diverged or collapsed."""
        return cast("FailureKind", self.partition(": ")[0])


def read_failure(record: Mapping[str, Any]) -> Failure | None:
    """Read the failure of a run from its record."""
    return Failure(record["failure"]) if record.get("failure") else None


def stored_name(folder: Path) -> str:
    """Name a fine-tuned model in a store by its training; empty for any other folder."""
    record = read_record(folder / RUN) if read_record(folder / RECORD).get("address") == folder.name else {}
    with as_written(folder / RUN):
        return fine_tuned_name(record["model"], record["task"], record["seeds"]["order"]) if record else ""


def train_digest(folder: Path) -> str | None:
    """The digest of the examples that a model was trained on, where its folder came from a store."""
    record = read_record(folder / RECORD)
    with as_written(folder / RECORD):
        return record.get("specification", {}).get("train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """
    Seeds of the random parts of a fine-tuning.

    Parameters
    ----------
    init : int
        Initialization of new weights: the head, a fresh pooler.
    order : int
        Order of the examples, and dropout.
    subset : int
        Choice of the training examples, where not all are used.
    """

    init: int
    order: int
    subset: int

    def __post_init__(self) -> None:
        for name in ("init", "order", "subset"):
            whole_number(f"seed of {name}", getattr(self, name), 0)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """
    A fine-tuned model, with the record of its training.

    Parameters
    ----------
    encoder : Encoder
        The tuned model as an encoder, with its head.
    model : TaskModel
        The same model with the outputs of the task.
    task : str
    recipe : Recipe
    seeds : Seeds
    train_size : int
        Number of training examples.
    longest : int
        Maximum number of tokens per example.
    evaluation : Evaluation
        On the validation split.
    course : mapping
        Updates, losses and seconds.
    failure : Failure, optional
        Why the run must not be averaged with others: it diverged, or predicts the same for all examples.
    folder : Path
        The checkpoint, as `from_pretrained` reads it.
    address : str
        In the store.
    checkpoints : tuple of Path
        Intermediate checkpoints, in order.
    """

    encoder: TransformerEncoder = field(repr=False)
    model: TaskModel = field(repr=False)
    task: str
    recipe: Recipe = field(repr=False)
    seeds: Seeds
    train_size: int
    longest: int
    evaluation: Evaluation = field(repr=False)
    course: Mapping[str, Any] = field(repr=False)
    failure: Failure | None = None
    folder: Path
    address: str
    checkpoints: tuple[Path, ...] = ()

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """Every score of the task on its validation split."""
        return self.evaluation.scores

    @property
    def score(self) -> Estimate:
        """The score of the task."""
        return self.evaluation.score

    @property
    def predictions(self) -> tuple[Any, ...]:
        """Predictions on the validation split, in its order."""
        return self.evaluation.predictions


def check_runs(folder: Path, seeds: Sequence[int]) -> None:
    """
    Check that a fine-tuning would not replace foreign files in a folder.

    Parameters
    ----------
    folder : Path
        It need not exist.
    seeds : sequence of int
    """
    check_earlier(folder, TUNING, (RESULT, TABLE))
    for seed in seeds:
        seed_folder = folder / f"seed-{seed}"
        # Foreign files would be mistaken for those of the checkpoint.
        check_foreign(seed_folder, () if listed(seed_folder) else ("*",))


@dataclass(frozen=True, kw_only=True)
class TunedRuns:
    """
    Result of a fine-tuning with one seed or several.

    Parameters
    ----------
    runs : tuple of Tuned
    facts : mapping
        What reproduces the runs beside their own records: the command and its options.
    seconds : float, optional
        Total duration; the sum over the trainings when absent.
    level : float
        Of the interval of the mean.
    """

    kind: ClassVar[str] = TUNING
    runs: tuple[Tuned, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seconds: float | None = None
    level: float = 0.95

    @cached_property
    def mean(self) -> Estimate:
        """Mean score of the task over seeds."""
        return over_seeds(self.runs, level=self.level)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Failed runs, and the score of the sound ones against the majority baseline."""
        sound = [run for run in self.runs if run.failure is None]
        failures = {run.seeds.order: run.failure for run in self.runs if run.failure is not None}
        claims = failure_claim(failures, len(self.runs))
        if sound:
            claims += score_claim(self.mean, **sound[0].evaluation.sample, seeds=len(sound), trained=True)
        return tuple(claims)

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims as text, and notes of the task."""
        return (*map(render, self.claims), *self.runs[0].evaluation.remarks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Failed runs, and what else a reader of the mean must know."""
        return self.mean.warnings

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        run, evaluation = self.runs[0], self.runs[0].evaluation
        return (
            f"The model was fine-tuned on {run.train_size:,} examples of {run.task} with the recipe "
            f"{run.recipe.name} ({counted(len(self.runs), 'seed')}), and scored on the "
            f"{len(evaluation.ids):,} examples of {evaluation.split}."
        )

    @cached_property
    def _run_documents(self) -> list[dict[str, Any]]:
        return [
            {
                "seed": run.seeds.order,
                "address": run.address,
                "folder": str(run.folder),
                **json.loads((run.folder / RUN).read_text()),
                "evaluation": run.evaluation.scored(),
            }
            for run in self.runs
        ]

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """What it takes to reproduce the runs, under the names that other results use."""
        specifications = [read_entry(run.folder).specification for run in self.runs]
        spent = sum(run.course["seconds"] for run in self.runs)
        first, record = specifications[0], self._run_documents[0]
        return provenance(
            {
                "model": first["model"],
                "task": first["task"],
                "task_source": record["task_source"],
                "train": [
                    {"examples": run.train_size, "digest": specification["train"]}
                    for run, specification in zip(self.runs, specifications, strict=True)
                ],
                "recipe": {"name": record["recipe"], **record["recipe_values"]},
                "seeds": [run.seeds.order for run in self.runs],
                "runs": len(self.runs),
                "trained_seconds": round(spent, 3),
                "seconds": round(spent if self.seconds is None else self.seconds, 3),
                "device": first["device"],
                "precision": first["precision"],
                "threads": first.get("threads") or torch.get_num_threads(),
                **self.facts,
            }
        )

    def document(self) -> dict[str, Any]:
        """Plain data of the format microtome/finetune/1."""
        return {
            "format": f"microtome/{TUNING}/1",
            "runs": self._run_documents,
            "mean": plain(self.mean),
            **sentences_of(self),
            "provenance": self.provenance,
        }

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, all scores in `table.parquet`, and a checkpoint for each seed.

        Parameters
        ----------
        folder : path
            New, or of an earlier fine-tuning, whose files are replaced.

        Returns
        -------
        tuple of Path
        """
        check_runs(Path(folder), [run.seeds.order for run in self.runs])
        path = make_folder(folder)
        checkpoints = [deliver(run.folder, path / f"seed-{run.seeds.order}") for run in self.runs]
        return (*self.record(path), *checkpoints)

    def record(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write `result.json` and `table.parquet` alone into a folder that exists."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(folder)
        write_document(path, self.document())
        rows = [
            {
                "seed": run.seeds.order,
                "score": name,
                "value": score.value,
                "low": score.low,
                "high": score.high,
                "n": score.n,
                "failure": run.failure,
            }
            for run in self.runs
            for name, score in run.scores.items()
        ]
        pq.write_table(pa.Table.from_pylist(rows), path / TABLE)
        return (path / RESULT, path / TABLE)


@checked
def over_seeds(runs: Sequence[Any], *, level: float = 0.95) -> Estimate:
    """
    Average the score of the task over runs; diverged or collapsed runs are counted, never averaged.

    The interval is over examples and seeds, as that of every other score of several seeds.

    Parameters
    ----------
    runs : sequence of Tuned
    level : float

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> runs = [mt.finetune(base, task, epochs=1, seed=seed) for seed in (0, 1)]
    >>> mt.over_seeds(runs).n
    20
    """
    if not isinstance(runs, Sequence) or not runs or not all(hasattr(run, "evaluation") for run in runs):
        raise must("runs", "fine-tuned models, at least one", runs)
    evaluation = runs[0].evaluation
    if any(run.evaluation.ids != evaluation.ids for run in runs):
        raise must("runs", "scored on the same examples", [run.task for run in runs])
    if len(evaluation.ids) < 2:  # no interval
        values = [run.score.value for run in runs if run.failure is None]
        return replace(evaluation.score, value=sum(values) / len(values) if values else math.nan)
    answers = replace(
        evaluation.answers(),
        predictions=tuple(run.predictions for run in runs),
        groups=several_groups(evaluation.groups),
        seeds=tuple(run.seeds.order for run in runs),
    )
    failed = [(0, run.seeds.order, run.failure) for run in runs if run.failure is not None]
    mean = score_curve(
        "mean", (0,), (answers,), evaluation.main, evaluation.labels, axis="", level=level, failed=failed
    )
    value, low, high = (float(line[0]) for line in (mean.values, mean.low, mean.high))
    interval = Interval(low=low, high=high, level=level, method="t", unit=mean.unit, target=TARGET)
    undefined = f"all {len(runs)} runs failed" if len(failed) == len(runs) else None
    return Estimate(
        value=value,
        measure=evaluation.score.measure,
        estimator=f"mean over {counted(mean.seeds[0], 'seed')}",
        n=len(answers.ids),
        interval=interval if math.isfinite(low) else None,
        reason=undefined,
        warnings=tuple(f"{reason}." for reason in mean.reasons if reason),
    )
