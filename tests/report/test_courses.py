"""The maps of a trajectory stand in the report: a panel a step, with blocks, linked by layer."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from figures.resulting import make_curve, make_result
from microtome.findings.blocks import Block, BlockFinding
from microtome.findings.results import Result
from microtome.findings.stackblocks import StackBlocks, blocks_document
from microtome.inference.estimate import Interval
from microtome.report.courses import MOST, course_parts, some_of


def stack(depth: int, *, certain: bool, first: int = 1) -> dict[str, Any]:
    """What `trajectory` keeps of the blocks of one checkpoint."""
    ends = Interval(low=0.1 if certain else -0.1, high=0.3, level=0.95, method="m", unit="row", target="t")
    block = Block(
        first=first, last=first + 2, inside=0.9, outside=0.7, margin=0.2, interval=ends, certain=certain
    )
    layers = tuple(range(depth))
    finding = BlockFinding(layers=depth, used=layers, left_out=(), blocks=(block,), best=block, runs=2)
    names = tuple(map(str, layers))
    return blocks_document(StackBlocks(stack="a", measure="debiased_cka", names=names, finding=finding))


def course(steps: int = 3, depth: int = 4, **more: Any) -> Result:
    """Layers that come closer from step to step; the upper ones form a block at the last step but one."""
    distance = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth)))
    maps = [(0.2 + 0.7 * step / steps) ** distance for step in range(1, steps + 1)]
    told = {
        "steps": [10 * step for step in range(steps)],
        "layers": list(range(depth)),
        "measure": "debiased_cka",
        "maps": [one.tolist() for one in maps],
        "blocks": [stack(depth, certain=step == steps - 2) for step in range(steps)],
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


def test_certain_blocks_are_outlined() -> None:
    (part,) = course_parts(course(), "result.json", "")
    told = [(one["panel"], one["runs"], one["sure"], one["text"]) for one in part.document["blocks"]]
    maybe = "No block of layers is certain; layers 1-3 may form one."
    assert told == [
        (0, [], False, f"step 0: {maybe}"),
        (1, [[1, 3]], True, "step 10: Layers 1-3 form a block."),
        (2, [], False, f"step 20: {maybe}"),
    ]


def test_layers_keep_their_numbers_where_layer_0_is_left_out() -> None:
    blocks = [stack(5, certain=True, first=2), *(stack(5, certain=False) for _ in range(2))]
    (part,) = course_parts(course(layers=[1, 2, 3, 4], blocks=blocks), "result.json", "")
    assert part.document["blocks"][0]["runs"] == [[2, 4]]


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
