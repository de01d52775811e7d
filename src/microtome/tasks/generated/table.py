"""Table of the generated tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..task import Task
from .agreement import agreement
from .entailment import entailment
from .polarity import polarity

GENERATED: Mapping[str, Callable[..., Task]] = MappingProxyType(
    {"polarity": polarity, "entailment": entailment, "agreement": agreement}
)
