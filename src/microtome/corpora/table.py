"""Table of the corpus readers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .brackets import PTB
from .conllu import CONLLU
from .examples import Reader
from .hub import HUB
from .jsonl import JSONL
from .plain import TEXT
from .separated import CSV, TSV

CORPORA: Mapping[str, Reader] = MappingProxyType(
    {reader.name: reader for reader in (CONLLU, PTB, TEXT, JSONL, TSV, CSV, HUB)}
)
