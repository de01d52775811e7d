"""RoBERTa and its multilingual and French relatives: BERT's blocks, positions counted over real tokens."""

from __future__ import annotations

from dataclasses import replace

from ..family import Classifier, Family

# The head of models whose pooler is not pre-trained: its dense stage takes the pooler's place.
FIRST_TOKEN = Classifier(
    stages="state of the first token -> dropout -> dense -> tanh -> dropout -> linear",
    activations=("tanh",),
    layers=("classifier.dense", "classifier.out_proj"),
    exact=True,
)
UNTRAINED = "never trained: no pre-training loss read it"

ROBERTA = Family(
    name="roberta",
    title="RoBERTa, XLM-R, CamemBERT",
    model_types=("roberta", "xlm-roberta", "camembert"),
    after_padding=True,
    classifier=FIRST_TOKEN,
    pooler=UNTRAINED,
    jiant_pooler=True,
    cuda_graphs=True,
    source="Liu et al. 2019",
)

# The same classes under a causal mask: the first token sees only itself, the last one sees all.
ROBERTA_DECODER = replace(
    ROBERTA,
    name="roberta-decoder",
    title="RoBERTa, XLM-R, CamemBERT with is_decoder",
    where={"is_decoder": True},
    reads="last",
    causal=True,
    classifier=Classifier(stages=FIRST_TOKEN.stages, blind=True),
    pooler="",
    jiant_pooler=False,
    arguments={"use_cache": False},
)
