"""Scoreboards: the rule of verdicts, rows by model and over models, and their forms."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from microtome.cli.show import Screen
from microtome.errors import InputError
from microtome.findings.opening import Document
from microtome.findings.results import Result
from microtome.studies.board import ALL, Row, Scoreboard
from microtome.studies.claims import shipped_claims
from microtome.studies.scoreboard import judge, open_scoreboard, scoreboard
from studies.board_samples import curve, result, study

FINITE = st.floats(-100, 100)
CLAIM = {
    "id": "cost",
    "statement": "Without its last layer a model loses at most a point.",
    "published": "next to nothing",
    "source": "phang2021 section 4",
    "experiment": "truncate",
    "statistic": "score difference",
    "arguments": {"first": {"arm": "UNTUNED", "x": "last"}, "second": {"arm": "UNTUNED", "x": -1}},
    "most": 1,
}


@given(FINITE, FINITE, FINITE)
def test_the_whole_interval_decides(a: float, b: float, bound: float) -> None:
    low, high = sorted((a, b))
    verdict = judge(low, high, bound, math.inf)
    assert (verdict == "holds") == (low >= bound)
    assert (verdict == "does not hold") == (high < bound)
    mirrored = judge(-high, -low, -math.inf, -bound)
    assert mirrored == verdict


@given(FINITE, FINITE, FINITE, FINITE)
def test_apart_is_the_opposite_of_between(a: float, b: float, c: float, d: float) -> None:
    (low, high), (least, most) = sorted((a, b)), sorted((c, d))
    if least < most:
        opposite = {"holds": "does not hold", "does not hold": "holds", "inconclusive": "inconclusive"}
        assert judge(low, high, most, least) == opposite[judge(low, high, least, most)]


@given(FINITE, FINITE, FINITE, st.floats(0, 50))
def test_a_wider_interval_never_decides_more(a: float, b: float, bound: float, more: float) -> None:
    low, high = sorted((a, b))
    wide = judge(low - more, high + more, bound, math.inf)
    assert wide in ("inconclusive", judge(low, high, bound, math.inf))


@given(FINITE)
def test_without_an_interval_nothing_is_decided(bound: float) -> None:
    assert judge(math.nan, math.nan, bound, math.inf) == "inconclusive"
    assert judge(bound, math.nan, bound, math.inf) == "inconclusive"


def truncated(cost: float, reach: float = 0.001) -> Result:
    scores = [0.9 - cost, 0.9]
    line = {"values": [-cost, 0.0], "low": [-cost - reach, 0.0], "high": [-cost + reach, 0.0]}
    return result(curve("UNTUNED", scores, (1, 2)), more={"cost": line})


def board(
    folder: Path, costs: dict[tuple[str, str], float], *claims: dict[str, Any], **facts: Any
) -> Scoreboard:
    contents = {("cuts", "truncate", *key): truncated(cost) for key, cost in costs.items()}
    return scoreboard(study(folder, contents, claims=list(claims) or [CLAIM], **facts))


def rows_of(found: Scoreboard) -> dict[str, Row]:
    return {row.model: row for row in found.rows}


def test_verdicts_of_models_and_over_models(tmp_path: Path) -> None:
    costs = {("a", "t"): 0.002, ("b", "t"): 0.05, ("c", "t"): 0.009}
    rows = rows_of(board(tmp_path, costs))
    assert [rows[name].verdict for name in "abc"] == ["holds", "does not hold", "holds"]
    assert rows["c"].measured.high == pytest.approx(1.0)
    values = [100 * cost for cost in costs.values()]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    over = rows[ALL].measured
    assert (over.value, over.low, over.high) == pytest.approx((np.mean(values), low, high))
    assert rows[ALL].verdict == "inconclusive"
    assert over.note == "of 3 models: 2 holds, 1 does not hold"


def test_two_models_are_counted(tmp_path: Path) -> None:
    rows = rows_of(board(tmp_path, {("a", "t"): 0.001, ("b", "t"): 0.002}))
    assert (rows[ALL].verdict, math.isnan(rows[ALL].measured.value)) == ("holds", True)
    rows = rows_of(board(tmp_path / "b", {("a", "t"): 0.001, ("b", "t"): 0.2}))
    assert rows[ALL].verdict == "inconclusive"


def test_over_tasks_the_interval_is_t(tmp_path: Path) -> None:
    costs = {("a", f"t{k}"): 0.001 * k for k in range(5)}
    (row,) = board(tmp_path, costs).rows
    values = [0.1 * k for k in range(5)]
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (row.measured.low, row.measured.high) == pytest.approx((low, high))
    assert (row.measured.unit, row.measured.tasks, row.verdict) == (
        "task",
        tuple(f"t{k}" for k in range(5)),
        "holds",
    )


def test_claims_of_some_models_and_tasks(tmp_path: Path) -> None:
    costs = {(model, task): 0.001 for model in "ab" for task in ("t", "u")}
    some = {**CLAIM, "models": ["b"], "tasks": ["u"]}
    (row,) = board(tmp_path, costs, some).rows
    assert (row.model, row.measured.tasks) == ("b", ("u",))
    (row,) = board(tmp_path / "b", costs, {**CLAIM, "models": ["c"]}).rows
    assert (row.verdict, row.measured.note) == ("not run", "the study has no model that stands for c")
    (row, *_) = board(tmp_path / "c", costs, {**CLAIM, "tasks": ["v"]}).rows
    assert (row.verdict, row.measured.note) == ("not run", "the study has no task that stands for v")
    (row, *_) = board(tmp_path / "d", costs, {**CLAIM, "experiment": "skip"}).rows
    assert (row.verdict, row.measured.note) == ("not run", "there is no result of skip")


def test_difference_from_another_model(tmp_path: Path) -> None:
    costs = {(model, f"t{k}"): 0.01 * (k + (model == "b") * (2 + k)) for model in "ab" for k in range(3)}
    claim = {**CLAIM, "models": ["b"], "against": ["a"], "most": 10}
    (row,) = board(tmp_path, costs, claim).rows
    low, high = stats.t.interval(0.95, 2, 3, stats.sem([2, 3, 4]))
    assert (row.measured.value, row.measured.low, row.measured.high) == pytest.approx((3, low, high))
    assert row.verdict == "holds"


def tuned(low: float) -> Document:
    score = {"measure": "accuracy", "value": 0.9, "low": low, "high": 0.95}
    evaluation = {"score": score, "baseline": {"accuracy": 0.5}}
    content = {"format": "microtome/finetune/1", "runs": [{"evaluation": evaluation}]}
    return Document(kind="finetune", folder=Path(), content=content)


@pytest.mark.parametrize("low, verdict", [(0.6, "holds"), (0.4, "not run")])
def test_nothing_is_concluded_from_models_that_learned_nothing(
    tmp_path: Path, low: float, verdict: str
) -> None:
    contents = {
        ("finetune", "finetune", "a", "t"): tuned(low),
        ("cuts", "truncate", "a", "t"): truncated(0.001),
    }
    (row,) = scoreboard(study(tmp_path, contents, claims=[CLAIM])).rows
    assert row.verdict == verdict
    if verdict == "not run":
        assert row.measured.note == "t: the fine-tuned model does not beat the majority baseline"
    (row,) = scoreboard(study(tmp_path / "b", contents, claims=[{**CLAIM, "untrained": True}])).rows
    assert row.verdict == "holds"


def test_intervals_of_another_level_are_not_used(tmp_path: Path) -> None:
    contents = {("cuts", "truncate", "a", "t"): truncated(0.001)}
    (row,) = scoreboard(study(tmp_path, contents, claims=[CLAIM]), level=0.9).rows
    assert (row.verdict, math.isnan(row.measured.low)) == ("inconclusive", True)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        scoreboard(study(tmp_path / "b", contents), level=95)


@pytest.mark.parametrize("paper", shipped_claims())
def test_claims_of_papers_without_results_are_not_run(tmp_path: Path, paper: str) -> None:
    contents = {("other", "truncate", "a", "t"): truncated(0.001)}
    results = replace(study(tmp_path, contents, paper=paper), models=("masked",), results=())
    found = scoreboard(results)
    assert found.source == paper
    assert {row.verdict for row in found.rows} == {"not run"}
    assert all(row.measured.note for row in found.rows)


@pytest.fixture
def shown(tmp_path: Path) -> Scoreboard:
    odd = {**CLAIM, "id": "50 %_a", "statement": "A & B.", "published": 99.5, "within": 1}
    del odd["most"]
    return board(tmp_path, {("a", "t"): 0.002, ("b", "t"): 0.05}, CLAIM, odd)


def test_a_scoreboard_survives_its_files(shown: Scoreboard, tmp_path: Path) -> None:
    replace(shown, rows=()).save(tmp_path / "board")
    files = shown.save(tmp_path / "board")
    assert {file.name for file in files} == {"scoreboard.json", "scoreboard.csv", "scoreboard.tex"}
    again = open_scoreboard(tmp_path / "board")
    assert again.document() == shown.document()
    assert again.sentence == shown.sentence
    assert re.match(
        r"Claims of the study, version 1 \([0-9a-f]{12}\), model by model: holds 1, ", again.sentence
    )
    assert again.document()["format"] == "microtome/scoreboard/1"
    json.dumps(again.document(), allow_nan=False)
    with pytest.raises(InputError, match=r"a folder with scoreboard\.json"):
        open_scoreboard(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["rows"][0].pop("low"),
        lambda document: document["rows"][0].update(tasks=3),
        lambda document: document["claims"][0].update(published=[1]),
        lambda document: document.update(rows=3),
    ],
)
def test_a_scoreboard_that_was_changed_is_refused(change: Any, shown: Scoreboard, tmp_path: Path) -> None:
    shown.save(tmp_path)
    document = json.loads((tmp_path / "scoreboard.json").read_text())
    change(document)
    (tmp_path / "scoreboard.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="must be as microtome wrote it"):
        open_scoreboard(tmp_path)


def test_a_statistic_that_a_result_cannot_have_is_not_run(tmp_path: Path) -> None:
    named = result(curve("UNTUNED", [0.6, 0.8], ("top", "bottom")))
    contents = {("truncate", "truncate", "m", "t"): named}
    board = scoreboard(study(tmp_path, contents, claims=[CLAIM]))
    (row,) = board.rows
    assert row.verdict == "not run"
    assert "cannot be computed" in row.measured.note


def test_csv_has_a_line_for_each_row(shown: Scoreboard) -> None:
    records = list(csv.DictReader(io.StringIO(shown.csv())))
    assert len(records) == len(shown.rows)
    assert records[0]["claim"] == "cost"
    assert float(records[0]["value"]) == pytest.approx(0.2)
    assert records[0]["published"] == "next to nothing"


def test_latex_is_a_table_that_parses(shown: Scoreboard) -> None:
    lines = shown.latex().splitlines()
    columns = re.fullmatch(r"\\begin\{tabular\}\{([lr]+)\}", lines[0])
    assert columns is not None
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == len(shown.rows) + 1
    for row in rows:
        assert len(re.split(r"(?<!\\)&", row)) == len(columns[1])
        assert not re.search(r"(?<!\\)[%_#$]", row.replace("$n$", "").replace("$-$", ""))
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"50 \%\_a" in shown.latex()


def test_the_table_fits_a_terminal_of_100_columns(
    shown: Scoreboard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    head, rows, notes = shown.table()
    Screen().rows(head, rows, notes)
    printed = capsys.readouterr().out
    assert "0.200 [0.100, 0.300]" in printed
    table = printed.partition("Claims of")[0].splitlines()
    assert max(map(len, table)) <= 100
    assert "next to nothing" in printed
    assert f"version 1 ({shown.digest})" in printed


def test_a_study_without_claims_has_an_empty_scoreboard(tmp_path: Path) -> None:
    contents = {("cuts", "truncate", "a", "t"): truncated(0.001)}
    found = scoreboard(study(tmp_path, contents))
    assert found.rows == ()
    assert found.sentence == "The study has no claims."
    found.csv()
    found.latex()


def test_what_was_not_run_says_why(tmp_path: Path) -> None:
    tables = {
        "cuts": {"verb": "truncate", "models": ["a"], "tasks": ["t"]},
        "skip": {"verb": "skip", "models": ["a", "b"], "tasks": ["u"]},
        "finetune": {"verb": "finetune", "models": ["a"], "tasks": ["t"]},
    }

    def notes(**changes: Any) -> dict[str, str]:
        contents = {("cuts", "truncate", "a", "t"): truncated(0.001)}
        names: dict[str, Any] = {"models": ("a", "b"), "tasks": ("t", "u"), "experiments": tables}
        results = study(tmp_path, contents, claims=[{**CLAIM, **changes}], **names)
        return {row.model: row.measured.note for row in scoreboard(results).rows}

    table = 'the study\'s table [{}] leaves out "{}"'.format
    assert notes()["b"] == table("experiments.cuts", "b")
    assert notes(models=["a"], against=["b"], most=1)["a"] == table("experiments.cuts", "b")
    assert notes(tasks=["u"])["a"] == table("experiments.cuts", "u")
    assert notes(experiment="skip", tasks=["t"])["a"] == table("experiments.skip", "t")
    assert notes(experiment="finetune")["b"] == table("finetune", "b")
    assert notes(experiment="skip")["a"] == "there is no result of skip"
    assert notes(experiment="permute")["a"] == "the study has no experiment permute"
