"""ELMo: character-based word vectors and bidirectional LSTMs or Transformers."""

from __future__ import annotations

from ..family import Family

ELMO = Family(
    name="elmo",
    title="ELMo (options.json and weights.hdf5)",
    model_types=(),
    blocks="blocks",
    outputs=(),
    reads="none",
    source="Peters et al. 2018",
)

TRANSFORMER_ELMO = Family(
    name="transformer-elmo",
    title="Transformer ELMo (config.json and weights.th)",
    model_types=(),
    blocks="blocks",
    final_norm="final_norm",
    outputs=(),
    reads="none",
    source="Peters et al. 2018",
)
