"""OpenAI GPT: causal attention and post-norm blocks."""

from __future__ import annotations

from ..family import Family

OPENAI_GPT = Family(
    name="openai-gpt",
    title="OpenAI GPT",
    model_types=("openai-gpt",),
    blocks="h",
    embeddings=("tokens_embed", "positions_embed"),
    reads="last",
    causal=True,
    outputs=("attn.c_proj", "mlp.c_proj"),
    source="Radford et al. 2018",
)
