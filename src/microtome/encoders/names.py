"""Names of models that are given by their folders or hub ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError


def distinct_names(sources: Sequence[str]) -> list[str]:
    """
    Name models by the ends of their paths, with as many folders as make the names differ.

    Parameters
    ----------
    sources : sequence of str
        Folders or hub ids.

    Returns
    -------
    list of str

    Examples
    --------
    >>> distinct_names(["runs/seed-1", "other/seed-1", "zoo:masked"])
    ['runs-seed-1', 'other-seed-1', 'masked']
    """
    short = [(Path(source).name or source).removeprefix("zoo:") for source in sources]
    # One folder can be written in several ways.
    models = [os.path.abspath(source) if os.path.isdir(source) else source for source in sources]
    folders = [[part for part in Path(source).parts if part != Path(source).anchor] for source in sources]
    labels, parts = short, 2
    while len(set(labels)) < len(set(models)) and parts <= max(map(len, folders)):
        labels = [
            label if labels.count(label) == 1 else "-".join(folder[-parts:])
            for label, folder in zip(labels, folders, strict=True)
        ]
        parts += 1
    for keys in (models, labels):
        twice = [label for label, key in zip(short, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise InputError(f"names of models must differ, but {twice[0]!r} stands twice.")
    return labels
