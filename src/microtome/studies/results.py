"""Results of a study: what the store, or a folder written by `study report`, has of its jobs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..checks import whole_number
from ..errors import must
from ..findings.opening import open_found
from ..store.files import as_written, read_json, write_whole
from ..store.outfolder import RESULT
from ..store.shelf import Shelf
from .grid import StudyGrid
from .values import NOTHING, Study

INDEX = "study.json"
FORMAT = "microtome/study/1"


@dataclass(frozen=True)
class StudyResult:
    """
    One result of a study.

    Parameters
    ----------
    table, verb : str
        The experiment; "finetune" for fine-tunings.
    model, task : str
        Names in the study; empty where it covers several.
    seed : int, optional
    folder : Path
        Holds result.json and table.parquet.
    address : str
    """

    table: str
    verb: str
    model: str
    task: str
    seed: int | None
    folder: Path
    address: str = ""

    @property
    def name(self) -> str:
        """Its path among the results of the study."""
        seed = () if self.seed is None else (f"seed-{self.seed}",)
        return "/".join(filter(None, (self.table, self.model, self.task, *seed)))

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The content of result.json."""
        return read_json(self.folder / RESULT)

    @cached_property
    def content(self) -> Any:
        """What `mt.open` reads: a Result, Maps or a document."""
        return open_found(self.folder)


@dataclass(frozen=True, kw_only=True)
class StudyResults(Sequence[StudyResult]):
    """
    Results of a study, in the order of its jobs.

    Parameters
    ----------
    name, title, paper : str
        Of the study.
    claims : object
        Of the study.
    models, tasks : tuple of str
        Names in the study.
    results : tuple of StudyResult
    experiments : mapping of str to mapping
        `verb`, `models` and `tasks` of each experiment of the study, and of its fine-tunings.
    """

    name: str
    title: str
    paper: str
    claims: Any
    models: tuple[str, ...]
    tasks: tuple[str, ...]
    results: tuple[StudyResult, ...]
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: NOTHING)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: Any) -> Any:
        return self.results[place]

    def __iter__(self) -> Iterator[StudyResult]:
        return iter(self.results)

    def select(self, **facts: Any) -> StudyResults:
        """
        Keep the results with these values of `table`, `verb`, `model`, `task` or `seed`.

        Parameters
        ----------
        **facts
            A value, or a tuple of allowed values.

        Returns
        -------
        StudyResults
        """

        def fits(result: StudyResult) -> bool:
            return all(
                getattr(result, name) in (value if isinstance(value, tuple) else (value,))
                for name, value in facts.items()
            )

        return replace(self, results=tuple(result for result in self.results if fits(result)))

    def one(self, **facts: Any) -> StudyResult | None:
        """The first result with these values; None where there is none."""
        return next(iter(self.select(**facts)), None)

    def document(self) -> dict[str, Any]:
        """The index of a folder of results."""
        facts = ("table", "verb", "model", "task", "seed", "address")
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("name", "title", "paper", "claims")},
            "models": list(self.models),
            "tasks": list(self.tasks),
            "experiments": dict(self.experiments),
            "results": [
                {**{fact: getattr(result, fact) for fact in facts}, "folder": result.name}
                for result in self.results
            ],
        }


def read_results(study: Study, shelf: Shelf) -> StudyResults:
    """
    Find the results that the store has of a study.

    Parameters
    ----------
    study : Study
    shelf : Shelf

    Returns
    -------
    StudyResults
    """
    jobs = StudyGrid(study).jobs
    addresses = set(shelf.addresses())
    results = []
    for job in jobs:
        entry = shelf.get(job.address) if job.address in addresses else None
        if entry is not None:
            place = (job.table, job.verb, job.model, job.task, job.seed)
            results.append(StudyResult(*place, folder=entry.folder, address=job.address))
    tables: dict[str, Any] = {**study.experiments, **({"finetune": study.finetune} if study.finetune else {})}
    return StudyResults(
        name=study.name,
        title=study.title,
        paper=study.paper,
        claims=study.claims if isinstance(study.claims, str) else list(study.claims),
        models=tuple(study.models),
        tasks=tuple(study.tasks),
        results=tuple(results),
        experiments={
            name: {"verb": getattr(part, "verb", name), "models": part.models_only, "tasks": part.tasks_only}
            for name, part in tables.items()
        },
    )


def open_results(folder: str | os.PathLike[str]) -> StudyResults:
    """
    Open a folder that `study report` wrote.

    Parameters
    ----------
    folder : path

    Returns
    -------
    StudyResults
    """
    place = Path(folder)
    index = read_json(place / INDEX) if (place / INDEX).is_file() else None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise must("the folder of a study", f"one with {INDEX}, as `microtome study report` writes", folder)
    with as_written(place / INDEX):
        results = tuple(_read_result(place, entry) for entry in index["results"])
        names = {name: index[name] for name in ("name", "title", "paper", "claims", "experiments")}
        models, tasks = tuple(index["models"]), tuple(index["tasks"])
        for value in (*(names[name] for name in ("name", "title", "paper")), *models, *tasks):
            _check_text(value)
        return StudyResults(**names, models=models, tasks=tasks, results=results)


def _check_text(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")


def _read_result(place: Path, entry: Mapping[str, Any]) -> StudyResult:
    """An entry of the index; its folder is below that of the report, as what is in it may be removed."""
    for name in ("table", "verb", "model", "task", "address", "folder"):
        _check_text(entry[name])
    folder = place / entry["folder"]
    if place.resolve() not in folder.resolve().parents:
        raise must("the folder of a result", "below that of the report", entry["folder"])
    facts = [entry[name] for name in ("table", "verb", "model", "task", "seed")]
    if facts[-1] is not None:
        whole_number("seed", facts[-1])
    return StudyResult(*facts, folder=folder, address=entry["address"])


def write_results(results: StudyResults, folder: Path) -> None:
    """Copy results out of the store into a folder, with an index."""
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    # The index is first, so that a report that was interrupted can be written again.
    write_whole(folder / INDEX, [json.dumps(results.document(), indent=1).encode() + b"\n"])
    for result in results:
        place = folder / result.name
        place.mkdir(parents=True, exist_ok=True)
        for file in result.folder.iterdir():
            if file.suffix in (".json", ".parquet") and file.name != "entry.json":
                shutil.copyfile(file, place / file.name)
