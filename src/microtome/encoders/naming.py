"""Names of models that are loaded together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError


def distinct_names(sources: Sequence[str]) -> list[str]:
    """
    Name models after the ends of their paths, with as many folders as are needed to make names differ.

    Parameters
    ----------
    sources : sequence of str
        Hub ids or folders.

    Returns
    -------
    list of str

    Examples
    --------
    >>> distinct_names(["run1/best", "run2/best", "zoo:masked"])
    ['run1-best', 'run2-best', 'masked']
    """
    short = [(Path(source).name or source).removeprefix("zoo:") for source in sources]
    # One folder can be written in several ways.
    models = [os.path.abspath(source) if os.path.isdir(source) else source for source in sources]
    folders = [[part for part in Path(source).parts if part != Path(source).anchor] for source in sources]
    names, parts = short, 2
    while len(set(names)) < len(set(models)) and parts <= max(map(len, folders)):
        names = [
            name if names.count(name) == 1 else "-".join(folder[-parts:])
            for name, folder in zip(names, folders, strict=True)
        ]
        parts += 1
    for labels in (models, names):
        repeated = [name for name, label in zip(short, labels, strict=True) if labels.count(label) > 1]
        if repeated:
            raise InputError(f"names of models must differ, but {repeated[0]!r} stands twice.")
    return names
