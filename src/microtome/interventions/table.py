"""Table of the interventions by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .freeze import Freeze
from .permute import Permute
from .reinit import Reinit
from .skip import Skip
from .truncate import Truncate

INTERVENTIONS: Mapping[str, type] = MappingProxyType(
    {"truncate": Truncate, "skip": Skip, "freeze": Freeze, "reinit": Reinit, "permute": Permute}
)
