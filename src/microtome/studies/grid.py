"""Jobs of a study: its experiments with models, tasks and seeds filled in, each with its address."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import InputError, MicrotomeError, must, unknown
from ..executors.base import Resources
from ..experiments.calls import PIECES, RESULT, TUNED
from ..experiments.table import EXPERIMENTS, Entry
from ..options import is_required, options_of
from ..store.address import address
from .fingerprints import fingerprint
from .sources import check_sources
from .values import ExperimentTable, Study, StudyModel, StudyTask

FORMAT = "microtome/study-call/1"
# What may stand in braces, so that a misspelled placeholder is not taken for a name.
MARK = re.compile(r"\{[\w:-]*\}")
FINETUNE = "finetune"
# Placeholders of options, and what a job is then one of.
OVER: Mapping[str, frozenset[str]] = {
    "{model}": frozenset({"model"}),
    "{models}": frozenset(),
    "{task}": frozenset({"task"}),
    "{tasks}": frozenset(),
    "{text}": frozenset({"task"}),
    "{tuned}": frozenset({"model", "task"}),
    "{all_tuned}": frozenset({"model"}),
    "{tuned_models}": frozenset({"task"}),
    "{labels}": frozenset({"task"}),
}
# "{text:NAME}" is the text of another task of the study.
TEXT_OF = "{text:"
# Options that hold a corpus, and those of its reader.
TEXTS = {"on": "read", "inside": "read_inside", "outside": "read_outside"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyJob:
    """
    One result of a study, or a part of the work of one.

    Parameters
    ----------
    table, verb : str
        The experiment; "finetune" for fine-tunings.
    model, task : str
        Names in the study; empty where it covers several.
    seed : int, optional
        Where it has one.
    call : mapping
        What computes it anywhere, with its address.
    needs : tuple of str
        Addresses of jobs that must be done first.
    part_of : str
        The address of the job that it is a part of.
    """

    table: str
    verb: str
    model: str = ""
    task: str = ""
    seed: int | None = None
    call: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    part_of: str = ""

    @property
    def address(self) -> str:
        """Where the store keeps the result."""
        return self.call["address"]

    @property
    def name(self) -> str:
        """Its path among the results of the study."""
        seed = () if self.seed is None else (f"seed-{self.seed}",)
        return "/".join(filter(None, (self.table, self.model, self.task, *seed)))


@dataclass(frozen=True)
class StudyGrid:
    """
    All jobs of a study.

    Parameters
    ----------
    study : Study
    """

    study: Study

    @cached_property
    def tunings(self) -> dict[tuple[str, str, int], StudyJob]:
        """Fine-tunings by model, task and seed."""
        study = self.study
        if study.finetune is None:
            return {}
        tuning = study.finetune
        return {
            (model, task, seed): self._tuning(study.models[model], study.tasks[task], seed)
            for model, task, seed in itertools.product(tuning.models_only, tuning.tasks_only, tuning.seeds)
        }

    @cached_property
    def jobs(self) -> tuple[StudyJob, ...]:
        """Fine-tunings first, then experiments in the order of the file."""
        results = [job for table in self.study.experiments.values() for job in self._jobs_of(table)]
        return (*self.tunings.values(), *results)

    def parts(self, job: StudyJob) -> tuple[StudyJob, ...]:
        """
        The same experiment on single values of the options that divide it, for several workers.

        Their outcomes are in the store when the job itself runs; empty where it is not divided.
        """
        kind = EXPERIMENTS[job.verb].load()
        options = job.call["options"]
        lists = {name: options[name] for name in kind.divides if len(_listed(options.get(name))) > 1}
        if not lists:
            return ()
        choices = itertools.product(*lists.values())
        return tuple(
            self._job(
                ExperimentTable(
                    name=job.table, verb=job.verb, options={}, models_only=(), tasks_only=(), tuned_seeds=()
                ),
                {**options, **{name: [value] for name, value in zip(lists, choice, strict=True)}},
                model=job.model,
                task=job.task,
                seed=job.seed,
                part_of=job.address,
            )
            for choice in choices
        )

    def resources(self, job: StudyJob) -> Resources:
        """Of an experiment, else of its verb, else of all."""
        resources = self.study.resources
        return next(resources[name] for name in (job.table, job.verb, "") if name in resources)

    def check(self) -> None:
        """Refuse values that an experiment refuses, before anything runs; one job of each table is tried."""
        tried = set()
        if not self.jobs:
            raise InputError(
                f"{self.study.name} must have something to run, but it has no models or tasks for it."
            )
        named = [job.call["options"].get("task") for job in self.jobs]
        check_sources(self.study, set(_texts(named)))
        for job in self.jobs:
            if job.table in tried:
                continue
            tried.add(job.table)
            options = {name: _as_given(value) for name, value in job.call["options"].items()}
            if any(isinstance(value, list) and not value for value in options.values()):
                raise InputError(f"experiments.{job.table} of {self.study.name} must have models and tasks.")
            try:
                EXPERIMENTS[job.verb].load()(**options)
            except MicrotomeError as problem:
                raise InputError(f"experiments.{job.table} of {self.study.name}: {problem}") from problem

    def _tuning(self, model: StudyModel, task: StudyTask, seed: int) -> StudyJob:
        assert self.study.finetune is not None
        options = {**self.study.finetune.options, **task.options}
        if task.train_size is not None:
            options["train_size"] = task.train_size
        table = ExperimentTable(
            name=FINETUNE, verb=FINETUNE, options={}, models_only=(), tasks_only=(), tuned_seeds=()
        )
        options |= {"model": model.reference, "task": task.task, "seeds": [seed]}
        return self._job(table, options, model=model.name, task=task.name, seed=seed)

    def _jobs_of(self, table: ExperimentTable) -> Iterator[StudyJob]:
        """One job for each model, task and seed that the options name."""
        study, entry = self.study, EXPERIMENTS[table.verb]
        options = {**self._defaults(entry), **table.options}
        marks = {text for text in _texts(options) if text in OVER}
        for text in _texts(options):
            if MARK.fullmatch(text) and text not in OVER and not text.startswith(TEXT_OF):
                raise unknown(f"a placeholder of experiments.{table.name} of {study.name}", text, OVER)
        over = frozenset().union(*(OVER[mark] for mark in marks))
        scalar = any(value == "{tuned}" for value in options.values())
        if marks & {"{tuned}", "{all_tuned}", "{tuned_models}"} and study.finetune is None:
            raise InputError(f"experiments.{table.name} of {study.name} must have fine-tunings: [finetune].")
        models = [study.models[name] for name in table.models_only] if "model" in over else [None]
        tasks = [study.tasks[name] for name in table.tasks_only] if "task" in over else [None]
        seeds = table.tuned_seeds or (study.finetune.seeds if study.finetune else ())
        for model, task, seed in itertools.product(models, tasks, seeds if scalar else [None]):
            place = _Place(
                grid=self,
                models=[study.models[name] for name in table.models_only],
                tasks=[study.tasks[name] for name in table.tasks_only],
                model=model,
                task=task,
                seeds=seeds if seed is None else (seed,),
            )
            yield self._job(
                table,
                place.filled(options, entry),
                model=model.name if model else "",
                task=task.name if task else "",
                seed=seed,
            )

    def _defaults(self, entry: Entry) -> dict[str, Any]:
        """Options that follow from what an experiment takes."""
        study, takes, kind = self.study, entry.takes, entry.load()
        declared = {f.name: (f, facts) for f, facts in options_of(kind)}
        first = next((name for name, (_, facts) in declared.items() if facts.argument), "")
        repeated = bool(first) and declared[first][1].repeated
        options: dict[str, Any] = {}
        if takes in ("tuned", "checkpoints"):
            options[first] = ["{tuned}"] if repeated else "{tuned}"
        elif takes == "changed":
            options |= {"base": "{model}", "tuned": ["{tuned}"]}
        elif takes == "models":
            options[first] = ["{model}", "{tuned}"] if study.finetune else ["{models}"]
        elif takes == "layers":
            options[first] = ["{model}"]
        elif takes == "encoder":
            options[first] = "{model}"
            tuning = study.finetune.options if study.finetune else {}
            options |= {name: value for name, value in tuning.items() if name in declared}
            if study.finetune and "seeds" in declared:
                options["seeds"] = list(study.finetune.seeds)
        if "task" in declared and is_required(declared["task"][0]):
            options["task"] = ["{tasks}"] if kind.together else "{task}"
        for name in ("on", "inside"):
            if name in declared and is_required(declared[name][0]) and study.tasks and takes != "layers":
                options[name] = "{text}"
        return options

    def _job(self, table: ExperimentTable, options: Mapping[str, Any], **place: Any) -> StudyJob:
        study = self.study
        call = {
            "kind": table.verb,
            "options": dict(options),
            "piece": PIECES if place.get("part_of") else RESULT,
            "context": {"device": study.device, "threads": study.threads, "level": study.level},
        }
        needs = tuple(dict.fromkeys(_references(options)))
        texts = sorted({text for text in _texts(options) if os.sep in text})
        files = {path: print_ for path in texts if (print_ := self._fingerprint(path))}
        specification = {
            "format": FORMAT,
            "files": files,
            **{name: call[name] for name in ("kind", "options", "piece", "context")},
        }
        call["address"] = address(specification)
        return StudyJob(table=table.name, verb=table.verb, call=call, needs=needs, **place)

    def _fingerprint(self, text: str) -> str:
        """That of the file or folder that a text names; empty where it names none."""
        prints = self._fingerprints
        if text not in prints:
            prints[text] = fingerprint(text)
        return prints[text]

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What placeholders of one job stand for."""

    grid: StudyGrid
    models: Sequence[StudyModel]
    tasks: Sequence[StudyTask]
    model: StudyModel | None
    task: StudyTask | None
    seeds: Sequence[int]

    def filled(self, options: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
        """Options with placeholders filled in, and with those that name the task."""
        declared = {f.name for f, _ in options_of(entry.load())}
        values = {name: self._value(value) for name, value in options.items()}
        task, texts = self.task, {}
        if task is not None:
            by_name = "task" in declared and options.get("task") == "{task}"
            if by_name or "{labels}" in options.values():
                values = {**task.options, **values}
                if task.train_size is not None and "train_size" in declared and entry.takes == "encoder":
                    values.setdefault("train_size", task.train_size)
            texts = {name: task for name in TEXTS if options.get(name) == "{text}"}
        elif options.get("task") == ["{tasks}"] and self.tasks:
            if any(each.options != self.tasks[0].options for each in self.tasks):
                raise must("tasks that one result covers", "alike in data, columns and pairs", "other ones")
            values = {**self.tasks[0].options, **values}
        named = {name: values[name] for name in TEXTS if str(values.get(name)).startswith(TEXT_OF)}
        texts |= {name: self._text_of(value) for name, value in named.items()}
        for name, source in texts.items():
            values[name] = _text(source)
            if source.reading and TEXTS[name] in declared:
                values[TEXTS[name]] = {**source.reading, **values.get(TEXTS[name], {})}
        return values

    def _text_of(self, value: str) -> StudyTask:
        """The task whose text a placeholder names."""
        name, tasks = value.removeprefix(TEXT_OF).removesuffix("}"), self.grid.study.tasks
        if name not in tasks:
            raise unknown("the task of {text:NAME}", name, tasks)
        return tasks[name]

    def _value(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [part for entry in value for part in self._several(entry)]
        if isinstance(value, Mapping):
            return {name: self._value(part) for name, part in value.items()}
        if not isinstance(value, str) or value not in OVER:
            return value
        parts = self._several(value)
        if len(parts) != 1:
            raise must(f"the place of {value}", "a list, as it stands for several", value)
        return parts[0]

    def _several(self, value: Any) -> list[Any]:
        """What an entry of a list stands for."""
        grid, model, task = self.grid, self.model, self.task
        match value:
            case "{model}":
                return [model.reference] if model else []
            case "{models}":
                return [each.reference for each in self.models]
            case "{task}":
                return [task.task] if task else []
            case "{tasks}":
                return [each.task for each in self.tasks]
            case "{text}":
                return [_text(task)] if task else []
            case "{labels}":
                return [f"task:{task.task}"] if task else []
            case "{tuned}" | "{all_tuned}" | "{tuned_models}":
                models = self.models if value == "{tuned_models}" or model is None else [model]
                tasks = self.tasks if value == "{all_tuned}" or task is None else [task]
                names = [model.name for model in models], [task.name for task in tasks]
                keys = list(itertools.product(*names, self.seeds))
                for key in keys:
                    if key not in grid.tunings:
                        model_name, task_name, seed = key
                        raise must(
                            f"models_only, tasks_only and tuned_seeds with {value}",
                            "among the fine-tunings of [finetune]",
                            f"{model_name} on {task_name} with seed {seed}",
                        )
                return [{TUNED: grid.tunings[key].address} for key in keys]
        return [self._value(value)]


def _text(task: StudyTask) -> str:
    """The split of a task that is its text, as a corpus."""
    return f"task:{task.task}/{task.text}"


def _references(value: Any) -> Iterator[str]:
    """Addresses of the fine-tunings that options name."""
    if isinstance(value, Mapping) and set(value) == {TUNED}:
        yield value[TUNED]
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _references(part)


def _texts(value: Any) -> Iterator[str]:
    """Texts among the values of options."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _as_given(value: Any) -> Any:
    """Options of a call as an experiment takes them, with references as names of folders."""
    if isinstance(value, Mapping):
        return value[TUNED] if set(value) == {TUNED} else {k: _as_given(part) for k, part in value.items()}
    return [_as_given(part) for part in value] if isinstance(value, list) else value
