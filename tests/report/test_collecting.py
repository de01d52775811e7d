"""What lies below a folder becomes one document, whatever lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import microtome as mt
from figures.resulting import make_curve, make_result
from microtome.errors import InputError
from microtome.findings.cells import SAME_TOKEN, with_places
from microtome.findings.claims.claim import read_claim
from microtome.findings.claims.render import render
from microtome.findings.record import Maps
from microtome.findings.results import Result
from microtome.report.collecting import collect
from microtome.report.sections import result_parts
from microtome.report.writing import write_page
from report import samples

SOURCE = Path(mt.__file__).parents[1]
HEAD = {"id", "kind", "title", "task", "model", "basis", "sentences", "below", "file"}
BODIES = {
    "map": {"panels", "layers", "blocks"},
    "curves": {"x_label", "y_label", "points", "curves", "lines", "x_is_layer", "few"},
    "spans": {"depth", "score", "points", "full", "values", "low", "high", "band_low", "band_high"}
    | {"n", "seeds", "note"},
    "scores": {"columns", "rows"},
    "lines": {"series", "x_label", "y_label"},
}
MEASURE = {"name", "label", "values", "low", "high", "null_mean", "z", "p", "n", "estimator", "unit", "level"}
MEASURE |= {"reasons", "lo", "hi", "note"}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def document(study: Path) -> dict[str, Any]:
    return collect(study, date="2026-01-31")


def sections(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in document["sections"] if one["kind"] == kind]


def test_every_kind_of_result_has_its_sections(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["format"] == "microtome/report/1"
    assert document["made"] == "2026-01-31"
    kinds = [one["kind"] for one in document["sections"]]
    assert {kind: kinds.count(kind) for kind in BODIES} == {
        "map": 1,
        "curves": 5,
        "spans": 1,
        "scores": 5,
        "lines": 1,
    }
    assert [one["id"] for one in document["sections"]] == [f"s{k + 1}" for k in range(len(kinds))]
    for one in document["sections"]:
        assert set(one) == HEAD | BODIES[one["kind"]]
    files = {one["file"] for one in document["sections"]}
    assert files == {one["file"] for one in document["provenance"]}
    assert {one["sure"] for one in document["findings"]} == {"shown", "inconclusive"}
    ids = {one["id"] for one in document["sections"]}
    assert all(one["section"] in ids for one in document["findings"])


def test_the_page_has_the_sentences_of_the_result(study: Path, document: dict[str, Any]) -> None:
    for entry in document["provenance"]:
        found = json.loads((study / entry["file"]).read_text())
        parts = [one for one in document["sections"] if one["file"] == entry["file"]]
        said = [text for part in parts for text in part["sentences"]]
        claims = [render(read_claim(claim)) for claim in found["claims"]]
        assert claims == found["findings"][: len(claims)]
        assert said == found["findings"]
        # On the page each stands once, among the findings at the top or below its figure.
        ids = {part["id"] for part in parts}
        shown = [one for one in document["findings"] if one["section"] in ids]
        shown += [one for part in parts for one in part["below"]]
        texts = [f"{one['text']} {one['evidence']}".rstrip() for one in shown]
        assert len(texts) == len(said)
        assert all(sum(text.endswith(sentence) for text in texts) == 1 for sentence in said)


def test_the_same_folder_gives_the_same_document(study: Path, document: dict[str, Any]) -> None:
    assert collect(study, date="2026-01-31") == document


def test_panels_are_those_before_and_after(study: Path, document: dict[str, Any]) -> None:
    [found] = sections(document, "map")
    maps = mt.open(study / "maps")
    names = [panel["name"].split(":")[0] for panel in found["panels"]]
    assert names == ["ORIG-ORIG", "FT-ORIG", "FT-FT"]
    assert [panel["symmetric"] for panel in found["panels"]] == [True, False, True]
    crossed = found["panels"][1]
    assert crossed["left"] == [f"tuned/{k}" for k in range(samples.LAYERS)]
    assert crossed["right"] == [f"base/{k}" for k in range(samples.LAYERS)]
    size = samples.LAYERS
    for one in crossed["measures"]:
        assert set(one) == MEASURE
        whole = maps[one["name"]]
        np.testing.assert_array_equal(one["values"], whole.values[size:, :size])
        np.testing.assert_array_equal(one["low"], whole.low[size:, :size])
    # One scale: the same ends for a measure in all panels, and every value within them.
    for k in range(3):
        ends = {(p["measures"][k]["lo"], p["measures"][k]["hi"]) for p in found["panels"]}
        [(lo, hi)] = ends
        assert all(lo <= v <= hi for p in found["panels"] for row in p["measures"][k]["values"] for v in row)


@pytest.mark.parametrize(
    "half,seeds,unit,shown",
    [
        (0.4, 2, "example and seed", False),
        (0.4, 9, "example and seed", True),
        (0.05, 2, "example and seed", True),
        (0.4, 2, "example", True),
    ],
)
def test_few_seeds_are_said_and_their_intervals_not_drawn(
    half: float, seeds: int, unit: str, shown: bool, tmp_path: Path
) -> None:
    def wide(one: Any) -> Any:
        ends = {"band_low": one.values - half, "band_high": one.values + half}
        return replace(one, **ends, seeds=(seeds,) * len(one.x), unit=unit)

    result = samples.truncation()
    replace(result, curves=tuple(map(wide, result.curves))).save(tmp_path / "a")
    found = sections(collect(tmp_path), "curves")[0]
    assert found["few"] is not shown
    assert ("bands: 95 %" in found["basis"]) is shown
    few = f"{seeds} runs per point: few, so that intervals are wide; they are in the data and are not drawn"
    assert (few in found["basis"]) is not shown
    assert found["curves"][0]["band_low"][0] is not None


def test_kinds_of_results_take_turns_at_the_top(document: dict[str, Any]) -> None:
    files = {one["id"]: one["file"] for one in document["sections"]}
    formats = {one["file"]: one["format"] for one in document["provenance"]}
    kinds = [formats[files[one["section"]]] for one in document["findings"]]
    first = kinds[: len(set(kinds))]
    assert len(set(first)) == len(first)
    for kind in set(kinds):
        sure = [one["sure"] for one, of in zip(document["findings"], kinds, strict=True) if of == kind]
        assert sure == sorted(sure, reverse=True), "what is shown comes before what is inconclusive"


def test_a_tuned_model_is_called_by_what_was_tuned(tmp_path: Path) -> None:
    samples.truncation(model="base-sst2").save(tmp_path / "a")
    task = samples.truncation().task
    samples.truncation(model=f"base-{task}").save(tmp_path / "b")
    titles = {one["title"] for one in collect(tmp_path)["sections"]}
    assert f"Truncation: base on {task}" in titles


def test_layers_have_their_spectra(document: dict[str, Any]) -> None:
    [found] = sections(document, "map")
    stacks = samples.stacks()
    for model, layers in stacks.items():
        for depth, x in enumerate(layers):
            known = found["layers"][f"{model}/{depth}"]
            assert (known["depth"], known["model"]) == (depth, model)
            values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
            np.testing.assert_allclose(known["spectrum"], values / values.sum(), atol=2e-6)
            assert known["dimension"] == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-4)


def test_several_tuned_models_are_numbered(tmp_path: Path) -> None:
    one = samples.comparison(certainty=False)["debiased_cka"]
    told = [
        *one.provenance["models"],
        {"name": "third", "changes": [], "tuned": {"model": "base", "task": "x"}},
    ]
    names = [f"{model}/{k}" for model in ("base", "tuned", "third") for k in range(6)]
    full = replace(
        one,
        left=tuple(names),
        right=tuple(names),
        **{name: np.full((18, 18), 0.5) for name in ("values", "null_mean", "z", "p")},
        reasons=((None,) * 18,) * 18,
        layers=type(one.layers)(None, None),
        provenance=MappingProxyType({"models": told}),
    )
    Maps([full]).save(tmp_path)
    [found] = sections(collect(tmp_path), "map")
    assert [panel["name"].split(":")[0] for panel in found["panels"]] == [
        "ORIG-ORIG",
        "FT1-ORIG",
        "FT2-ORIG",
        "FT1-FT1",
        "FT1-FT2",
        "FT2-FT2",
    ]
    assert found["layers"]["third/2"] == {"depth": 2, "model": "third", "spectrum": None, "dimension": None}


def test_roles_are_not_guessed(tmp_path: Path) -> None:
    samples.comparison(certainty=False, told=False).save(tmp_path)
    [found] = sections(collect(tmp_path), "map")
    assert [panel["name"] for panel in found["panels"]] == ["base", "base with tuned", "tuned"]
    assert not any("ine-tuning" in text for text in found["sentences"])


def test_layers_of_one_name_on_both_sides_are_told_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    left, right = ([rng.normal(size=(50, 4)) for _ in range(3)] for _ in range(2))
    names = [f"model/{k}" for k in range(3)]
    maps = mt.similarity_matrix(left, right, names=names, right_names=names, spectra=True)
    maps.save(tmp_path)
    [found] = sections(collect(tmp_path), "map")
    assert found["panels"][0]["left"] == [f"left model/{k}" for k in range(3)]
    assert found["layers"]["left model/1"]["spectrum"] != found["layers"]["right model/1"]["spectrum"]


def test_a_constant_layer_is_named_and_has_no_spectrum(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    layers = [np.ones((60, 5)), *(x + 0.01 * rng.normal(size=x.shape) for _ in range(3))]
    maps = mt.similarity_matrix(layers, names=[f"a/{k}" for k in range(4)], spectra=True)
    maps.save(tmp_path)
    [found] = sections(collect(tmp_path), "map")
    assert found["layers"]["a/0"]["spectrum"] is None
    cells = found["panels"][0]["measures"][0]
    assert cells["values"][0] == [None] * 4
    assert set(cells["reasons"]) == {f"{i},{j}" for i in range(4) for j in range(4) if 0 in (i, j)}
    assert found["sentences"][0].startswith("Layers 1 to 3 of a are alike in this sample")
    assert found["sentences"][1].startswith("Undefined in debiased CKA: a/0 (")


def test_a_place_that_is_kept_changes_nothing_that_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names, x = [f"{m}/{k}" for m in "ab" for k in range(1, 8)], rng.normal(size=(90, 6))
    layers = [x + 0.1 * k * rng.normal(size=x.shape) for _ in "ab" for k in range(1, 8)]
    measures = ["debiased_cka", "neuron_correlation", "svcca"]
    maps = mt.similarity_matrix(layers, None, measures, names=names, spectra=True, certainty=True, halves=4)
    every = [f"{m}/{k}" for m in "ab" for k in range(8)]
    kept = Maps([with_places(one, every, {"a/0": 6, "b/0": 6}) for one in maps.values()])
    told = []
    for name, some in (("without", maps), ("with", kept)):
        some.save(tmp_path / name)
        told.append(collect(tmp_path / name))
    plain, found = (one["sections"] for one in told)
    assert [one["kind"] for one in found] == ["map", "curves", "scores"]
    assert [one["sentences"] for one in found] == [one["sentences"] for one in plain]
    strip = {"file", "id"}
    for one, two in zip(plain[1:], found[1:], strict=True):
        assert {k: v for k, v in one.items() if k not in strip} == {
            k: v for k, v in two.items() if k not in strip
        }
    panel = found[0]["panels"][0]
    assert panel["left"] == every[:8]
    cells = panel["measures"][0]
    assert cells["values"][0] == [None] * 8
    assert set(cells["reasons"].values()) == {SAME_TOKEN}
    assert found[0]["layers"]["a/0"]["spectrum"] is None
    assert [row[1:] for row in cells["values"][1:]] == plain[0]["panels"][0]["measures"][0]["values"]


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    samples.truncation().save(tmp_path / "good")
    broken = {
        "json": b"{",
        "nothing": b"",
        "list": b"[1, 2]",
        "strange": b'{"format": "microtome/poem/7"}',
        "half": b'{"format": "microtome/similarity/1"}',
        "none": b'{"format": "microtome/similarity/1", "maps": []}',
        "number": b'{"format": "microtome/finetune/1", "runs": 5}',
        "text": b'{"format": "microtome/prune/1", "provenance": "me"}',
        "runs": b'{"format": "microtome/finetune/1", "runs": []}',
        "bytes": b"\xff\xfe\x00",
        "result": b'{"format": "microtome/truncation/1", "experiment": "truncation"}',
    }
    for name, content in broken.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_bytes(content)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "result.json").write_bytes(b"{")
    document = collect(tmp_path)
    assert {one["file"] for one in document["sections"]} == {"good/result.json"}
    problems = {
        one["file"].split("/")[0]: dict(one["facts"]).get("problem") for one in document["provenance"]
    }
    assert set(problems) == {"good", *broken}
    assert problems.pop("good") is None
    for name, problem in problems.items():
        assert problem, name
        assert problem.startswith("It"), problem
        assert problem.endswith("."), problem
    assert "microtome/poem/7" in str(problems["strange"])


def values_in(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value of a document lies."""
    found = [path] if path else []
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            found += values_in(value, (*path, key))
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["runs", "small", "cuts/layers", "cuts/spans", "freeze", "maps"]), st.data())
def test_a_damaged_result_harms_no_other(study: Path, name: str, data: Any) -> None:
    document = json.loads((study / name / "result.json").read_text())
    paths = [path for path in values_in(document) if path != ("format",)]
    *way, last = data.draw(st.sampled_from(paths))
    place: Any = document
    for key in way:
        place = place[key]
    place[last] = data.draw(st.sampled_from([None, "", "x", -1, 0.5, 1e25, [], {}, [None], True]))
    with tempfile.TemporaryDirectory() as folder:
        samples.write_json(document, Path(folder) / "damaged")
        samples.write_json(
            json.loads((study / "cuts/layers/result.json").read_text()), Path(folder) / "sound"
        )
        found = collect(folder)
        write_page(found, Path(folder) / "page.html")
    json.dumps(found, allow_nan=False)
    assert "sound/result.json" in {one["file"] for one in found["sections"]}
    assert len(found["provenance"]) == 2


def test_provenance_is_short_and_readable(tmp_path: Path) -> None:
    facts = {
        "microtome": "0.1.0",
        "torch": "2.13.0",
        "models": [
            {
                "name": "base",
                "source": "zoo:base",
                "digest": "b44380802e02ba1f1328c4ad6e4d3569",
                "tuned": None,
            },
            {"name": "tuned", "source": "runs/seed-1", "tuned": {"model": "base", "task": "rte"}},
        ],
        "seeds": [1, 2],
        "rows": {"digest": "8a510c1eb0a1f972", "count": 120},
        "inputs": [],
        "activations": ["42393c6ec7ba29e596d3d58aa416442b25f63a2f"],
        "command": "microtome truncate bert --task rte",
        "options": {"task": "rte"},
    }
    samples.truncation(provenance=facts).save(tmp_path / "a")
    samples.truncation(provenance={"options": {"task": "rte", "seeds": [1, 2]}}).save(tmp_path / "b")
    with_command, without = collect(tmp_path)["provenance"]
    assert with_command["facts"] == [
        ["models", "base (zoo:base); tuned (runs/seed-1)"],
        ["seeds", "1, 2"],
        ["rows", "count 120"],
        ["software", "microtome 0.1.0, torch 2.13.0"],
    ]
    assert without["facts"] == [["options", "task rte, seeds 1, 2"]]


def test_results_in_long_folders_have_the_shortest_names_that_tell_them_apart(tmp_path: Path) -> None:
    for folder in ("rte/first/layers", "rte/second/layers"):
        samples.truncation().save(tmp_path / folder)
    about = {one["text"].split(":")[0] for one in collect(tmp_path)["findings"]}
    assert about == {"bert (first-layers) on rte", "bert (second-layers) on rte"}


def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    samples.truncation().save(tmp_path / "far" / "away")
    folder = tmp_path / "here"
    samples.skipping().save(folder / "own")
    (folder / "linked").symlink_to(tmp_path / "far" / "away")
    (folder / "loop").symlink_to(folder)
    (folder / "file").mkdir()
    (folder / "file" / "result.json").symlink_to(tmp_path / "far" / "away" / "result.json")
    document = collect(folder)
    assert {one["file"] for one in document["sections"]} == {"own/result.json"}
    problems = [one["file"] for one in document["provenance"] if "problem" in dict(one["facts"])]
    assert problems == ["file/result.json", "linked/result.json"]


def test_results_of_one_name_are_told_apart(tmp_path: Path) -> None:
    samples.truncation().save(tmp_path / "one")
    samples.truncation().save(tmp_path / "two")
    samples.skipping().save(tmp_path / "three")
    document = collect(tmp_path)
    titles = [one["title"] for one in document["sections"]]
    assert len(set(titles)) == len(titles)
    assert "Truncation: bert on rte (one)" in titles
    assert "Skipping spans of blocks: bert on rte" in titles
    texts = [one["text"] for one in document["findings"]]
    assert len(set(texts)) == len(texts)
    assert any(text.startswith("bert (two) on rte: The top 1 of 4 layers can be removed") for text in texts)


def _probing(**more: Any) -> Result:
    """What probes of words find in three models and a random baseline."""
    given: dict[str, Any] = {
        "experiment": "probing",
        "model": "masked, seed-1, replaced",
        "task": "upos",
        "curves": (make_curve("masked", [0.5, 0.6], axis="layer", seeds=(1, 1)),),
        "findings": (
            "masked (all layers): upos is read from all layers at once.",
            "replaced against masked: less is read at layers 1 and 2.",
            "random baseline against masked: less is read at layer 2.",
            "Without any layer: most frequent 0.200.",
        ),
        "more": {"probe": "edge"},
    }
    return make_result(**{**given, **more})


def test_sentences_are_those_of_the_result_and_findings_name_the_models(tmp_path: Path) -> None:
    one = _probing()
    one.save(tmp_path / "one")
    document = collect(tmp_path)
    assert document["sections"][0]["sentences"] == list(one.findings)
    assert document["findings"][0]["text"] == f"masked, seed-1, replaced on upos: {one.findings[0]}"
    one.save(tmp_path / "two")
    assert collect(tmp_path)["findings"][1]["text"].startswith("masked, seed-1, replaced (two) on upos: ")


def test_correlations_by_length_are_drawn_over_layers(tmp_path: Path) -> None:
    found = {"masked": {"mean": [0.1, None, 0.3], "lengths": [5, 8, 21], "by_length": [[0.1] * 3] * 3}}
    _probing(more={"probe": "structural", "distance_spearman": found}).save(tmp_path)
    (one,) = sections(collect(tmp_path), "lines")
    assert one["series"] == [{"name": "masked", "x": [0, 1, 2], "y": [0.1, None, 0.3]}]
    assert one["title"] == "Correlation of distances by length: masked, seed-1, replaced on upos"
    assert "3 lengths from 5 to 21 words" in one["basis"]
    assert "no intervals" in one["basis"]


@pytest.mark.parametrize("probe, drawn", [("edge", True), ("linear", False), ("online code", False)])
def test_other_seeds_are_spoken_of_only_where_something_is_drawn(
    tmp_path: Path, probe: str, drawn: bool
) -> None:
    _probing(more={"probe": probe}).save(tmp_path)
    basis = collect(tmp_path)["sections"][0]["basis"]
    assert ("1 run per point: other seeds are not covered" in basis) == drawn
    assert "intervals: 95 % for each point alone" in basis


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_without_results_is_refused(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "empty"
    if made:
        folder.mkdir()
    with pytest.raises(InputError, match="the folder of a report must"):
        collect(folder)


def test_a_name_is_only_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    samples.truncation(model=name).save(tmp_path / "a")
    document = collect(tmp_path)
    assert document["sections"][0]["model"] == name
    assert name in document["findings"][0]["text"]


def test_the_page_is_written_and_the_name_stays_callable(study: Path, tmp_path: Path) -> None:
    # The function has the name of its package, which an import puts in its place.
    first = mt.report(study, tmp_path / "a.html", date="2026-01-31")
    second = mt.report(study, tmp_path / "b.html", date="2026-01-31")
    assert first.read_bytes() == second.read_bytes()
    assert b"microtome/report/1" in first.read_bytes()


def test_a_report_needs_neither_torch_nor_figures(study: Path, tmp_path: Path) -> None:
    code = (
        "import sys, json\n"
        "from microtome.cli import main\n"
        "assert main(['report', sys.argv[1], '--out', sys.argv[2], '--quiet']) == 0\n"
        "import microtome\n"
        "microtome.report(sys.argv[1], sys.argv[2])\n"
        "names = ('torch', 'transformers', 'matplotlib', 'scipy.stats', 'pandas', 'pyarrow', 'sklearn')\n"
        "sys.stderr.write(json.dumps([name for name in names if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(study), str(tmp_path / "page.html")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_a_random_twin_beside_two_models_does_not_hide_their_difference(tmp_path: Path) -> None:
    one = samples.comparison(certainty=False)["debiased_cka"]
    names = [f"{model}/{k}" for model in ("mine", "yours", "mine-random0") for k in range(6)]
    told = [{"name": name, "changes": [], "tuned": None} for name in ("mine", "yours")]
    told.append({"name": "mine-random0", "changes": ["random weights"], "tuned": None})
    size = len(names)
    values = np.full((size, size), 0.5)
    values[[4, 10], [10, 4]] = 0.25
    full = replace(
        one,
        left=tuple(names),
        right=tuple(names),
        **dict.fromkeys(("values", "null_mean", "z", "p"), values),
        reasons=((None,) * size,) * size,
        layers=type(one.layers)(None, None),
        provenance=MappingProxyType({"models": told}),
    )
    Maps([full]).save(tmp_path)
    document = collect(tmp_path)
    assert "Difference of each layer: mine and yours" in {one["title"] for one in document["sections"]}
    assert "between mine and yours" in document["findings"][0]["text"]


def test_what_the_axis_of_differences_is_called() -> None:
    curves = [make_curve("a", [0.5, 0.6]), make_curve("difference a", [0.0, 0.1])]
    scores, differences = result_parts(make_result(curves=curves, score="edge_f1", points=1.0), "f", "")
    # The page says "difference in" before it, as it does for curves of both kinds in one section.
    assert scores.document["y_label"] == differences.document["y_label"] == "edge F1"
