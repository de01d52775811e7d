"""What freezing saves is drawn over the number of blocks, for each end that was frozen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from figures.resulting import make_curve, make_result
from microtome.errors import InputError
from microtome.figures.panels import figure_of, save_figures
from microtome.figures.savings import draw_savings, savings_of


def cost(case: str, ratio: float) -> dict[str, Any]:
    return {
        "case": case,
        "backward_ratio": ratio,
        "backward_low": ratio - 0.05,
        "backward_high": ratio + 0.05,
        "update_ratio": ratio,
        "memory_ratio": ratio / 2,
    }


COSTS = [cost("none", 1.0), cost("bottom 10", 0.2), cost("bottom 2", 0.8), cost("top 2", 0.9)]


def test_each_end_has_its_ratios_in_order() -> None:
    result = make_result(experiment="freezing", more={"cost": COSTS}, provenance={"device": "cpu"})
    assert [one["blocks"] for one in savings_of(result)["bottom"]] == [0, 2, 10]
    axes = draw_savings(result)
    drawn = {one.get_label(): one for one in axes.lines}
    time, memory = drawn["bottom: time of the backward pass"], drawn["top: memory of activations"]
    np.testing.assert_array_equal(np.asarray(time.get_ydata()), [1.0, 0.8, 0.2])
    np.testing.assert_array_equal(np.asarray(memory.get_ydata()), [0.5, 0.45])
    assert axes.get_ylim()[0] == 0
    assert any("device: cpu" in text.get_text() for text in axes.texts)


def test_savings_are_a_panel_beside_the_curves(tmp_path) -> None:
    result = make_result(
        experiment="freezing", curves=(make_curve("bottom", [0.5, 0.6]),), more={"cost": COSTS}
    )
    assert len([axes for axes in figure_of(result).axes if axes.get_ylabel()]) == 2
    assert [path.stem for path in save_figures(result, tmp_path, ["svg"])] == ["scores", "savings"]


def test_without_measurements_there_is_nothing_to_draw() -> None:
    for more in ({}, {"cost": []}, {"cost": [cost("none", 1.0)]}):
        assert savings_of(make_result(experiment="freezing", more=more)) == {}
    # What truncation calls a cost is something else.
    assert savings_of(make_result(more={"cost": {"UNTUNED": 1.0}})) == {}
    with pytest.raises(InputError, match="must have measured costs"):
        draw_savings(make_result())
