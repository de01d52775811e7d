"""Llama and causal models of its architecture: rotary positions, pre-norm blocks and a final norm."""

from __future__ import annotations

from ..family import Family
from .openai_gpt import LAST_TOKEN

LLAMA = Family(
    name="llama",
    title="Llama, Mistral, Qwen, SmolLM and others of their shape",
    model_types=(
        *("llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2"),
        *("gemma", "gemma2", "phi3", "granite", "starcoder2", "stablelm"),
    ),
    blocks="layers",
    embeddings=("embed_tokens",),
    final_norm="norm",
    reads="last",
    causal=True,
    arguments={"use_cache": False},
    per_block=("layer_types", "no_rope_layers"),
    outputs=("self_attn.o_proj", "mlp.down_proj", "mlp.c_proj"),
    classifier=LAST_TOKEN,
    source="Touvron et al. 2023",
)
