"""Analysis of similarity maps and stacks of layers: blocks, change, localization, matching, convergence."""

from __future__ import annotations

from .comparison.structure import convergence as convergence
from .comparison.structure import find_blocks as find_blocks
from .comparison.structure import find_localization as find_localization
from .findings.blocks import block_structure as block_structure
from .findings.change import change_profile as change_profile
from .findings.layer_order import layer_matching as layer_matching
from .findings.layer_order import mantel as mantel
from .findings.layer_order import monotonicity as monotonicity
from .findings.localization import localization as localization
