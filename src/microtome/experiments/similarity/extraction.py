"""Extraction: the rows of all layers of a model over a corpus, recorded in the store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ...context import Context
from ...encoders.encoder import Encoder
from ...encoders.versions import provenance
from ...extraction.recording import RECORDED, STORAGE, Activations, record
from ...rows.planning import input_length, plan_rows, row_cost
from ...rows.selecting import KINDS, SUBWORDS, row_options
from ...rows.selecting import RowOptions as RowRule
from ..base import Experiment, Plan, as_function, option
from ..comparison_options import TextInputs
from ..inputs import LoadingOptions, RowSelection, TextOptions

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class ExtractionOptions(LoadingOptions, TextOptions, RowSelection):
    """Which rows models are run for, how models compute, and how rows are stored."""

    rows: str = option("What one row is.", "word", choices=tuple(KINDS), panel="Rows")
    sample: int | None = option("Use a random sample of N rows.", None, least=4, panel="Rows", metavar="N")
    subword: str = option("Which sub-words represent a word.", "last", choices=SUBWORDS, panel="Rows")
    special: str = option(
        "Whether special tokens count in mean pooling.", "out", choices=("out", "in"), panel="Rows"
    )
    published: str | None = option(
        "Rows as in a paper: last sub-words without special tokens and repeated sentences (Wu et al. 2020).",
        None,
        choices=("wu",),
        panel="Rows",
    )
    dtype: str = option(
        "Arithmetic of the models: matrix products in float16 or bfloat16, mixed with float32.",
        "float32",
        choices=DTYPES,
    )
    storage: str = option("How rows are stored.", "float32", choices=STORAGE, panel="Output")
    batch_tokens: int | None = option("Tokens per batch; automatic when absent.", None, least=1)

    def row_rule(self, encoders: Sequence[Encoder] = ()) -> RowRule:
        """What a row is, at the input length that these models are compared with."""
        return row_options(
            self.rows,
            subword=self.subword,
            special=self.special,
            longest=input_length(encoders, self.longest),
            sample=self.sample,
            seed=self.seed,
            published=self.published,
        )

    def reference(self, model: Any, **more: Any) -> Any:
        """Arguments of `load` for a model that is given by name, and its arithmetic; an open one as it is."""
        autocast = {} if self.dtype == "float32" else {"autocast": self.dtype}
        return super().reference(model, **autocast, **more)


@dataclass(frozen=True, kw_only=True)
class Extraction(ExtractionOptions, Experiment):
    """
    Run a model over a corpus and record every layer in the store.

    `layers[3]` of the result is an array of shape (rows, features): the output of block 3 for any kind of
    rows; layer 0 is the input of the first block, and `rows` describes each row.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> mt.extract(base, on=sentences, rows="mean").names
    ('masked/0', 'masked/1', 'masked/2')
    """

    name = "extract"
    unused = frozenset({"level"})
    returns = "Activations"
    files = RECORDED

    model: Any = option(
        "Model: a hub id, a folder or zoo:NAME.", panel="Input", argument=True, metavar="MODEL"
    )

    def plan(self, context: Context) -> Plan:
        """Load the model, open the corpus, and find the rows."""
        self.row_rule()
        texts = self.texts()
        (encoder,) = self.open_encoders([self.model], context)
        rows = plan_rows(texts.examples, [encoder], self.row_rule([encoder]), context)
        sentence, summary = row_cost([encoder], rows, storage=self.storage)
        inputs = TextInputs(models={encoder.name: encoder}, texts=texts, rows=rows)
        return Plan(summary=summary, sentence=sentence, inputs=inputs)

    def run(self, plan: Plan, context: Context) -> Activations:
        """Record the rows, or find them in the store."""
        started = time.monotonic()
        inputs: TextInputs = plan.inputs
        (encoder,), rows = inputs.models.values(), inputs.rows
        recording = record(
            encoder,
            inputs.texts,
            rows,
            context=context,
            storage=self.storage,
            batch_tokens=self.batch_tokens,
        )
        facts = {
            "models": [recording.facts["model"]],
            "texts": recording.facts["texts"],
            "rows": {"digest": rows.digest, "count": len(rows), "what": rows.options.sentence()},
            "activations": [recording.address],
            "seed": self.seed,
            "device": str(encoder.device),
            "seconds": round(time.monotonic() - started, 3),
        }
        return replace(recording, provenance=MappingProxyType(provenance(facts)))


extract = as_function(Extraction, "extract")
