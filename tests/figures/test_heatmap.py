"""A drawn map shows the right numbers in the right places, legibly, and leaves no trace in matplotlib."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

import microtome as mt
from figures.resulting import hatched_cells
from microtome.errors import InputError, WorkError
from microtome.figures.files import file_stems
from microtome.figures.heatmap import basis, color_range, draw, save_figures
from microtome.findings.maps import Map
from microtome.findings.record import Maps


def make_map(
    values: np.ndarray, left: list[str] | None = None, right: list[str] | None = None, **more
) -> Map:
    rows, columns = values.shape
    blank = np.full(values.shape, np.nan)
    given = {
        "measure": "debiased_cka",
        "left": tuple(left or [f"base/{i}" for i in range(rows)]),
        "right": tuple(right or [f"tuned/{i}" for i in range(columns)]),
        "values": values,
        "reasons": tuple(tuple(None if np.isfinite(v) else "it is constant" for v in row) for row in values),
        "n": 1234,
        "estimator": "debiased CKA (rows taken as independent)",
        "null_mean": np.where(np.isfinite(values), 0.25, np.nan),
        "z": blank,
        "p": blank,
        **more,
    }
    return Map(**given)


def decay(rows: int, columns: int) -> np.ndarray:
    return 0.9 ** np.abs(np.arange(rows)[:, None] - np.arange(columns))


def rendered(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


def texts(axes: Axes) -> list[Text]:
    return [t for t in axes.texts if t.get_text()]


def test_the_first_layers_meet_at_the_lower_left() -> None:
    values = decay(3, 4)
    values[2, 1] = 0.123
    axes = draw(make_map(values))
    figure = rendered(axes)
    mesh = axes.collections[0]
    np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(3, 4), values)
    origin, right, up = axes.transData.transform([(0, 0), (1, 0), (0, 1)])
    assert right[0] > origin[0]
    assert up[1] > origin[1]
    cell = next(t for t in texts(axes) if t.get_text() == "0.12")
    assert cell.get_position() == (1, 2)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "1", "2"]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "2", "3"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("layer of base", "layer of tuned")
    assert axes.get_title() == "Debiased CKA"
    assert any(a.get_ylabel() == "similarity" for one in figure.axes for a in (one, *one.child_axes))


def test_numbers_stand_out_from_their_cells() -> None:
    axes = draw(make_map(np.linspace(0, 1, 36).reshape(6, 6)))
    rendered(axes)
    colors = axes.collections[0].get_facecolor()

    def luminance(color) -> float:
        c = np.asarray(to_rgb(color))
        return float(
            np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    cells = [t for t in texts(axes) if t.get_position() in {(j, i) for i in range(6) for j in range(6)}]
    numbers = [t for t in cells if t.get_text()[:1] in "01"]
    assert len(numbers) == 36
    for text in numbers:
        j, i = text.get_position()
        light, dark = sorted(
            (luminance(text.get_color()), luminance(colors[int(i) * 6 + int(j)])), reverse=True
        )
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_colors_grow_lighter_with_the_value() -> None:
    axes = draw(make_map(np.linspace(0, 1, 20).reshape(4, 5)), annotate=False)
    rendered(axes)
    gray = np.asarray(axes.collections[0].get_facecolor())[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(gray) > 0).all()


def test_undefined_cells_are_hatched_and_explained() -> None:
    values = decay(3, 3)
    values[1, 2] = np.nan
    one = make_map(values)
    axes = draw(one)
    assert hatched_cells(axes) == [(1.5, 0.5)]
    assert "hatched: undefined (it is constant)" in basis(one)
    assert not any(t.get_text() == "undefined" for t in axes.texts)


def test_what_the_numbers_rest_on_is_written_below() -> None:
    low = decay(3, 3) - 0.125
    one = make_map(decay(3, 3), low=low, high=low + 0.25, level=0.9, method="jackknife", unit="cluster")
    axes = draw(one)
    figure = rendered(axes)
    note = next(t for t in axes.texts if "1,234 rows" in t.get_text())
    said = note.get_text().replace("\n", " ")
    assert said == basis(one)
    for words in (
        "rows taken as independent",
        "unrelated rows would give 0.25",
        "90 % intervals over clusters by jackknife",
    ):
        assert words in said
    assert "half-width 0.125" in said
    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue]
    assert note.get_window_extent(renderer).y1 < axes.xaxis.label.get_window_extent(renderer).y0


def test_a_directed_measure_says_which_way_it_looks() -> None:
    assert "vertical layers are looked for" in basis(make_map(decay(2, 2), measure="neuron_correlation"))
    assert "looked for" not in basis(make_map(decay(2, 2)))


@pytest.mark.parametrize(
    "rows, columns, name",
    [
        (40, 40, "m/{}"),
        (13, 25, "m/{}"),
        (97, 97, "m/{}"),
        (6, 9, "model.encoder.layer.{}.attention output"),
        (1, 1, "x"),
    ],
)
def test_labels_do_not_overlap(rows: int, columns: int, name: str) -> None:
    one = make_map(
        decay(rows, columns), [name.format(i) for i in range(rows)], [name.format(i) for i in range(columns)]
    )
    axes = draw(one)
    figure = rendered(axes)
    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue]
    down = [t.get_window_extent(renderer) for t in axes.get_yticklabels()]
    assert all(a.y1 <= b.y0 + 1 for a, b in pairwise(down))
    across = list(axes.get_xticklabels())
    if across[0].get_rotation() == 0:
        boxes = [t.get_window_extent(renderer) for t in across]
        assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))
    else:
        # Turned by 45 degrees, two lines of text touch when their anchors are closer than 1.41 line heights.
        ends = [axes.transData.transform((t.get_position()[0], 0))[0] for t in across]
        height = float(across[0].get_fontsize()) * figure.dpi / 72
        assert min(np.diff(ends)) >= 1.41 * height
    label = axes.xaxis.label.get_window_extent(renderer)
    assert all(t.get_window_extent(renderer).y0 >= label.y1 for t in across)
    assert max(len(down), len(across)) <= 50


def test_of_a_long_name_the_end_stays() -> None:
    names = [f"{letter}{' long' * 9}/{letter}" for letter in "pq"]
    axes = draw(make_map(decay(2, 2), names, names))
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert [name[-2:] for name in shown] == ["/p", "/q"]
    assert all(name.startswith("…") and len(name) == 28 for name in shown)


def test_values_that_do_not_fit_are_not_written_but_signs_below_zero_are() -> None:
    values = decay(30, 30)
    values[4, 7] = values[7, 4] = -0.02
    crowded = draw(make_map(values))
    marks = [t.get_position() for t in texts(crowded) if t.get_text() == "−"]
    assert sorted(marks) == [(4, 7), (7, 4)]
    assert not any(t.get_text() == "1.00" for t in texts(crowded))
    roomy = draw(make_map(values[:8, :8]))
    assert sum(t.get_text() == "−0.02" for t in texts(roomy)) == 2
    forced = draw(make_map(values), annotate=True)
    assert sum(t.get_text() == "1.00" for t in texts(forced)) == 30


def test_numbers_stay_inside_their_cells() -> None:
    axes = draw(make_map(-decay(7, 13) / 10))
    figure = rendered(axes)
    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue]
    (x0, _), (x1, _) = axes.transData.transform([(0, 0), (1, 0)])
    cells = [t for t in texts(axes) if t.get_text().startswith("−0.")]
    assert len(cells) == 91
    assert all(t.get_window_extent(renderer).width < x1 - x0 for t in cells)


def test_the_ends_of_the_colors() -> None:
    assert color_range(make_map(decay(3, 3))) == (0.0, 1.0)
    assert color_range(make_map(decay(3, 3) - 0.9)) == (pytest.approx(0.81 - 0.9), 1.0)
    assert color_range(make_map(decay(3, 3)), vmin=0.5, vmax=0.8) == (0.5, 0.8)
    assert color_range(make_map(decay(3, 3) - 40))[0] == -1.0
    assert color_range(make_map(np.full((2, 2), np.nan))) == (0.0, 1.0)
    with pytest.raises(InputError, match="vmin must be below vmax"):
        color_range(make_map(decay(3, 3)), vmin=1.0)


def test_a_difference_is_drawn_around_zero() -> None:
    rng = np.random.default_rng(0)
    first = [rng.normal(size=(60, 4)) for _ in range(3)]
    near, far = ([x + noise * rng.normal(size=x.shape) for x in first] for noise in (0.2, 2.0))
    one, two = (mt.similarity_matrix(first, y, certainty=True)["debiased_cka"] for y in (near, far))
    one = one.minus(two)
    low, high = color_range(one)
    assert low == -high
    assert high == np.abs(one.values).max()
    axes = draw(one)
    assert axes.get_title() == "Difference of Debiased CKA"
    assert axes.collections[0].get_cmap().name == "PuOr"
    assert "unrelated" not in basis(one)


def test_names_are_shown_and_not_obeyed() -> None:
    strange = ["$\\frac{1$", "a_b^{", "\x1b[31m", "\u5c42<b>"]
    one = make_map(decay(4, 4), strange, [f"$x/{i}" for i in range(4)])
    axes = draw(one, title="50 % of $x")
    figure = axes.get_figure(root=True)
    assert isinstance(figure, Figure)
    shown = [t.get_text() for t in axes.get_yticklabels()]
    assert shown == ["$\\frac{1$", "a_b^{", "\ufffd[31m", "\u5c42<b>"]
    assert axes.get_xlabel() == "layer of $x"
    assert axes.get_title() == "50 % of $x"


def test_strange_names_can_be_saved(tmp_path) -> None:
    one = make_map(decay(2, 2), ["$\\frac{1$", "\u5c42"], ["a", "b" * 90])
    assert len(save_figures(Maps([one]), tmp_path)) == 3


def test_an_unknown_measure_can_be_drawn() -> None:
    assert draw(make_map(decay(2, 2), measure="mine")).get_title() == "mine"


def test_a_map_draws_itself_on_the_axes_it_is_given() -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    first, second = figure.subplots(1, 2)
    one = make_map(decay(5, 5))
    assert one.plot(first) is first
    assert one.plot(second, cmap="cividis", title="again", annotate=False) is second
    figure.canvas.draw()
    assert second.get_title() == "again"
    assert second.collections[0].get_cmap().name == "cividis"
    assert first.get_tightbbox().x1 <= second.get_tightbbox().x0 + 1  # pyright: ignore[reportOptionalMemberAccess]


def test_figures_are_files_of_three_kinds_and_the_same_each_time(tmp_path) -> None:
    maps = Maps([make_map(decay(3, 3)), make_map(decay(3, 3), measure="svcca:threshold=0.9")])
    before = dict(mpl.rcParams)
    paths = save_figures(maps, tmp_path / "a folder")
    again = save_figures(maps, tmp_path / "second")
    assert dict(mpl.rcParams) == before
    assert [p.name for p in paths] == [
        *("debiased_cka.png", "debiased_cka.svg", "debiased_cka.pdf"),
        *("svcca_threshold-0.9.png", "svcca_threshold-0.9.svg", "svcca_threshold-0.9.pdf"),
    ]
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for one, two in zip(paths, again, strict=True):
        assert one.read_bytes().startswith(starts[one.suffix])
        assert one.read_bytes() == two.read_bytes()


def test_formats_and_folders_are_checked(tmp_path) -> None:
    maps = Maps([make_map(decay(2, 2))])
    with pytest.raises(InputError, match="formats must be among png, svg, pdf, but got 'bmp'"):
        save_figures(maps, tmp_path, formats=["bmp"])
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="writable folder"):
        save_figures(maps, tmp_path / "file")


def test_file_names_are_plain_and_differ() -> None:
    stems = file_stems(["a:b=1", "a_b-1", "A_b-1", "../up", "svcca"])
    assert len({stem.lower() for stem in stems}) == 5
    assert all("/" not in stem and not stem.startswith(".") for stem in stems)


def test_an_interval_of_nothing_is_said_to_be_undefined() -> None:
    empty = np.full((2, 2), np.nan)
    one = replace(make_map(empty), low=empty, high=empty, level=0.95, method="half-sampling")
    assert "half-width undefined" in basis(one)


def border_lines(axes: Axes) -> tuple[list[float], list[float]]:
    """Where lines stand that cross the whole map: the upright ones, and the level ones."""
    upright, level = [], []
    for line in axes.lines:
        across, along = (np.asarray(values, dtype=float) for values in line.get_data())
        if across[0] == across[-1]:
            upright.append(float(across[0]))
        if along[0] == along[-1]:
            level.append(float(along[0]))
    return upright, level


def test_lines_part_the_layers_of_different_models() -> None:
    names = ["a/0", "a/1", "b/0", "b/1", "b/norm", "c/0"]
    axes = draw(make_map(decay(6, 6), names, names, symmetric=True))
    assert border_lines(axes) == ([1.5, 4.5], [1.5, 4.5])
    # The names stay whole, since nothing is shared by all.
    rendered(axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == names


def test_one_model_a_side_has_no_line() -> None:
    assert border_lines(draw(make_map(decay(3, 4)))) == ([], [])
    mixed = ["a/0", "b/0", "a/1"]
    assert border_lines(draw(make_map(decay(3, 3), mixed, mixed))) == ([], [])
    only = draw(make_map(decay(3, 4), ["a/0", "a/1", "b/0"]))
    assert border_lines(only) == ([], [1.5])


def test_a_picture_is_there_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed while it draws leaves nothing that would later pass for somebody else's picture."""
    import os

    def die(*where: object) -> None:
        raise KeyboardInterrupt

    maps = mt.similarity_matrix([np.random.default_rng(0).normal(size=(20, 3))] * 3)
    monkeypatch.setattr(os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        save_figures(maps, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
