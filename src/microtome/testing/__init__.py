"""Contract tests for similarity measures, those of the package and user-defined ones."""

from __future__ import annotations

from .measures import ContractError as ContractError
from .measures import check_measure as check_measure
