"""What a reader sees: results collected into one page, findings first."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType


class _Called(ModuleType):
    """
    A package that can be called, for `microtome.report(...)`.

    The verb and this package have one name: once the package is imported, Python puts it where the function
    stood, and the name must mean the same before and after.
    """

    def __call__(
        self,
        folder: str | os.PathLike[str],
        file: str | os.PathLike[str] | None = None,
        *,
        date: str | None = None,
    ) -> Path:
        """Write one HTML page on every result below a folder; see `microtome.report.writing.report`."""
        from .writing import report

        return report(folder, file, date=date)


sys.modules[__name__].__class__ = _Called
