"""The run of the demonstration: encoder by encoder, step by step, and a report at the end."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..context import Context
from ..encoders.shipped import SCHEME, shipped_names, zoo_folder
from ..errors import InputError
from .plan import WHOLE, DemoPlan
from .telling import FLOOR, EncoderFindings, main_findings, random_name
from .unseen import Unseen

# Hidden, so that a report on the folder passes it by.
STORE = ".store"
# What a demonstration writes beside its store.
WRITTEN = (
    *("finetune", "compare", "truncate", "skip", "prune", "evaluate", FLOOR),
    *("picture.svg", "report.html"),
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """
    What came of it.

    Parameters
    ----------
    page : Path
        The report.
    findings : tuple of EncoderFindings
        The main findings.
    unseen : tuple of Unseen
        Of every model that was exported: how it did on examples that played no part.
    seconds : float
    document : mapping
        What the report is made of.
    """

    page: Path
    findings: tuple[EncoderFindings, ...]
    unseen: tuple[Unseen, ...]
    seconds: float
    document: dict[str, Any] = field(repr=False)


def demonstrate(
    out: str | os.PathLike[str],
    plan: DemoPlan = WHOLE,
    *,
    tell: Tell | None = None,
    context: Context | None = None,
) -> Demonstration:
    """
    Take small encoders apart: tune them, compare them with what they were, cut them, and report.

    Parameters
    ----------
    out : path
        The folder for results and the report. What was computed is kept there, so that an interrupted
        demonstration goes on and a second one is quick.
    plan : DemoPlan
    tell : callable, optional
        Called with a sentence before each step.
    context : Context, optional
        Its store is a folder of `out`.

    Returns
    -------
    Demonstration
    """
    check_encoders(plan)
    from ..report.collecting import collect
    from ..report.making import PAGE
    from ..report.writing import write_page
    from ..store.outfolder import check_foreign, make_folder
    from ..tasks.loading import task as open_task
    from ..training.opening import open_model
    from . import steps

    start = time.monotonic()
    if not (Path(out) / STORE / "format.json").is_file():
        check_foreign(Path(out), WRITTEN)
    place = make_folder(out)
    bench = steps.Bench(
        plan=plan,
        task=open_task(plan.task, sizes=dict(plan.sizes)),
        out=place,
        context=replace(context or Context(), store=place / STORE),
    )
    say = _counting(tell, 4 * len(plan.encoders) + 2, start)
    seeds = f"seed{'' if len(plan.seeds) == 1 else 's'} {' and '.join(map(str, plan.seeds))}"
    unseen: list[Unseen] = []
    floor: Any = None
    for name in plan.encoders:
        encoder = open_model(f"{SCHEME}{name}", context=Context()).encoder
        say(f"{name}: fine-tuning on {plan.task}, {seeds}, {plan.steps} updates each")
        runs = steps.tune(bench, encoder, plan.seeds, f"finetune/{name}")
        baselines = []
        if floor is None:
            random = {"source": f"{SCHEME}{name}", "random_init": True, "seed": plan.random_seed}
            baseline = open_model(random, context=Context()).encoder
            baselines = [baseline]
            say(f"{random_name(plan)}: the same with random weights, as a floor, seed {plan.seeds[0]}")
            (floor,) = steps.tune(bench, baseline, plan.seeds[:1], f"{FLOOR}/finetune")
            steps.hold_against_floor(bench, runs[0], floor)
        say(f"{name}: layers before against after, and blocks")
        steps.compare_layers(bench, encoder, runs, baselines)
        say(f"{name}: cut after every layer, and without every span of blocks")
        steps.cut_layers(bench, encoder, runs)
        say(f"{name}: the smallest model that loses less than {plan.max_drop:g} points")
        exported = steps.prune_first(bench, encoder, runs)
        unseen += [] if exported is None else [exported]
    say("the report")
    document = collect(place, date=datetime.date.today().isoformat())
    page = write_page(document, place / PAGE)
    return Demonstration(
        page=page,
        findings=main_findings(document, plan),
        unseen=tuple(unseen),
        seconds=time.monotonic() - start,
        document=document,
    )


def check_encoders(plan: DemoPlan) -> None:
    """Refuse to begin where an encoder is missing, in one sentence."""
    present = shipped_names()
    missing = [name for name in plan.encoders if name not in present]
    if missing:
        problem = f"there is only {', '.join(present)}" if present else "there is none"
        raise InputError(
            f"the demonstration must find the encoders {', '.join(plan.encoders)} in {zoo_folder()}, but "
            f"{problem}: the package was installed without them, or MICROTOME_ZOO names another folder."
        )


def _counting(tell: Tell | None, total: int, start: float) -> Tell:
    """Number the steps, and say how long it has taken so far."""
    done = 0

    def say(sentence: str) -> None:
        nonlocal done
        done += 1
        if tell is not None:
            tell(f"[{done}/{total}, {time.monotonic() - start:3.0f} s] {sentence}")

    return say
