"""Table of the corpus readers, and the choice of a reader for a source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..errors import InputError, listed, unknown
from .brackets import PTB
from .conllu import CONLLU
from .declare import Reader
from .files import kinds_at
from .hub import HUB, SCHEME
from .jsonl import JSONL
from .packed import ARCHIVES, COMPRESSED, is_archive, split_name
from .plain import TEXT
from .separated import CSV, TSV

CORPORA: Mapping[str, Reader] = MappingProxyType(
    {reader.name: reader for reader in (CONLLU, PTB, TEXT, JSONL, TSV, CSV, HUB)}
)


def find(source: str, reader: str | Reader | None) -> Reader:
    """
    Find the reader of a source.

    Parameters
    ----------
    source : str
        A path that exists, or hub:NAME.
    reader : str or Reader, optional
        The user's choice; chosen by the file suffix when absent.

    Returns
    -------
    Reader
    """
    if isinstance(reader, Reader):
        return reader
    if reader is not None and reader not in CORPORA:
        raise unknown("reader", reader, CORPORA)
    if source.startswith(SCHEME):
        if reader not in (None, HUB.name):
            raise InputError(f"reader must be hub for {source!r}, but got {reader!r}.")
        return HUB
    if reader is not None:
        return CORPORA[reader]
    path = Path(source)
    if not path.is_dir() and not is_archive(path):
        return _by_kind(path)
    kinds = kinds_at(path)
    readers = [
        candidate
        for candidate in CORPORA.values()
        if any(kinds.get(s, False) or (candidate.nested and s in kinds) for s in candidate.suffixes)
    ]
    if not readers:
        raise InputError(f"{path} must hold {_known()} files, but there is none.")
    if len(readers) > 1:
        names = ", ".join(candidate.name for candidate in readers)
        raise InputError(f"reader must be named for {path}, but got none, and there are files for {names}.")
    return readers[0]


def _by_kind(path: Path) -> Reader:
    kind = split_name(path.name)[1]
    for reader in CORPORA.values():
        if kind in reader.suffixes:
            return reader
    raise InputError(
        f"a corpus must end in {_known()}, packed as {listed((*COMPRESSED, *ARCHIVES))} or not, or have its "
        f"reader named, but got {path.name!r}."
    )


def _known() -> str:
    return listed(suffix for reader in CORPORA.values() for suffix in reader.suffixes)
