"""OpenAI GPT: causal attention and post-norm blocks."""

from __future__ import annotations

from ..family import Classifier, Family

# The library looks for the last token by its id, whatever the mask is.
LAST_TOKEN = Classifier(stages="state of the last token that is not the padding token -> linear without bias")

OPENAI_GPT = Family(
    name="openai-gpt",
    title="OpenAI GPT",
    model_types=("openai-gpt",),
    blocks="h",
    embeddings=("tokens_embed", "positions_embed"),
    reads="last",
    causal=True,
    outputs=("attn.c_proj", "mlp.c_proj"),
    classifier=LAST_TOKEN,
    source="Radford et al. 2018",
)
