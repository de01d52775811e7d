"""BERT: post-norm blocks and learned absolute positions."""

from __future__ import annotations

from ..family import Classifier, Family

# The head of models that pool the first token as in next-sentence prediction.
POOLED = Classifier(
    stages="pooler (first token, dense, tanh) -> dropout -> linear",
    reads="pooler",
    layers=("classifier",),
    exact=True,
)

BERT = Family(
    name="bert",
    title="BERT",
    model_types=("bert",),
    classifier=POOLED,
    pooler="trained with next-sentence prediction",
    jiant_pooler=True,
    cuda_graphs=True,
    source="Devlin et al. 2019",
)
