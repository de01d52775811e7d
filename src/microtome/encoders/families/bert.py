"""BERT: post-norm blocks and learned absolute positions."""

from __future__ import annotations

from ..family import Family

BERT = Family(
    name="bert",
    title="BERT",
    model_types=("bert",),
    blocks="encoder.layer",
    embeddings=("embeddings",),
    outputs=("attention.output.dense", "output.dense"),
    source="Devlin et al. 2019",
)
