"""Models of a change: the base, its fine-tuned models, and randomly initialized copies of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..checks import several, whole_number
from ..comparison.models import tuned_facts
from ..context import Context
from ..errors import must
from ..training.opening import check_different, open_model
from .base import option
from .inputs import LoadingOptions
from .layer_similarity import check_same, random_copy

BASE = "base"
TUNED, SEEDS, RANDOM = "base to tuned", "between seeds", "base to random baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedModels:
    """
    Models by the names under which they are compared.

    Parameters
    ----------
    base : Encoder
    tuned : mapping of str to Encoder
    seeds : tuple of int
        Of the tuned models; their places where they are not known.
    task : str
        That they were tuned on; empty where it is not known.
    random : mapping of str to Encoder
        Randomly initialized copies of the base.
    """

    base: Any
    tuned: Mapping[str, Any]
    seeds: tuple[int, ...]
    task: str
    random: Mapping[str, Any]

    def task_of(self, name: str) -> str:
        """The task that a text of this name belongs to: that of the models, or the text itself."""
        # A text of any other kind was never part of the task, so calling it by the task would mislead.
        return self.task if self.task and f"{name}/".startswith(f"{self.task}/") else name

    @property
    def all(self) -> dict[str, Any]:
        """All models."""
        return {BASE: self.base, **self.tuned, **self.random}

    @property
    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        """Pairs of models that are compared, by the name of the series."""
        pairs = {
            TUNED: [(BASE, name) for name in self.tuned],
            SEEDS: list(combinations(self.tuned, 2)),
            RANDOM: [(BASE, name) for name in self.random],
        }
        return {name: models for name, models in pairs.items() if models}


@dataclass(frozen=True, kw_only=True)
class TunedOptions(LoadingOptions):
    """A model before fine-tuning, and after it."""

    base: Any = option(
        "Model before fine-tuning: hub id, folder or zoo:NAME.", argument=True, panel="Input", metavar="BASE"
    )
    tuned: Any = option(
        "Fine-tuned models, one per seed; two or more give the upper reference.",
        argument=True,
        repeated=True,
        panel="Input",
        metavar="TUNED...",
    )

    def open_tuned(self, context: Context, baselines: Any = 0, seed: int = 0) -> TunedModels:
        """
        Open the models, and check that they can be compared.

        Parameters
        ----------
        context : Context
        baselines : int, Encoder, or list of Encoder
            Number of random baselines of the base, or the random baselines themselves.
        seed : int
            Of the first random baseline.

        Returns
        -------
        TunedModels
        """
        if not several(self.tuned):
            raise must("tuned models", "at least one", 0)
        base, *tuned = self.open_encoders([self.base, *several(self.tuned)], context)
        check_different([model.digest for model in tuned])
        facts = [tuned_facts(model) for model in tuned]
        seeds = [fact["seed"] for fact in facts if fact is not None]
        if len(set(seeds)) < len(tuned):
            seeds = list(range(len(tuned)))
        if isinstance(baselines, int):
            count = whole_number("random_baselines", baselines, 0)
            random = [random_copy(base, seed + k) for k in range(count)]
        else:
            random = [open_model(model, context=context).encoder for model in several(baselines)]
        models = TunedModels(
            base=base,
            tuned={f"tuned {place}": model for place, model in zip(seeds, tuned, strict=True)},
            seeds=tuple(seeds),
            task=next((str(fact["task"]) for fact in facts if fact is not None), ""),
            random={f"random baseline {k}": model for k, model in enumerate(random)},
        )
        for name, model in models.all.items():
            check_same(name, model, (BASE, base.cuts, base.layers))
        return models
