"""Recording of the rows of a model in the store."""

from __future__ import annotations

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
from ..rows.planning import WINDOW, Rows
from ..store.outfolder import deliver
from ..store.shards import ShardedLayer, ShardWriter, open_stack
from ..store.shelf import Shelf
from .rowtable import ROWS, write_rows
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
    layers = list(zip(encoder.layers, encoder.widths, strict=True))
    specification = {
        "kind": "activations",
        "model": encoder.digest,
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
        "model": describe(encoder),
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
