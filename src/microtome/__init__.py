"""Takes Transformer text encoders apart, layer by layer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import VERSION

if TYPE_CHECKING:
    from . import analysis as analysis
    from .comparison.attention import attention_similarity_matrix as attention_similarity_matrix
    from .comparison.similarity import similarity as similarity
    from .comparison.watching import watch as watch
    from .context import Context as Context
    from .corpora.table import CORPORA as CORPORA
    from .encoders.loading import load as load
    from .encoders.series import series as series
    from .encoders.table import FAMILIES as FAMILIES
    from .errors import MicrotomeError as MicrotomeError
    from .experiments.change.change import change as change
    from .experiments.change.domains import domains as domains
    from .experiments.change.localization import localize as localize
    from .experiments.change.trajectory import trajectory as trajectory
    from .experiments.change.tuning_methods import tuning_methods as tuning_methods
    from .experiments.probing.probing import probe as probe
    from .experiments.similarity.comparison import compare as compare
    from .experiments.similarity.extraction import extract as extract
    from .experiments.similarity.matrix import similarity_matrix as similarity_matrix
    from .experiments.surgery.dropping import drop as drop
    from .experiments.surgery.freezing import freeze as freeze
    from .experiments.surgery.permutation import permute as permute
    from .experiments.surgery.reinitialization import reinit as reinit
    from .experiments.surgery.skipping import skip as skip
    from .experiments.surgery.truncation import truncate as truncate
    from .experiments.table import EXPERIMENTS as EXPERIMENTS
    from .experiments.tuning.pruning import prune as prune
    from .findings.opening import open_found as open  # noqa: F401
    from .interventions.applying import apply as apply
    from .interventions.freeze import Freeze as Freeze
    from .interventions.permute import Permute as Permute
    from .interventions.reinit import Reinit as Reinit
    from .interventions.skip import Skip as Skip
    from .interventions.table import INTERVENTIONS as INTERVENTIONS
    from .interventions.truncate import Truncate as Truncate
    from .measures.table import MEASURES as MEASURES
    from .report.making import report as report
    from .tasks.corpus import corpus as corpus
    from .tasks.loading import task as task
    from .tasks.subset import held_out as held_out
    from .tasks.table import TASKS as TASKS
    from .training.evaluating import evaluate as evaluate
    from .training.finetuning import finetune as finetune
    from .training.heads.head import HEADS as HEADS
    from .training.heads.head import Head as Head
    from .training.multi_seed import over_seeds as over_seeds
    from .training.opening import open_tuned as open_tuned
    from .training.recipe import RECIPES as RECIPES
    from .training.recipe import Recipe as Recipe

__version__ = VERSION

# Public names and where they are; nothing heavy is imported until one of them is used.
_PUBLIC = {
    "apply": "interventions.applying.apply",
    "attention_similarity_matrix": "comparison.attention.attention_similarity_matrix",
    "compare": "experiments.similarity.comparison.compare",
    "drop": "experiments.surgery.dropping.drop",
    "freeze": "experiments.surgery.freezing.freeze",
    "Context": "context.Context",
    "permute": "experiments.surgery.permutation.permute",
    "prune": "experiments.tuning.pruning.prune",
    "reinit": "experiments.surgery.reinitialization.reinit",
    "report": "report.making.report",
    "skip": "experiments.surgery.skipping.skip",
    "probe": "experiments.probing.probing.probe",
    "change": "experiments.change.change.change",
    "domains": "experiments.change.domains.domains",
    "localize": "experiments.change.localization.localize",
    "trajectory": "experiments.change.trajectory.trajectory",
    "tuning_methods": "experiments.change.tuning_methods.tuning_methods",
    "truncate": "experiments.surgery.truncation.truncate",
    "corpus": "tasks.corpus.corpus",
    "evaluate": "training.evaluating.evaluate",
    "extract": "experiments.similarity.extraction.extract",
    "finetune": "training.finetuning.finetune",
    "held_out": "tasks.subset.held_out",
    "load": "encoders.loading.load",
    "open_tuned": "training.opening.open_tuned",
    "over_seeds": "training.multi_seed.over_seeds",
    "series": "encoders.series.series",
    "similarity": "comparison.similarity.similarity",
    "similarity_matrix": "experiments.similarity.matrix.similarity_matrix",
    "task": "tasks.loading.task",
    "watch": "comparison.watching.watch",
    "CORPORA": "corpora.table.CORPORA",
    "FAMILIES": "encoders.table.FAMILIES",
    "EXPERIMENTS": "experiments.table.EXPERIMENTS",
    "Freeze": "interventions.freeze.Freeze",
    "INTERVENTIONS": "interventions.table.INTERVENTIONS",
    "Permute": "interventions.permute.Permute",
    "Reinit": "interventions.reinit.Reinit",
    "Skip": "interventions.skip.Skip",
    "Truncate": "interventions.truncate.Truncate",
    "HEADS": "training.heads.head.HEADS",
    "Head": "training.heads.head.Head",
    "MEASURES": "measures.table.EVERYTHING",
    "RECIPES": "training.recipe.RECIPES",
    "Recipe": "training.recipe.Recipe",
    "TASKS": "tasks.table.TASKS",
    "MicrotomeError": "errors.MicrotomeError",
    "open": "findings.opening.open_found",
}

# `from microtome import *` must not hide the builtin `open`.
__all__ = [*(name for name in _PUBLIC if name != "open"), "analysis", "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module(".analysis", __name__)
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].rpartition(".")
        return getattr(import_module(f".{module}", __name__), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "analysis", "__version__"])
