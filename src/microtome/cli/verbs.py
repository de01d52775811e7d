"""Commands of experiments: their options, dry run, and how results are shown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer

from ..context import Context
from ..errors import InputError, UnknownNameError
from ..experiments.base import Experiment, Plan
from ..options import default_of, flag_of, option, options_of
from .parsing import command_of
from .results import print_result, write_result
from .show import JsonOption, QuietOption, Screen


@dataclass(frozen=True, kw_only=True)
class SharedOptions(QuietOption, JsonOption):
    """What every command has beside the options of its experiment."""

    level: float = option("Coverage of intervals and bands.", 0.95, panel="Statistics", metavar="LEVEL")
    device: str = option("Where models run: auto, cpu or cuda.", "auto", metavar="DEVICE")
    threads: int | None = option("Number of CPU threads; as many as torch takes when absent.", None)
    store: str | None = option(
        "Folder where finished work is kept; MICROTOME_STORE or microtome in the cache folder when absent.",
        None,
        panel="Output",
        metavar="DIR",
    )
    out: Path | None = option(
        "Write result.json, table.parquet, figures and methods into this folder.",
        None,
        panel="Output",
        metavar="DIR",
        read=Path,
    )
    verbose: bool = option("Print the evidence behind each finding, too.", False, panel="Output")
    dry_run: bool = option("Check everything, print what would be done, and stop.", False, panel="Output")


SHARED = {f.name: (f, facts) for f, facts in options_of(SharedOptions)}


def verb(kind: type[Experiment]) -> Callable[..., None]:
    """Make the command of an experiment, with the signature that the parser reads."""
    own = {f.name: (f, facts) for f, facts in options_of(kind)}
    shared = {key: pair for key, pair in SHARED.items() if key not in {*kind.unused, *own}}

    def call(values: dict[str, Any], command: str) -> None:
        # What was not typed is left to the default of the experiment.
        options = {key: values[key] for key in own if key in values}
        settings = {key: values.get(key, default_of(f)) for key, (f, _) in shared.items()}
        _run(kind, options, settings, command)

    summary = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return command_of({**own, **shared}, call, summary)


def _run(kind: type[Experiment], options: Mapping[str, Any], shared: Mapping[str, Any], command: str) -> None:
    """Plan all, then show the plans or run them one after the other."""
    from ..runtime import using_threads
    from ..store.outfolder import check_folder
    from ..store.shelf import Shelf

    screen = Screen(**{name: shared[name] for name in ("json", "quiet", "verbose")})
    settings = {f.name: shared[f.name] for f in fields(Context) if f.name in shared}
    # An experiment that writes its result itself has a folder among its own options.
    out = shared.get("out")
    folder = options.get("out", out)
    with _named_as_typed(kind):
        context = Context(**settings, command=command).resolved()
        with using_threads(context.threads):
            pass  # refused before anything is loaded
        if "store" not in kind.unused:
            Shelf(context.store)
        if folder is not None:
            check_folder(folder)
        experiments = [kind(**values) for values in _one_each(kind, options)]
        if folder is not None:
            experiments[0].check_out(folder)
        with screen.working(), using_threads(context.threads):
            plans = [experiment.plan(context) for experiment in experiments]
    folders = _folders(plans, out, experiments)
    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        screen.note(note)
    if shared["dry_run"]:
        documents = [
            {"format": "microtome/plan/1", **({"task": plan.name} if plan.name else {}), **plan.summary}
            for plan in plans
        ]
        screen.listing(_joined("plans", documents), ([], [], [plan.sentence for plan in plans]))
        return
    results: list[Any] = []
    for experiment, plan, folder in zip(experiments, plans, folders, strict=True):
        screen.note(plan.sentence)
        with screen.working() as progress, using_threads(context.threads):
            result = experiment.complete(plan, context.reporting(progress))
        # Files first: a reader who leaves early, as `head` does, must not cost the user the result.
        result = write_result(screen, result, folder)
        if not screen.json:
            print_result(screen, result, folder)
        results.append(result)
    if screen.json:
        screen.document(_joined("results", [result.document() for result in results]))
    if any(getattr(result, "failure", None) for result in results):
        raise typer.Exit(1)


@contextmanager
def _named_as_typed(kind: type[Experiment]) -> Iterator[None]:
    """Let a refusal begin with the name of the option as it is typed: `--head-seeds` for `head_seeds`."""
    pairs = (*options_of(kind), *options_of(SharedOptions))
    flags = {f.name: flag_of(f, facts) for f, facts in pairs if not facts.argument}
    try:
        yield
    except (InputError, UnknownNameError) as error:
        name, _, rest = str(error).partition(" ")
        if name not in flags or not rest.startswith("must"):
            raise

        rest = re.sub(r"\b[a-z]+_[a-z_]+\b", lambda match: flags.get(match[0], match[0]), rest)
        raise type(error)(f"{flags[name]} {rest}") from error


def _one_each(kind: type[Experiment], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options of each experiment: one per model and task, unless these are taken together."""
    tasks, models = options.get("task"), options.get("model")
    cases = [dict(options)]
    if isinstance(models, list):
        for model in models:
            if model.isdigit():
                raise InputError(
                    f"MODEL must be a hub id, a folder or zoo:NAME, but got {model}; several values of one "
                    "option are typed with commas between them."
                )
        cases = [{**case, "model": model} for case in cases for model in models]
    if isinstance(tasks, list):
        together = kind.together and len(tasks) > 1
        cases = [{**case, "task": task} for case in cases for task in ([tasks] if together else tasks)]
    return cases


def _joined(name: str, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document, or one that holds several."""
    return documents[0] if len(documents) == 1 else {"format": f"microtome/{name}/1", name: documents}


def _folders(plans: Sequence[Plan], out: Path | None, experiments: Sequence[Experiment]) -> list[Path | None]:
    """Where each result goes: the folder itself for one, else a folder in it for each model and task."""
    from ..encoders.locations import distinct_names

    tasks = ["".join(c if c.isalnum() or c in "-_." else "-" for c in plan.name) for plan in plans]
    sources = [str(getattr(experiment, "model", "")) for experiment in experiments]
    models = distinct_names(list(dict.fromkeys(sources)))
    model_names = dict(zip(dict.fromkeys(sources), models, strict=True))
    names = [
        Path(*([model_names[source]] if len(models) > 1 else []), task)
        for source, task in zip(sources, tasks, strict=True)
    ]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                "each model and each --task must be named once, since its name is that of its folder, but "
                f"{str(name)!r} stands {names.count(name)} times."
            )
    if out is None or len(plans) == 1:
        return [out] * len(plans)
    for experiment, name in zip(experiments, names, strict=True):
        experiment.check_out(out / name)
    return [out / name for name in names]
