"""A map of spans shows each cost in its place, marks what is sure, and says what it rests on."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm

from figures.resulting import hatched_cells, make_spans
from microtome.errors import InputError
from microtome.figures.spans import basis, common_reach, draw_spans, short


def cells(axes: Axes) -> dict[tuple[float, float], str]:
    return {text.get_position(): text.get_text() for text in axes.texts if "examples" not in text.get_text()}


def dots(axes: Axes) -> set[tuple[int, int]]:
    """First and last block of the cells with a mark."""
    places = [place for one in axes.lines for place in np.asarray(one.get_xydata())]
    return {(round(y), round(x)) for x, y in places}


def test_the_first_block_stands_down_and_the_last_one_across() -> None:
    axes = draw_spans(make_spans(4))
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("first skipped block", "last skipped block")
    written = cells(axes)
    # Horizontal place first: blocks 1 to 4 cost 0.03 * 3 - 0.005.
    assert written[4, 1] == "8.5"
    assert written[2, 2] == "−0.5"
    assert len(written) == 10
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "2", "3", "4"]
    top, bottom = axes.transData.transform([(1, 1), (1, 4)])
    assert top[1] > bottom[1]
    colored = np.ma.masked_invalid(np.ma.asarray(axes.collections[0].get_array()))
    np.testing.assert_array_equal(np.ma.getmaskarray(colored).reshape(4, 4), np.tri(4, k=-1, dtype=bool))


def test_what_the_band_sets_apart_from_zero_has_a_dot() -> None:
    # Costs are -0.5, 2.5, 5.5 and 8.5 points; the band is 4 points wide on each side.
    axes = draw_spans(make_spans(4, half=0.02))
    assert dots(axes) == {(1, 3), (2, 4), (1, 4)}
    assert "dot: not 0 by a 90 % band of all spans at once" in basis(make_spans(4))


def test_a_deep_model_has_marks_instead_of_numbers() -> None:
    axes = draw_spans(make_spans(24))
    assert cells(axes) == {}
    assert (1, 24) in dots(axes)
    assert "dot or minus" in basis(make_spans(24))


def test_colors_are_even_around_zero_and_can_be_shared() -> None:
    small, large = make_spans(4), make_spans(8, name="seed 2")
    reach = common_reach([small, large])
    assert reach == pytest.approx(100 * (0.03 * 7 - 0.005))
    ends = [draw_spans(one, reach=reach).collections[0].get_clim() for one in (small, large)]
    assert ends == [(-reach, reach)] * 2
    assert draw_spans(small).collections[0].get_cmap().name == "PuOr"
    with pytest.raises(InputError, match="reach must be above 0"):
        draw_spans(small, reach=0.0)


def test_undefined_costs_are_hatched() -> None:
    one = make_spans(4)
    one.values[0, 3] = np.nan
    axes = draw_spans(one)
    assert hatched_cells(axes) == [(3.5, 0.5)]
    assert basis(one).endswith("hatched: undefined")
    empty = make_spans(2, values=np.full((2, 2), np.nan))
    assert common_reach([empty]) == 1.0
    assert len(hatched_cells(draw_spans(empty))) == 3


def test_what_the_map_rests_on_is_written_below() -> None:
    one = make_spans(4, seeds=3, note="Seed 4 diverged.")
    axes = draw_spans(one, score="accuracy", title="mine")
    said = next(t.get_text() for t in axes.texts if "examples" in t.get_text()).replace("\n", " ")
    assert said == basis(one, "accuracy")
    assert said.startswith("accuracy of the whole model: 0.7834; n = 1,234 examples; bands over examples")
    assert "mean of 3 runs" in said
    assert said.endswith("Seed 4 diverged")
    assert axes.get_title() == "mine"


def test_costs_of_a_perplexity_have_a_logarithmic_scale() -> None:
    first, last = np.indices((5, 5))
    values = np.where(last >= first, 10.0 ** (last - first + 1.0), np.nan)
    axes = draw_spans(make_spans(5, values=values), points=1.0, score="perplexity")
    assert isinstance(axes.collections[0].norm, SymLogNorm)
    (bar,) = axes.child_axes
    assert bar.get_ylabel() == "cost in perplexity, logarithmic"
    assert cells(axes)[5, 1] == "1e5"


def test_costs_are_short() -> None:
    assert [short(v) for v in (0.0, -0.01, -0.06, 99.96, 9999.9)] == ["0.0", "0.0", "−0.1", "100", "1e4"]
