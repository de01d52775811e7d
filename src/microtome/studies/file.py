"""Study files: models, tasks, fine-tunings and experiments as TOML, read strictly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..arguments import checked
from ..checks import check_choice, check_level, real_number, several, whole_number
from ..errors import InputError, must, unknown
from ..executors.base import Resources
from ..experiments.table import EXPERIMENTS
from ..reading import read_numbers
from ..runtime import MOST_THREADS
from ..store.files import disk
from ..tasks.table import names, resolve
from .tables import check_keys, check_types, read_toml, types_of
from .values import NOTHING, ExperimentTable, FineTunings, Study, StudyModel, StudyTask

SIZES = ("small", "core", "available", "full")
PAPERS = files("microtome.studies").joinpath("papers")
# Names are also those of folders of results.
NAME = re.compile(r"\w[\w.-]*")
DEVICES = ("auto", "cpu", "cuda")
MOST = 10_000_000  # CPUs or minutes
PATH = "str | os.PathLike[str]"
# Verbs that write files of their own.
WITHOUT_RESULT = ("extract", "pretrain")
# Keys of an experiment that are no options of its verb.
OWN_KEYS = ("verb", "models_only", "tasks_only", "tuned_seeds")
ONLY = ("models_only", "tasks_only")
# Options that name a corpus.
CORPORA = ("on", "inside", "outside")
# Options that name models.
MODELS = ("model", "models", "base", "tuned")


def shipped_studies() -> Mapping[str, tuple[str, ...]]:
    """The studies that come with the package, with the sizes of each."""
    return {
        folder.name: tuple(size for size in SIZES if folder.joinpath(f"{size}.toml").is_file())
        for folder in sorted(PAPERS.iterdir(), key=lambda path: path.name)
        if folder.is_dir() and not folder.name.startswith("_")
    }


@checked
def study(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    size: str | None = None,
    data: str | os.PathLike[str] | None = None,
    models: Mapping[str, str] = NOTHING,
) -> Study:
    """
    Open a study: a paper that comes with the package, a file, or the same as plain data.

    Parameters
    ----------
    source : str, path or mapping
        A name of `microtome ls studies`, a TOML file, or the content of one.
    size : {"small", "core", "available", "full"}, optional
        Of a study that comes with the package; small when absent.
    data : path, optional
        Folder with the original files of tasks, in place of the hub.
    models : mapping of str to str
        Other sources of models of the study, by their names.

    Returns
    -------
    Study
        `plan`, `run`, `status`, `results` and `report` are its methods.

    Examples
    --------
    >>> import microtome as mt
    >>> study = mt.study({"models": ["zoo:masked"], "experiments": {"localize": {"on": "hub:texts"}}})
    >>> list(study.models)
    ['masked']
    """
    if isinstance(source, Mapping):
        if size is not None:
            raise must("size", "left out for a study in Python, which has one size", size)
        return study_of(source, data=data, models=models)
    text = os.fspath(source)
    shipped = shipped_studies()
    if text in shipped:
        if size is not None and size not in shipped[text]:
            raise unknown(f"size of {text}", size, shipped[text])
        file = PAPERS.joinpath(text, f"{size or 'small'}.toml")
        # Samples that come with the package are named beside the file.
        content, where = file.read_bytes(), f"{text}/{size or 'small'}.toml"
        folder = Path(str(PAPERS.joinpath(text)))
    elif os.path.isfile(text):
        if size is not None:
            raise must("size", "left out for a file, which has one size", size)
        with disk(Path(text)):
            content, where, folder = Path(text).read_bytes(), text, Path(text).resolve().parent
    elif text.endswith(".toml") or "/" in text:
        raise must("a study", "a file that exists, or a name of `microtome ls studies`", text)
    else:
        raise unknown("study", text, shipped)
    return study_of(read_toml(content, where), where=where, folder=folder, data=data, models=models)


def study_of(
    table: Mapping[str, Any],
    *,
    where: str = "the study",
    folder: Path | None = None,
    data: str | os.PathLike[str] | None = None,
    models: Mapping[str, str] = NOTHING,
) -> Study:
    """
    Make a study of plain data, as a study file has it.

    Parameters
    ----------
    table : mapping
    where : str
        Its name in error messages.
    folder : Path, optional
        What relative paths start from; the current folder when absent.
    data, models
        As in `study`.

    Returns
    -------
    Study
    """
    folder = Path.cwd() if folder is None else folder
    keys = ("name", "title", "paper", "claims", "data", "level", "device", "threads")
    check_keys(table, (*keys, "models", "tasks", "finetune", "experiments", "resources"), where, "")
    check_types(table, {**dict.fromkeys(("name", "title", "paper"), "str"), "data": PATH}, where)
    data = folder / table["data"] if data is None and "data" in table else data
    root = None if data is None else os.path.realpath(data)
    if root is not None and not os.path.isdir(root):
        raise must("data", "a folder that exists", os.fspath(data or ""))
    known = {name: _model(name, value, where, folder) for name, value in _tables(table, "models", where)}
    for name, source in models.items():
        if name not in known:
            raise unknown("model of the study", name, known)
        if not isinstance(source, str) or not source:
            raise must(f"the source of {name}", "a hub id, a folder or zoo:NAME", source)
        known[name] = _model(name, source, "--model", Path.cwd())
    tasks = {name: _task(name, value, where, folder, root) for name, value in _tables(table, "tasks", where)}
    # A corpus may lie beside the file, among the data or in the current folder.
    places = (folder, *([] if root is None else [Path(root)]), Path.cwd())
    experiments = {
        name: _experiment(name, value, where, known, tasks, places)
        for name, value in _tables(table, "experiments", where)
    }
    if not known or not (experiments or "finetune" in table):
        raise InputError(f"{where} must have models, and experiments or fine-tunings, but it has not.")
    level = table.get("level", 0.95)
    check_level(level)
    check_choice("device", table.get("device", "auto"), DEVICES)
    title = str(table.get("title", "")).strip()
    name = str(table.get("name", Path(where).stem))
    return Study(
        name=name,
        title=title or name,
        paper=str(table.get("paper", "")),
        claims=_claims(table, folder),
        models=MappingProxyType(known),
        tasks=MappingProxyType(tasks),
        finetune=_fine_tunings(table, where, known, tasks),
        experiments=MappingProxyType(experiments),
        resources=MappingProxyType(_resources(table, where, experiments)),
        level=level,
        device=str(table.get("device", "auto")),
        threads=whole_number("threads", table.get("threads", 1), 1, MOST_THREADS),
        folder=folder,
    )


def _claims(table: Mapping[str, Any], folder: Path) -> str | Sequence[Mapping[str, Any]]:
    """The claims of a study, or of its paper; refused here if they cannot be read."""
    from .claims import read_claims, shipped_claims

    paper = table.get("paper", "")
    claims = table.get("claims", paper if paper in shipped_claims() else ())
    if not isinstance(claims, str | list | tuple):
        raise must("claims of a study", "a name, a file or a list of tables", claims)
    claims = _located(claims, folder) if isinstance(claims, str) else claims
    if claims:
        read_claims(claims)
    return claims


def _tables(table: Mapping[str, Any], name: str, where: str) -> list[tuple[str, Any]]:
    """The tables of one kind; a list of names stands for tables without options."""
    content = table.get(name, {})
    if isinstance(content, list) and all(isinstance(part, str) for part in content):
        pairs = [(part.rstrip("/").rpartition("/")[2].rpartition(":")[2], part) for part in content]
    elif isinstance(content, Mapping):
        pairs = list(content.items())
    else:
        raise InputError(f"{name} in {where} must be tables or a list of names, but got {content!r}.")
    taken: set[str] = set()
    for key, _ in pairs:
        if not isinstance(key, str) or not NAME.fullmatch(key) or key in taken:
            allowed = "different ones of letters, digits, dots and hyphens, which tables can give them"
            raise must(f"names of {name} in {where}", allowed, key)
        taken.add(key)
    return pairs


def _model(name: str, value: Any, where: str, folder: Path) -> StudyModel:
    value = {"source": value} if isinstance(value, str) else value
    check_keys(value, [f.name for f in fields(StudyModel) if f.name != "name"], where, f"models.{name}.")
    if not isinstance(value.get("source"), str):
        raise InputError(f"models.{name} in {where} must have a source: a hub id, a folder or zoo:NAME.")
    check_types(value, types_of(StudyModel), where, f"models.{name}.")
    source = _located(value["source"], folder)
    if source.startswith((".", "/")) and not Path(source).is_dir():
        raise must(
            f"the source of models.{name} in {where}", "a hub id, zoo:NAME or a folder that exists", source
        )
    return StudyModel(**{**value, "name": name, "source": source})


def _task(name: str, value: Any, where: str, folder: Path, root: str | None) -> StudyTask:
    value = {"task": value} if isinstance(value, str) else value
    check_keys(value, [f.name for f in fields(StudyTask) if f.name != "name"], where, f"tasks.{name}.")
    check_types(value, types_of(StudyTask), where, f"tasks.{name}.")
    column = value.get("column", {})
    check_types(column, dict.fromkeys(column, "str"), where, f"tasks.{name}.column.")
    reference = value.get("task", name)
    if resolve(reference) is None and reference not in names():
        reference = _located(reference, folder)
    if resolve(reference) is None and reference not in names() and not os.path.exists(reference):
        raise unknown(f"the task of tasks.{name} in {where}", reference, names())
    # Generated tasks and tables of the user have no original files elsewhere.
    data = value.get("data", root if resolve(reference) else None)
    located = None if data is None else os.path.realpath(folder / data)
    return StudyTask(**{**value, "name": name, "task": reference, "data": located})


def _located(source: str, folder: Path) -> str:
    """The whole path of what exists below a folder; anything else as it is."""
    place = folder / source
    return str(place.resolve()) if os.path.exists(place) and (place.is_dir() or place.suffix) else source


def _experiment(
    name: str, value: Any, where: str, models: Any, tasks: Any, places: Sequence[Path]
) -> ExperimentTable:
    from ..options import options_of

    if not isinstance(value, Mapping):
        raise InputError(f"experiments.{name} in {where} must be a table, but got {value!r}.")
    verb = value.get("verb", name)
    if not isinstance(verb, str) or verb not in EXPERIMENTS:
        raise unknown(f"the verb of experiments.{name} in {where}", verb, EXPERIMENTS)
    kind = EXPERIMENTS[verb].load()
    aliases = {str(facts.name or f.name): f.name for f, facts in options_of(kind)}
    if verb in WITHOUT_RESULT:
        raise InputError(f"experiments.{name} in {where} must have a result in the store; {verb} has none.")
    options: dict[str, Any] = {
        str(aliases.get(key, key)): part for key, part in value.items() if key not in OWN_KEYS
    }
    check_keys(options, [f.name for f, _ in options_of(kind)], where, f"experiments.{name}.")
    _check_only(value, f"experiments.{name}", where, models, tasks)
    for declared, _ in options_of(kind):
        key = declared.name
        # Several numbers may be written as on the command line: 1-50.
        if "Sequence[int]" in str(declared.type) and isinstance(options.get(key), str):
            options[key] = read_numbers(f"experiments.{name}.{key}", options[key])
    for key in MODELS:
        for model in several(options.get(key, ())):
            if model is not None and not isinstance(model, str):
                check_keys(model, ("source", "revision", "tokenizer"), where, f"experiments.{name}.{key}.")
    for key in CORPORA:
        check_types(options, {key: "Sequence[str]"}, where, f"experiments.{name}.")
        if isinstance(options.get(key), str):
            located = (_located(options[key], place) for place in places)
            options[key] = next((place for place in located if place != options[key]), options[key])
    return ExperimentTable(
        name=name,
        verb=verb,
        options=options,
        models_only=several(value.get("models_only", tuple(models))),
        tasks_only=several(value.get("tasks_only", tuple(tasks))),
        tuned_seeds=_seeds(f"experiments.{name}.tuned_seeds", value.get("tuned_seeds", ())),
    )


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    """One seed, several, or several as they are typed: 1-3."""
    numbers = read_numbers(name, value) if isinstance(value, str) else several(value)
    return tuple(whole_number("a seed", number, 0) for number in numbers)


def _check_only(value: Mapping[str, Any], place: str, where: str, models: Any, tasks: Any) -> None:
    for key, allowed in {"models_only": models, "tasks_only": tasks}.items():
        for part in several(value.get(key, ())):
            if part not in tuple(allowed):
                raise unknown(f"{key} of {place} in {where}", part, allowed)


def _fine_tunings(table: Mapping[str, Any], where: str, models: Any, tasks: Any) -> FineTunings | None:
    from ..options import options_of

    if "finetune" not in table:
        return None
    declared = options_of(EXPERIMENTS["finetune"].load())
    aliases = {str(facts.name or f.name): f.name for f, facts in declared}
    allowed = [name for name in aliases if name not in ("model", "task")]
    check_keys(table["finetune"], (*allowed, *aliases.values(), *ONLY), where, "finetune.")
    value: dict[str, Any] = {str(aliases.get(key, key)): part for key, part in table["finetune"].items()}
    _check_only(value, "finetune", where, models, tasks)
    models, tasks = (
        several(value.pop(key, tuple(names))) for key, names in zip(ONLY, (models, tasks), strict=True)
    )
    seeds = _seeds("finetune.seeds", value.pop("seeds", 0))
    if not seeds or len(set(seeds)) < len(seeds):
        raise must("finetune.seeds", "one or more, each once", list(seeds))
    return FineTunings(seeds=seeds, options=value, models_only=models, tasks_only=tasks)


def _resources(table: Mapping[str, Any], where: str, experiments: Any) -> dict[str, Resources]:
    """Resources by verb or experiment; those under the name "" hold where there are no others."""
    names = [f.name for f in fields(Resources)]
    content = table.get("resources", {})
    check_keys(content, content, where, "resources.")
    tables = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    shared = {key: value for key, value in content.items() if key not in tables}
    check_keys(shared, names, where, "resources.")
    for part in (shared, *tables.values()):
        check_types(part, {"memory": "str"}, where, "resources.")
        for key in {"cpus", "minutes"} & set(part):
            whole_number(f"resources.{key} in {where}", part[key], 1, MOST)
        if "gpus" in part:
            real_number(f"resources.gpus in {where}", part["gpus"], 0)
    for key, value in tables.items():
        if key not in experiments and key not in EXPERIMENTS:
            raise unknown(f"the key resources.{key} in {where}", key, (*experiments, *EXPERIMENTS))
        check_keys(value, names, where, f"resources.{key}.")
    return {"": Resources(**shared), **{key: Resources(**{**shared, **v}) for key, v in tables.items()}}
