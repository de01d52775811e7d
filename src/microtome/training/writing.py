"""How are trained models and their scores told to others? As documents, and as files beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..findings.record import make_folder, replace_file
from ..findings.results import RESULT
from ..findings.results import plain as plain_data
from ..store.linking import link_files
from .evaluating import plain
from .tuned import RUN

if TYPE_CHECKING:
    from ..inference.estimate import Estimate
    from .evaluating import Evaluation
    from .tuned import Tuned

TABLE = "table.parquet"


def runs_document(runs: Sequence[Tuned], mean: Estimate, *, command: str) -> dict[str, Any]:
    """
    Tell of a fine-tuning with several seeds.

    Parameters
    ----------
    runs : sequence of Tuned
    mean : Estimate
        Over seeds.
    command : str
        What a user types to do it again.

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
        }
        for run in runs
    ]
    return {
        "format": "microtome/finetune/1",
        "runs": told,
        "mean": plain(mean),
        "provenance": {"command": command},
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
    return {**document, "provenance": {"command": command}}


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
