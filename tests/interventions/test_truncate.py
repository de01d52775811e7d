"""Does a truncated model compute what the first blocks computed?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
from microtome.errors import InputError
from microtome.testing.families import SENTENCES, states


@pytest.mark.parametrize("model_type", ["bert", "xlnet", "gpt2", "albert"])
def test_the_embeddings_alone_can_be_read(model_type: str, encoder_of: Any) -> None:
    encoder = encoder_of(model_type)
    found = mt.apply(encoder, mt.Truncate(keep=0))
    normed = ("norm",) if encoder.family.final_norm else ()
    assert found.layers == ("0", *normed)
    batch = encoder.words(SENTENCES)
    seen = states(found, batch)
    assert torch.equal(seen[0], states(encoder, batch)[0])
    assert sorted(seen) == list(range(len(found.layers)))
    assert found.attend(batch) == []


def test_albert_runs_its_block_fewer_times(encoder_of: Any) -> None:
    encoder = encoder_of("albert")
    found = mt.apply(encoder, mt.Truncate(keep=3))
    assert found.source.changes == ("truncated to the first 3 of 4 blocks: no tensor changed",)
    # The weights are the same, so the depth must be part of what identifies the model.
    assert found.digest != encoder.digest
    assert found.digest == mt.apply(encoder, mt.Skip(blocks=(2,))).digest


def test_numbers_of_numpy_will_do() -> None:
    assert mt.Truncate(keep=np.int64(3)) == mt.Truncate(keep=3)  # pyright: ignore[reportArgumentType]


def test_what_cannot_be_kept(encoder_of: Any) -> None:
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(InputError, match="keep must be a whole number of at least 0, but got"):
            mt.Truncate(keep=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="keep must be at most 4, the depth of bert, but got 5"):
        mt.apply(encoder_of("bert"), mt.Truncate(keep=5))
    with pytest.raises(InputError, match="at least one block of ModernBERT must stay, but none would"):
        mt.apply(encoder_of("modernbert"), mt.Truncate(keep=0))
