"""DeBERTa: relative positions shared by all blocks; from version 2, a convolution after the first block."""

from __future__ import annotations

from ..family import Classifier, Family
from .electra import CONTEXT

_POOLED = Classifier(
    stages=CONTEXT,
    activations=("tanh", "gelu", "relu"),
    layers=("pooler.dense", "classifier"),
)

DEBERTA = Family(
    name="deberta",
    title="DeBERTa",
    model_types=("deberta",),
    beside=("encoder.rel_embeddings",),
    classifier=_POOLED,
    # It masks bfloat16 scores with the smallest float32.
    bfloat16=False,
    by_shape=("encoder.get_rel_pos",),
    source="He et al. 2021",
)

DEBERTA_V2 = Family(
    name="deberta-v2",
    title="DeBERTa v2, v3",
    model_types=("deberta-v2",),
    beside=("encoder.rel_embeddings", "encoder.LayerNorm", "encoder.conv"),
    after_first="encoder.conv",
    needs_block=True,
    classifier=_POOLED,
    by_shape=("encoder.get_rel_pos",),
    source="He et al. 2021",
)
