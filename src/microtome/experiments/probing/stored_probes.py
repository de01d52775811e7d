"""Predictions of probes and codes of all layers of a model, kept in the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import WorkError
from ...inference.answers import Answers
from ...probes.dataset import Asked, Probed
from ...probes.edge.counts import EDGE_F1
from ...probes.mdl import Code
from ...probes.structural.scores import TREE_SCORES
from ...probes.targets import Annotated
from ...scores.declare import Score
from ...scores.table import find_score
from ...store.files import writing_weights
from ...store.shelf import Shelf

KIND, ARRAYS, EXAMPLES, TOLD = "probes", "arrays.safetensors", "examples.parquet", "probes.json"
VERSION = 1  # of how probes are trained: another one trains them again
_OWN = {one.name: one for one in (EDGE_F1, *(main for main, _ in TREE_SCORES.values()))}


def question(asked: Asked, probe: str) -> dict[str, Any]:
    """
    Say all that decides what a probe finds, but for the rows of the model.

    Parameters
    ----------
    asked : Asked
    probe : str
        Its name.

    Returns
    -------
    dict
        Plain data, for an address.
    """
    return {
        "version": VERSION,
        "probe": probe,
        "target": asked.annotated.target.name,
        "annotation": annotation_digest(asked.annotated),
        "rows": asked.digest,
        **{name: _digest(getattr(asked, name)) for name in ("train", "held", "judged")},
        "seeds": list(asked.seeds),
        "control": asked.control,
        "inputs": asked.inputs,
        "steps": asked.steps,
        "size": asked.size,
        "device": str(asked.device or "cpu").partition(":")[0],
    }


def annotation_digest(found: Annotated) -> str:
    """A hash of sentences and of all that is right about them."""
    told = [found.ids, found.groups, found.sentences, found.labels]
    arrays = [found.spans, found.right, found.owner, *found.heads, *found.punctuation]
    return _digest(np.frombuffer(json.dumps(told).encode(), dtype=np.uint8), *arrays)


def _digest(*arrays: np.ndarray) -> str:
    found = hashlib.blake2b(digest_size=16)
    for each in arrays:
        found.update(f"{each.dtype.str}{each.shape}".encode())
        found.update(np.ascontiguousarray(each).tobytes())
    return found.hexdigest()


def kept_probe(shelf: Shelf, asked: Mapping[str, Any], rows: str, compute: Callable[[], Probed]) -> Probed:
    """
    Read what a probe answered from the store, or let it answer and put that there.

    Parameters
    ----------
    shelf : Shelf
    asked : mapping
        From `question`.
    rows : str
        The address of the rows of the model.
    compute : callable

    Returns
    -------
    Probed
        The same, bit by bit, whether it was there or not.
    """
    return _probed(_kept(shelf, asked, rows, lambda folder: _write_probed(folder, compute())))


def kept_code(shelf: Shelf, asked: Mapping[str, Any], rows: str, compute: Callable[[], Code]) -> Code:
    """
    Read a code from the store, or make it and put it there.

    Parameters
    ----------
    shelf, asked, rows, compute
        As in `kept_probe`.

    Returns
    -------
    Code
    """
    names = [one.name for one in fields(Code)]

    def write(folder: Path) -> None:
        code = compute()
        _write_arrays(folder, {name: np.asarray(getattr(code, name)) for name in names})

    found = _read_arrays(_kept(shelf, asked, rows, write))
    uniform = float(found.pop("uniform").item())
    return Code(uniform=uniform, **found)


def _kept(shelf: Shelf, asked: Mapping[str, Any], rows: str, write: Callable[[Path], None]) -> Path:
    with shelf.work(kind=KIND, specification=asked, inputs=[rows]) as work:
        entry = work.entry
        if entry is None:
            write(work.folder)
            entry = work.finish({"probe": asked["probe"], "target": asked["target"]})
    return Path(entry.folder)


def _write_probed(folder: Path, found: Probed) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = found.answers[0]
    same = (
        list(one.ids) == list(first.ids) and list(one.seeds) == list(first.seeds) for one in found.answers
    )
    if not all(same):
        raise WorkError("probes of all layers must answer about the same examples, but they do not.")
    _write_arrays(
        folder,
        {
            "targets": np.asarray(first.targets),
            "predictions": np.stack(
                [np.stack(list(map(np.asarray, one.predictions))) for one in found.answers]
            ),
        },
    )
    table = {"id": list(map(str, first.ids))}
    if first.groups is not None:
        table["group"] = list(map(str, first.groups))
    pq.write_table(pa.table(table), folder / EXAMPLES)
    told = {
        "score": found.score.name,
        "seeds": list(first.seeds),
        "labels": found.labels,
        "lines": dict(found.lines),
        "note": found.note,
        "rows": [dict(one) for one in found.rows],
        "more": dict(found.more),
        "places": found.places,
        "shares": found.shares,
    }
    (folder / TOLD).write_text(json.dumps(told))


def _probed(folder: Path) -> Probed:
    import pyarrow.parquet as pq

    table, arrays = pq.read_table(folder / EXAMPLES).to_pydict(), _read_arrays(folder)
    told = json.loads((folder / TOLD).read_text())
    shared: dict[str, Any] = {"ids": table["id"], "groups": table.get("group"), "seeds": tuple(told["seeds"])}
    return Probed(
        answers=tuple(
            Answers(targets=arrays["targets"], predictions=list(each), **shared)
            for each in arrays["predictions"]
        ),
        score=_score(told["score"]),
        labels=tuple(told["labels"]),
        lines=MappingProxyType(told["lines"]),
        note=told["note"],
        rows=tuple({name: _tuple(value) for name, value in one.items()} for one in told["rows"]),
        more=told["more"],
        places=tuple(told["places"]),
        shares=tuple(map(tuple, told["shares"])),
    )


def _score(name: str) -> Score:
    return _OWN[name] if name in _OWN else find_score(name)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    with writing_weights(folder):
        save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, folder / ARRAYS)


def _read_arrays(folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(folder / ARRAYS)
