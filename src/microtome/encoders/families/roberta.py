"""RoBERTa and its multilingual and French relatives: BERT's blocks, positions counted over real tokens."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ..family import Family

ROBERTA = Family(
    name="roberta",
    title="RoBERTa, XLM-R, CamemBERT",
    model_types=("roberta", "xlm-roberta", "camembert"),
    blocks="encoder.layer",
    embeddings=("embeddings",),
    after_padding=True,
    outputs=("attention.output.dense", "output.dense"),
    source="Liu et al. 2019",
)

# The same classes under a causal mask: the first token sees only itself, the last one sees all.
ROBERTA_DECODER = replace(
    ROBERTA,
    name="roberta-decoder",
    title="RoBERTa, XLM-R, CamemBERT with is_decoder",
    where=MappingProxyType({"is_decoder": True}),
    reads="last",
    causal=True,
    arguments=MappingProxyType({"use_cache": False}),
)
