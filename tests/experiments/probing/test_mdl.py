"""Codes of labels are short where a layer knows them, and the result says so with its doubt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from experiments.probing.test_probing import write_corpus
from microtome.cli import main
from microtome.errors import InputError
from microtome.experiments.probing.inputs import RANDOM_BASELINE
from microtome.experiments.probing.mdl import UNIFORM


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "small.conllu", 90)


def test_labels_that_a_layer_tells_take_few_bits(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    found = mt.probe(encoder, corpus, mdl=True, control_task=True, store=tmp_path / "store")
    curve: Any = found[encoder.name]
    assert found.lines[UNIFORM] == pytest.approx(np.log2(3))
    assert curve.x == tuple(range(len(encoder.layers)))
    # A word of this corpus has one tag, so layer 0 tells it; only what was sent blindly costs much.
    assert curve.values[0] < 0.5 * np.log2(3)
    assert (curve.band_low <= curve.low).all()
    assert (curve.low < curve.values).all()
    assert (curve.values < curve.high).all()
    assert curve.unit == "sentence", "every sentence is a document of its own"
    assert set(found.more) >= {"words", "target"}
    for row in found.rows:
        assert row["compression"] == pytest.approx(np.log2(3) / row["score"])
    assert {row["model"] for row in found.rows} == {encoder.name, RANDOM_BASELINE, f"control, {encoder.name}"}
    best = int(np.argmin(curve.values))
    assert found.claims[0].layers == (best,)
    start = (
        f"{encoder.name}: from which layer upos is read best is not shown: layer {best} has the best score"
    )
    assert found.findings[0].startswith(f"{start}, bits per word ")
    assert "control task" in found.claims[0].beside
    found.save(tmp_path / "out")
    again = mt.open(tmp_path / "out")
    assert again[encoder.name].values.tolist() == curve.values.tolist()


@pytest.mark.parametrize(("documents", "unit"), [(30, "document"), (4, "sentence")])
def test_documents_are_the_unit_where_there_are_enough(
    documents: int, unit: str, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    place = write_corpus(tmp_path / "texts.conllu", 90, documents=documents)
    found = mt.probe(encoder_of("bert"), place, mdl=True, random_baselines=0, store=tmp_path / "store")
    assert {one.unit for one in found.curves} == {unit}
    assert f"over {unit}s" in found.methods
    assert any("sentences are taken as independent" in one for one in found.warnings) == (unit == "sentence")


def test_the_same_model_takes_the_same_bits(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    same = mt.load(encoder.source.given, name="same")
    found = mt.probe([encoder, same], corpus, mdl=True, random_baselines=0, store=tmp_path)
    assert not found[f"difference, same from {encoder.name}"].values.any()
    assert any("no difference is shown at any layer" in one for one in found.findings)


def test_codes_are_kept(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {
        "mdl": True,
        "control_task": True,
        "random_baselines": 0,
        "store": tmp_path / "store",
    }
    first = mt.probe(encoder_of("bert"), corpus, **asked)

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("what was sent is not sent again")

    monkeypatch.setattr("microtome.experiments.probing.mdl.online_code", again)
    documents = [one.document() for one in (first, mt.probe(encoder_of("bert"), corpus, **asked))]
    for each in documents:
        each["provenance"].pop("seconds")
    assert documents[0] == documents[1]
    with pytest.raises(AssertionError, match="not sent again"):
        mt.probe(encoder_of("bert"), corpus, seeds=1, **asked)


def test_models_may_be_called_by_any_words(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    given = encoder_of("bert").source.given
    first, other = mt.load(given, name="bert from its layer 0"), mt.load(given, name="b from a from c")
    found = mt.probe([first, other], corpus, mdl=True, random_baselines=0, store=tmp_path)
    about = [one for one in found.findings if " against " in one]
    assert len(about) == 1
    assert about[0].startswith(f"{other.name} against {first.name}: ")


def test_trees_have_no_labels_to_send(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="must be of labels of words, but dep-depth has none"):
        mt.probe(encoder_of("bert"), corpus, target="dep-depth", mdl=True, store=tmp_path)
    folder = str(encoder_of("bert").source.given)
    asked = [
        "probe",
        folder,
        "--on",
        str(corpus),
        "--mdl",
        "--random-baselines",
        "0",
        "--store",
        str(tmp_path / "store"),
    ]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["score"] == "bits per word"
    assert main([*asked, "--seeds", "0,1"]) == 2
    assert "mdl must be given one seed" in capsys.readouterr().err
