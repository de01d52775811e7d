"""Are states pooled as sentence-transformers pools them?"""

from __future__ import annotations

import pytest
import torch

from microtome.training.cut_store import pool_states

STATES = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]], [[2.0, 2.0], [4.0, 0.0], [6.0, 1.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    "pooling,expected",
    [
        ("cls", [[1.0, -4.0], [2.0, 2.0]]),
        ("mean", [[2.0, -3.0], [4.0, 1.0]]),
        ("max", [[3.0, -2.0], [6.0, 2.0]]),
        ("last", [[3.0, -2.0], [6.0, 1.0]]),
        ("mean_sqrt_len", [[4 / 2**0.5, -6 / 2**0.5], [12 / 3**0.5, 3 / 3**0.5]]),
        ("weighted_mean", [[7 / 3, -8 / 3], [28 / 6, 5 / 6]]),
        ("cls+mean", [[1.0, -4.0, 2.0, -3.0], [2.0, 2.0, 4.0, 1.0]]),
    ],
)
def test_padding_never_counts(pooling: str, expected: list[list[float]]) -> None:
    torch.testing.assert_close(pool_states(STATES, MASK, pooling), torch.tensor(expected))
