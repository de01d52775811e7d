"""Are blocks left out as asked, and wrong numbers refused?"""

from __future__ import annotations

from typing import Any

import pytest

import microtome as mt
from microtome.errors import InputError


def test_the_rest_is_numbered_anew(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    found = mt.apply(encoder, mt.Skip(blocks=(3, 1)))
    assert found.layers == ("0", "1", "2")
    assert found.source.changes == (
        "skipped blocks 1 and 3 of 4: 32 of 71 tensors left out, no tensor changed",
    )
    old, new = encoder.base.state_dict(), found.base.state_dict()
    for name, tensor in new.items():
        moved = name.replace("layer.1.", "layer.3.").replace("layer.0.", "layer.1.")
        assert (old[moved] == tensor).all()


def test_what_cannot_be_skipped(encoder_of: Any) -> None:
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="blocks must be a whole number above 0, but got"):
            mt.Skip(blocks=(wrong,))  # pyright: ignore[reportArgumentType]
    for wrong in (3, "3"):
        with pytest.raises(InputError, match="blocks must be numbers of blocks, counted from 1, but got"):
            mt.Skip(blocks=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="blocks must name each block once, but block 2 comes twice"):
        mt.Skip(blocks=(2, 3, 2))
    with pytest.raises(
        InputError, match="must be whole numbers between 1 and 4, the depth of the model, but got 5"
    ):
        mt.apply(encoder_of("bert"), mt.Skip(blocks=(5,)))
    with pytest.raises(InputError, match="block 1 of ModernBERT must stay the first"):
        mt.apply(encoder_of("modernbert"), mt.Skip(blocks=(1,)))
