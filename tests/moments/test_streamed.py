"""Are moments of rows that come once those of rows that can be read again?"""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from microtome.errors import InputError
from microtome.moments.crossing import cross
from microtome.moments.stack import make_stack
from microtome.moments.streamed import StreamedMoments
from microtome.randomness import generator

CPU = torch.device("cpu")


def layers(widths: list[int], rows: int, mean: float = 0.3) -> list[torch.Tensor]:
    rng = generator(0, "streamed", rows)
    return [torch.from_numpy(rng.standard_normal((rows, w)) + mean).float() for w in widths]


def streamed(found: list[torch.Tensor], cuts: list[int], **options: object) -> StreamedMoments:
    moments = StreamedMoments(
        [str(k) for k in range(len(found))],
        [layer.shape[1] for layer in found],
        **{"left": None, "dtype": torch.float64, "device": CPU, **options},  # pyright: ignore[reportArgumentType]
    )
    edges = [0, *sorted(cuts), len(found[0])]
    for start, stop in pairwise(edges):
        moments.add([layer[start:stop] for layer in found])
    return moments


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 60),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 70),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([0.3, 3000.0]),
)
def test_how_rows_come_does_not_matter(
    rows: int, cuts: list[int], tile: int, left: int | None, mean: float
) -> None:
    found = layers([3, 4, 3], rows, mean)
    moments = streamed(found, [min(c, rows) for c in cuts], left=left, tile_rows=tile)
    one = moments.finish()
    sides = [found] if left is None else [found[:left], found[left:]]
    stacks = [make_stack([layer.double() for layer in side]) for side in sides]
    two = cross(stacks[0], stacks[1] if left is not None else None, dtype=torch.float64, device=CPU)
    assert (one.n, one.widths, one.left, one.right) == (two.n, two.widths, two.left, two.right)
    for a, b in zip([*one.strips, *one.mean], [*two.strips, *two.mean], strict=True):
        torch.testing.assert_close(a.double(), b.double(), atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(one.norms, two.norms, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(one.products, two.products, atol=1e-6, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("mean", [0.0, 3000.0])
def test_float32_products_keep_their_digits(mean: float) -> None:
    found = layers([5, 6], 3000, mean)
    fast = streamed(found, [700, 2100], dtype=torch.float32, tile_rows=512).finish()
    exact = streamed(found, [], tile_rows=512).finish()
    for a, b in zip(fast.strips, exact.strips, strict=True):
        torch.testing.assert_close(a.double(), b.double(), atol=2e-3, rtol=1e-5)


def test_tiny_numbers_turn_to_float64() -> None:
    found = [layer * 1e-25 for layer in layers([3, 3], 50)]
    moments = streamed(found, [], dtype=torch.float32)
    one = moments.finish()
    assert moments.dtype == torch.float64
    assert float(one.norms.min()) > 0


def test_what_is_wrong_is_told() -> None:
    found = layers([3, 4], 20)
    with pytest.raises(InputError, match=r"layer 1 must give 20 rows of 4 features, but got \[20, 3\]\."):
        streamed(found, []).add([found[0], found[0]])
    with pytest.raises(InputError, match="must have seen at least one row, but they saw none"):
        StreamedMoments(["a"], [2], left=None, dtype=torch.float32, device=CPU).finish()
    for bad, word in ((np.nan, "NaN"), (np.inf, "infinite")):
        broken = [layer.clone() for layer in found]
        broken[1][13, 2] = bad
        with pytest.raises(InputError, match=rf"layer 1 is {word} at row 13, feature 2\."):
            streamed(broken, [5], tile_rows=6).finish()


def test_the_layers_are_known_without_their_rows() -> None:
    moments = streamed(layers([3, 4], 20), [], left=1)
    moments.finish()
    left, right = moments.stack()
    assert right is not None
    assert (left.names, right.names, left.widths, right.widths) == (("0",), ("1",), (3,), (4,))
    assert left.rows == right.rows == 20
