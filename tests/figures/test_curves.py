"""A drawn curve shows its numbers and its doubt, legibly also in gray, and says what they rest on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from figures.resulting import make_curve, make_result
from microtome.errors import InputError, UnknownNameError
from microtome.figures.curves import basis, draw_curves, draw_differences

RISING = [0.5, 0.6, 0.7, 0.72]


def line(axes: Axes, name: str) -> Line2D:
    return next(one for one in axes.lines if one.get_label() == name)


def across(drawn: Line2D) -> list[float]:
    return [float(v) for v in np.asarray(drawn.get_xdata(), dtype=float)]


def up(drawn: Line2D) -> list[float]:
    return [float(v) for v in np.asarray(drawn.get_ydata(), dtype=float)]


def legend(axes: Axes) -> list[str]:
    found = axes.get_legend()
    assert found is not None
    return [text.get_text().strip() for text in found.get_texts()]


def caption(axes: Axes) -> str:
    return next(t.get_text() for t in axes.texts if "examples" in t.get_text()).replace("\n", " ")


def test_every_curve_has_its_values_and_a_look_of_its_own() -> None:
    names = [f"arm {k}" for k in range(9)]
    axes = draw_curves(make_result(curves=tuple(make_curve(n, RISING) for n in names)))
    looks = set()
    for name in names:
        drawn = line(axes, name)
        np.testing.assert_allclose(up(drawn), RISING)
        # Points of several curves stand beside one another, nearer to their own place than to the next.
        assert np.abs(np.subtract(across(drawn), [1, 2, 3, 4])).max() < 0.5
        looks.add(drawn.get_marker())
    assert len(looks) == 9
    assert legend(axes) == names
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("layers kept", "accuracy")
    assert axes.get_title() == "Truncation: bert, rte"


def test_bars_and_bands_reach_as_far_as_the_intervals() -> None:
    axes = draw_curves(make_result(curves=(make_curve("one", RISING),)))
    band, bars = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.min() == pytest.approx(0.46)
    assert heights.max() == pytest.approx(0.77)
    ends = np.array([path.vertices for path in bars.get_paths()])[:, :, 1]
    np.testing.assert_allclose(ends, np.add.outer(RISING, [-0.02, 0.03]))
    assert "thick bars: 95 % for each point alone; shaded: 95 % for all points of a curve" in caption(axes)
    many = draw_curves(make_result(curves=tuple(make_curve(str(k), RISING) for k in range(5))))
    assert "thin bars: 95 % for all points" in caption(many)


def test_level_lines_are_named_with_their_value() -> None:
    result = make_result(
        curves=(make_curve("one", RISING),), lines={"majority baseline": 0.527, "gone": float("nan")}
    )
    axes = draw_curves(result)
    level = line(axes, "majority baseline: 0.527")
    assert set(up(level)) == {0.527}
    assert level.is_dashed()
    assert not any("gone" in str(one.get_label()) for one in axes.lines)


def test_undefined_points_are_crossed_and_explained() -> None:
    why = (None, "no sound run: seed 1 (collapsed)", "1 of 3 runs was left out: seed 2 (diverged)", None)
    one = make_curve("one", [0.5, np.nan, 0.7, 0.72], reasons=why)
    axes = draw_curves(make_result(curves=(one,)))
    crosses = [drawn for drawn in axes.lines if drawn.get_marker() == "x"]
    assert [across(drawn) for drawn in crosses] == [[2.0]]
    said = caption(axes)
    assert "× undefined (no sound run: seed 1 (collapsed))" in said
    assert "1 point with a remark (1 of 3 runs was left out: seed 2 (diverged))" in said


def test_a_curve_without_any_value_can_be_drawn() -> None:
    empty = make_curve("one", [np.nan] * 3, reasons=("no sound run",) * 3, n=0)
    axes = draw_curves(make_result(curves=(empty,)))
    assert len(across(next(drawn for drawn in axes.lines if drawn.get_marker() == "x"))) == 3
    assert "bars" not in caption(axes)


def test_differences_are_in_points_around_zero() -> None:
    curves = (make_curve("bottom", RISING), make_curve("difference bottom", [0.0, -0.01, -0.05, -0.2]))
    result = make_result(curves=curves)
    axes = draw_differences(result)
    drawn = line(axes, "bottom")
    np.testing.assert_allclose(up(drawn), [0, -1, -5, -20], atol=1e-12)
    assert axes.get_ylabel() == "difference in points"
    assert any(up(one) == [0.0, 0.0] for one in axes.lines)
    assert up(line(draw_curves(result), "bottom")) == RISING


def test_a_curve_says_by_its_role_that_it_is_of_differences() -> None:
    facts: dict[str, Any] = {"role": "difference", "note": "Difference from no block frozen."}
    result = make_result(curves=(make_curve("bottom", [0.0, -0.1], **facts),))
    axes = draw_differences(result)
    assert "Difference from no block frozen" in caption(axes)
    with pytest.raises(InputError, match="must have curves of scores to draw them"):
        draw_curves(result)


def test_points_with_names_are_not_joined() -> None:
    one = make_curve("random", RISING, x=("order 1", "order 2", "swap 3", "reverse"), axis="order")
    axes = draw_curves(make_result(curves=(one,)))
    assert line(axes, "random").get_linestyle() == "None"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["order 1", "order 2", "swap 3", "reverse"]
    seeds = make_curve("random", RISING, x=(1, 2, 3, 7), axis="seed of the order")
    axes = draw_curves(make_result(curves=(seeds,)))
    assert line(axes, "random").get_linestyle() == "None"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "2", "3", "7"]


def test_ticks_are_where_points_are() -> None:
    few = draw_curves(make_result(curves=(make_curve("top", RISING[:3], x=(2, 4, 6)),)))
    assert [t.get_text() for t in few.get_xticklabels()] == ["2", "4", "6"]
    many = draw_curves(make_result(curves=(make_curve("top", np.linspace(0, 1, 49), x=tuple(range(49))),)))
    ticks = many.get_xticks()
    assert len(ticks) <= 16
    assert all(tick == int(tick) for tick in ticks)


def test_a_perplexity_that_explodes_is_drawn_on_a_log_scale() -> None:
    values = np.array([9e4, 2e3, 300.0, 40.0, 30.0])
    wide: dict[str, Any] = {
        "low": values * 0.9,
        "high": values * 1.1,
        "band_low": values * 0.8,
        "band_high": values * 1.2,
    }
    result = make_result(
        curves=(make_curve("one", values, **wide),), score="perplexity", points=1.0, higher_is_better=False
    )
    assert draw_curves(result).get_yscale() == "log"
    # A correlation near 0 with one good layer stays as it is.
    flat = make_curve("one", [0.001, 0.001, 0.001, 0.6], band_low=np.full(4, 0.0005))
    assert draw_curves(make_result(curves=(flat,))).get_yscale() == "linear"


def test_curves_of_one_panel_share_an_axis() -> None:
    result = make_result(curves=(make_curve("a", RISING), make_curve("b", RISING, axis="first block")))
    with pytest.raises(InputError, match="curves must be over one axis"):
        draw_curves(result)
    assert draw_curves(result, curves=["b"]).get_xlabel() == "first block"
    with pytest.raises(UnknownNameError, match="curve must be one of"):
        draw_curves(result, curves=["c"])


def test_names_are_shown_and_not_obeyed() -> None:
    strange = ["$\\frac{1$", "_hidden", "\x1b[31m"]
    result = make_result(curves=tuple(make_curve(name, RISING) for name in strange), model="$x", task="a_{")
    axes = draw_curves(result)
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    assert legend(axes) == ["$\\frac{1$", "_hidden", "\ufffd[31m"]
    assert axes.get_title() == "Truncation: $x, a_{"


def test_curves_fit_into_the_axes_they_are_given() -> None:
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    result = make_result(curves=(make_curve("one", RISING),))
    assert draw_curves(result, left, title="mine") is left
    draw_curves(result, right)
    figure.canvas.draw()
    assert left.get_title() == "mine"
    assert left.get_window_extent().width > 100
    assert left.get_tightbbox().x1 <= right.get_tightbbox().x0 + 1  # pyright: ignore[reportOptionalMemberAccess]


def test_what_is_counted_is_said() -> None:
    curves = (make_curve("a", RISING, n=1200, seeds=(1, 2, 3, 3)), make_curve("b", RISING, unit="group"))
    assert basis(curves).startswith(
        "n = 277 to 1,200 examples; intervals over examples or over groups; 1 to 3 runs per point"
    )
