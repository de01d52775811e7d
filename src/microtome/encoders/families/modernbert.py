"""ModernBERT: rotary positions, alternating local and global attention, and a final norm."""

from __future__ import annotations

from ..family import Classifier, Family

MODERNBERT = Family(
    name="modernbert",
    title="ModernBERT",
    model_types=("modernbert",),
    blocks="layers",
    final_norm="final_norm",
    per_block=("layer_types",),
    # The embeddings are normalized already, so that the first block does not normalize its input.
    first_fixed=True,
    needs_block=True,
    outputs=("attn.Wo", "mlp.Wo"),
    classifier=Classifier(
        stages="state of the first token, or the mean where the checkpoint says so "
        "-> dense -> activation -> norm -> dropout -> linear"
    ),
    source="Warner et al. 2024",
)
