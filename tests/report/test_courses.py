"""The maps of a trajectory stand in the report: a panel a step, with borders, linked by layer."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from figures.resulting import make_curve, make_result
from microtome.findings.results import Result
from microtome.report.courses import MOST, course_parts, some_of


def course(steps: int = 3, depth: int = 4, **more: Any) -> Result:
    """Layers that come closer from step to step, with a border in the middle that stands out at the end."""
    distance = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth)))
    maps = [(0.2 + 0.7 * step / steps) ** distance for step in range(1, steps + 1)]
    told = {
        "steps": [10 * step for step in range(steps)],
        "layers": list(range(depth)),
        "measure": "debiased_cka",
        "maps": [one.tolist() for one in maps],
        "blocks": [{"finding": {"border": depth // 2 - 1}} for _ in range(steps - 1)] + [{"finding": None}],
        "stands": [False] * (steps - 2) + [True, False],
    }
    return make_result(
        experiment="trajectory",
        curves=(make_curve("similarity to the first", [1.0, 0.9], axis="step"),),
        more=MappingProxyType(told | more),
    )


def test_every_step_is_a_panel_on_one_scale() -> None:
    result = course()
    (part,) = course_parts(result, "result.json", "")
    document = part.document
    assert document["kind"] == "map"
    assert [one["name"] for one in document["panels"]] == ["step 0", "step 10", "step 20"]
    for panel, values in zip(document["panels"], result.more["maps"], strict=True):
        (measure,) = panel["measures"]
        assert measure["values"] == values
        assert (measure["lo"], measure["hi"]) == (0.0, 1.0)
        # Names are the same at every step, so that a layer marked in one is marked in all.
        assert panel["left"] == panel["right"] == list(document["layers"])
    assert [one["depth"] for one in document["layers"].values()] == [0, 1, 2, 3]


def test_borders_are_told_with_their_doubt() -> None:
    (part,) = course_parts(course(), "result.json", "")
    told = [(one["panel"], one["after"], one["sure"], one["text"]) for one in part.document["blocks"]]
    assert told == [
        (0, 1, False, "step 0: between layers 1 and 2, no step stands out"),
        (1, 1, True, "step 10: between layers 1 and 2"),
        (2, None, False, "step 20: no border"),
    ]


def test_a_border_is_a_layer_also_where_layer_0_is_left_out() -> None:
    blocks = [
        {"finding": {"border": border, "used": used}} for border, used in ((2, [1, 2, 3, 4]), (1, [1, 3, 4]))
    ]
    told = course(layers=[1, 2, 3, 4], blocks=[*blocks, {"finding": {"border": 4}}])
    (part,) = course_parts(told, "result.json", "")
    assert [(one["after"], one["text"]) for one in part.document["blocks"]] == [
        (2, "step 0: between layers 2 and 3, no step stands out"),
        (1, "step 10: between layers 1 and 3"),
        (None, "step 20: no border"),
    ]


def test_of_many_steps_some_are_shown() -> None:
    (part,) = course_parts(course(steps=40), "result.json", "")
    names = [one["name"] for one in part.document["panels"]]
    assert len(names) == MOST
    assert (names[0], names[-1]) == ("step 0", "step 390")
    assert "31 others are in the result" in part.document["basis"]
    assert {one["panel"] for one in part.document["blocks"]} == set(range(MOST))


@pytest.mark.parametrize("count", [1, 2, 9, 10, 57])
def test_steps_are_chosen_evenly(count: int) -> None:
    found = some_of(count, MOST)
    assert found[0] == 0
    assert found[-1] == count - 1
    gaps = np.diff(found)
    assert len(found) == min(count, MOST)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


def test_what_is_undefined_stays_so_and_other_results_have_no_maps() -> None:
    result = course()
    maps = [[list(row) for row in one] for one in result.more["maps"]]
    maps[1][0][2] = None
    (part,) = course_parts(course(maps=maps), "result.json", "")
    assert part.document["panels"][1]["measures"][0]["values"][0][2] is None
    assert course_parts(course(maps=[]), "result.json", "") == []
    assert course_parts(make_result(experiment="probing"), "result.json", "") == []
