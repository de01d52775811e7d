"""Predictions of probes and codes of all layers of a model, kept in the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ...context import Context
from ...errors import WorkError
from ...inference.answers import Answers
from ...probes.dataset import Asked, Probed
from ...probes.edge.counts import EDGE_F1
from ...probes.mdl import Code
from ...probes.structural.probe import TREE_SCORES
from ...scores.table import find_score
from ...store.files import writing_weights
from ...store.shelf import Shelf
from .inputs import RecordedRows

KIND, ARRAYS, EXAMPLES, RECORD = "probes", "arrays.safetensors", "examples.parquet", "probes.json"
VERSION = 1  # of how probes are trained: another one trains them again
_OWN = {score.name: score for score in (EDGE_F1, *(main for main, _ in TREE_SCORES.values()))}


def stored_probe(
    asked: Asked,
    probe: str,
    rows: RecordedRows,
    train: Callable[[Asked, np.ndarray], Probed],
    context: Context,
) -> Probed:
    """
    Read the predictions of a probe from the store, or train it.

    Parameters
    ----------
    asked : Asked
    probe : str
        Its name.
    rows : RecordedRows
        Of the model.
    train : callable
    context : Context

    Returns
    -------
    Probed
        The same, bit by bit, whether it is read or trained.
    """
    return _read_probed(
        _stored(asked, probe, rows, lambda folder: _write_probed(folder, train(asked, rows.X)), context)
    )


def stored_code(
    asked: Asked, rows: RecordedRows, compute: Callable[[Asked, np.ndarray], Code], context: Context
) -> Code:
    """
    Read an online code from the store, or compute it.

    Parameters
    ----------
    asked, rows, compute, context
        As in `stored_probe`.

    Returns
    -------
    Code
    """

    def write(folder: Path) -> None:
        code = compute(asked, rows.X)
        _write_arrays(folder, {part.name: np.asarray(getattr(code, part.name)) for part in fields(Code)})

    arrays = _read_arrays(_stored(asked, "online code", rows, write, context))
    return Code(**{**arrays, "uniform": float(arrays["uniform"].item())})


def _stored(
    asked: Asked, probe: str, rows: RecordedRows, write: Callable[[Path], None], context: Context
) -> Path:
    """Folder with the results of a probing task, whose address is all that decides them."""
    target = asked.annotated.target.name
    specification = {
        "version": VERSION,
        "probe": probe,
        "target": target,
        "annotation": annotation_digest(asked),
        "rows": asked.digest,
        **{name: _digest(getattr(asked, name)) for name in ("train", "held", "judged")},
        "seeds": list(asked.seeds),
        "control": asked.control,
        "inputs": asked.inputs,
        "steps": asked.steps,
        "size": asked.size,
        "device": str(asked.device or "cpu").partition(":")[0],
    }
    shelf = Shelf(context.store, context.command)
    with shelf.work(kind=KIND, specification=specification, inputs=[rows.address]) as work:
        entry = work.entry
        if entry is None:
            write(work.folder)
            entry = work.finish({"probe": probe, "target": target})
    return Path(entry.folder)


def annotation_digest(asked: Asked) -> str:
    """A hash of sentences and of their gold annotation."""
    annotated = asked.annotated
    texts = json.dumps([annotated.ids, annotated.groups, annotated.sentences, annotated.labels])
    arrays = (annotated.spans, annotated.right, annotated.owner, *annotated.heads, *annotated.punctuation)
    return _digest(np.frombuffer(texts.encode(), dtype=np.uint8), *arrays)


def _digest(*arrays: np.ndarray) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for array in arrays:
        hasher.update(f"{array.dtype.str}{array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def _write_probed(folder: Path, probed: Probed) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = probed.answers[0]
    if not all(
        list(answers.ids) == list(first.ids) and list(answers.seeds) == list(first.seeds)
        for answers in probed.answers
    ):
        raise WorkError("probes of all layers must answer about the same examples, but they do not.")
    predictions = np.stack([np.stack([*map(np.asarray, answers.predictions)]) for answers in probed.answers])
    _write_arrays(folder, {"targets": np.asarray(first.targets), "predictions": predictions})
    table = {"id": list(map(str, first.ids))}
    if first.groups is not None:
        table["group"] = list(map(str, first.groups))
    pq.write_table(pa.table(table), folder / EXAMPLES)
    record = {
        "score": probed.score.name,
        "seeds": list(first.seeds),
        "labels": probed.labels,
        "lines": dict(probed.lines),
        "note": probed.note,
        "rows": list(map(dict, probed.rows)),
        "more": dict(probed.more),
        "places": probed.places,
        "shares": probed.shares,
    }
    (folder / RECORD).write_text(json.dumps(record))


def _read_probed(folder: Path) -> Probed:
    import pyarrow.parquet as pq

    table, arrays = pq.read_table(folder / EXAMPLES).to_pydict(), _read_arrays(folder)
    record = json.loads((folder / RECORD).read_text())
    score, seeds = record["score"], tuple(record["seeds"])
    return Probed(
        answers=tuple(
            Answers(
                ids=table["id"],
                groups=table.get("group"),
                targets=arrays["targets"],
                predictions=list(predictions),
                seeds=seeds,
            )
            for predictions in arrays["predictions"]
        ),
        score=_OWN[score] if score in _OWN else find_score(score),
        labels=tuple(record["labels"]),
        lines=record["lines"],
        note=record["note"],
        rows=tuple({name: _tuple(value) for name, value in row.items()} for row in record["rows"]),
        more=record["more"],
        places=tuple(record["places"]),
        shares=tuple(map(tuple, record["shares"])),
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    with writing_weights(folder):
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ARRAYS)


def _read_arrays(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / ARRAYS)
