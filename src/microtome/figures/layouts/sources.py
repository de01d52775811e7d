"""What a layout draws: the results of a study by experiment, model and task, and names of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ...errors import InputError, unknown
from ...findings.blocks import Block
from ...findings.maps import Map
from ...findings.methods import model_borders
from ...findings.record import Maps
from ...findings.results import Result
from ...findings.words import coverage, fine_tuned_name, over
from .sheet import Sheet

# Levels that results over several tasks have for each task.
LEVELS = ("full", "scratch", "majority baseline")


class StudyResultsLike(Protocol):
    """The results of a study; `microtome.studies.results.StudyResults` is one."""

    @property
    def name(self) -> str:
        """Name of the study."""
        ...

    def __iter__(self) -> Iterator[Any]: ...

    def select(self, **facts: Any) -> Self:
        """Keep the results with some values of table, verb, model, task or seed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutSource:
    """
    The results that a layout may draw.

    Parameters
    ----------
    results : StudyResults
    layout, title : str
        Its key, and what it shows.
    needs : str
        What the layout draws, and the experiment of a study file that makes it, for error messages.
    sheet : Sheet
    tuned : mapping of str to TunedModel
        Fine-tuned models of the study, by their names in results.
    claims : ClaimSet, optional
        Of the paper.
    measure : str, optional
        Of maps; the paper's own when absent.
    """

    results: StudyResultsLike
    layout: str
    title: str
    needs: str
    sheet: Sheet
    tuned: Mapping[str, TunedModel]
    claims: Any = None
    measure: str | None = None

    def missing(self) -> InputError:
        """The error where the study has no such result."""
        return InputError(
            f"{self.layout} must have {self.needs}, but {self.results.name} has no such result; with the "
            "experiment in its file, `microtome study run` makes it."
        )

    def contents(self, verb: str) -> dict[tuple[str, str], list[Result]]:
        """Results of an experiment by model and task."""
        contents: dict[tuple[str, str], list[Result]] = {}
        for result in self.results.select(verb=verb):
            for task, content in by_task(result.task, result.content).items():
                contents.setdefault((result.model, task), []).append(content)
        return contents

    def maps(self, *, model: bool | None = None, task: bool | None = None) -> list[tuple[Any, Maps]]:
        """Comparisons of models whose layers are named by model; of one model or task, of several, or any."""
        return [
            (result, result.content)
            for result in self.results.select(verb="compare")
            if model in (None, bool(result.model)) and task in (None, bool(result.task))
            if model_borders(next(iter(result.content.values())).left)
        ]

    def choose(self, maps: Maps, *preferred: str) -> Map:
        """The map of the measure that was asked for, else of the first preferred one that is there."""
        if self.measure is not None and self.measure not in maps:
            raise unknown("--measure", self.measure, maps)
        names = [name for name in (self.measure, *preferred, *maps) if name and name in maps]
        return maps[names[0]]

    def stacks(self, similarity_map: Map) -> list[MapStack]:
        """The models of a map."""
        return stacks_of(similarity_map, self.tuned)


def by_task(task: str, result: Result) -> dict[str, Result]:
    """Take a result over several tasks apart, whose curves and levels name their task; others stay."""
    tasks = [part.strip() for part in result.task.split(",")]
    if task or len(tasks) < 2:
        return {task or result.task: result}
    apart = {}
    for part in tasks:
        curves = [replace(c, label=c.arm) for c in result.curves if c.name == f"{part}: {c.arm}"]
        levels = {
            name: result.lines[f"{part}: {name}"] for name in LEVELS if f"{part}: {name}" in result.lines
        }
        apart[part] = replace(result, task=part, curves=tuple(curves), lines=levels, claims=())
    return apart


class TunedModel(NamedTuple):
    """A fine-tuned model: its base, its task and its seed."""

    model: str
    task: str
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStack:
    """
    The layers of one model in a map.

    Parameters
    ----------
    name, label : str
        In the map, and in figures.
    tuned : TunedModel, optional
        What it was before fine-tuning; absent for other models.
    start : int
        Place of its first layer in the map.
    numbers : tuple of str
        Of its layers.
    """

    name: str
    label: str
    tuned: TunedModel | None
    start: int
    numbers: tuple[str, ...]

    @property
    def model(self) -> str:
        """The model, or what it was before fine-tuning."""
        return self.label if self.tuned is None else self.tuned.model

    @property
    def places(self) -> np.ndarray:
        """Places of its layers in the map."""
        return np.arange(self.start, self.start + len(self.numbers))


def tuned_models(results: StudyResultsLike) -> dict[str, TunedModel]:
    """Models, tasks and seeds of the fine-tunings of a study, by the names of their models in results."""
    tuned = {}
    for result in results.select(verb="finetune"):
        for run in result.document.get("runs", ()):
            name = fine_tuned_name(str(run["model"]), str(run["task"]), run["seed"])
            tuned[name] = TunedModel(result.model, result.task, run["seed"])
    return tuned


def model_labels(names: Iterable[str], tuned: Mapping[str, TunedModel]) -> dict[str, str]:
    """
    What models are called in figures: fine-tuned ones by task, with model and seed where there are several.

    Examples
    --------
    >>> tuned = {"c1": TunedModel("bert", "rte", 1), "c2": TunedModel("bert", "rte", 2)}
    >>> list(model_labels(["bert", "c1"], tuned).values()), model_labels(["c1", "c2"], tuned)["c2"]
    (['bert', 'rte'], 'rte, seed 2')
    """
    shown = {name: tuned.get(name) for name in names}
    facts = [model for model in shown.values() if model is not None]
    bases = len({model.model for model in facts}) > 1
    labels = {}
    for name, model in shown.items():
        if model is None:
            labels[name] = name
            continue
        alike = sum(other.model == model.model and other.task == model.task for other in facts)
        parts = [f"{model.model} on {model.task}" if bases else model.task or "tuned"]
        labels[name] = ", ".join([*parts, *([f"seed {model.seed}"] if alike > 1 else [])])
    return labels


def stacks_of(similarity_map: Map, tuned: Mapping[str, TunedModel]) -> list[MapStack]:
    """List the models of a map, without layer 0 where it is undefined, as that of first tokens is."""
    borders = model_borders(similarity_map.left)
    # Models that are fine-tuned elsewhere say so in the map.
    listed = {model["name"]: model.get("tuned") for model in similarity_map.provenance.get("models", ())}
    read = {name: TunedModel(**facts) for name, facts in listed.items() if facts}
    tuned = {**read, **tuned}
    labels = model_labels(borders, tuned)
    ends = [*list(borders.values())[1:], len(similarity_map.left)]
    stacks = []
    for (name, start), end in zip(borders.items(), ends, strict=True):
        numbers = [layer.rpartition("/")[2] for layer in similarity_map.left[start:end]]
        if numbers[0] == "0" and not np.isfinite(similarity_map.values[start]).any():
            start, numbers = start + 1, numbers[1:]
        facts = {"label": labels[name], "tuned": tuned.get(name)}
        stacks.append(MapStack(name=name, start=start, numbers=tuple(numbers), **facts))
    return stacks


def certain_blocks(maps: Maps, measure: str, stack: MapStack) -> list[Block]:
    """The certain blocks of a model of a map; their layers are numbered as in `names` of the finding."""
    return [
        block
        for blocks in maps.blocks
        if blocks.measure == measure and blocks.stack == stack.name
        for block in blocks.finding.certain
        if tuple(blocks.numbers) == stack.numbers
    ]


def map_basis(maps: Iterable[Map]) -> str:
    """What maps rest on: rows, their unit, the estimator and intervals."""
    shown = list(maps)
    first, estimators = shown[0], dict.fromkeys(shown_map.estimator for shown_map in shown)
    parts = [f"n = {spread([shown_map.n for shown_map in shown])} rows"]
    parts += [first.estimator] if len(estimators) == 1 else []
    if first.low is not None and first.level is not None:
        how = f"{over(first.unit)} by {first.method}"
        parts.append(f"{coverage(first.level)} intervals {how} decide which blocks are certain")
    return "; ".join(parts)


def spread(counts: Sequence[int]) -> str:
    """
    Write the smallest and the largest of several counts.

    Examples
    --------
    >>> spread([277, 1043]), spread([5, 5])
    ('277 to 1,043', '5')
    """
    ends = dict.fromkeys((min(counts), max(counts)))
    return " to ".join(f"{count:,}" for count in ends)


def source_command(contents: Iterable[Any]) -> str:
    """How the results were made, where they say so."""
    commands = [dict(content.provenance).get("command") for content in contents]
    unique = [command for command in dict.fromkeys(commands) if command]
    return f" Made by: {unique[0]}{' and others' if len(unique) > 1 else ''}." if unique else ""
