"""None"""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from microtome.corpora.records import SeenIds


@given(st.lists(st.text(max_size=3)))
def test_it_answers_as_a_set_does(names: list[str]) -> None:
    seen, known = SeenIds(), set()
    for name in names:
        assert seen.add(name) == (name in known)
        known.add(name)


def test_many_ids_need_little_memory() -> None:
    seen = SeenIds()
    tracemalloc.start()
    try:
        assert not any(seen.add(f"a rather long name for an example, number {i}") for i in range(50_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50_000 * 32
    assert all(seen.add(f"a rather long name for an example, number {i}") for i in range(0, 50_000, 997))
