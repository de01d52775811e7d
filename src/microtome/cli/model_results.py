"""How results of finetune, evaluate, prune and pretrain are shown: tables, sentences, and files written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..rounding import at_least, at_most, between
from .show import Screen

if TYPE_CHECKING:
    from ..inference.estimate import Estimate
    from ..pruning.pruned import Pruned
    from ..training.evaluation import Evaluation
    from ..training.writing import TunedRuns
    from ..zoo.pretraining import Pretrained


def print_tuned(screen: Screen, result: TunedRuns) -> None:
    """Print the scores of every seed."""
    names = list(result.runs[0].scores)
    rows = [
        [
            str(run.seeds.order),
            *(_interval(run.scores[name]) for name in names),
            f"{run.course['updates']:,}",
            f"{run.course['seconds']:.0f}",
            run.failure or "",
        ]
        for run in result.runs
    ]
    folders = [str(run.folder) for run in result.runs]
    screen.rows(["seed", *names, "updates", "seconds", "failure"], rows, [*result.findings, *folders])


def note_tuned(screen: Screen, result: TunedRuns, out: Path) -> None:
    """Name the files of a fine-tuning."""
    screen.note(f"Written to {out}: result.json, table.parquet and a checkpoint for each seed.")
    _note_head(screen, result.runs[0].folder)


def print_evaluation(screen: Screen, result: Evaluation) -> None:
    """Print every score with its interval and the majority baseline."""
    rows = [
        [
            name,
            f"{score.value:.4f}",
            ""
            if score.low is None or score.high is None
            else f"{at_least(score.low, 4)} to {at_most(score.high, 4)}",
            "" if name not in result.baseline else f"{result.baseline[name]:.4f}",
        ]
        for name, score in result.scores.items()
    ]
    head = ["score", "value", f"{result.level * 100:g} % interval over examples", "majority baseline"]
    screen.rows(head, rows, result.findings)


def note_evaluation(screen: Screen, result: Evaluation, out: Path) -> None:
    """Name the files of an evaluation."""
    screen.note(f"Written to {out}: result.json and table.parquet.")


def print_pruned(screen: Screen, result: Pruned) -> None:
    """Print the tested sequence of cuts, and times of both models."""
    from ..interventions.choosing import named

    rows = [
        [
            named(result.without(step.candidate.what)),
            f"{step.candidate.cost:.2f}",
            f"{step.found.drop:.2f}",
            at_most(step.found.upper),
            f"{step.found.p:.3g}",
            "safe" if step.found.safe else "not shown to be safe",
        ]
        for step in result.steps
    ]
    notes = [
        f"{result.scored} cuts were scored: {result.tried}.",
        f"{result.chosen_on}. {result.certified_on}.",
        *result.findings,
    ]
    head = ["without", "cost (choosing)", "drop (certifying)", "at most", "p", f"margin {result.max_drop:g}"]
    screen.rows(head, rows, notes) if rows else screen.sentences(notes)
    if result.speed is not None:
        screen.rows(["", "before", "after", "ratio [range]"], result.speed.table())


def note_pruned(screen: Screen, result: Pruned, out: Path) -> None:
    """Name the files of a pruning."""
    files = (
        "the model with its card, result.json and table.parquet"
        if result.certified
        else "result.json, and no model, since nothing can be cut safely"
    )
    screen.note(f"Written to {out}: {files}.")
    _note_head(screen, out)


def print_pretrained(screen: Screen, result: Pretrained) -> None:
    """Print the last loss of a pretraining."""
    screen.sentences(result.findings)


# By the kind of result: what prints it, and what names the files that it wrote.
TABLES_OF: Mapping[str, Callable[[Screen, Any], None]] = MappingProxyType(
    {
        "finetune": print_tuned,
        "evaluate": print_evaluation,
        "prune": print_pruned,
        "pretrain": print_pretrained,
    }
)
FILES_OF: Mapping[str, Callable[[Screen, Any, Path], None]] = MappingProxyType(
    {"finetune": note_tuned, "evaluate": note_evaluation, "prune": note_pruned}
)


def _note_head(screen: Screen, folder: Path) -> None:
    """Name where the head of a written model lies, if stock classes would initialize another one."""
    from ..training.models.saving import said_of_head

    sentence = said_of_head(folder)
    if sentence is not None:
        screen.note(sentence)


def _interval(score: Estimate) -> str:
    if score.low is None or score.high is None:
        return f"{score.value:.4f}"
    return f"{score.value:.4f} {between(score.low, score.high, 4)}"
