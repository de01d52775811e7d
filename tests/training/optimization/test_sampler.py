"""Is every example seen once a pass, in an order that the seed decides?"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from microtome.training.optimization.sampler import one_pass, updates

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=400)


@given(lengths=LENGTHS, batch=st.integers(1, 40), seed=st.integers(0, 9), bucket=st.booleans())
def test_a_pass_sees_each_example_once(lengths: list[int], batch: int, seed: int, bucket: bool) -> None:
    found = one_pass(lengths, batch=batch, seed=seed, epoch=0, bucket=bucket)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
    assert len(found) == -(-len(lengths) // batch)
    assert all(len(one) <= batch for one in found)


@given(lengths=LENGTHS, batch=st.integers(1, 40), start=st.integers(0, 60), bucket=st.booleans())
def test_a_resumed_order_goes_on_as_it_would_have(
    lengths: list[int], batch: int, start: int, bucket: bool
) -> None:
    whole = itertools.islice(updates(lengths, batch=batch, seed=1, bucket=bucket), start, start + 5)
    rest = itertools.islice(updates(lengths, batch=batch, seed=1, bucket=bucket, start=start), 5)
    for one, other in zip(whole, rest, strict=True):
        assert one.tolist() == other.tolist()


def test_seeds_and_passes_differ() -> None:
    lengths = [1] * 100
    orders = [
        np.concatenate(one_pass(lengths, batch=8, seed=seed, epoch=epoch)).tolist()
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def test_like_lengths_share_an_update() -> None:
    lengths = np.random.default_rng(0).integers(5, 128, 2_000).tolist()

    def padded(bucket: bool) -> int:
        found = one_pass(lengths, batch=16, seed=0, epoch=0, bucket=bucket)
        return sum(len(one) * max(lengths[i] for i in one) for one in found)

    assert padded(True) < 1.1 * sum(lengths)
    assert padded(False) > 1.6 * sum(lengths)


@given(lengths=LENGTHS, batch=st.integers(1, 40))
def test_seeds_have_updates_of_one_size_and_of_like_lengths(lengths: list[int], batch: int) -> None:
    both = [one_pass(lengths, batch=batch, seed=seed, epoch=0, bucket=True) for seed in (0, 1)]
    assert [len(one) for one in both[0]] == [len(one) for one in both[1]]
    if len(lengths) <= 50 * batch:
        longest = [[max(lengths[i] for i in one) for one in each] for each in both]
        assert longest[0] == longest[1]
