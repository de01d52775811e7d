from __future__ import annotations

from microtome.tasks.reading.wikihow import plain_context, without_marks


def test_marks_of_wikihow() -> None:
    assert without_marks(" How to sing [title] Begin [step] now . ") == "How to sing. Begin now ."
    assert plain_context("A man sits.", "he") == "A man sits. He"
    # A sentence that has ended is not ended again.
    assert plain_context("[header] Sing. [title] Begin.", "") == "Sing. Begin."
