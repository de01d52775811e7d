"""How does a folder of results become one page?"""

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
    made: str | None = None,
) -> Path:
    """
    Write one HTML page on every result below a folder, with what was found at the top.

    Parameters
    ----------
    folder : path
        What verbs wrote with `--out`, at any depth below it.
    file : path, optional
        The page; `report.html` in the folder when absent.
    made : str, optional
        The date on the page; today when absent.

    Returns
    -------
    Path
        Where the page is. It needs no other file and no network.
    """
    day = datetime.date.today().isoformat() if made is None else made
    document = collect(folder, made=day)
    return write_page(document, Path(folder) / PAGE if file is None else Path(file))
