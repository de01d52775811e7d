"""Table of the generated tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from ..task import Task
from .agreement import AGREEMENT
from .entailment import ENTAILMENT
from .grammar import build
from .polarity import POLARITY

GENERATED: Mapping[str, Callable[..., Task]] = MappingProxyType(
    {grammar.name: partial(build, grammar) for grammar in (POLARITY, ENTAILMENT, AGREEMENT)}
)
