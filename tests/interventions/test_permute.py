"""Do blocks run in the order that was asked for?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError


def blocks(encoder: Any) -> list[dict[str, Any]]:
    return [block.state_dict() for block in encoder.blocks]


def test_order_and_seed(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    before = blocks(encoder)
    drawn = [int(k) + 1 for k in np.random.RandomState(7).permutation(4)]
    for asked, order in ((mt.Permute(order=(2, 1, 4, 3)), [2, 1, 4, 3]), (mt.Permute(seed=7), drawn)):
        found = mt.apply(encoder, asked)
        for own, block in zip(blocks(found), order, strict=True):
            assert all((before[block - 1][name] == tensor).all() for name, tensor in own.items())
    told = mt.apply(encoder, mt.Permute(seed=7)).source.changes[0]
    assert told == f"blocks put in the order {', '.join(map(str, drawn))} (seed 7): no tensor changed"


def test_what_is_no_order(encoder_of: Any) -> None:
    with pytest.raises(InputError, match="Permute must be given exactly one of seed, order, but got nothing"):
        mt.Permute()
    with pytest.raises(InputError, match=r"exactly one of seed, order, but got seed=1 and order=\(1, 2\)"):
        mt.Permute(seed=1, order=(1, 2))
    with pytest.raises(InputError, match="seed must be a whole number between 0 and 4,294,967,295"):
        mt.Permute(seed=2**32)
    with pytest.raises(InputError, match="order must name each block once, but block 1 comes twice"):
        mt.Permute(order=(1, 1, 2, 3))
    encoder = encoder_of("bert")
    with pytest.raises(InputError, match="order must be all of the 4 blocks of bert in some order"):
        mt.apply(encoder, mt.Permute(order=(2, 1, 3)))
    with pytest.raises(InputError, match="order must be whole numbers between 1 and 4"):
        mt.apply(encoder, mt.Permute(order=(2, 1, 3, 5)))
    with pytest.raises(
        InputError, match=r"blocks must have weights of their own to be permuted, but .* ALBERT"
    ):
        mt.apply(encoder_of("albert"), mt.Permute(seed=0))
    with pytest.raises(InputError, match="block 1 of ModernBERT must stay the first"):
        mt.apply(encoder_of("modernbert"), mt.Permute(order=(2, 1, 3, 4)))
