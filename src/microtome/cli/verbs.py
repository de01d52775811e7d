"""Commands derived from experiments: options, help panels, dry run, and how results are shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ..context import Context
from ..errors import InputError, UnknownNameError
from ..experiments.base import Experiment, Option, Plan, default_of, is_required, options_of
from ..reading import read_names, read_numbers, read_pairs, read_values
from .results import print_result, write_result
from .show import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """One option of the command: its name in Python, its type and default for the parser, and its help."""

    name: str
    kind: Any
    help: str
    panel: str
    default: Any = MISSING
    flag: str = ""
    short: str | None = None
    argument: bool = False
    metavar: str | None = None
    least: float | None = None
    most: float | None = None

    def parameter(self) -> inspect.Parameter:
        """As the parser takes it."""
        shown = {"help": self.help, "show_default": self.default not in (None, "", [], MISSING)}
        if self.argument:
            declared = typer.Argument(metavar=self.metavar, **shown)
        else:
            names = [name for name in (self.flag, self.short) if name]
            limits = {"min": self.least, "max": self.most}
            declared = typer.Option(
                *names, metavar=self.metavar, rich_help_panel=self.panel, **limits, **shown
            )
        default = inspect.Parameter.empty if self.default is MISSING else self.default
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[self.kind, declared],
        )


# What every command has beside the options of its experiment.
_SHARED = (
    _Parameter(
        name="level",
        kind=float,
        default=0.95,
        panel="Statistics",
        help="Coverage of intervals and bands.",
        metavar="LEVEL",
    ),
    _Parameter(
        name="device", kind=str, default="auto", panel="Model", help="auto, cpu or cuda.", metavar="DEVICE"
    ),
    _Parameter(
        name="threads", kind=int, default=None, panel="Model", help="Threads of the processor.", metavar="N"
    ),
    _Parameter(
        name="store", kind=str, default=None, panel="Output", help="Folder of the store.", metavar="DIR"
    ),
    _Parameter(
        name="out",
        kind=Path,
        default=None,
        panel="Output",
        metavar="DIR",
        help="Write result.json, table.parquet, figures and methods into this folder.",
    ),
    _Parameter(
        name="json",
        kind=bool,
        default=False,
        panel="Output",
        flag="--json",
        metavar="",
        help="Print the result as JSON on standard output, and nothing else there.",
    ),
    _Parameter(
        name="quiet",
        kind=bool,
        default=False,
        panel="Output",
        flag="--quiet",
        metavar="",
        help="Print the result only: no notes, no progress.",
    ),
    _Parameter(
        name="dry_run",
        kind=bool,
        default=False,
        panel="Output",
        flag="--dry-run",
        metavar="",
        help="Check everything, print what would be done, and stop.",
    ),
)


def verb(kind: type[Experiment], name: str) -> Callable[..., None]:
    """
    Make the command of an experiment.

    Parameters
    ----------
    kind : type of Experiment
    name : str

    Returns
    -------
    callable
        With the signature that the parser reads.
    """
    known = {f.name: (f, facts) for f, facts in options_of(kind)}

    def call(parsed: typer.Context, **given: Any) -> None:
        values = {key: given.pop(key) for key in list(given) if key in known}
        read = {key: _read(*known[key], value) for key, value in values.items()}
        # What was not typed is left to the default of the experiment.
        options = {key: value for key, value in read.items() if value is not MISSING}
        _run(kind, options, given, parsed.obj or "")

    context = inspect.Parameter("parsed", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [_derived(f, facts).parameter() for f, facts in known.values()]
    parameters.sort(key=lambda one: one.default is not inspect.Parameter.empty)
    skipped = {*kind.unused, *known}
    parameters += [shared.parameter() for shared in _SHARED if shared.name not in skipped]
    call.__signature__ = inspect.Signature([context, *parameters])  # pyright: ignore[reportFunctionMemberAccess]
    call.__annotations__ = {one.name: one.annotation for one in (context, *parameters)}
    call.__name__, call.__doc__ = name, _summary(kind)
    return call


def _summary(kind: type[Experiment]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")


_NUMBERS: Mapping[str, Any] = {"int": int, "float": float}
# What stands for a value in `--help`, by the type of the option.
_METAVARS = {"int": "N", "float": "X", "Sequence[int]": "N,...", "Sequence[float]": "X,...", "str": "NAME"}


def _derived(option_field: Field[Any], facts: Option) -> _Parameter:
    """The option of the command line for an option of an experiment."""
    annotation = str(option_field.type).removesuffix(" | None")
    flag = "--" + (facts.name or option_field.name).replace("_", "-")
    kind: Any = list[str] if facts.repeated else _NUMBERS.get(annotation, str)
    default = MISSING if is_required(option_field) else default_of(option_field)
    metavar = facts.metavar or _METAVARS.get(annotation, "NAME,..." if facts.choices else "NAME")
    if annotation == "bool":
        kind, metavar = bool, ""
        flag = f"{flag}/--no-{flag[2:]}" if default else flag
    elif default is not MISSING and kind not in _NUMBERS.values():
        default = [] if facts.repeated else _typed(default)
    limited = kind in _NUMBERS.values()
    choices = f" One or more of {', '.join(facts.choices)}." if facts.choices and "Seq" in annotation else ""
    choices = choices or (f" One of {', '.join(facts.choices)}." if facts.choices else "")
    return _Parameter(
        name=option_field.name,
        kind=kind,
        help=facts.help + choices,
        panel=facts.panel,
        default=default,
        flag=flag,
        short=facts.short,
        argument=facts.argument,
        metavar=metavar,
        least=facts.least if limited else None,
        most=facts.most if limited else None,
    )


def _typed(default: Any) -> Any:
    """A default as a user would type it; nothing where there is none to show."""
    if isinstance(default, tuple | list):
        return ",".join(str(part) for part in default)
    name = getattr(default, "name", default)
    return name if isinstance(name, str) and name else None


def _read(option_field: Field[Any], facts: Option, value: Any) -> Any:
    """The value of an option from what was typed; MISSING where nothing was."""
    flag = "--" + (facts.name or option_field.name).replace("_", "-")
    annotation = str(option_field.type).removesuffix(" | None")
    default = None if is_required(option_field) else default_of(option_field)
    if value in (None, []) or isinstance(value, bool | int | float):
        return MISSING if value in (None, []) else value
    if value == _typed(default):
        return MISSING
    if facts.read is not None:
        return [facts.read(part) for part in value] if facts.repeated else facts.read(value)
    if annotation == "Sequence[int]":
        return tuple(read_numbers(flag, value))
    if annotation == "Sequence[str]" and not facts.repeated:
        return read_names(flag, value, facts.choices)
    if annotation == "Mapping[str, str]":
        return read_pairs(flag, value)
    if annotation == "Mapping[str, Any]":
        return read_values(value, flag, facts.metavar or "name=value")
    return value


def _run(kind: type[Experiment], options: Mapping[str, Any], shared: Mapping[str, Any], command: str) -> None:
    """Plan all, then show the plans or run them one after the other."""
    from ..findings.record import check_folder
    from ..runtime import using_threads
    from ..store.shelf import Shelf

    screen = Screen(json=shared["json"], quiet=shared["quiet"])
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
        experiments = [kind(**each) for each in _by_task(kind, options)]
        if folder is not None:
            experiments[0].check_out(folder)
        with screen.working(), using_threads(context.threads):
            plans = [one.plan(context) for one in experiments]
    folders = _folders(plans, out, experiments)
    for note in dict.fromkeys(note for plan in plans for note in plan.notes):
        screen.note(note)
    if shared["dry_run"]:
        _show_plans(screen, plans)
        return
    results: list[Any] = []
    for one, plan, folder in zip(experiments, plans, folders, strict=True):
        screen.note(plan.sentence)
        with screen.working() as progress, using_threads(context.threads):
            result = one.complete(plan, context.reporting(progress))
        # Files first: a reader who leaves early, as `head` does, must not cost the user the result.
        result = write_result(screen, result, folder)
        if not screen.json:
            print_result(screen, result, folder)
        results.append(result)
    if screen.json:
        documents = [result.document() for result in results]
        joined = {"format": "microtome/results/1", "results": documents}
        screen.result(documents[0] if len(documents) == 1 else joined, "")
    if any(getattr(result, "failure", None) for result in results):
        raise typer.Exit(1)


@contextmanager
def _named_as_typed(kind: type[Experiment]) -> Iterator[None]:
    """Let a refusal begin with the name of the option as it is typed: `--head-seeds` for `head_seeds`."""
    flags = {f.name: facts.name or f.name for f, facts in options_of(kind) if not facts.argument}
    flags |= {f.name: f.name for f in fields(Context)}
    try:
        yield
    except (InputError, UnknownNameError) as error:
        name, _, rest = str(error).partition(" ")
        if name not in flags or not rest.startswith("must"):
            raise
        raise type(error)(f"--{flags[name].replace('_', '-')} {rest}") from error


def _by_task(kind: type[Experiment], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The options of each experiment: one per task, unless tasks are taken together."""
    tasks = options.get("task")
    if not isinstance(tasks, list):
        yield dict(options)
    elif kind.together:
        yield {**options, "task": tasks if len(tasks) > 1 else tasks[0]}
    else:
        for task in tasks:
            yield {**options, "task": task}


def _show_plans(screen: Screen, plans: Sequence[Plan]) -> None:
    names = [{"task": plan.name} if plan.name else {} for plan in plans]
    documents = [
        {"format": "microtome/plan/1", **name, **plan.summary}
        for name, plan in zip(names, plans, strict=True)
    ]
    if len(plans) == 1:
        screen.result(documents[0], plans[0].sentence)
    elif screen.json:
        screen.result({"format": "microtome/plans/1", "plans": documents}, "")
    else:
        screen.sentences([plan.sentence for plan in plans])


def _folders(plans: Sequence[Plan], out: Path | None, experiments: Sequence[Experiment]) -> list[Path | None]:
    """Where each result goes: the folder itself for one, a folder in it for each of several."""
    names = ["".join(c if c.isalnum() or c in "-_." else "-" for c in plan.name) for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"--task must name each task once, since its name is that of its folder, but {name!r} stands "
                f"{names.count(name)} times."
            )
    if out is None or len(plans) == 1:
        return [out] * len(plans)
    for experiment, name in zip(experiments, names, strict=True):
        experiment.check_out(out / name)
    return [out / name for name in names]
