"""Comparison of the layers of several models on the same rows of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...comparison.compare import ComparisonInputs, choose_measures, compare_layers, fits_device
from ...comparison.inputs import check_remove_top
from ...comparison.request import read_bytes
from ...context import Context
from ...errors import must
from ...extraction.recording import record
from ...findings.record import Maps, with_facts
from ...rows.planning import plan_rows, row_cost
from ..base import Experiment, Pieces, Plan, as_function, option
from ..layer_similarity import random_copy
from .extraction import ExtractionOptions
from .matrix import MatrixOptions


@dataclass(frozen=True, kw_only=True)
class ModelComparison(MatrixOptions, ExtractionOptions, Experiment):
    """
    Compare all layers of all models with one another, on the same rows of a corpus.

    Debiasing and intervals treat documents as independent where the corpus names ten or more; otherwise the
    sentence of a word or token, or the example. With certainty, and debiased CKA among the measures, it is
    tested whether the layers of each model form blocks. Models that are given by name run on the device of
    the context, and open ones on their own.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> maps = mt.compare([base, mt.load("zoo:causal")], on=sentences)
    >>> maps["debiased_cka"].shape
    (16, 16)
    """

    name = "similarity"
    returns = "Maps"

    models: Any = option(
        "Models: hub ids, folders or zoo:NAME.",
        panel="Input",
        argument=True,
        repeated=True,
        metavar="MODEL...",
    )
    random_baselines: int = option(
        "Number of randomly initialized copies of the first model to include as a lower reference (seeds "
        "--seed, --seed + 1, ...).",
        0,
        least=0,
        most=1_000,
        panel="Input",
    )
    causal: bool = option(
        "For attention: compare lower triangles, so that causal models can take part.", False, panel="Rows"
    )
    keep: bool | None = option(
        "Record rows in the store, so that no model runs on them twice; without them, intervals and "
        "permutations cannot be computed. When absent, rows that fit the memory of a GPU stay there, and "
        "others are recorded.",
        None,
        panel="Output",
    )

    def plan(self, context: Context) -> Plan:
        """Choose the measures, open the corpus, load the models, and find the rows that all of them have."""
        if not isinstance(self.models, Sequence) or isinstance(self.models, str):
            raise must("models", "a list of models", type(self.models).__name__)
        again = self.keep is not False
        measures = choose_measures(self.measures, rows=self.rows, certainty=self.certainty, keep=again)
        read_bytes(self.memory)
        self.row_rule()
        texts = self.texts()
        encoders = self.open_encoders(self.models, context)
        seeds = range(self.seed, self.seed + self.random_baselines)
        encoders += [random_copy(encoders[0], seed) for seed in seeds]
        check_remove_top(self.remove_top, [width for encoder in encoders for width in encoder.widths])
        rows = plan_rows(texts.examples, encoders, self.row_rule(encoders), context)
        held = self.keep is None and fits_device(encoders, rows, context.device)
        keep = again and not held
        sentence, summary = row_cost(encoders, rows, storage=self.storage, kept=keep)
        return Plan(
            summary=summary,
            sentence=sentence,
            inputs=ComparisonInputs(
                encoders=encoders,
                texts=texts,
                rows=rows,
                measures=measures,
                causal=self.causal,
                keep=keep,
                held=held,
                storage=self.storage,
                batch_tokens=self.batch_tokens,
            ),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The rows of each model, where they are recorded."""
        inputs: ComparisonInputs = plan.inputs
        options = {"storage": self.storage, "batch_tokens": self.batch_tokens, "context": context}
        return {
            encoder.name: partial(record, encoder, inputs.texts, inputs.rows, **options)
            for encoder in inputs.encoders
            if inputs.keep and inputs.of_rows
        }

    def run(self, plan: Plan, context: Context) -> Maps:
        """Record the rows of each model, or find them in the store, and compare them."""
        maps = compare_layers(plan.inputs, self.similarity_options(context), context)
        return with_facts(maps, inputs=[])


compare = as_function(ModelComparison, "compare")
