"""The demonstration: encoder by encoder, step by step, and a report at the end."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..encoders.locations import SCHEME, shipped_names, zoo_folder
from ..errors import InputError
from ..tasks.task import Task
from .plan import DemoPlan, EncoderFindings, main_findings, tuned_names
from .unseen import Unseen, judge_unseen

if TYPE_CHECKING:
    from ..training.tuned import Tuned

# Enough to draw a curve with; the report names the seeds behind it.
HEAD_SEEDS = (0,)
ARMS = ("untuned", "tuned")
PICTURE = "picture.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """
    What all steps have in common.

    Parameters
    ----------
    plan : DemoPlan
    task : Task
    out : Path
        Folder of results.
    context : Context
        With the store, so that nothing is computed twice.
    """

    plan: DemoPlan
    task: Task
    out: Path
    context: Context


def tune(bench: Bench, encoder: Any) -> list[Tuned]:
    """
    Fine-tune an encoder with every seed.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder

    Returns
    -------
    list of Tuned
    """
    from ..training.finetuning import finetune
    from ..training.tuned import TunedRuns

    options = bench.plan.training(encoder.name)
    runs = [
        finetune(encoder, bench.task, seed=seed, context=bench.context.named(f"seed {seed}"), **options)
        for seed in bench.plan.seeds
    ]
    TunedRuns(runs=tuple(runs), facts={"command": bench.context.command}).save(
        bench.out / "finetune" / encoder.name
    )
    return runs


def compare_layers(bench: Bench, encoder: Any, runs: Sequence[Tuned], baseline: Any) -> None:
    """
    Compare the layers of an encoder before and after fine-tuning, and find blocks.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    runs : sequence of Tuned
        None before fine-tuning.
    baseline : Encoder
        The same with random weights: what the architecture alone gives.
    """
    from ..experiments.similarity.comparison import compare
    from ..figures.files import save_figure
    from ..figures.heatmap import draw
    from ..tasks.corpus import split_corpus
    from ..training.opening import open_model

    names = tuned_names(encoder.name, bench.plan)[: len(runs)]
    tuned = [
        open_model({"source": run.folder, "name": name}, context=Context()).encoder
        for run, name in zip(runs, names, strict=True)
    ]
    comparison = compare(
        [encoder, *tuned, baseline],
        on=split_corpus(bench.task, bench.task.validation),
        rows="cls",
        certainty=True,
        longest=bench.plan.longest,
        context=bench.context,
    )
    comparison.save(bench.out / "compare" / encoder.name)
    if encoder.name == bench.plan.encoders[0]:
        count = len(runs)
        tuning = f"tuned with {count} seed{'s' * (count > 1)}" if runs else "before fine-tuning"
        title = f"{encoder.name}, {tuning}, and randomly initialized"
        axes = draw(comparison["debiased_cka"], title=title, annotate=False)
        for mesh in axes.collections:
            # Thousands of cells: as a picture they take a tenth of the room.
            mesh.set_rasterized(True)
        save_figure(axes, bench.out / PICTURE)


def cut_layers(bench: Bench, encoder: Any, run: Tuned) -> None:
    """
    Score heads at every layer, and the model without every span of blocks.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    run : Tuned
    """
    from ..experiments.surgery.skipping import skip
    from ..experiments.surgery.truncation import truncate

    truncation = truncate(
        [run],
        bench.task,
        arms=ARMS,
        head_seeds=HEAD_SEEDS,
        train_size=bench.plan.head_examples,
        context=bench.context,
    )
    truncation.save(bench.out / "truncate" / encoder.name)
    skip([run], bench.task, context=bench.context).save(bench.out / "skip" / encoder.name)


def prune_blocks(bench: Bench, encoder: Any, run: Tuned) -> Unseen | None:
    """
    Prune a run within the margin, export it, and score it on unseen examples.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    run : Tuned

    Returns
    -------
    Unseen or None
        None where nothing can be cut safely, and where the run failed: a model that gives one answer to
        everything can lose nothing.
    """
    from ..experiments.tuning.pruning import prune
    from ..pruning.exporting import forget_pruned
    from ..training.evaluating import evaluate
    from ..training.evaluation import forget_evaluation

    plan, name = bench.plan, encoder.name
    place, beside = bench.out / "prune" / name, bench.out / "evaluate" / name
    if run.failure is not None:
        forget_pruned(place)
        forget_evaluation(beside)
        return None
    pruned = prune(
        run, bench.task, plan.max_drop, certify_on="rest", confirm_on="test", seed=0, context=bench.context
    )
    pruned.save(place)
    if not pruned.certified:
        forget_evaluation(beside)
        return None
    full_scores = evaluate(run, bench.task, split="test", progress=bench.context.progress)
    unseen = judge_unseen(
        name,
        place,
        full_scores,
        bench.task,
        blocks=(len(pruned.kept), pruned.depth),
        longest=plan.longest,
        max_drop=plan.max_drop,
        # The same look at the same examples that confirmed it.
        level=pruned.level if pruned.confirmed is None else pruned.confirmed.level,
    )
    result = replace(
        unseen.evaluation,
        reference=replace(full_scores, model=f"{name} with all {unseen.depth}"),
        model=f"{name} with {unseen.kept} of {unseen.depth} blocks",
        facts={"command": bench.context.command},
    )
    result.save(beside)
    return unseen


# Hidden, so that a report on the folder ignores it.
STORE = ".store"
# Files and folders of a demonstration beside its store.
WRITTEN = (
    *("finetune", "compare", "truncate", "skip", "prune", "evaluate"),
    *("picture.svg", "report.html"),
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """
    The result of a demonstration.

    Parameters
    ----------
    page : Path
        The report.
    findings : tuple of EncoderFindings
        The main findings.
    unseen : tuple of Unseen
        Scores of every exported model on examples that were used for nothing else.
    seconds : float
    document : mapping
        The content of the report.
    """

    page: Path
    findings: tuple[EncoderFindings, ...]
    unseen: tuple[Unseen, ...]
    seconds: float
    document: dict[str, Any] = field(repr=False)


def demonstrate(
    out: str | os.PathLike[str],
    plan: DemoPlan | None = None,
    *,
    tell: Tell | None = None,
    context: Context | None = None,
) -> Demonstration:
    """
    Fine-tune small encoders, compare their layers before and after, cut them, and write a report.

    Parameters
    ----------
    out : path
        The folder for results and the report. What was computed is kept there, so that an interrupted
        demonstration goes on and a second one is quick.
    plan : DemoPlan, optional
    tell : callable, optional
        Called with a sentence before each step.
    context : Context, optional
        Its store is a folder of `out`.

    Returns
    -------
    Demonstration
    """
    plan = plan or DemoPlan()
    check_encoders(plan)
    from ..report.collecting import collect
    from ..report.writing import PAGE, write_page
    from ..store.outfolder import check_foreign, make_folder
    from ..tasks.loading import task as open_task
    from ..training.opening import open_model

    start = time.monotonic()
    if not (Path(out) / STORE / "format.json").is_file():
        check_foreign(Path(out), WRITTEN)
    place = make_folder(out)
    page = place / PAGE
    bench = Bench(
        plan=plan,
        task=open_task(plan.task, sizes=dict(plan.sizes)),
        out=place,
        context=replace(context or Context(), store=place / STORE),
    )
    tell = tell or (lambda _: None)
    say = _counting(tell, 5 * len(plan.encoders) + 1, start)
    several = len(plan.seeds) > 1
    seeds, each = f"seed{'s' * several} {' and '.join(map(str, plan.seeds))}", " each" * several

    def report() -> dict[str, Any]:
        """Write the report on what was found so far."""
        document = collect(place, date=datetime.date.today().isoformat())
        write_page(document, page)
        return document

    unseen: list[Unseen] = []
    for name in plan.encoders:
        encoder, baseline = (
            open_model({"source": f"{SCHEME}{name}", **options}, context=Context()).encoder
            for options in ({}, {"random_init": True, "seed": plan.random_seed})
        )
        say(f"{name}: layers of the encoder before fine-tuning, and of the same with random weights")
        compare_layers(bench, encoder, [], baseline)
        report()
        if name == plan.encoders[0]:
            tell(
                f"The first picture is {place / PICTURE}; the report, which grows with every step, is {page}."
            )
        say(f"{name}: fine-tuning on {plan.task}, {seeds}, {plan.training(name)['steps']} updates{each}")
        runs = tune(bench, encoder)
        say(f"{name}: layers before against after, and blocks")
        compare_layers(bench, encoder, runs, baseline)
        report()
        run = next((run for run in runs if run.failure is None), runs[0])
        tuned = f"{name}, seed {run.seeds.order}"
        say(f"{tuned}: cut after every layer, and without every span of blocks")
        cut_layers(bench, encoder, run)
        report()
        say(f"{tuned}: the smallest model that loses at most {plan.max_drop:g} points")
        exported = prune_blocks(bench, encoder, run)
        unseen += [] if exported is None else [exported]
    say("the report")
    document = report()
    return Demonstration(
        page=page,
        findings=main_findings(document, plan),
        unseen=tuple(unseen),
        seconds=time.monotonic() - start,
        document=document,
    )


def check_encoders(plan: DemoPlan) -> None:
    """Raise if an encoder is missing."""
    present = shipped_names()
    missing = [name for name in plan.encoders if name not in present]
    if missing:
        problem = f"there is only {', '.join(present)}" if present else "there is none"
        raise InputError(
            f"the demonstration must find the encoders {', '.join(plan.encoders)} in {zoo_folder()}, but "
            f"{problem}. They come with the package, unless MICROTOME_ZOO names another folder."
        )


def _counting(tell: Tell, total: int, start: float) -> Tell:
    """Number the steps, and report the time so far."""
    done = 0

    def say(sentence: str) -> None:
        nonlocal done
        done += 1
        tell(f"[{done}/{total}, {time.monotonic() - start:3.0f} s] {sentence}")

    return say
