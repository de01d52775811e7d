"""Results of fine-tunings: documents, findings and output folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..encoders.versions import provenance
from ..findings.claims.claim import Claim
from ..findings.claims.render import render
from ..findings.claims.scores import failure_claim, score_claim
from ..findings.words import counted
from ..inference.estimate import Estimate
from ..lazy import torch
from ..store.entry import read_entry
from ..store.outfolder import RESULT, TABLE, check_earlier, check_foreign, deliver, listed, make_folder
from .evaluation import plain, sentences_of, write_document
from .tuned import RUN, Tuned

TUNING = "finetune"


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
        Of the interval over seeds.
    """

    kind: ClassVar[str] = TUNING
    runs: tuple[Tuned, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seconds: float | None = None
    level: float = 0.95

    @cached_property
    def mean(self) -> Estimate:
        """Mean score of the task over seeds."""
        from .multi_seed import over_seeds

        return over_seeds(self.runs, level=self.level)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Failed runs, and the score of the sound ones against the majority baseline."""
        sound = [run for run in self.runs if run.failure is None]
        failures = {run.seeds.order: run.failure for run in self.runs if run.failure is not None}
        evaluation = (sound or self.runs)[0].evaluation
        score = self.mean if len(sound) > 1 else evaluation.score
        claims = failure_claim(failures, len(self.runs))
        if sound:
            claims += score_claim(score, **evaluation.sample, seeds=len(sound), trained=True)
        return tuple(claims)

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims as text, and notes of the task."""
        return (*map(render, self.claims), *self.runs[0].evaluation.remarks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Failed runs, and what else a reader of the mean must know."""
        failed = [f"seed {run.seeds.order}: {run.failure}" for run in self.runs if run.failure]
        return (*failed, *self.mean.warnings)

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
        import pyarrow as pa
        import pyarrow.parquet as pq

        check_runs(Path(folder), [run.seeds.order for run in self.runs])
        path = make_folder(folder)
        checkpoints = [deliver(run.folder, path / f"seed-{run.seeds.order}") for run in self.runs]
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
        return (path / RESULT, path / TABLE, *checkpoints)
