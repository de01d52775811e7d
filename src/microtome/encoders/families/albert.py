"""ALBERT: one block, or a few, shared by all layers."""

from __future__ import annotations

from ..family import Family

ALBERT = Family(
    name="albert",
    title="ALBERT",
    model_types=("albert",),
    blocks="encoder.albert_layer_groups",
    embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"),
    shared=True,
    outputs=("attention.dense", "ffn_output"),
    source="Lan et al. 2020",
)
