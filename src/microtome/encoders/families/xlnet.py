"""XLNet: time-major states; the last token represents the input."""

from __future__ import annotations

from ..family import Classifier, Family

XLNET = Family(
    name="xlnet",
    title="XLNet",
    model_types=("xlnet",),
    blocks="layer",
    embeddings=("word_embedding",),
    reads="last",
    time_major=True,
    relative_segments=True,
    # States of earlier calls would otherwise be kept and read.
    arguments={"use_mems": False},
    outputs=("rel_attn.o", "ff.layer_2"),
    classifier=Classifier(
        stages="state of the last token -> dense -> tanh -> dropout -> linear",
        activations=("tanh",),
        layers=("sequence_summary.summary", "logits_proj"),
    ),
    idle=("mask_emb",),
    # The library's heads read the last position, also where it is padding.
    padding_side="left",
    source="Yang et al. 2019",
)
