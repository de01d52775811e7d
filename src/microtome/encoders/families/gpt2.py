"""GPT-2: causal attention, pre-norm blocks and a final norm."""

from __future__ import annotations

from ..family import Family
from .openai_gpt import LAST_TOKEN

GPT2 = Family(
    name="gpt2",
    title="GPT-2",
    model_types=("gpt2",),
    blocks="h",
    embeddings=("wte", "wpe"),
    final_norm="ln_f",
    reads="last",
    causal=True,
    arguments={"use_cache": False},
    index_scaled="scale_attn_by_inverse_layer_idx",
    outputs=("attn.c_proj", "mlp.c_proj"),
    classifier=LAST_TOKEN,
    source="Radford et al. 2019",
)
