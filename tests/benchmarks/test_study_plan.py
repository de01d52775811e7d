"""The benchmark of planning counts the jobs that it plans."""

from __future__ import annotations

import study_plan


def test_it_plans_what_it_says() -> None:
    times = study_plan.measure(64)
    assert times["jobs"] == 64
    assert all(value >= 0 for value in times.values())
