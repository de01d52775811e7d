"""Is progress told now and then, with the time that is left?"""

from __future__ import annotations

import pytest

from microtome import context
from microtome.context import ProgressLines


def test_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 11.0, 31.0, 41.0, 62.0, 95.0])
    monkeypatch.setattr(context.time, "monotonic", lambda: next(clock))
    told: list[str] = []
    lines = ProgressLines(told.append)
    for done in (0, 10, 30, 40):  # at 1, 11, 31 and 41 seconds
        lines.report("cuts", done, 630)
    lines.report("reading", 97, 0)  # work of another kind, whose end nobody knows
    lines.report("reading", 1_200, 0)
    assert told == ["cuts: 30 of 630, about 10 minutes left", "reading: 1,200"]
