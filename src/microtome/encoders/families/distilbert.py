"""DistilBERT: half of BERT's blocks, without segments and pooler."""

from __future__ import annotations

from ..family import Classifier, Family

DISTILBERT = Family(
    name="distilbert",
    title="DistilBERT",
    model_types=("distilbert",),
    blocks="transformer.layer",
    outputs=("attention.out_lin", "ffn.lin2"),
    classifier=Classifier(
        stages="state of the first token -> dense -> relu -> dropout -> linear",
        activations=("relu",),
        layers=("pre_classifier", "classifier"),
    ),
    source="Sanh et al. 2019",
)
