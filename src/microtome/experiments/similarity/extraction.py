"""Extraction: the rows of all layers of a model over a corpus, recorded in the store."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ...context import Context
from ...encoders.encoder import Encoder
from ...encoders.versions import provenance
from ...extraction.recording import RECORDED, Activations, record
from ...extraction.texts import Texts
from ...rows.planning import Rows, plan_rows, row_cost
from ..base import Experiment, Plan, as_function, option
from .inputs import ExtractionOptions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExtractionInputs:
    """A model, a corpus, and the rows that will be recorded."""

    encoder: Encoder
    texts: Texts
    rows: Rows


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
        inputs = ExtractionInputs(encoder=encoder, texts=texts, rows=rows)
        return Plan(summary=summary, sentence=sentence, inputs=inputs)

    def run(self, plan: Plan, context: Context) -> Activations:
        """Record the rows, or find them in the store."""
        started = time.monotonic()
        inputs: ExtractionInputs = plan.inputs
        encoder, rows = inputs.encoder, inputs.rows
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
