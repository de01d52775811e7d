"""Do batches hold every example once, within the memory that there is?"""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from microtome.errors import WorkError
from microtome.extraction.batches import Budget, buckets, out_of_memory

LENGTHS = st.lists(st.integers(1, 40), max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_every_example_runs_once_and_within_the_budget(lengths: list[int], tokens: int) -> None:
    found = list(buckets(lengths, tokens))
    assert sorted(k for batch in found for k in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[k] for k in batch) <= tokens
    # Longest first, so that memory that does not suffice shows at once.
    flat = [lengths[k] for batch in found for k in batch]
    assert flat == sorted(flat, reverse=True)


@given(LENGTHS.filter(bool), st.integers(1, 12))
def test_whatever_fits_runs_once_and_in_order(lengths: list[int], most: int) -> None:
    done: list[int] = []

    def work(part: Sequence[int]) -> None:
        if len(part) > most:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        done.extend(part)

    budget = Budget(10**6)
    budget.run(range(len(lengths)), lengths, work)
    assert done == list(range(len(lengths)))
    assert (budget.tokens < 10**6) == (len(lengths) > most)


def test_one_example_that_does_not_fit_is_told_by_its_length() -> None:
    def work(part: Sequence[int]) -> None:
        if 1 in part:
            raise MemoryError

    with pytest.raises(WorkError) as caught:
        Budget(64).run([0, 1], [3, 512], work)
    said = "one example of 512 tokens must fit the memory, but it ran out; try a smaller longest=."
    assert str(caught.value) == said


def test_other_errors_are_not_taken_for_memory() -> None:
    def work(part: Sequence[int]) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    budget = Budget(64)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        budget.run([0, 1], [1, 1], work)
    assert budget.tokens == 64


@pytest.mark.parametrize("said, memory", [
    ("CUDA out of memory. Tried to allocate 20.00 GiB", True),
    ("DefaultCPUAllocator: can't allocate memory: you tried to allocate", True),
    ("index out of range in self", False),
])  # fmt: skip
def test_memory_is_known_by_its_words(said: str, memory: bool) -> None:
    assert out_of_memory(RuntimeError(said)) is memory
