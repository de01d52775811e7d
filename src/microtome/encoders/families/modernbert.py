"""ModernBERT: rotary positions, local and global attention in turn, one more norm at the end."""

from __future__ import annotations

from ..family import Family

MODERNBERT = Family(
    name="modernbert",
    title="ModernBERT",
    model_types=("modernbert",),
    blocks="layers",
    embeddings=("embeddings",),
    final_norm="final_norm",
    per_block=("layer_types",),
    # Its embeddings are normed already, so that the first block does not norm what it reads.
    first_fixed=True,
    needs_block=True,
    outputs=("attn.Wo", "mlp.Wo"),
    source="Warner et al. 2024",
)
