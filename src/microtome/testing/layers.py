"""Which pairs of layers, and which changes of them, tell measures apart?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ..randomness import generator

Pair = tuple[np.ndarray, np.ndarray]
