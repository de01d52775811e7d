"""Options and inputs that comparisons and extractions share: models, rows and how they are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...encoders.encoder import Encoder
from ...extraction.recording import STORAGE
from ...rows.options import KINDS, SUBWORDS, row_options
from ...rows.options import RowOptions as RowRule
from ...rows.planning import input_length
from ..base import option
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
