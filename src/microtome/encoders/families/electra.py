"""ELECTRA: BERT's blocks; small models project their embeddings to the width of the blocks."""

from __future__ import annotations

from ..family import Classifier, Family

CONTEXT = "state of the first token -> dropout -> dense -> gelu -> dropout -> linear"

ELECTRA = Family(
    name="electra",
    title="ELECTRA",
    model_types=("electra",),
    # The projection exists only where the widths differ.
    embeddings=("embeddings", "embeddings_project"),
    classifier=Classifier(
        stages=CONTEXT,
        activations=("gelu",),
        layers=("classifier.dense", "classifier.out_proj"),
        exact=True,
    ),
    cuda_graphs=True,
    source="Clark et al. 2020",
)
