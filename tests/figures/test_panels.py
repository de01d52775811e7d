"""All that a result has is drawn: together for a notebook, apart for files."""

from __future__ import annotations

import matplotlib as mpl
import pytest

from figures.resulting import make_curve, make_result, make_spans
from microtome.errors import InputError, WorkError
from microtome.figures.panels import figure_of, save_figures

VALUES = [0.5, 0.6, 0.7]
CURVES = (
    make_curve("bottom", VALUES),
    make_curve("top", VALUES),
    make_curve("difference bottom", [0.0, -0.1, -0.2]),
)


def test_panels_do_not_cover_one_another() -> None:
    figure = figure_of(
        make_result(curves=CURVES, spans=(make_spans(), make_spans(6, name="seed 1", arm="seed 1")))
    )
    figure.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in figure.axes if axes.get_title() or axes.get_ylabel()]
    assert len(boxes) == 4
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            assert one is not None
            assert other is not None
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            up = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert min(across, up) <= 0
    assert [axes.get_ylabel() for axes in figure.axes[:2]] == ["accuracy", "difference in points"]
    figure = figure_of(make_result(curves=CURVES, score="root_accuracy", points=1.0))
    labels = [axes.get_ylabel() for axes in figure.axes[:2]]
    assert labels == ["root accuracy", "difference in root accuracy"]
    assert figure.get_suptitle() == "Truncation: bert, rte"


def test_a_result_without_pictures() -> None:
    with pytest.raises(InputError, match="a figure must have something to draw"):
        figure_of(make_result())


def test_every_panel_has_files_of_three_kinds(tmp_path) -> None:
    before = dict(mpl.rcParams)
    paths = save_figures(make_result(curves=CURVES[:1]), tmp_path / "a folder")
    assert dict(mpl.rcParams) == before
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert [p.name for p in paths] == ["scores.png", "scores.svg", "scores.pdf"]
    assert all(p.read_bytes().startswith(starts[p.suffix]) for p in paths)


def test_files_are_the_same_each_time(tmp_path) -> None:
    result = make_result(curves=CURVES, spans=(make_spans(), make_spans(name="seed 1", arm="seed 1")))
    paths, again = (save_figures(result, tmp_path / name, ["svg"]) for name in ("first", "second"))
    assert [p.stem for p in paths] == ["scores", "differences", "spans", "spans_seed_1"]
    for one, two in zip(paths, again, strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_axes_of_their_own_have_files_of_their_own(tmp_path) -> None:
    curves = (make_curve("a", VALUES), make_curve("b", VALUES, axis="first block re-initialized"))
    paths = save_figures(make_result(curves=curves), tmp_path, ["png"])
    assert [p.name for p in paths] == ["scores_layers_kept.png", "scores_first_block_re-initialized.png"]


def test_formats_and_folders_are_checked(tmp_path) -> None:
    with pytest.raises(InputError, match="formats must be among png, svg, pdf, but got 'bmp'"):
        save_figures(make_result(curves=CURVES), tmp_path, formats=["bmp"])
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match="writable folder"):
        save_figures(make_result(curves=CURVES), tmp_path / "file")
