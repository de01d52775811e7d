"""Recording of the rows of a model in the store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np

from ..checks import check_choice, whole_number
from ..context import Context
from ..encoders.encoder import Encoder
from ..errors import InputError
from ..rows.documents import document_codes
from ..rows.planning import WINDOW, Rows
from ..store.files import as_written, read_columns
from ..store.outfolder import deliver
from ..store.recording import ShardWriter
from ..store.shards import ShardedLayer, open_stack
from ..store.shelf import Shelf
from .streaming import constant_layers, stream
from .texts import Texts

STORAGE = ("float32", "float16", "bfloat16")
# The files of a recording.
RECORDED = ("entry.json", "journal.jsonl", "manifest.json", "rows.parquet", "shard-*.safetensors")


class LayerList(Sequence[np.ndarray]):
    """
    Layers on disk, read on access.

    Parameters
    ----------
    stored : sequence of ShardedLayer
        `stored[3].rows(0, 10)` reads a part of a layer.
    """

    def __init__(self, stored: Sequence[ShardedLayer]) -> None:
        self.stored = tuple(stored)

    def __len__(self) -> int:
        return len(self.stored)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        """Read a layer of shape (rows, features)."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        layer = self.stored[index]
        return layer.rows(0, layer.shape[0])

    def __repr__(self) -> str:
        return f"<{len(self)} layers of {self.stored[0].shape[0]:,} rows>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activations:
    """
    The rows of every layer of one model over one corpus.

    Parameters
    ----------
    model : str
        The name of the model.
    names : tuple of str
        The names of the layers, such as "bert/3".
    layers : LayerList
        `layers[3]` is an array of shape (rows, features): the output of block 3. Layer 0 is the input of the
        first block.
    rows : Rows
        The description of each row: `rows.ids`, `rows.clusters`, `rows.digest`.
    constant : tuple of int
        Layers that are the same in every row, whatever the corpus: layer 0, where the row of an example is
        its first token.
    address : str
        The address in the store.
    folder : Path
        The folder of the files.
    facts : mapping of str to object
        Metadata of the model, the corpus and the run.
    provenance : mapping of str to object
        Versions, digests, device, seconds, and the command that reproduces the rows.
    """

    model: str
    names: tuple[str, ...]
    layers: LayerList
    rows: Rows
    constant: tuple[int, ...] = ()
    address: str
    folder: Path
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    provenance: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def varying(self) -> tuple[int, ...]:
        """The layers that are not constant, and can be compared."""
        return tuple(k for k in range(len(self.names)) if k not in self.constant)

    @property
    def findings(self) -> tuple[str, ...]:
        """What was recorded, in a sentence."""
        return (f"{len(self.layers)} layers of {len(self.rows):,} rows in {self.folder}",)

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: rows that are lost are named in the plan and in `rows`."""
        return ()

    @property
    def methods(self) -> str:
        """A sentence for a paper."""
        text = self.facts.get("texts", {}).get("name", "the corpus")
        return (
            f"The {len(self.layers)} layers of {self.model} were recorded on {text}: {self.rows.sentence()}."
        )

    def document(self) -> dict[str, Any]:
        """Convert all but the rows themselves to JSON-compatible data."""
        return {
            "format": "microtome/extract/1",
            "model": self.model,
            "layers": list(self.names),
            "widths": [layer.shape[1] for layer in self.layers.stored],
            "rows": len(self.rows),
            "digest": self.rows.digest,
            "address": self.address,
            "folder": str(self.folder),
            "facts": dict(self.facts),
            "provenance": dict(self.provenance),
        }

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Copy the layers into a folder, which `similarity_matrix` and `microtome similarity` read."""
        place = deliver(self.folder, Path(folder))
        return tuple(sorted(path for pattern in RECORDED for path in place.glob(pattern)))

    def __repr__(self) -> str:
        return f"<Activations of {self.model}: {len(self.layers)} layers, {self.rows.sentence()}>"


def record(
    encoder: Encoder,
    texts: Texts,
    rows: Rows,
    *,
    context: Context,
    storage: str = "float32",
    batch_tokens: int | None = None,
    window: int = WINDOW,
) -> Activations:
    """
    Record the rows of every layer in the store, or find them there.

    An interrupted recording resumes where it stopped, and produces the same bytes.

    Parameters
    ----------
    encoder : Encoder
    texts : Texts
    rows : Rows
        Rows planned on these texts.
    context : Context
        Its store, command and progress.
    storage : {"float32", "float16", "bfloat16"}
        The type in which numbers are stored.
    batch_tokens : int, optional
        The maximum number of tokens in a batch, padding included; chosen by device when absent.
    window : int
        As in `stream`.

    Returns
    -------
    Activations
    """
    check_choice("storage", storage, STORAGE)
    if batch_tokens is not None:
        whole_number("batch_tokens", batch_tokens, 1)
    layers, model = list(zip(encoder.layers, encoder.widths, strict=True)), describe(encoder)
    specification = {
        "kind": "activations",
        "model": model["digest"],
        "layers": [name for name, _ in layers],
        "texts": texts.digest,
        "rows": {**rows.options.specification(), "digest": rows.digest},
        "dtype": storage,
        "window": window,
        "tokens": batch_tokens,
        "device": str(encoder.device),
    }
    if rows.paired:
        # Distinguishes sentence pairs from words of two texts that are read as one.
        specification["pairs"] = "framed"
    facts = {
        "model": model,
        "texts": dict(texts.facts),
        "rows": {"count": len(rows), "sentence": rows.sentence(), "digest": rows.digest},
    }
    with Shelf(context.store, context.command).work(kind="activations", specification=specification) as work:
        entry = work.entry
        if entry is None:
            writer = ShardWriter(work.folder, layers, storage)
            done = writer.shards[-1].meta if writer.done else {}
            for part in stream(
                [encoder],
                texts.examples,
                rows,
                first=int(done.get("window", -1)) + 1,
                window=window,
                # A batch size that ran out of memory once would do so again.
                tokens=done.get("tokens", batch_tokens),
                progress=context.progress,
            ):
                if part.stop > part.start:
                    arrays = [layer.cpu().numpy() for layer in part.layers[0]]
                    arrays_by_name = {name: array for (name, _), array in zip(layers, arrays, strict=True)}
                    _check_finite(encoder, arrays_by_name)
                    writer.write(arrays_by_name, {"window": part.number, "tokens": part.tokens})
            writer.finish(facts)
            write_rows(rows, work.folder / ROWS)
            entry = work.finish(facts)
    return Activations(
        model=encoder.name,
        names=tuple(f"{encoder.name}/{name}" for name, _ in layers),
        layers=LayerList(open_stack(entry.folder)),
        rows=rows,
        constant=constant_layers(encoder, rows),
        address=entry.address,
        folder=entry.folder,
        facts=MappingProxyType(facts),
    )


def _check_finite(encoder: Encoder, layers: Mapping[str, np.ndarray]) -> None:
    """Raise an error for rows with NaN or infinite values, which come from non-finite weights."""
    for name, rows in layers.items():
        if not np.isfinite(rows).all():
            raise InputError(
                f"layer {encoder.name}/{name} must have finite values, but it has NaN or infinite ones; look "
                f"at the weights of {encoder.source.given}."
            )


def describe(encoder: Encoder) -> dict[str, Any]:
    """Return the metadata of a model as plain data."""
    return {
        "name": encoder.name,
        "family": encoder.family.name,
        "source": encoder.source.given,
        "revision": encoder.source.revision,
        "changes": list(encoder.source.changes),
        "digest": encoder.digest,
    }


ROWS = "rows.parquet"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """
    The clusters of the rows of a recorded stack: documents or sentences.

    Parameters
    ----------
    codes : ndarray of int of shape (rows,), or None
        The cluster of each row; None where every row is independent.
    unit : str
        The independent unit: "document", "sentence" or "example".
    few : str
        Why the documents of the corpus are not used as clusters; empty where they are, or it has none.
    """

    codes: np.ndarray | None
    unit: str
    few: str


def write_rows(rows: Rows, path: Path) -> None:
    """
    Write a table with the example and the word or token of each row.

    Where the corpus names documents, the column `group` is the document of the row.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def of_rows(values: tuple[str, ...]) -> pa.Array:
        return pa.array(np.array(values, dtype=object)[rows.examples], pa.string())

    columns = {"id": of_rows(rows.ids), "example": rows.examples, "unit": rows.units}
    if rows.groups:
        columns["group"] = of_rows(rows.groups)
    pq.write_table(pa.table(columns), path)


def read_grouping(folder: Path) -> Grouping | None:
    """
    Read the clusters of the rows, as `compare` uses them.

    Parameters
    ----------
    folder : Path
        The folder of a recorded stack.

    Returns
    -------
    Grouping or None
        None where the stack has no table of its rows.
    """
    path = folder / ROWS
    if not path.is_file():
        return None
    table = read_columns(path)
    with as_written(path):
        return _grouping(table)


def _grouping(table: Mapping[str, Any]) -> Grouping:
    examples = np.asarray(table["example"], dtype=np.int64)
    # With rows of whole examples, each example has one row; with words or tokens, a sentence has several.
    one_row_each = len(np.unique(examples)) == len(examples)
    noun = "example" if one_row_each else "sentence"
    few = ""
    if "group" in table:
        _, first, indices = np.unique(examples, return_index=True, return_inverse=True)
        ids, groups = ([table[name][int(row)] for row in first] for name in ("id", "group"))
        codes, few = document_codes(indices, ids, groups, noun)
        if codes is not None:
            return Grouping(codes=codes, unit="document", few=few)
    return Grouping(codes=None if one_row_each else examples, unit=noun, few=few)


def tuned_facts(encoder: Encoder) -> dict[str, Any] | None:
    """
    Read what a model was fine-tuned on, where `finetune` wrote its folder.

    Parameters
    ----------
    encoder : Encoder

    Returns
    -------
    dict or None
        `model`, the name of the base model; `task`; and `seed`.
    """
    # `training` is a higher layer than `comparison`; of what it writes only this file is read here.
    try:
        run_record = json.loads((Path(encoder.source.given) / "run.json").read_bytes())
        return {
            "model": str(run_record["model"]),
            "task": str(run_record["task"]),
            "seed": run_record["seeds"]["order"],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None
