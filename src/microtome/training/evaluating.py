"""How good is a model at a task? Every score with its interval, beside what a guess would get."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import InputError, must
from ..inference.answers import Answers
from ..inference.estimate import Estimate
from ..inference.pairing import Comparison, compare_scores
from ..inference.scoring import score_interval
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.task import Task

if TYPE_CHECKING:
    from .modeling import TaskModel

WINDOWS = "windows.json"
# Tokens, padding counted, that go through a model together.
TOKENS = {"cpu": 2_048, "cuda": 65_536}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """
    What a model got right, example by example, and the scores that follow.

    Parameters
    ----------
    task, split : str
    kind : str
    labels : tuple of str
    main : tuple of str
        The scores whose mean is the score of the task.
    ids, groups : tuple of str
        Of the examples.
    targets, predictions : tuple
        In the form that the kind of task has; see `microtome.tasks.items.Item`.
    scores : mapping of str to Estimate
        Every score of the task, with intervals over examples.
    score : Estimate
        The score of the task.
    baseline : mapping of str to float
        The same scores of the most frequent answer of the training split, where it is at hand.
    notes : tuple of str
        What a reader must know.
    provenance : mapping
        With what it was made: versions, digests of model and task, device, seconds.
    """

    task: str
    split: str
    kind: str
    labels: tuple[str, ...]
    main: tuple[str, ...]
    ids: tuple[str, ...] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    targets: tuple[Any, ...] = field(repr=False)
    predictions: tuple[Any, ...] = field(repr=False)
    scores: Mapping[str, Estimate] = field(repr=False)
    score: Estimate
    baseline: Mapping[str, float] = field(repr=False)
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def constant(self) -> bool:
        """Whether every answer is the same, as after a training that collapsed."""
        return len(self.predictions) > 1 and all(p == self.predictions[0] for p in self.predictions)

    def against(self, other: Evaluation, *, level: float = 0.95) -> Comparison:
        """
        Compare with another model on the same examples.

        Parameters
        ----------
        other : Evaluation
        level : float

        Returns
        -------
        Comparison
            Of the score of the task: this one minus the other one.
        """
        return compare_scores(
            find_score(self.main), self.answers(), other.answers(), labels=self.labels, level=level
        )

    def answers(self) -> Answers:
        """The answers in the form that paired tests take."""
        return Answers(
            ids=self.ids, targets=self.targets, predictions=(self.predictions,), groups=self.groups
        )

    def document(self) -> dict[str, Any]:
        """The scores as plain data; undefined ones are null."""
        return {
            "task": self.task,
            "split": self.split,
            "kind": self.kind,
            "n": len(self.ids),
            "main": list(self.main),
            "score": plain(self.score),
            "scores": {name: plain(found) for name, found in self.scores.items()},
            "baseline": {name: _number(value) for name, value in self.baseline.items()},
            "notes": list(self.notes),
        }


def plain(found: Estimate) -> dict[str, Any]:
    """An estimate as plain data."""
    interval = found.interval
    return {
        "measure": found.measure,
        "value": _number(found.value),
        "low": None if found.low is None else _number(found.low),
        "high": None if found.high is None else _number(found.high),
        "level": None if interval is None else interval.level,
        "method": None if interval is None else interval.method,
        "unit": None if interval is None else interval.unit,
        "n": found.n,
        "reason": found.reason,
        "warnings": list(found.warnings),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def score_answers(
    task: Task, split: Split, predictions: Sequence[Any], *, train: Split | None = None, level: float = 0.95
) -> Evaluation:
    """
    Score predictions.

    Parameters
    ----------
    task : Task
    split : Split
        With what is right.
    predictions : sequence
        One an example.
    train : Split, optional
        Where the most frequent answer is looked for.
    level : float

    Returns
    -------
    Evaluation
    """
    targets = [item.target for item in split]
    groups = [item.group for item in split]
    grouped = groups if 1 < len(set(groups)) < len(groups) else None
    if task.kind == "language_modeling":
        targets = [None] * len(predictions)

    def estimate(score: Any) -> Estimate:
        return score_interval(score, predictions, targets, task.labels, groups=grouped, level=level)

    guessed: dict[str, float] = {}
    if train is not None:
        answers = baseline(task.kind, [item.target for item in train], targets, task.labels)
        if answers is not None:
            guessed = {
                name: float(find_score(name).compute(answers, targets, task.labels)) for name in task.scores
            }
    return Evaluation(
        task=task.name,
        split=split.name,
        kind=task.kind,
        labels=task.labels,
        main=task.main,
        ids=tuple(item.id for item in split),
        groups=tuple(groups),
        targets=tuple(targets),
        predictions=tuple(predictions),
        scores=MappingProxyType({name: estimate(name) for name in task.scores}),
        score=estimate(task.main),
        baseline=MappingProxyType(guessed),
        notes=split.notes,
    )


def guessed_from(task: Task) -> Split | None:
    """
    Find the examples whose most frequent answer a model is held against: all of the training split.

    It is the same for every model of a task, whatever part of the split that model was trained on.
    """
    train = task.split(task.train) if task.train in task.splits else None
    return train if train is not None and train.labeled else None


def predict(
    model: TaskModel,
    split: Split,
    task: Task,
    tokenizer: Any,
    *,
    longest: int | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
    autocast: Any = None,
) -> list[Any]:
    """
    Answer every example.

    Parameters
    ----------
    model : TaskModel
    split : Split
    task : Task
    tokenizer : Tokenizer
        Of the encoder.
    longest, stride : int, optional
        Tokens of an example at most, and how far windows of a passage overlap.
    progress : callable, optional
    autocast : callable, optional
        Makes the context of mixed precision.

    Returns
    -------
    list
        One answer an example, in the form of the task's kind.
    """
    import contextlib

    import torch

    from .decoding import answers, decode
    from .inputs import collate, encode

    features = encode(split.items, task, tokenizer, longest=longest, stride=stride, mask=model.mask)
    order = sorted(range(len(features)), key=lambda place: -len(features[place]))
    outputs: list[Any] = [None] * len(features)
    budget = TOKENS["cpu" if model.device.type == "cpu" else "cuda"]
    model.eval()
    done = 0
    while done < len(order):
        # Longest first: memory runs out at once or not at all.
        count = max(1, budget // max(1, len(features[order[done]])))
        places = order[done : done + count]
        batch = collate([features[place] for place in places], model.device)
        with torch.inference_mode(), autocast() if autocast is not None else contextlib.nullcontext():
            found = model(batch)
            for place, said in zip(
                places, answers(model, found, batch, [features[p] for p in places]), strict=True
            ):
                outputs[place] = said
        done += len(places)
        if progress is not None:
            progress(f"{task.name}/{split.name}", done, len(order))
    return decode(outputs, features, split.items, task)


def evaluate(
    model: Any,
    task: Task,
    *,
    split: str | None = None,
    longest: int | None = None,
    level: float = 0.95,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Evaluation:
    """
    Evaluate a fine-tuned model.

    Parameters
    ----------
    model : Tuned, Encoder, or path
        What `finetune` returned, a loaded checkpoint with a head for the task, or its folder.
    task : Task
    split : str, optional
        The task's validation split when absent.
    longest : int, optional
        Tokens of an example at most; as it was trained, or the model's own limit, when absent.
    level : float
        Of the intervals.
    device : str
        For a model that is given by its folder.
    progress : callable, optional

    Returns
    -------
    Evaluation
    """
    import torch

    from ..encoders.loading import load
    from ..encoders.versions import versions
    from .cutkeeping import digest_model
    from .saving import load_task_model

    started, stride = time.monotonic(), None
    if isinstance(model, (str, Path)):
        # Any other name may be one on the hub.
        if Path(model).is_absolute() and not Path(model).is_dir():
            raise must("a fine-tuned model", "a folder that exists", str(model))
        net = load_task_model(model, task, device=device)
        encoder: Any = load(model)
        trained, stride = read_windows(Path(model))
        longest = trained if longest is None else longest
    elif hasattr(model, "model") and hasattr(model, "encoder"):
        net, encoder = model.model, model.encoder
        longest = model.longest if longest is None else longest
        stride = model.recipe.stride if task.kind == "span" else None
    else:
        from .modeling import build

        encoder = model
        net = build(encoder, task, "own")
    chosen = task.split(split or task.validation, labeled=task.kind != "language_modeling")
    found = predict(net, chosen, task, encoder.tokenizer, longest=longest, stride=stride, progress=progress)
    told = {
        **versions(),
        "models": [digest_model(net, encoder.tokenizer)],
        "task": task.digest(chosen.name),
        "task_source": task.source,
        "device": net.device.type,
        "threads": torch.get_num_threads(),
        "longest": longest,
        "seconds": round(time.monotonic() - started, 3),
    }
    scored = score_answers(task, chosen, found, train=guessed_from(task), level=level)
    return replace(scored, provenance=MappingProxyType(told))


def write_windows(folder: Path, longest: int, stride: int | None) -> None:
    """Write beside a checkpoint how its examples were cut."""
    (folder / WINDOWS).write_text(json.dumps({"longest": longest, "stride": stride}))


def read_windows(folder: Path) -> tuple[int | None, int | None]:
    """Read how the examples of a checkpoint were cut, where its folder says so."""
    if not (folder / WINDOWS).is_file():
        return None, None
    told = json.loads((folder / WINDOWS).read_text())
    return told["longest"], told["stride"]


def write_answers(found: Evaluation, path: Path) -> None:
    """
    Write what was predicted for each example, as a table with JSON in its cells.

    Parameters
    ----------
    found : Evaluation
    path : Path
        Of a .parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": list(found.ids),
            "group": list(found.groups),
            "target": [json.dumps(target) for target in found.targets],
            "prediction": [json.dumps(answer) for answer in found.predictions],
        }
    )
    pq.write_table(table, path)


def read_answers(path: Path, split: Split) -> list[Any]:
    """Read predictions back, in the order of a split that must have the same examples."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).to_pydict()
    known = dict(zip(table["id"], table["prediction"], strict=True))
    if set(known) != {item.id for item in split}:
        raise InputError(f"{path} must hold an answer for each example of {split.name}, but it has others.")
    return [tuples(json.loads(known[item.id])) for item in split]


def tuples(value: Any) -> Any:
    """Lists as tuples, all the way down: answers have them, and JSON has not."""
    return tuple(tuples(each) for each in value) if isinstance(value, list) else value
