"""MPNet: BERT's blocks with a relative position bias that is computed once for all of them."""

from __future__ import annotations

from ..family import Family
from .roberta import FIRST_TOKEN, UNTRAINED

MPNET = Family(
    name="mpnet",
    title="MPNet",
    model_types=("mpnet",),
    beside=("encoder.relative_attention_bias",),
    unused_positions=2,
    outputs=("attention.attn.o", "output.dense"),
    classifier=FIRST_TOKEN,
    pooler=UNTRAINED,
    by_shape=("encoder.relative_position_bucket",),
    source="Song et al. 2020",
)
