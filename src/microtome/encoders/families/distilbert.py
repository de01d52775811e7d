"""DistilBERT: half of BERT's blocks, without segments and pooler."""

from __future__ import annotations

from ..family import Family

DISTILBERT = Family(
    name="distilbert",
    title="DistilBERT",
    model_types=("distilbert",),
    blocks="transformer.layer",
    embeddings=("embeddings",),
    outputs=("attention.out_lin", "ffn.lin2"),
    source="Sanh et al. 2019",
)
