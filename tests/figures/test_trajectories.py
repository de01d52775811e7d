"""A training is drawn as small maps by step, and as panels along the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figures.resulting import make_curve, make_result
from microtome.errors import InputError
from microtome.figures.trajectories import draw_course, draw_maps, save_trajectory
from microtome.findings.blocks import Block, BlockFinding
from microtome.findings.stackblocks import StackBlocks, blocks_document
from microtome.inference.estimate import Interval

MARGINS = [-0.3, -0.2, -0.1, 0.05, 0.2, 0.3, 0.4]
STEPS, LAYERS = [0, 10, 100, 1_000, 10_000, 100_000, 200_000], list(range(7))


def block(margin: float) -> dict[str, Any]:
    ends = Interval(low=margin - 0.1, high=margin + 0.1, level=0.95, method="m", unit="row", target="t")
    best = Block(
        first=1, last=3, inside=0.9, outside=0.9 - margin, margin=margin, interval=ends, certain=margin > 0.1
    )
    blocks = (best,) if margin > 0 else ()
    finding = BlockFinding(layers=7, used=tuple(LAYERS), left_out=(), blocks=blocks, best=best, runs=14)
    return blocks_document(
        StackBlocks(stack="a", measure="m", names=tuple(map(str, LAYERS)), finding=finding)
    )


def untested() -> dict[str, Any]:
    finding = BlockFinding(layers=7, used=(), left_out=tuple(LAYERS), reason="nothing is defined")
    return blocks_document(
        StackBlocks(stack="a", measure="m", names=tuple(map(str, LAYERS)), finding=finding)
    )


def curve(name: str, size: int, value: float) -> dict[str, Any]:
    line = [value] * size
    ends = dict.fromkeys(("values", "low", "high", "band_low", "band_high"), line)
    return {"name": name, "x": list(range(1, size + 1)), **ends}


def made(**more: Any) -> Any:
    count = len(STEPS)
    similar = [[1.0 - 0.1 * step * (layer > 3) for layer in LAYERS] for step in range(count)]
    told: dict[str, Any] = {
        "steps": STEPS,
        "layers": LAYERS,
        "measure": "debiased_cka",
        "maps": [np.full((7, 7), 1 - 0.1 * step).tolist() for step in range(count)],
        "change": {"first": {"values": similar}},
        "blocks": [block(value) for value in MARGINS],
        "margins": MARGINS,
        "certain": [value > 0.1 for value in MARGINS],
        "score": {**curve("best linear probe", count, 0.7), "x": STEPS},
        "probes": [curve(f"step {step}", 6, 0.5 + 0.05 * k) for k, step in enumerate(STEPS)],
        "heads": [],
        "order": {"verdict": "after"},
        **more,
    }
    return make_result(experiment="trajectory", curves=(make_curve("best linear probe", [0.7]),), more=told)


def test_a_small_map_for_each_step_with_its_blocks() -> None:
    figure = draw_maps(made())
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [f"step {step:,}" for step in STEPS]
    panels: list[Any] = [axes for axes in figure.axes if axes.get_title()]
    # One color scale for all.
    assert {axes.collections[0].get_clim() for axes in panels} == {(0.0, 1.0)}
    # A dark and a light square around each certain block.
    assert [len(axes.patches) for axes in panels] == [0, 0, 0, 0, 2, 2, 2]
    assert panels[-1].patches[0].get_bbox().bounds == (0.5, 0.5, 3.0, 3.0)
    told = [text.get_text() for axes in panels for text in axes.texts]
    assert any("certain blocks of layers (at 3 of 7 steps)" in one for one in told)


def test_panels_along_the_steps() -> None:
    figure = draw_course(made())
    panels: list[Any] = [axes for axes in figure.axes if axes.get_xlim() == (-0.5, 6.5)]
    assert len(panels) == 4
    change, margin, score, probes = panels
    assert change.collections[0].get_array().shape == (7, 7)
    np.testing.assert_allclose(margin.lines[0].get_ydata(), MARGINS)
    assert margin.lines[1].get_ydata()[0] == 0
    assert [text.get_text() for text in margin.texts] == ["1-3"] * 3
    assert "best linear probe" in score.get_ylabel()
    assert [text.get_text() for text in probes.get_xticklabels()] == [f"{step:,}" for step in STEPS]
    told = " ".join(text.get_text().replace("\n", " ") for text in probes.texts)
    assert "blocks against score: after" in told
    assert not any(text.get_text() for text in change.get_xticklabels())


def test_without_a_task_and_without_findings_less_is_drawn() -> None:
    bare = made(
        score=None, probes=[], order=None, blocks=[untested()] * 7, certain=[False] * 7, margins=[None] * 7
    )
    assert len([axes for axes in draw_course(bare).axes if axes.get_xlim() == (-0.5, 6.5)]) == 2
    draw_maps(bare)
    # A head that not every step has leaves gaps, and one score everywhere still has colors.
    headed = draw_course(made(probes=[], heads=[curve("step 10", 6, 0.5)]))
    panel: Any = [axes for axes in headed.axes if axes.get_xlim() == (-0.5, 6.5)][-1]
    shown = panel.collections[0].get_array()
    assert shown.mask.all(axis=0).tolist() == [True, False, True, True, True, True, True]
    assert panel.collections[0].get_clim() == (0.0, 1.0)


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    written = [save_trajectory(made(), tmp_path / name, ["svg", "png"]) for name in "ab"]
    assert [path.name for path in written[0]] == ["maps.svg", "maps.png", "course.svg", "course.png"]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()
    with pytest.raises(InputError, match="formats must be among png, svg, pdf, but got 'gif'"):
        save_trajectory(made(), tmp_path, ["gif"])
    with pytest.raises(
        InputError, match="must be of a trajectory to be drawn along its steps, but it is: truncation"
    ):
        draw_maps(make_result())
