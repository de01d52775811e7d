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
    source="Warner et al. 2024",
)
