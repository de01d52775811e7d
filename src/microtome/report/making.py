"""The function `report`: one page on all results of a folder."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from ..arguments import checked
from .collecting import collect
from .writing import write_page

PAGE = "report.html"


@checked
def report(
    folder: str | os.PathLike[str],
    file: str | os.PathLike[str] | None = None,
    *,
    date: str | None = None,
) -> Path:
    """
    Write one HTML page on every result below a folder, with what was found at the top.

    Parameters
    ----------
    folder : path
        What verbs wrote with `--out`, at any depth below it.
    file : path, optional
        The page; `report.html` in the folder when absent.
    date : str, optional
        The date on the page; today when absent.

    Returns
    -------
    Path
        Where the page is. It needs no other file and no network.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.random.default_rng(0).normal(size=(3, 100, 4))
    >>> _ = mt.similarity_matrix(layers).save("results/maps")
    >>> mt.report("results").name
    'report.html'
    """
    day = datetime.date.today().isoformat() if date is None else date
    document = collect(folder, date=day)
    return write_page(document, Path(folder) / PAGE if file is None else Path(file))
