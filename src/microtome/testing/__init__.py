"""Do your own measures keep their word? The contract that those of the package are held against."""

from __future__ import annotations

from .measures import ContractError as ContractError
from .measures import check_measure as check_measure
