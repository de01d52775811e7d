"""Experiments as values: options with their help, a plan, and a run."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

from ..arguments import check_value
from ..checks import several
from ..context import Context
from ..errors import must, unknown
from ..findings.record import with_facts
from ..measures.table import chosen_all
from ..options import Option as Option
from ..options import default_of, is_required, options_of
from ..options import option as option
from ..runtime import using_threads
from ..store.outfolder import FILES, check_earlier

# Recipe values and other settings that a function takes by name, as `finetune` does.
CHANGES = "changes"
# Parts of the work of an experiment, by name.
Pieces = Mapping[str, Callable[[], object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    What an experiment will do: everything opened and checked, nothing computed.

    Parameters
    ----------
    name : str, optional
        Of the task, for the folder of a result among several.
    summary : mapping
        Counts and sizes, as `--dry-run --json` prints them.
    sentence : str
        The same in words.
    inputs : object
        What was opened, for the run.
    notes : tuple of str
        What a user should know before the run.
    """

    name: str = ""
    summary: Mapping[str, Any]
    sentence: str
    inputs: Any = field(repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """
    One question that is put to encoders. The fields of a subclass are its options.

    The Python function, the command, its help and its dry run are derived from the class.
    """

    # Of the result, and of its JSON form.
    name: ClassVar[str]
    # Whether one result covers several tasks; else each task has its own.
    together: ClassVar[bool] = False
    # Settings of a context that have no effect on it.
    unused: ClassVar[frozenset[str]] = frozenset()
    # The class of its result.
    returns: ClassVar[str] = "Result"
    # Options with several values whose parts of the work are independent.
    divides: ClassVar[tuple[str, ...]] = ()
    # The files that `--out` writes, as names or patterns.
    files: ClassVar[tuple[str, ...]] = FILES

    def __post_init__(self) -> None:
        for option_field, facts in options_of(type(self)):
            self._check(option_field, facts)

    def _check(self, option_field: Field[Any], facts: Option) -> None:
        name, value = option_field.name, _plain(getattr(self, option_field.name))
        if str(option_field.type).startswith("Sequence[") and value is not None:
            value = tuple(_plain(part) for part in several(value))
        object.__setattr__(self, name, value)
        check_value(name, str(option_field.type), value)
        if name.endswith("seeds") and isinstance(value, tuple) and len(set(value)) != (len(value) or -1):
            raise must(name, "one or more, each once", list(value))
        if name == "measures" and value is not None:
            chosen_all(value)
        if facts.choices and value == () and default_of(option_field) and not facts.empty:
            raise must(name, f"one or more of {', '.join(facts.choices)}", [])
        limited = facts.choices or facts.least is not None or facts.most is not None
        for part in several(value) if limited else ():
            if facts.choices and part is not None and part not in facts.choices:
                raise unknown(name, part, facts.choices)
            number = isinstance(part, int | float)
            if number and facts.least is not None and part < facts.least:
                raise must(name, f"at least {facts.least:g}", part)
            if number and facts.most is not None and part > facts.most:
                raise must(name, f"at most {facts.most:,g}", part)

    @abstractmethod
    def plan(self, context: Context) -> Plan:
        """Open models and data, refuse what cannot work, and count what there is to do."""

    @abstractmethod
    def run(self, plan: Plan, context: Context) -> Any:
        """Do what was planned, and give a result; what the store already has is read from there."""

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """
        Name the independent pieces of the work that can be computed next and whose outcomes the store keeps.

        Where they follow from one another, there is one piece: the run. Without a store there is none.
        """
        return {} if "store" in self.unused else {"run": partial(self.complete, plan, context)}

    def calls(self, plan: Plan, context: Context) -> list[dict[str, Any]]:
        """The pieces as plain JSON, which `microtome call` computes anywhere; see `calls_of`."""
        from .calls import calls_of

        return calls_of(self, plan, context)

    def check_out(self, folder: Path) -> None:
        """Refuse a folder with files of others that the result would replace."""
        check_earlier(folder, self.name, self.files)

    def complete(self, plan: Plan, context: Context) -> Any:
        """Run, in parallel processes where asked for, and record what reproduces the result."""
        from .calls import options_as_json, perform_in_processes

        processes = getattr(self, "at_once", 1)
        if processes > 1:
            perform_in_processes(self, plan, context, processes)
        options = options_as_json(self, named=True)
        result = self.run(plan, context)
        return with_facts(result, command=context.command, level=context.level, options=options)

    def execute(self, context: Context | None = None) -> Any:
        """Plan and run."""
        check_value("context", "Context | None", context)
        context = (context or Context()).resolved()
        with using_threads(context.threads):
            return self.complete(self.plan(context), context)


def _plain(value: Any) -> Any:
    """A whole number of numpy as one of Python, since addresses in the store are made of plain values."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def as_function(kind: type[Experiment], name: str) -> Callable[..., Any]:
    """
    Make the Python function of an experiment: its options, then those of a `Context`, by name.

    Parameters
    ----------
    kind : type of Experiment
    name : str

    Returns
    -------
    callable
    """
    options = dict(options_of(kind))
    shared = {f.name: f for f in fields(Context) if f.name not in kind.unused}
    signature = _signature(options, shared)

    def call(*arguments: Any, **keywords: Any) -> Any:
        changes = {key: keywords.pop(key) for key in list(keywords) if key not in signature.parameters}
        if changes and CHANGES not in signature.parameters:
            raise TypeError(f"{name}: got an unexpected keyword argument {next(iter(changes))!r}.")
        try:
            values = signature.bind(*arguments, **keywords).arguments
        except TypeError as problem:
            raise TypeError(f"{name}: {problem}.") from None
        if changes:
            values[CHANGES] = {**values.get(CHANGES, {}), **changes}
        context = values.pop("context", None)
        settings = {key: values.pop(key) for key in list(values) if key in shared}
        if context is None:
            context = Context(**settings)
        elif settings:
            raise must(name, "given a context or single settings of it, not both", sorted(settings))
        return kind(**values).execute(context)

    call.__name__ = call.__qualname__ = name
    call.__module__ = kind.__module__
    call.__doc__ = _docstring(kind, options, shared)
    call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    call.experiment = kind  # pyright: ignore[reportFunctionMemberAccess]
    return call


def _signature(own: Mapping[Field[Any], Option], shared: Mapping[str, Field[Any]]) -> inspect.Signature:
    placed = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = inspect.Parameter.KEYWORD_ONLY
    kinds = {f: placed if is_required(f) or facts.positional else named for f, facts in own.items()}
    kinds |= dict.fromkeys(shared.values(), named)
    parameters = [
        inspect.Parameter(
            f.name,
            kind,
            default=inspect.Parameter.empty if is_required(f) else default_of(f),
            annotation=f.type,
        )
        for f, kind in kinds.items()
    ]
    parameters.append(inspect.Parameter("context", named, default=None, annotation="Context | None"))
    return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))


def _docstring(kind: type[Experiment], own: Mapping[Field[Any], Option], shared: Mapping[str, Any]) -> str:
    summary, heading, examples = inspect.cleandoc(kind.__doc__ or "").partition("\n\nExamples\n")
    lines = [summary, "", "Parameters", "----------"]
    for option_field, facts in own.items():
        optional = "" if is_required(option_field) else ", optional"
        texts = " ".join(filter(None, (facts.help, facts.python)))
        lines += [f"{option_field.name} : {option_field.type}{optional}", f"    {texts}"]
    lines += [f"{', '.join(shared)}, context", "    See `Context`.", "", "Returns", "-------", kind.returns]
    return "\n".join(lines) + heading + examples
