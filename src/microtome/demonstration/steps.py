"""The steps of the demonstration: each computes one result of one encoder and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..context import Context
from ..tasks.task import Task
from .plan import DemoPlan
from .telling import FLOOR, random_name, tuned_names
from .unseen import Unseen, judge_unseen

if TYPE_CHECKING:
    from ..findings.maps import Map
    from ..training.tuned import Tuned

# Enough to draw a curve with; the report names the seeds behind it.
HEAD_SEEDS = (0,)
ARMS = ("untuned", "tuned")
PICTURE = "picture.svg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """
    What all steps share.

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


def tune(bench: Bench, encoder: Any, seeds: Sequence[int], folder: str) -> list[Tuned]:
    """
    Fine-tune an encoder with some seeds.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
    seeds : sequence of int
    folder : str
        For the result, below that of all results.

    Returns
    -------
    list of Tuned
    """
    from ..training.finetuning import finetune
    from ..training.writing import TunedRuns

    options = bench.plan.training(encoder.name)
    runs = [
        finetune(encoder, bench.task, seed=seed, context=bench.context.named(f"seed {seed}"), **options)
        for seed in seeds
    ]
    TunedRuns(runs=tuple(runs), facts={"command": bench.context.command}).save(bench.out / folder)
    return runs


def compare_layers(bench: Bench, encoder: Any, runs: Sequence[Tuned], baselines: Sequence[Any]) -> None:
    """
    Hold the layers of an encoder against those of what became of it, and look for blocks.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    runs : sequence of Tuned
    baselines : sequence of Encoder
        Random baselines, as a floor; perhaps none.
    """
    from ..experiments.similarity.comparison import compare
    from ..tasks.corpus import split_corpus
    from ..training.opening import open_model

    names = tuned_names(encoder.name, bench.plan)
    tuned = [
        open_model({"source": run.folder, "name": name}, context=Context()).encoder
        for run, name in zip(runs, names, strict=True)
    ]
    comparison = compare(
        [encoder, *tuned, *baselines],
        on=split_corpus(bench.task, bench.task.validation),
        rows="cls",
        certainty=True,
        longest=bench.plan.longest,
        context=bench.context,
    )
    comparison.save(bench.out / "compare" / encoder.name)
    if baselines:
        _draw(bench, comparison["debiased_cka"], encoder.name)


def _draw(bench: Bench, similarity_map: Map, name: str) -> None:
    """Draw one map of everything that became of an encoder, to be shown elsewhere."""
    from ..figures.files import save_figure
    from ..figures.heatmap import draw

    axes = draw(
        similarity_map, title=f"{name}, tuned with {len(bench.plan.seeds)} seeds, and drawn at random"
    )
    for mesh in axes.collections:
        # Thousands of cells: as a picture they take a tenth of the room.
        mesh.set_rasterized(True)
    save_figure(axes, bench.out / PICTURE)


def cut_layers(bench: Bench, encoder: Any, runs: Sequence[Tuned]) -> None:
    """
    Read every layer with the head, and leave out every span of blocks.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    runs : sequence of Tuned
    """
    from ..experiments.surgery.skipping import skip
    from ..experiments.surgery.truncation import truncate

    truncation = truncate(
        list(runs),
        bench.task,
        arms=ARMS,
        head_seeds=HEAD_SEEDS,
        train_size=bench.plan.head_examples,
        context=bench.context,
    )
    truncation.save(bench.out / "truncate" / encoder.name)
    skip(list(runs), bench.task, context=bench.context).save(bench.out / "skip" / encoder.name)


def prune_first(bench: Bench, encoder: Any, runs: Sequence[Tuned]) -> Unseen | None:
    """
    Prune the first sound run within the margin, export it, and score it on unseen examples.

    Parameters
    ----------
    bench : Bench
    encoder : Encoder
        Before fine-tuning.
    runs : sequence of Tuned

    Returns
    -------
    Unseen or None
        None where nothing can be cut safely, and where every run failed: a model that gives one answer to
        everything can lose nothing.
    """
    from ..experiments.tuning.pruning import prune
    from ..pruning.exporting import forget_pruned
    from ..training.evaluating import evaluate
    from ..training.evaluation import forget_evaluation

    plan, name = bench.plan, encoder.name
    place, beside = bench.out / "prune" / name, bench.out / "evaluate" / name
    run = next((candidate for candidate in runs if candidate.failure is None), None)
    if run is None:
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


def hold_against_floor(bench: Bench, run: Tuned, baseline: Tuned) -> None:
    """
    Compare a tuned encoder with its tuned random baseline on the same unseen examples.

    Parameters
    ----------
    bench : Bench
    run, baseline : Tuned
        Of one seed.
    """
    from ..training.evaluating import evaluate

    scores, reference = (
        replace(
            evaluate(tuned, bench.task, split="test", progress=bench.context.progress),
            model=f"{name} (seed {tuned.seeds.order})",
        )
        for tuned, name in ((run, bench.plan.encoders[0]), (baseline, random_name(bench.plan)))
    )
    result = replace(scores, reference=reference, facts={"command": bench.context.command})
    result.save(bench.out / FLOOR / "evaluate")
