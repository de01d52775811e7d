"""Probes of all layers find what is there, and the result says so with its doubt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.cli import main
from microtome.errors import InputError, MicrotomeError
from microtome.experiments.probing import TWIN
from microtome.probes.asking import divide
from microtome.probes.targets import read_target

NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["runs", "sees", "likes", "hears"]


def write_corpus(path: Path, sentences: int = 60, seed: int = 0) -> Path:
    """Sentences such as "the cat sees a dog", each a document of its own, with parts of speech and heads."""
    draw = np.random.default_rng(seed)
    lines = []
    for number in range(sentences):
        words = ["the", draw.choice(NOUNS), draw.choice(VERBS), "a", draw.choice(NOUNS)]
        tags, heads = ["DET", "NOUN", "VERB", "DET", "NOUN"], [2, 3, 0, 5, 3]
        lines += [f"# newdoc id = d{number}", f"# sent_id = s{number}"]
        for place, (word, tag, head) in enumerate(zip(words, tags, heads, strict=True), start=1):
            lines.append("\t".join([str(place), word, word, tag, tag, "_", str(head), "dep", "_", "_"]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "small.conllu")


def test_parts_of_speech_are_read_and_random_labels_of_types_are_learned_by_heart(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    found = mt.probing(encoder_of("bert"), corpus, "upos", control=True, store=tmp_path / "store")
    name = encoder_of("bert").name
    curve: Any = found[name]
    assert curve.x == tuple(range(len(encoder_of("bert").layers)))
    assert curve.unit == "group of examples"
    # Words of this corpus have one tag each, which layer 0 already tells.
    assert curve.values[0] == 1.0
    assert found[f"control, {name}"].values[0] == 1.0
    assert found[f"difference, selectivity of {name}"].values[0] == 0.0
    assert any("its selectivity is 0.0 points" in sentence for sentence in found.findings)
    assert found.lines == {"always DET": pytest.approx(0.4)} or found.lines == {
        "always NOUN": pytest.approx(0.4)
    }
    assert found.experiment == "probing"
    assert {row["model"] for row in found.rows} == {name, TWIN}
    assert any(sentence.startswith(f"{name}: upos is read best at layer 0") for sentence in found.findings)
    again = mt.open(_saved(found, tmp_path / "out"))
    assert again[name].values.tolist() == curve.values.tolist()


def test_a_model_does_not_differ_from_itself_under_another_name(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    same = mt.load(encoder.source.given, name="same")
    found = mt.probing(encoder, corpus, "upos", others=[same], twin=False, store=tmp_path)
    difference: Any = found[f"difference, same from {encoder.name}"]
    assert (difference.values == 0).all()
    assert (difference.band_low <= 0).all()
    assert (difference.band_high >= 0).all()
    assert any("no difference is shown at any layer" in sentence for sentence in found.findings)


def test_trees_are_read_with_several_seeds(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    found = mt.probing(encoder_of("bert"), corpus, "dep-distance", seeds=(0, 1), twin=False, store=tmp_path)
    curve: Any = found[encoder_of("bert").name]
    assert found.score == "uuas"
    assert set(curve.seeds) == {2}
    again: Any = mt.probing(
        encoder_of("bert"), corpus, "dep-distance", seeds=(0, 1), twin=False, store=tmp_path / "other"
    )[encoder_of("bert").name]
    assert curve.values.tolist() == again.values.tolist()
    # All trees are alike: where a word stands tells much of them.
    assert np.nanmax(curve.values) > found.lines["chance"] + 0.2
    assert found.lines["neighbors joined"] == pytest.approx(0.75)
    assert 0 < found.lines["chance"] < 1


def test_labels_of_spans_are_read(corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    found = mt.probing(
        encoder_of("bert"), corpus, "deprel-edge", twin=False, steps=150, seeds=(0, 1), store=tmp_path
    )
    # There is one label, and a few hundred updates find it.
    assert found.score == "edge_f1"
    assert found.lines == {"most frequent labels": 1.0}
    assert np.nanmax(found[encoder_of("bert").name].values) > 0.9
    assert {row["updates"] for row in found.rows} == {150}


def test_whole_documents_are_divided_and_what_files_say_is_kept(tmp_path: Path) -> None:
    for name in ("train", "dev", "test"):
        write_corpus(tmp_path / f"x-{name}.conllu", 20, seed=len(name))
    parted = read_target(tmp_path, "upos")
    train, held, judged, split = divide(parted)
    assert split == "test"
    assert {parted.splits[place] for place in held} == {"validation"}
    assert (len(train), len(held), len(judged)) == (20, 20, 20)
    alone = read_target(write_corpus(tmp_path / "alone.txt.conllu", 40), "upos")
    train, held, judged, split = divide(alone, train_size=5)
    assert len(train) == 5
    assert len(judged) == 8
    assert not set(held) & set(judged)
    assert not set(train) & {*held, *judged}
    lone = read_target(tmp_path / "x-dev.conllu", "upos")
    assert [len(part) for part in divide(lone)[:3]] == [14, 2, 4]
    without = {
        split: tmp_path / f"x-{name}.conllu" for split, name in (("validation", "dev"), ("test", "test"))
    }
    with pytest.raises(
        InputError, match="must hold a split to learn from, but it has validation and test only"
    ):
        divide(read_target(without, "upos"))
    with pytest.raises(InputError, match="at least 5 sentences to divide, but it has 2"):
        divide(read_target(write_corpus(tmp_path / "two.conllu", 2), "upos"))


def test_the_verb_writes_a_result_that_a_report_takes(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = encoder_of("bert").source.given
    told = ["probe", model, "--on", str(corpus), "--no-twin", "--store", str(tmp_path / "store")]
    assert main([*told, "--dry-run"]) == 0
    assert "43 sentences to learn from" in capsys.readouterr().out
    assert main([*told, "--out", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/probing/1"
    assert document["provenance"]["command"].startswith("microtome probe")
    assert list((tmp_path / "out" / "figures").iterdir())
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What can be read out of each layer" in page
    capsys.readouterr()
    assert main([*told, "--target", "upso"]) == 2
    assert "Did you mean upos?" in capsys.readouterr().err
    assert main([*told, "--target", "dep-depth", "--control"]) == 2
    assert "a control must be of labels of words" in capsys.readouterr().err


def test_wrong_requests_are_refused(corpus: Path, encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(MicrotomeError, match="models must be named differently"):
        mt.probing(encoder, corpus, others=[encoder])
    with pytest.raises(MicrotomeError, match="seeds must be one or more, each once"):
        mt.probing(encoder, corpus, seeds=(1, 1))
    with pytest.raises(MicrotomeError, match="level must be between 0 and 1"):
        mt.probing(encoder, corpus, level=1.0)


def _saved(found: Any, folder: Path) -> Path:
    found.save(folder)
    return folder
