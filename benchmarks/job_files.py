"""Where do jobs of a long run leave what they found? One small file each; and a page takes their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def finished_jobs(out: Path, kind: str, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """
    Read the files of a folder, by the name of the job; those of a run with other options are refused.

    Parameters
    ----------
    out : Path
    kind : str
        The format of the files; others are left alone.
    options : mapping
        What decides the numbers of a job.

    Returns
    -------
    dict
    """
    from microtome.errors import InputError

    found = {}
    for path in sorted(out.glob("*.json")):
        read = json.loads(path.read_text())
        if read.get("format") != kind:
            continue
        if read["options"] != options:
            names = sorted({*options, *read["options"]})
            differ = [name for name in names if read["options"].get(name) != options.get(name)]
            raise InputError(
                f"{out} must hold jobs with the options of this run, but {path.name} differs in "
                f"{', '.join(differ)}; give another --out."
            )
        found[path.stem] = read
    return found


def fill_marks(page: Path, tables: Mapping[str, str]) -> None:
    """
    Put tables between the marks of a page.

    Parameters
    ----------
    page : Path
    tables : mapping of str to str
        By the name of their mark.
    """
    from microtome.errors import InputError

    text = page.read_text()
    for name, table in tables.items():
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        if opening not in text or closing not in text:
            raise InputError(f"{page} must have the marks {opening} and {closing}, but it has not.")
        before, _, rest = text.partition(opening)
        text = f"{before}{opening}\n\n{table}\n\n{closing}{rest.partition(closing)[2]}"
    page.write_text(text)
