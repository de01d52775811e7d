from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from microtome.tasks.items import Item
from microtome.tasks.reading.grouping import documents, joined

ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), min_size=1, max_size=12)


@given(ROWS)
def test_groups_are_what_texts_tie_together(rows: list[tuple[str, str]]) -> None:
    names = joined(list(rows))
    # Spread a mark from each row to all that share a text, until nothing changes.
    for start in range(len(rows)):
        reached, texts = {start}, set(rows[start])
        for _ in rows:
            reached |= {i for i, row in enumerate(rows) if texts & set(row)}
            texts |= {text for i in reached for text in rows[i]}
        assert {i for i, name in enumerate(names) if name == names[start]} == reached


def named(*ids: str) -> list[str]:
    return [item.group for item in documents([Item(id=name, words=("a",)) for name in ids])]


def test_documents_by_the_ids_of_sentences() -> None:
    assert named("x-1", "x-2", "y-1", "other") == ["x", "x", "y", "other"]
    # Numbers behind one name for all say nothing.
    assert named("train-1", "train-2") == ["train-1", "train-2"]
    assert named("s1", "s2") == ["s1", "s2"]
