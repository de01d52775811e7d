"""With what is a model run? The versions that a result names."""

from __future__ import annotations

import platform

from ..version import VERSION


def versions() -> dict[str, str]:
    """
    Name the versions of what runs models.

    Returns
    -------
    dict of str to str
        By the names that every result gives them.
    """
    import numpy as np
    import torch
    import transformers

    return {
        "microtome": VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }
