"""What lies in a folder of results? Maps of a comparison, or what an experiment found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import InputError
from .record import FORMAT, open_record
from .results import RESULT, open_result


def open_found(path: str | os.PathLike[str]) -> Any:
    """
    Read what a verb wrote with `--out`, or what `save` wrote.

    Parameters
    ----------
    path : path
        A folder, or its `result.json`.

    Returns
    -------
    Maps or Result
        Maps of `similarity` and `compare`; a Result of an experiment.
    """
    place = Path(path)
    file = place / RESULT if place.is_dir() else place
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"a record must be a readable {RESULT}, but got: {error}.") from error
    if isinstance(found, dict) and "experiment" in found and found.get("format") != FORMAT:
        return open_result(file)
    return open_record(path)
