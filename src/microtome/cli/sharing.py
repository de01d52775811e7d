"""What do several verbs ask alike? Options that are written once, and taken apart for the parser."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, get_type_hints

from .finetune import ColumnsOption, DataOption, HeldOutOption, PairsOption
from .models import RevisionOption, StoreOption, TokenizerOption
from .show import JsonOption, OutOption, QuietOption, Screen
from .similarity import DeviceOption, ThreadsOption
from .surgery import (
    AtOnceOption,
    DryRunOption,
    HeadOption,
    KeepModelsOption,
    LevelOption,
    PrecisionOption,
    SetOption,
    TrainSizeOption,
    check,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """Where the examples of a task come from."""

    data: DataOption = None
    column: ColumnsOption = field(default_factory=list)
    pairs: PairsOption = None
    held_out: HeldOutOption = None

    def asked(self, task: str) -> dict[str, Any]:
        """What `microtome.task` is called with."""
        from .reading import task_options

        return task_options(task, self.data, self.column, self.held_out, self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How models are found and read."""

    revision: RevisionOption = None
    tokenizer: TokenizerOption = None

    def models(self, names: Sequence[str], device: str) -> list[Any]:
        """Load them."""
        from .models import load_models

        return load_models(names, revision=self.revision, tokenizer=self.tokenizer, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """How sure, where, and with what kept: of every verb that computes for a while."""

    level: LevelOption = 0.95
    device: DeviceOption = "cpu"
    threads: ThreadsOption = None
    store: StoreOption = None
    dry_run: DryRunOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How models are fine-tuned, beside the recipe and the seeds, whose defaults differ between verbs."""

    change: SetOption = field(default_factory=list)
    train_size: TrainSizeOption = None
    head: HeadOption = None
    at_once: AtOnceOption = 1
    precision: PrecisionOption = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(Tuning):
    """The same, where there are so many models that they are not kept."""

    keep_models: KeepModelsOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Where the result goes."""

    out: OutOption = None
    json: JsonOption = False
    quiet: QuietOption = False

    @property
    def screen(self) -> Screen:
        """Where to show it."""
        return Screen(json=self.json, quiet=self.quiet)

    def check(self, working: Working, kind: str) -> None:
        """Refuse what cannot work before anything is loaded; the kind is the experiment of the result."""
        told = {name: getattr(working, name) for name in ("device", "level", "threads", "store")}
        check(kind, out=self.out, **told)


def taken_apart(verb: Callable[..., None]) -> Callable[..., None]:
    """
    Make a function with one parameter an option out of one that takes options together.

    Parameters
    ----------
    verb : callable
        Some of its parameters are dataclasses, whose fields are options of the parser.

    Returns
    -------
    callable
        The verb itself, where it has no such parameter.
    """
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    if not groups:
        return verb
    found: list[inspect.Parameter] = []
    for one in inspect.signature(verb).parameters.values():
        if one.name in groups:
            found += _options(groups[one.name])
        else:
            found.append(one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY))

    def called(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            for name, kind in groups.items()
        }
        verb(**given, **made)

    called.__name__, called.__doc__ = verb.__name__, verb.__doc__
    called.__annotations__ = {one.name: one.annotation for one in found}
    called.__signature__ = inspect.Signature(found)  # pyright: ignore[reportFunctionMemberAccess]
    return called


def _options(kind: Any) -> Sequence[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default if one.default_factory is MISSING else one.default_factory(),
            annotation=hints[one.name],
        )
        for one in fields(kind)
    ]
