"""Where do jobs of a long run leave what they found? One small file each; and a page takes their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_jobs(place: Path, kind: str) -> dict[str, dict[str, Any]]:
    """
    Read what jobs found, by their names.

    Parameters
    ----------
    place : Path
        A folder with a file for each job, or one file with a line for each, as `keep_jobs` writes it.
    kind : str
        The format of the documents; others are left alone.

    Returns
    -------
    dict
    """
    if place.is_file():
        found = dict(json.loads(line) for line in place.read_text().splitlines())
    else:
        found = {path.stem: json.loads(path.read_text()) for path in sorted(place.glob("*.json"))}
    return {name: one for name, one in found.items() if isinstance(one, dict) and one.get("format") == kind}


def keep_jobs(found: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """
    Write what jobs found into one file, a line for each, so that a page can be made again without them.

    Parameters
    ----------
    found : mapping of str to mapping
        By the names of the jobs.
    path : Path
        Jobs that it has already stay, but for those of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = dict(json.loads(line) for line in path.read_text().splitlines()) if path.is_file() else {}
    every = {**kept, **found}
    lines = [json.dumps([name, every[name]], separators=(",", ":")) for name in sorted(every)]
    path.write_text("".join(f"{line}\n" for line in lines))


def finished_jobs(
    out: Path, kind: str, options: Mapping[str, Any], *, known: Path | None = None
) -> dict[str, dict[str, Any]]:
    """
    Read what is done, by the name of the job; what was done with other options is refused.

    Parameters
    ----------
    out : Path
        The folder of this run.
    kind : str
        The format of the files; others are left alone.
    options : mapping
        What decides the numbers of a job.
    known : Path, optional
        What an earlier run kept.

    Returns
    -------
    dict
    """
    from microtome.errors import InputError

    found = {}
    for place in (known, out):
        for name, read in ({} if place is None else read_jobs(place, kind)).items():
            if read["options"] != options:
                names = sorted({*options, *read["options"]})
                differ = [each for each in names if read["options"].get(each) != options.get(each)]
                raise InputError(
                    f"{place} must hold jobs with the options of this run, but {name} differs in "
                    f"{', '.join(differ)}; give another one."
                )
            found[name] = read
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
