"""Opening of results: maps of a comparison, the result of an experiment, or the document of another verb."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..arguments import checked
from ..errors import InputError, check_plain
from ..store.outfolder import RESULT, check_earlier, write_files
from ..store.shards import is_stack, read_manifest
from .claims.claim import Claim, read_claim
from .record import FORMAT, from_json
from .results import open_result

# Verbs whose result is a document: there are no maps and no curves in it.
DOCUMENTS = ("finetune", "evaluate", "prune", "pretrain", "extract")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document(Mapping[str, Any]):
    """
    The result of a verb that has neither maps nor curves: a mapping with the keys of its `result.json`.

    Parameters
    ----------
    kind : str
        The verb: "finetune", "evaluate", "prune", "pretrain" or "extract".
    folder : Path
        Folder that it was read from.
    content : mapping of str to object
        Content of the file; for `extract`, its manifest with model, texts and rows.
    """

    kind: str
    folder: Path
    content: Mapping[str, Any]

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Provenance of the result."""
        return self.content.get("provenance", {})

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What follows from the result, as values."""
        return tuple(read_claim(entry) for entry in self.content.get("claims", ()))

    @property
    def findings(self) -> tuple[str, ...]:
        """Sentences of the result."""
        return tuple(self.content.get("findings", ()))

    @property
    def methods(self) -> str:
        """A paragraph for a paper."""
        return str(self.content.get("methods", ""))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the result must know."""
        return tuple(self.content.get("warnings", ()))

    def document(self) -> dict[str, Any]:
        """Content of the file."""
        return dict(self.content)

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """
        Write `result.json`, without the models and tables beside it.

        Parameters
        ----------
        folder : path

        Returns
        -------
        tuple of Path
        """
        check_earlier(folder, self.kind, (RESULT,))
        content = json.dumps(self.document(), indent=1, allow_nan=False).encode() + b"\n"
        return write_files(folder, {RESULT: content})

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        return f"<{self.kind}: {', '.join(self.content)}>"


@checked
def open_found(path: str | os.PathLike[str]) -> Any:
    """
    Read a result that a command wrote with `--out`, or that `save` wrote.

    Parameters
    ----------
    path : path
        A folder, or its `result.json`.

    Returns
    -------
    Maps, Result or Document
        Maps of `similarity` and `compare`; a Result of an experiment; a Document of `finetune`, `evaluate`,
        `prune`, `pretrain` and `extract`, a mapping with what they wrote.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.random.default_rng(0).normal(size=(3, 100, 4))
    >>> _ = mt.similarity_matrix(layers).save("maps")
    >>> mt.open("maps")["debiased_cka"].shape
    (3, 3)
    """
    source = Path(path)
    file = source / RESULT if source.is_dir() else source
    if source.is_dir() and not file.exists() and is_stack(source):
        manifest = read_manifest(source)
        layers = [{"name": name, "width": width} for name, width in manifest.plan.layers]
        values = {**manifest.extra, "layers": layers, "dtype": manifest.plan.dtype}
        return Document(kind="extract", folder=source, content=MappingProxyType(values))
    check_plain(file)
    try:
        content = file.read_bytes()
        document = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"a record must be a readable {RESULT}, but got: {error}.") from error
    if isinstance(document, dict) and "experiment" in document and document.get("format") != FORMAT:
        return open_result(file)
    kind = str(document.get("format", "")).split("/")[1:2] if isinstance(document, dict) else []
    if kind and kind[0] in DOCUMENTS:
        return Document(kind=kind[0], folder=file.parent, content=MappingProxyType(document))
    return from_json(content)
