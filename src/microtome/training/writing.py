"""How are trained models and their scores told to others? As documents, and as files beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.versions import versions
from ..findings.record import make_folder, replace_file
from ..findings.results import RESULT
from ..findings.results import plain as plain_data
from ..store.entry import read_entry
from ..store.linking import link_files
from .evaluating import plain
from .tuned import RUN

if TYPE_CHECKING:
    from ..inference.estimate import Estimate
    from .evaluating import Evaluation
    from .tuned import Tuned

TABLE = "table.parquet"


def runs_document(
    runs: Sequence[Tuned], mean: Estimate, *, command: str, seconds: float | None = None
) -> dict[str, Any]:
    """
    Tell of a fine-tuning with several seeds.

    Parameters
    ----------
    runs : sequence of Tuned
    mean : Estimate
        Over seeds.
    command : str
        What a user types to do it again.
    seconds : float, optional
        That all of it took; those of the trainings when absent.

    Returns
    -------
    dict
        Plain data of the format microtome/finetune/1.
    """
    told = [
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
        "runs": told,
        "mean": plain(mean),
        "provenance": _provenance(runs, told, command, seconds),
    }


def _provenance(
    runs: Sequence[Tuned], told: Sequence[dict[str, Any]], command: str, seconds: float | None
) -> dict[str, Any]:
    """Say what it takes to make the runs again, by the names that other experiments use."""
    import torch

    asked = [read_entry(run.folder).specification for run in runs]
    spent = sum(run.course["seconds"] for run in runs)
    first = asked[0]
    return {
        **versions(),
        "model": first["model"],
        "task": first["task"],
        "task_source": told[0]["task_source"],
        "train": [
            {"examples": run.train_size, "digest": one["train"]} for run, one in zip(runs, asked, strict=True)
        ],
        "recipe": {"name": told[0]["recipe"], **told[0]["recipe_values"]},
        "seeds": [run.seeds.order for run in runs],
        "runs": len(runs),
        "trained_seconds": round(spent, 3),
        "seconds": round(spent if seconds is None else seconds, 3),
        "device": first["device"],
        "precision": first["precision"],
        "threads": first.get("threads") or torch.get_num_threads(),
        "command": command,
    }


def write_runs(folder: Path, runs: Sequence[Tuned], document: dict[str, Any]) -> None:
    """
    Write a fine-tuning: the document, a table of all scores, and a checkpoint for each seed.

    Parameters
    ----------
    folder : Path
    runs : sequence of Tuned
    document : dict
        Of `runs_document`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .saving import CARD, HEAD_JSON, HEAD_WEIGHTS

    place = make_folder(folder)
    _write(place, document)
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
    pq.write_table(pa.Table.from_pylist(rows), place / TABLE)
    for run in runs:
        shown = place / f"seed-{run.seeds.order}"
        for name in (HEAD_JSON, HEAD_WEIGHTS, CARD):
            # The head of an earlier run would pass for that of this one.
            (shown / name).unlink(missing_ok=True)
        link_files(run.folder, shown)


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
    Tell how a model answered, perhaps beside another one on the same examples.

    Parameters
    ----------
    found : Evaluation
    other : Evaluation, optional
    model, against : str
        Their names.
    level : float
        Of the interval of the difference.
    command : str
        What a user types to do it again.

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
    both = [one.provenance for one in (found, other) if one is not None]
    told = {
        **found.provenance,
        "models": [digest for each in both for digest in each.get("models", ())],
        "seconds": round(sum(each.get("seconds", 0.0) for each in both), 3),
    }
    return {**document, "provenance": {**(told if found.provenance else {}), "command": command}}


def write_evaluation(folder: Path, found: Evaluation, document: dict[str, Any]) -> None:
    """
    Write how a model answered: the document, and every answer.

    Parameters
    ----------
    folder : Path
    found : Evaluation
    document : dict
        Of `evaluation_document`.
    """
    from .evaluating import write_answers

    place = make_folder(folder)
    _write(place, document)
    write_answers(found, place / TABLE)


def _write(place: Path, document: dict[str, Any]) -> None:
    content = json.dumps(plain_data(document), indent=1, allow_nan=False).encode() + b"\n"
    replace_file(place / RESULT, content)
