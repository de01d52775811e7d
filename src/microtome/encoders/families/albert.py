"""ALBERT: one block, or a few, shared by all layers."""

from __future__ import annotations

from ..family import Family
from .bert import POOLED

ALBERT = Family(
    name="albert",
    title="ALBERT",
    model_types=("albert",),
    blocks="encoder.albert_layer_groups",
    embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"),
    shared=True,
    outputs=("attention.dense", "ffn_output"),
    classifier=POOLED,
    pooler="trained with sentence-order prediction",
    jiant_pooler=True,
    cuda_graphs=True,
    source="Lan et al. 2020",
)
