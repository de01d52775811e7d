"""Is the result of an experiment printed so that a reader sees values, doubt and what is missing?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from figures.resulting import make_curve, make_result, make_spans
from microtome.cli.results import print_result, write_result
from microtome.cli.show import Screen
from microtome.findings.results import Curve

CURVES = (
    make_curve("UNTUNED", [0.5, 0.625], band_low=[0.1, 0.2]),
    make_curve("TUNED", [np.nan, 0.75], reasons=("no sound run", None)),
    make_curve("difference TUNED", [0.0, -0.015], note="score minus that of the whole model"),
)
Capture = pytest.CaptureFixture[str]


def test_values_have_intervals_and_differences_are_in_points(capsys: Capture) -> None:
    result = make_result(curves=CURVES, lines={"majority baseline": 0.527}, findings=("It works.",))
    print_result(Screen(), result, None)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:3] == [
        "layers kept UNTUNED TUNED",
        "1 0.5000 [0.4800, 0.5300] -",
        "2 0.6250 [0.6050, 0.6550] 0.7500 [0.7300, 0.7800]",
    ]
    assert lines[3].startswith(
        "Accuracy on rte/validation: n = 277 examples; intervals over examples; 3 runs per point"
    )
    assert lines[3].endswith("intervals: 95 % for each point alone; -: undefined (no sound run).")
    assert "2 -1.50 [-3.50, +1.50]" in lines
    assert lines.count("majority baseline: 0.5270.") == 1
    assert lines[-1] == "It works."


def test_captions_call_scores_as_people_do(capsys: Capture) -> None:
    print_result(Screen(), make_result(curves=CURVES, score="edge_f1", points=1.0), None)
    said = capsys.readouterr().out
    assert "Edge F1 on rte/validation: n = 277" in said
    assert "Differences in edge F1 on rte/validation: n = 277" in said
    print_result(Screen(), make_result(curves=CURVES, score="uuas"), None)
    assert "UUAS on rte/validation: n = 277" in capsys.readouterr().out


def test_layers_are_in_order_and_a_mix_of_all_of_them_is_not_the_last(capsys: Capture) -> None:
    def curve(name: str, x: tuple[int, ...], arm: str = "mix") -> Curve:
        return make_curve(name, [0.5] * len(x), x=x, axis="layer", arm=arm)

    twin = "difference, random baseline (all layers) from bert (all layers)"
    upto = curve("bert (layers 0 to l)", (0, 1, 2), "upto")
    every = (curve("bert (all layers)", (2,)), upto, curve(twin, (2,)))
    more = {"layers": ["mix", "upto"]}
    print_result(Screen(), make_result(experiment="probing", curves=every, more=more), None)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[:5]] == ["layer", "0", "1", "2", "all"]
    assert [len(row) for row in rows[1:5]] == [4] * 4
    assert rows[5][:1] != ["2"]
    assert [row[0] for row in rows if row[:1] in (["all"], ["2"])] == ["2", "all", "all"]
    # Of one layer without any mix, the number is that of the layer, whatever the model is called.
    print_result(Screen(), make_result(curves=(curve("bert (all layers)", (2,), "single"),)), None)
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "2"


def test_a_table_too_wide_for_the_terminal_is_a_long_one(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_result(Screen(), make_result(curves=CURVES), None)
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1 UNTUNED 0.5000 [0.4800, 0.5300]" in rows
    assert "2 TUNED 0.7500 [0.7300, 0.7800]" in rows


def test_costs_that_are_sure_are_starred(capsys: Capture) -> None:
    print_result(Screen(), make_result(spans=(make_spans(4, half=0.02), make_spans(name="seed 1"))), None)
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    assert rows[:3] == [
        ["first,", "last", "1", "2", "3", "4"],
        ["1", "-0.5", "2.5", "5.5*", "8.5*"],
        ["2", "-0.5", "2.5", "5.5*"],
    ]
    assert "accuracy of the whole model: 0.7834" in said
    assert "--json and --out also give: seed 1." in said


def test_of_a_deep_model_single_blocks_are_shown(capsys: Capture) -> None:
    one = make_spans(24)
    one.values[2, 2] = np.nan
    print_result(Screen(), make_result(spans=(one,)), None)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[:4] == [["block", "cost"], ["1", "-0.5"], ["2", "-0.5"], ["3", "-"]]
    assert ["24", "-0.5"] in rows


def test_warnings_and_files_are_told_aside(tmp_path: Path, capsys: Capture) -> None:
    result = make_result(curves=CURVES[:1], warnings=("seed 2 was left out",))
    write_result(Screen(json=True), result, tmp_path / "out")
    said = capsys.readouterr()
    assert json.loads((tmp_path / "out" / "result.json").read_text()) == result.document()
    assert "warning: seed 2 was left out." in said.err
    assert "Written to" in said.err
    write_result(Screen(json=True, quiet=True), result, None)
    assert capsys.readouterr().err == ""


def test_figures_of_an_earlier_result_do_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "figures"
    folder.mkdir(parents=True)
    mine = {folder / name for name in ("mine.png", "mine.svg", "notes.txt")}
    for path in mine:
        path.write_bytes(b"")
    write_result(Screen(quiet=True, json=True), make_result(curves=CURVES), tmp_path / "out")
    drawn = {path.name for path in folder.iterdir()}
    assert {"scores.svg", "differences.png", "differences.svg", "differences.pdf"} <= drawn
    write_result(Screen(quiet=True, json=True), make_result(curves=CURVES[:1]), tmp_path / "out")
    # What a user put there stays, a picture or not.
    assert {path.name for path in folder.iterdir()} == {one for one in drawn if "differences" not in one}
    assert mine <= set(folder.iterdir())
