"""XLNet: time-major states; the last token represents the input."""

from __future__ import annotations

from types import MappingProxyType

from ..family import Family

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
    arguments=MappingProxyType({"use_mems": False}),
    outputs=("rel_attn.o", "ff.layer_2"),
    source="Yang et al. 2019",
)
