"""A map is printed so that its numbers can be read off, whatever its size and its names."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.cli.maps import chosen_pairs, print_map
from microtome.cli.show import Screen, _Bar, plain

RNG = np.random.default_rng(2)


def stack(layers: int, rows: int = 60, width: int = 4) -> list[np.ndarray]:
    x = RNG.normal(size=(rows, width))
    found = []
    for _ in range(layers):
        x = 0.9 * x + 0.4 * RNG.normal(size=x.shape)
        found.append(x)
    return found


def printed(
    capsys: pytest.CaptureFixture[str], left, right=None, measure: str = "debiased_cka", **options
) -> tuple[Any, str]:
    one = mt.similarity_matrix(left, right, measure, **options)[measure]
    capsys.readouterr()
    print_map(one)
    return one, capsys.readouterr().out


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+\.\d+", line)]


def test_a_small_map_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    one, out = printed(capsys, stack(4), stack(5))
    rows = [line for line in out.splitlines() if re.match(r"\d +-?\d\.", line)]
    np.testing.assert_allclose([numbers(line) for line in rows], one.values, atol=5.01e-4)
    assert "Source: Song et al. 2012; Kornblith et al. 2019." in out
    assert "\x1b" not in out


def test_a_large_map_is_summarized_and_says_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    left = stack(16)
    one, out = printed(capsys, left, [x + 0.2 * RNG.normal(size=x.shape) for x in left])
    for i in range(16):
        line = next(line for line in out.splitlines() if re.match(rf"{i} +{i} ", line))
        assert f"{one.values[i, i]:.3f}" in line
        assert line.endswith(f"{one.values[i].max():.3f}")
    assert "All 256 cells are printed with --json, or written with --out." in out


def test_a_layer_that_is_constant_has_no_best_match(capsys: pytest.CaptureFixture[str]) -> None:
    left = stack(16)
    left[2] = np.ones_like(left[2])
    _, out = printed(capsys, left, stack(16))
    line = next(line for line in out.splitlines() if re.match(r"2 +2 ", line))
    assert line.split() == ["2", "2", "undefined"]


def test_a_stack_with_itself_shows_neighbors(capsys: pytest.CaptureFixture[str]) -> None:
    one, out = printed(capsys, stack(15))
    assert chosen_pairs(one) == ("neighbors", [(i, i + 1) for i in range(14)])
    assert f"{one.values[3, 4]:.3f}" in next(line for line in out.splitlines() if re.match(r"3 +4 ", line))


def test_stacks_of_unequal_depth_show_best_matches() -> None:
    one = mt.similarity_matrix(stack(3), stack(17))["debiased_cka"]
    what, pairs = chosen_pairs(one)
    assert what == "best matches"
    assert [j for _, j in pairs] == one.values.argmax(axis=1).tolist()


def test_intervals_stand_beside_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    left = stack(3)
    one, out = printed(capsys, left, stack(3), certainty=True, level=0.9)
    assert "90 % interval (row)" in out
    for i in range(3):
        low, high = math.floor(1000 * one.low[i, i]) / 1000, math.ceil(1000 * one.high[i, i]) / 1000
        assert f"[{low:.3f}, {high:.3f}]".replace("-0.000", "0.000") in out


def test_a_biased_measure_is_never_shown_without_its_null(capsys: pytest.CaptureFixture[str]) -> None:
    one, out = printed(capsys, stack(3, width=20), stack(3, width=20), measure="linear_cka")
    low, high = one.null_mean.min(), one.null_mean.max()
    assert f"Unrelated rows would give {low:.2f}" in out
    assert f"{high:.2f}" in out
    _, out = printed(capsys, stack(2), stack(2), measure="procrustes")
    assert "What unrelated rows would give is not known; --permutations finds it." in out
    _, out = printed(capsys, stack(2), stack(2), measure="procrustes", permutations=4)
    assert "that is from 4 orders of the rows" in out
    assert "p in the map" in out


def test_a_single_pair_is_one_line_with_its_null_and_probability(capsys: pytest.CaptureFixture[str]) -> None:
    x = RNG.normal(size=(80, 4))
    one, out = printed(capsys, [x], [x + RNG.normal(size=x.shape)], measure="linear_cka")
    line = next(line for line in out.splitlines() if re.match(r"0 +0 ", line))
    assert numbers(line)[:2] == [round(one.values[0, 0], 3), round(one.null_mean[0, 0], 3)]
    assert "< 0.001" in line


def test_names_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["[red]a[/red]", "\x1b[31mb", ":smile:"]
    _, out = printed(capsys, stack(3), names=names)
    assert "[red]a[/red]" in out
    assert "\ufffd[31mb" in out
    assert ":smile:" in out
    assert "\x1b" not in out


def test_color_is_for_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _, out = printed(capsys, stack(3))
    assert "\x1b" not in out
    # Rich's own switch stands in for a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, out = printed(capsys, stack(3))
    assert "\x1b[" in out


def test_notes_and_sentences_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert plain("a\x1b[2J\rb\n") == "a\ufffd[2J\ufffdb\ufffd"
    Screen().note("read \x1b[2J")
    Screen(quiet=True).note("nothing")
    assert capsys.readouterr().err == "read \ufffd[2J\n"


def test_several_models_show_each_layer_of_the_first_in_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["a/0", "a/1", "b/0", "b/1", "b/norm", "c/1"]
    one, out = printed(capsys, stack(6), names=names, certainty=True)
    what, pairs = chosen_pairs(one)
    assert what == "same layers"
    assert [(one.left[i], one.right[j]) for i, j in pairs] == [
        ("a/0", "b/0"), ("a/1", "b/1"), ("a/1", "c/1"),
    ]  # fmt: skip
    for i, j in pairs:
        line = next(line for line in out.splitlines() if re.match(rf"{one.left[i]} +{one.right[j]} ", line))
        assert f"{one.values[i, j]:.3f}".replace("-0.000", "0.000") in line


def test_layers_of_one_model_or_of_mixed_order_show_neighbors() -> None:
    for names in (["a/0", "a/1", "a/2"], ["a/0", "b/0", "a/1"], ["0", "1", "2"]):
        one = mt.similarity_matrix(stack(3), names=names)["debiased_cka"]
        assert chosen_pairs(one) == ("neighbors", [(0, 1), (1, 2)])


def test_a_bar_of_what_nobody_has_counted_has_no_end() -> None:
    bar = _Bar()
    bar.report("reading", 97, 0)
    assert bar.bar is not None
    assert (bar.bar.tasks[0].completed, bar.bar.tasks[0].total) == (97, None)
    bar.report("reading", 98, 200)
    assert bar.bar.tasks[0].total == 200
    bar.stop()
