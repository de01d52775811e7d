"""Options of experiments that compare layers on the rows of a text, their models, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar

from ..checks import several, whole_number
from ..comparison.request import PRECISIONS
from ..context import Context
from ..errors import must
from ..extraction.recording import tuned_facts
from ..extraction.texts import Texts
from ..findings.results import Result
from ..rows.planning import Rows
from ..rows.selecting import RowOptions, row_options
from ..training.opening import check_different, open_model
from .base import Pieces, Plan, option
from .inputs import LoadingOptions, SampleOptions
from .layer_similarity import Recorded, check_same, random_copy, record_models
from .result import make_result

MEASURES = ("rsa", "debiased_cka")
BASE = "base"
TUNED, SEEDS, RANDOM = "base to tuned", "between seeds", "base to random baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInputs:
    """
    Models, and the rows of a text that they are compared on.

    Parameters
    ----------
    models : TunedModels or mapping of str to Encoder
    texts : Texts
    rows : Rows
    """

    models: Any
    texts: Texts
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(SampleOptions):
    """How rows of a text are stored, and how layers are compared on them."""

    name: ClassVar[str]

    storage: str = option(
        "How rows are stored on disk.", "float32", choices=("float32", "float16", "bfloat16"), panel="Rows"
    )
    precision: str = option("Arithmetic of the measures.", "fast", choices=PRECISIONS, panel="Statistics")
    memory: str | int = option(
        "Memory limit for intermediate results, such as 2GB.", "2GB", panel="Statistics", metavar="SIZE"
    )

    def row_options(self, longest: int | None = None) -> RowOptions:
        """The rows, with a maximum number of tokens per example."""
        return row_options(self.rows, longest=longest, sample=self.sample, seed=self.seed)

    def computing(self, context: Context) -> dict[str, Any]:
        """Options of `similarity_matrix`."""
        return {
            "seed": self.seed,
            "device": context.device,
            "precision": self.precision,
            "memory": self.memory,
        }

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The rows of each model."""
        return self.recordings(plan.inputs, context)

    def recordings(self, text: TextInputs, context: Context, **options: Any) -> Pieces:
        """One piece of work for each model: its rows, as `record_models` puts them into the store."""
        models = getattr(text.models, "all", text.models)
        options = {"storage": self.storage, "same": False, "context": context, **options}
        return {
            f"{name} on {text.texts.name}": partial(
                record_models, {name: model}, text.texts, text.rows, **options
            )
            for name, model in models.items()
        }

    def result(
        self,
        recorded: Sequence[Recorded],
        texts: Sequence[Texts],
        context: Context,
        made_from: Mapping[str, Any] = MappingProxyType({}),
        **fields: Any,
    ) -> Result:
        """
        Put a result on texts together.

        Parameters
        ----------
        recorded : sequence of Recorded
        texts : sequence of Texts
        context : Context
        made_from : mapping
            What it takes to make the result again beside models, texts and seed.
        **fields
            Of `make_result`. Task and split are by default the first text, the score is the similarity, and
            warnings stand beside those of the rows of a single text.
        """
        row_warnings = recorded[0].warnings if len(recorded) == 1 else ()
        facts = {
            "models": dict(recorded[0].digests),
            "texts": [dict(text.facts) for text in texts],
            "rows": [{"count": len(text.rows), "digest": text.rows.digest} for text in recorded],
            "activations": [model.address for text in recorded for model in text.activations.values()],
            **made_from,
            "seed": self.seed,
            "device": context.device,
        }
        fields = {"task": texts[0].name, "split": texts[0].name, "score": "similarity", **fields}
        fields["warnings"] = [*row_warnings, *fields.get("warnings", ())]
        return make_result(self.name, provenance=facts, **fields)


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(ComparisonOptions):
    """Measures of similarity, and how their intervals are found."""

    measures: str | Sequence[str] = option(
        "Names of `microtome ls measures`.", MEASURES, panel="Statistics", metavar="NAME,..."
    )
    halves: int = option(
        "Number of half-samples, for intervals of measures without an influence function.",
        40,
        least=2,
        most=100_000,
        panel="Statistics",
    )

    def comparing(self, context: Context) -> dict[str, Any]:
        """Options of `compare_layers`."""
        return {"halves": self.halves, "context": context, **self.computing(context)}


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
