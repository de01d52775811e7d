"""A result is read back as it was written, and a file that is not one is refused in words."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from microtome.errors import InputError, UnknownNameError
from microtome.findings.results import Curve, Result, SpanMap, from_document, open_result


def curve(name: str = "UNTUNED", **told: Any) -> Curve:
    line = np.array([0.5, np.nan, 0.9])
    given: dict[str, Any] = {
        "name": name,
        "axis": "layers kept",
        "x": (1, 2, 3),
        "values": line,
        "low": line - 0.1,
        "high": line + 0.1,
        "band_low": line - 0.2,
        "band_high": line + 0.2,
        "level": 0.95,
        "unit": "example and seed",
        "n": 277,
        "seeds": (3, 0, 2),
        "reasons": (None, "no sound run", "1 of 3 runs was left out: seed 2 (collapsed)"),
    }
    return Curve(**(given | told))


def spans(**told: Any) -> SpanMap:
    square = np.array([[0.1, 0.3], [np.nan, 0.2]])
    given: dict[str, Any] = {
        "name": "skipped",
        "depth": 2,
        "values": square,
        "low": square - 0.1,
        "high": square + 0.1,
        "band_low": square - 0.2,
        "band_high": square + 0.2,
        "full": 0.8,
        "level": 0.9,
        "unit": "example",
        "n": 277,
        "seeds": 3,
        "note": "no training",
    }
    return SpanMap(**(given | told))


@pytest.fixture
def result() -> Result:
    return Result(
        experiment="truncation",
        model="b\u00e9rt <base>",
        task="rte",
        split="validation",
        score="accuracy",
        curves=(curve(), curve("TUNED", x=("a", "b", "c"))),
        spans=(spans(),),
        lines=MappingProxyType({"majority": 0.53, "unknown": float("nan")}),
        rows=(
            {"arm": "UNTUNED", "x": 1, "seed": 1, "value": 0.5},
            {"arm": "TUNED", "x": 2, "why": "collapsed"},
        ),
        findings=("Cutting 2 layers costs 1.0 points <b>.",),
        methods="Scores were \u2026",
        references=("@article{a,}\n", "@article{b,}\n"),
        warnings=("Few examples.",),
        more={"order": (1, 2), "array": np.arange(3), "inf": np.inf, "half": np.float64(0.5)},
        provenance=MappingProxyType({"command": "microtome truncate x", "seconds": np.float32(1.5)}),
    )


def assert_same(one: Any, two: Any) -> None:
    for field in fields(one):
        ours, theirs = getattr(one, field.name), getattr(two, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs, field.name


def test_what_is_read_is_what_was_saved(result: Result, tmp_path: Path) -> None:
    written = result.save(tmp_path / "out")
    assert [path.name for path in written] == ["result.json", "table.parquet", "methods.md", "references.bib"]
    for place in (tmp_path / "out", tmp_path / "out" / "result.json"):
        back = open_result(place)
        for ours, theirs in zip(result.curves + result.spans, back.curves + back.spans, strict=True):
            assert_same(ours, theirs)
        for name in (
            "experiment",
            "model",
            "task",
            "split",
            "score",
            "points",
            "higher_is_better",
            "findings",
        ):
            assert getattr(back, name) == getattr(result, name)
        assert (back.methods, back.references, back.warnings) == (
            result.methods,
            result.references,
            result.warnings,
        )
        assert back.lines["majority"] == 0.53
        assert np.isnan(back.lines["unknown"])
        assert back.more == {"order": [1, 2], "array": [0, 1, 2], "inf": None, "half": 0.5}
        assert back.provenance == {"command": "microtome truncate x", "seconds": 1.5}
        assert [row["arm"] for row in back.rows] == ["UNTUNED", "TUNED"]
        assert back.rows[1]["value"] is None
        assert back.document() == result.document()


def test_the_file_is_strict_json(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads((tmp_path / "result.json").read_text(), parse_constant=refuse)
    assert read["format"] == "microtome/truncation/1"
    assert read["curves"][0]["values"] == [0.5, None, 0.9]
    assert read["spans"][0]["values"][1][0] is None


def test_the_page_says_what_was_found_and_how_to_repeat_it(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path)
    page = (tmp_path / "methods.md").read_text()
    for words in ("Scores were", "- Cutting 2 layers", "- Few examples.", "microtome truncate x"):
        assert words in page
    assert (tmp_path / "references.bib").read_text().count("@article") == 2


def test_a_result_without_curves_or_rows_can_be_saved(tmp_path: Path) -> None:
    bare = Result(experiment="pruning", model="m", task="t", split="", score="mcc")
    bare.save(tmp_path)
    back = open_result(tmp_path)
    assert (back.curves, back.spans, back.rows, dict(back.more)) == ((), (), (), {})


def test_curves_and_spans_are_found_by_name(result: Result) -> None:
    assert result["TUNED"] is result.curves[1]
    assert result["skipped"] is result.spans[0]
    with pytest.raises(UnknownNameError, match=r"curve must be one of .*Did you mean TUNED"):
        result["TUNE"]


def test_a_notebook_shows_the_findings_escaped(result: Result) -> None:
    shown = result._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "b\u00e9rt &lt;base&gt;" in shown


def test_a_table_that_its_library_cannot_read_is_refused(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def read(path: Path) -> None:
        # As for a file whose schema has integers of 3 bits.
        raise pa.ArrowNotImplementedError("Integers not in cstdint are not implemented")

    result.save(tmp_path)
    monkeypatch.setattr(pq, "read_table", read)
    with pytest.raises(InputError, match="a result must be a readable"):
        open_result(tmp_path)


def test_the_long_table_is_a_data_frame(result: Result) -> None:
    assert result.to_pandas()["arm"].tolist() == ["UNTUNED", "TUNED"]


def test_shapes_must_fit() -> None:
    with pytest.raises(InputError, match=r"low of a curve must be of the shape \(3,\)"):
        curve(low=np.zeros(2))
    with pytest.raises(InputError, match="one for each of 3 points"):
        curve(seeds=(1,))
    with pytest.raises(InputError, match=r"band_high of a span map must be of the shape \(2, 2\)"):
        spans(band_high=np.zeros(4))


@pytest.mark.parametrize(
    "change,words",
    [
        ({"format": "microtome/truncation/2"}, "the format of a result must be microtome/truncation/1"),
        ({"curves": [{"name": "x"}]}, "a result must be whole"),
        ({"lines": None}, "a result must be whole"),
        ({"score": ...}, "a result must be whole"),
    ],
)
def test_what_is_no_result_is_refused(result: Result, change: dict[str, Any], words: str) -> None:
    document = result.document() | change
    document = {name: value for name, value in document.items() if value is not ...}
    with pytest.raises(InputError, match=words):
        from_document(document)


def test_what_cannot_be_read_is_refused(result: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a result must be a readable result\.json"):
        open_result(tmp_path)
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"a result must be a readable result\.json"):
        open_result(tmp_path)
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(InputError, match="a result must be whole"):
        open_result(tmp_path)
    with pytest.raises(InputError, match=r"holds result\.json, which microtome did not write"):
        result.save(tmp_path)
    result.save(tmp_path / "whole")
    (tmp_path / "whole" / "table.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match=r"a result must be a readable result\.json"):
        open_result(tmp_path / "whole")


def test_saving_again_replaces(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path)
    replace(result, score="mcc").save(tmp_path)
    assert open_result(tmp_path).score == "mcc"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "methods.md",
        "references.bib",
        "result.json",
        "table.parquet",
    ]
