"""Result documents and output folders of fine-tunings and evaluations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.versions import provenance
from ..findings.record import check_earlier, make_folder, replace_file
from ..findings.results import RESULT
from ..findings.results import plain as plain_data
from ..store.entry import read_entry
from ..store.outfolder import TABLE, check_foreign, deliver, forget, kind_of, listed
from .evaluating import plain
from .tuned import RUN

if TYPE_CHECKING:
    from ..inference.estimate import Estimate
    from .evaluating import Evaluation
    from .tuned import Tuned

EVALUATION = "evaluate"


def check_runs(folder: Path, seeds: Sequence[int]) -> None:
    """
    Check that a fine-tuning would not replace foreign files in a folder.

    Parameters
    ----------
    folder : Path
        It need not exist.
    seeds : sequence of int
    """
    check_earlier(folder, "finetune", (RESULT, TABLE))
    for seed in seeds:
        seed_folder = folder / f"seed-{seed}"
        # Foreign files would be mistaken for those of the checkpoint.
        check_foreign(seed_folder, () if listed(seed_folder) else ("*",))


def runs_document(
    runs: Sequence[Tuned], mean: Estimate, *, command: str, seconds: float | None = None
) -> dict[str, Any]:
    """
    Make the document of a fine-tuning with several seeds.

    Parameters
    ----------
    runs : sequence of Tuned
    mean : Estimate
        Over seeds.
    command : str
        The command that reproduces the runs.
    seconds : float, optional
        Total duration; the sum over the trainings when absent.

    Returns
    -------
    dict
        Plain data of the format microtome/finetune/1.
    """
    run_documents = [
        {
            "seed": run.seeds.order,
            "address": run.address,
            "folder": str(run.folder),
            **json.loads((run.folder / RUN).read_text()),
            "evaluation": run.evaluation.document(),
        }
        for run in runs
    ]
    return {
        "format": "microtome/finetune/1",
        "runs": run_documents,
        "mean": plain(mean),
        "provenance": _provenance(runs, run_documents, command, seconds),
    }


def _provenance(
    runs: Sequence[Tuned], run_documents: Sequence[dict[str, Any]], command: str, seconds: float | None
) -> dict[str, Any]:
    """Collect what it takes to reproduce the runs, under the names that other experiments use."""
    import torch

    specifications = [read_entry(run.folder).specification for run in runs]
    spent = sum(run.course["seconds"] for run in runs)
    first = specifications[0]
    return provenance(
        {
            "model": first["model"],
            "task": first["task"],
            "task_source": run_documents[0]["task_source"],
            "train": [
                {"examples": run.train_size, "digest": specification["train"]}
                for run, specification in zip(runs, specifications, strict=True)
            ],
            "recipe": {"name": run_documents[0]["recipe"], **run_documents[0]["recipe_values"]},
            "seeds": [run.seeds.order for run in runs],
            "runs": len(runs),
            "trained_seconds": round(spent, 3),
            "seconds": round(spent if seconds is None else seconds, 3),
            "device": first["device"],
            "precision": first["precision"],
            "threads": first.get("threads") or torch.get_num_threads(),
            "command": command,
        }
    )


def write_runs(folder: Path, runs: Sequence[Tuned], document: dict[str, Any]) -> None:
    """
    Write a fine-tuning: the document, a table of all scores, and a checkpoint for each seed.

    Parameters
    ----------
    folder : Path
    runs : sequence of Tuned
    document : dict
        Made by `runs_document`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_runs(folder, [run.seeds.order for run in runs])
    path = make_folder(folder)
    for run in runs:
        deliver(run.folder, path / f"seed-{run.seeds.order}")
    _write(path, document)
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
        for run in runs
        for name, score in run.scores.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows), path / TABLE)


def evaluation_document(
    found: Evaluation,
    other: Evaluation | None = None,
    *,
    model: str,
    against: str = "",
    level: float = 0.95,
    command: str = "",
) -> dict[str, Any]:
    """
    Make the document of an evaluation, optionally compared with another one on the same examples.

    Parameters
    ----------
    found : Evaluation
    other : Evaluation, optional
    model, against : str
        Their names.
    level : float
        Of the interval of the difference.
    command : str
        The command that reproduces the evaluation.

    Returns
    -------
    dict
        Plain data of the format microtome/evaluate/1.
    """
    document: dict[str, Any] = {"format": "microtome/evaluate/1", "model": model, **found.document()}
    if other is not None:
        compared = found.against(other, level=level)
        document["against"] = {
            "model": against,
            **other.document(),
            "difference": compared.difference,
            "low": None if compared.interval is None else compared.interval.low,
            "high": None if compared.interval is None else compared.interval.high,
            "p": None if compared.p != compared.p else compared.p,
            "test": compared.test,
        }
    provenances = [evaluation.provenance for evaluation in (found, other) if evaluation is not None]
    combined = {
        **found.provenance,
        "models": [digest for record in provenances for digest in record.get("models", ())],
        "seconds": round(sum(record.get("seconds", 0.0) for record in provenances), 3),
    }
    return {**document, "provenance": {**(combined if found.provenance else {}), "command": command}}


def write_evaluation(folder: Path, found: Evaluation, document: dict[str, Any]) -> None:
    """
    Write an evaluation: the document, and every prediction.

    Parameters
    ----------
    folder : Path
    found : Evaluation
    document : dict
        Made by `evaluation_document`.
    """
    from .evaluating import write_answers

    check_earlier(folder, EVALUATION, (RESULT, TABLE))
    path = make_folder(folder)
    _write(path, document)
    write_answers(found, path / TABLE)


def forget_evaluation(folder: Path) -> None:
    """Remove an earlier evaluation, which would be mistaken for one of the results now in sibling folders."""
    if kind_of(folder / RESULT) == EVALUATION:
        forget(folder, (RESULT, TABLE))


def _write(folder: Path, document: dict[str, Any]) -> None:
    content = json.dumps(plain_data(document), indent=1, allow_nan=False).encode() + b"\n"
    replace_file(folder / RESULT, content)
