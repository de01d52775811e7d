"""Trajectory experiment: maps, change, blocks and scores along the checkpoints of one training."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...arguments import checked
from ...checks import check_level, whole_number
from ...extraction.texts import make_texts
from ...findings.results import Result
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.tuned import RUN
from ..citations import cited
from ..layer_similarity import SAMPLE, Progress, alike, record_models
from ..tuned_models import told_provenance
from .checkpoint_blocks import MEASURE, find_checkpoint_blocks
from .checkpoint_scores import Reading, check_reading, read_steps
from .checkpoints import Checkpoint, checkpoint_length, find_checkpoints, said_lost
from .onset import DRAWS
from .trajectory_summary import (
    Course,
    change_of,
    checkpoint_documents,
    curve_document,
    curves_of,
    layer_curves,
    long_rows,
    order_of,
    said_course,
    said_how,
    shown_curves,
    warned_of,
)


@checked
def trajectory(
    checkpoints: Any,
    on: Any,
    *,
    task: Task | None = None,
    start: Any = None,
    split: str | None = None,
    readouts: bool = True,
    train_size: int | None = None,
    rows: str = "token",
    sample: int | None = SAMPLE,
    longest: int | None = None,
    draws: int = DRAWS,
    level: float = 0.95,
    seed: int = 0,
    dtype: str = "float32",
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str = "",
    **options: Any,
) -> Result:
    """
    Follow the layers of a model along its training.

    At every checkpoint the same rows are read. They give the map of its layers by debiased CKA, how far each
    layer is from where it began and from where it ends, and which layers form blocks. With a task the
    checkpoint is scored as well: by its own head where fine-tuning wrote it, else by linear readouts that are
    fitted to convergence.

    Parameters
    ----------
    checkpoints : path, Series, Tuned, or mapping of int to Encoder or path
        See `find_checkpoints`.
    on : Corpus, path or list of texts
    task : Task, optional
    start : Encoder or path, optional
        The model before the first update, as step 0.
    split : str, optional
        To score on; the task's validation split when absent.
    readouts : bool
        Whether linear readouts are fitted also where checkpoints have heads of their own.
    train_size : int, optional
        Training examples of the readouts; all that fit into memory when absent.
    rows : {"token", "word", "cls", "mean"}
    sample : int, optional
        Rows at most, drawn with the seed; all when absent.
    longest : int, optional
        Tokens of a sentence or example at most.
    draws : int
        Of errors, for the order of blocks and score.
    level : float
        Of intervals and bands.
    seed : int
    dtype, store, progress, command
        As in `extract`.
    device : str
        Where models are loaded, and where layers are compared.
    **options
        precision, memory, threads, as in `similarity_matrix`.

    Returns
    -------
    Result
        Curves over the steps: the score of each checkpoint or, without a task, the mean similarity to the
        first and to the last one; and the same over layers, at a few of the steps. `more` has, one a step,
        "maps" (layers by layers), "change" from the "first" and the "last" (similarities and centers),
        "blocks", "margins" of the best run, "certain", the curves over layers of "readouts" and "heads", and
        in "order" which came first, blocks or score.

    References
    ----------
    Phang et al. 2021 for blocks of layers.
    """
    started, level = time.monotonic(), check_level(level)
    draws = whole_number("draws", draws, 100)
    found = find_checkpoints(checkpoints, start=start, store=store, device=device)
    texts = make_texts(on)
    reading = {"split": split, "readouts": readouts, "train_size": train_size}
    if task is not None:
        check_reading(found, task, **reading)
    keeping: dict[str, Any] = {"store": store, "command": command, "progress": progress}
    recorded = record_models(
        {one.name: one.load for one in found},
        texts,
        rows=rows,
        sample=sample,
        longest=checkpoint_length(found, longest),
        seed=seed,
        dtype=dtype,
        **keeping,
    )
    names = [one.name for one in found]
    given: dict[str, Any] = {"seed": seed, "device": device, **options}
    ends = [names[0], names[-1]]
    against = alike(recorded, MEASURE, left=ends, right=names, progress=progress, **given)[MEASURE]
    blocks = []
    for place, name in enumerate(names):
        blocks.append(find_checkpoint_blocks(recorded, name, level=level, **given))
        if progress is not None:
            progress("blocks", place + 1, len(names))
    judged, readings = None, ()
    if task is not None:
        judged, readings = read_steps(
            found,
            task,
            **reading,
            longest=longest,
            device=device,
            **keeping,
        )
    course = Course(
        steps=tuple(one.step for one in found),
        recorded=recorded,
        against=against,
        blocks=tuple(blocks),
        task=task,
        split=judged,
        readings=readings,
        level=level,
    )
    change = {end: change_of(course, end) for end in ("first", "last")}
    curves, order = curves_of(course), order_of(course, draws=draws, seed=seed)
    layered = {which: layer_curves(course, which) for which in ("readouts", "heads")}
    score, called = None if task is None else find_score(task.main), _called(checkpoints, found)
    return Result(
        experiment="trajectory",
        model=called,
        task=texts.name if task is None else task.name,
        split=texts.name if judged is None else judged.name,
        score=against.measure if score is None else score.name,
        points=1.0 if score is None else score.points,
        higher_is_better=True if score is None else score.higher_is_better,
        curves=(*curves, *shown_curves(course, layered)),
        rows=tuple(long_rows(course, change, layered)),
        findings=tuple(said_course(course, change, curves, order)),
        methods=said_how(course, called),
        references=cited("phang2021"),
        warnings=(*said_lost(checkpoints, store=store), *warned_of(course)),
        more=MappingProxyType(
            {
                "steps": list(course.steps),
                "layers": list(recorded.layers),
                "measure": against.measure,
                "maps": [one.map.tolist() for one in blocks],
                "change": change,
                "blocks": checkpoint_documents(course),
                "margins": [one.margin for one in blocks],
                "certain": [bool(one.finding.certain) for one in blocks],
                "score": None if task is None else curve_document(curves[0]),
                "read_layer": [one.layer for one in readings],
                **{which: [curve_document(one) for one in some] for which, some in layered.items()},
                "order": None if order is None else order.document(),
            }
        ),
        provenance=MappingProxyType(
            told_provenance(
                [recorded],
                [texts],
                started=started,
                task=None if task is None or judged is None else task.digest(judged.name),
                task_source=None if task is None else task.source,
                train=_learned(readings),
                options={
                    **reading,
                    "rows": rows,
                    "sample": sample,
                    "longest": longest,
                    "draws": draws,
                    "level": level,
                    "dtype": dtype,
                    **options,
                },
                seed=seed,
                device=device,
                command=command,
            )
        ),
    )


def _learned(readings: Sequence[Reading]) -> list[dict[str, Any]]:
    """What readouts were fitted on; one entry, unless checkpoints fit different numbers into memory."""
    found = {one.learned.digest: one.learned for one in readings if one.learned is not None}
    return [{"examples": len(one), "digest": digest} for digest, one in found.items()]


def _called(given: Any, found: Sequence[Checkpoint]) -> str:
    if isinstance(given, str | os.PathLike):
        run = Path(given) / RUN
        told = json.loads(run.read_text()) if run.is_file() else {}
        return f"{told['model']}-{told['task']}" if told else Path(given).name
    for one in (given, getattr(given, "encoder", None)):
        name = getattr(one, "name", None)
        if isinstance(name, str):
            return name
    folder = found[-1].folder
    return "checkpoints" if folder is None else folder.parent.name
