"""RoBERTa and its multilingual and French relatives: BERT's blocks, positions counted over real tokens."""

from __future__ import annotations

from ..family import Family

ROBERTA = Family(
    name="roberta",
    title="RoBERTa, XLM-R, CamemBERT",
    model_types=("roberta", "xlm-roberta", "camembert"),
    blocks="encoder.layer",
    embeddings=("embeddings",),
    unused_positions=2,
    outputs=("attention.output.dense", "output.dense"),
    source="Liu et al. 2019",
)
