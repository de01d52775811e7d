"""Options of experiments that compare layers on the rows of a text, and their results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from ..comparison.request import PRECISIONS
from ..context import Context
from ..encoders.versions import provenance
from ..extraction.texts import Texts
from ..findings.results import Result
from ..rows.options import RowOptions, row_options
from ..rows.planning import Rows
from ..version import VERSION
from .base import Pieces, Plan, option
from .inputs import SampleOptions
from .layer_similarity import Recorded, record_models

MEASURES = ("rsa", "debiased_cka")


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
        *,
        started: float,
        methods: str,
        more: dict[str, Any],
        warnings: Sequence[str] = (),
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
        started : float
            Start of the run, by `time.monotonic`.
        methods : str
            What was done; the version is added.
        more : dict
            Data of this experiment.
        warnings : sequence of str
            Beside those of the rows of a single text.
        made_from : mapping
            What it takes to make the result again beside models, texts and seed.
        **fields
            Of `Result`; by default the score is a similarity, and text and task are the first text.
        """
        facts = {
            "models": dict(recorded[0].digests),
            "texts": [dict(text.facts) for text in texts],
            "rows": [{"count": len(text.rows), "digest": text.rows.digest} for text in recorded],
            "activations": [model.address for text in recorded for model in text.activations.values()],
            **made_from,
            "seed": self.seed,
            "device": context.device,
            "seconds": round(time.monotonic() - started, 3),
        }
        name = texts[0].name
        defaults = {"task": name, "split": name, "score": "similarity", "points": 1.0}
        lists = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
        return Result(
            **{"experiment": self.name, **defaults, **lists},
            methods=f"{methods} Computed with microtome {VERSION}.",
            warnings=(*(recorded[0].warnings if len(recorded) == 1 else ()), *warnings),
            more=MappingProxyType(more),
            provenance=MappingProxyType(provenance(facts)),
        )


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
