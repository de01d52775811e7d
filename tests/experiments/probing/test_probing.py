"""Probes of all layers find what is there, and the result says so with its doubt."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cats
import microtome as mt
import tiny
from microtome.cli import main
from microtome.context import Context
from microtome.errors import InputError, MicrotomeError
from microtome.experiments.probing.annotations import mix_facts
from microtome.experiments.probing.curves import layer_differences
from microtome.experiments.probing.inputs import RANDOM_BASELINE, open_annotations, record_rows
from microtome.experiments.probing.probing import Probing
from microtome.inference.answers import Answers
from microtome.inference.pairing import compare_scores
from microtome.probes.dataset import Probed, divide
from microtome.probes.edge.batches import find_edges
from microtome.probes.targets import read_target
from microtome.scores.table import find_score
from microtome.store.shelf import Shelf
from moving import saved

NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["runs", "sees", "likes", "hears"]


def write_corpus(path: Path, sentences: int = 60, seed: int = 0, documents: int | None = None) -> Path:
    """Sentences such as "the cat sees a dog", with parts of speech and heads; each a document when absent."""
    draw = np.random.default_rng(seed)
    lines = []
    for number in range(sentences):
        words = ["the", draw.choice(NOUNS), draw.choice(VERBS), "a", draw.choice(NOUNS)]
        tags, heads = ["DET", "NOUN", "VERB", "DET", "NOUN"], [2, 3, 0, 5, 3]
        if documents is None or number % -(-sentences // documents) == 0:
            lines.append(f"# newdoc id = d{number}")
        lines.append(f"# sent_id = s{number}")
        for place, (word, tag, head) in enumerate(zip(words, tags, heads, strict=True), start=1):
            lines.append("\t".join([str(place), word, word, tag, tag, "_", str(head), "dep", "_", "_"]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "small.conllu")


def test_parts_of_speech_are_read_and_random_labels_of_types_are_learned_memorized(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    found = mt.probe(encoder_of("bert"), corpus, target="upos", control_task=True, store=tmp_path / "store")
    name = encoder_of("bert").name
    curve: Any = found[name]
    assert curve.x == tuple(range(len(encoder_of("bert").layers)))
    assert curve.unit == "sentence", "which is what each document is"
    # Words of this corpus have one tag each, which layer 0 already tells.
    assert curve.values[0] == 1.0
    assert found[f"control, {name}"].values[0] == 1.0
    assert found[f"difference, selectivity of {name}"].values[0] == 0.0
    assert any("selectivity 0.0 points" in sentence for sentence in found.findings)
    assert found.lines == {"always DET": pytest.approx(0.4)} or found.lines == {
        "always NOUN": pytest.approx(0.4)
    }
    assert found.experiment == "probing"
    assert {row["model"] for row in found.rows} == {name, RANDOM_BASELINE}
    best = np.flatnonzero(curve.values == 1)
    assert len(best) > 1
    assert any(
        sentence.startswith(f"{name}: upos is read best at layers 0 ") and " alike, accuracy" in sentence
        for sentence in found.findings
    )
    again = mt.open(_saved(found, tmp_path / "out"))
    assert again[name].values.tolist() == curve.values.tolist()


@pytest.mark.parametrize(
    ("documents", "said"), [(1, "Only 1 document is judged"), (4, "documents are judged")]
)
def test_of_few_documents_sentences_are_the_unit(
    documents: int, said: str, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    text = write_corpus(tmp_path / "few.conllu", documents=documents)
    found = mt.probe(encoder_of("bert"), text, target="upos", random_baselines=0, store=tmp_path / "store")
    assert any(
        said in sentence and "sentences are taken as independent" in sentence for sentence in found.warnings
    )
    assert found[encoder_of("bert").name].unit == "sentence"
    assert found.split == "20 % of the sentences"
    assert "over 12 sentences" in found.methods


def test_a_norm_behind_the_last_block_is_no_block_and_other_depths_are_told(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    deeper, other = encoder_of("bert"), mt.apply(encoder_of("gpt2"), mt.Truncate(keep=2))
    found = mt.probe([other, deeper], corpus, target="upos", random_baselines=0, store=tmp_path)
    assert len(other.layers) == other.depth + 2, "this family ends with a norm"
    curve: Any = found[other.name]
    assert curve.x == tuple(range(other.depth + 1))
    (told,) = [one for one in found.warnings if "are not compared layer by layer" in one]
    assert told.startswith(f"{deeper.name} has {deeper.depth} blocks and {other.name} 2")
    assert not any(
        one.name.startswith(f"difference, {deeper.name} from {other.name}") for one in found.curves
    )


def test_a_model_does_not_differ_from_itself_under_another_name(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    same = mt.load(encoder.source.given, name="same")
    found = mt.probe([encoder, same], corpus, target="upos", random_baselines=0, store=tmp_path)
    difference: Any = found[f"difference, same from {encoder.name}"]
    assert (difference.values == 0).all()
    assert (difference.band_low <= 0).all()
    assert (difference.band_high >= 0).all()
    assert any("no difference is shown at any layer" in sentence for sentence in found.findings)


def test_the_band_of_all_layers_does_not_trust_seeds_that_agree_by_luck() -> None:
    rng = np.random.default_rng(9)
    right = np.ones(400, dtype=int)

    def probed(spread: Sequence[float]) -> Probed:
        answers = []
        for width in spread:
            shares = 0.7 + width * np.array([-1.0, 0.2, 0.8])
            said = [(rng.random(400) < share).astype(int) for share in shares]
            ids = [str(k) for k in range(400)]
            answers.append(Answers(ids=ids, targets=right, predictions=said, seeds=(0, 1, 2)))
        return Probed(answers=tuple(answers), score=find_score("accuracy"))

    one, other = probed([0.25, 0.0]), probed([0.0, 0.0])
    band = layer_differences(one, other, Context(), name="d")
    alone = [
        compare_scores(one.score, a, b, (), level=0.975, pair_seeds=True)
        for a, b in zip(one.answers, other.answers, strict=True)
    ]
    for layer, (a, b) in enumerate(zip(one.answers, other.answers, strict=True)):
        # Three seeds are worth two degrees of freedom, however well they agree.
        apart = [np.mean(p) - np.mean(q) for p, q in zip(a.predictions, b.predictions, strict=True)]
        least = stats.t.ppf(1 - 0.0125, 2) * stats.sem(apart)
        assert band.band_high[layer] >= min(1.0, alone[layer].center + least)
        interval = alone[layer].interval
        assert interval is not None
        assert band.band_high[layer] == pytest.approx(min(1.0, interval.high))


def test_where_nothing_tells_the_spread_there_is_no_band() -> None:
    ids = [str(k) for k in range(6)]
    groups = ["a", "a", "a", "b", "b", "b"]

    def probed(*said: int) -> Probed:
        each = [
            Answers(ids=ids, targets=np.ones(6, dtype=int), predictions=[np.full(6, one)], groups=groups)
            for one in said
        ]
        return Probed(answers=tuple(each), score=find_score("accuracy"))

    one, other = probed(1, 1), probed(0, 1)
    found = layer_differences(one, other, Context(), name="d")
    assert found.values[0] == 1.0
    assert np.isnan([found.low[0], found.band_low[0], found.band_high[0]]).all()
    assert found.reasons[0] is not None
    assert "same outcome" in found.reasons[0]
    assert found.reasons[1] is None


def test_trees_are_read_with_several_seeds(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    found = mt.probe(
        encoder_of("bert"), corpus, target="dep-distance", seeds=(0, 1), random_baselines=0, store=tmp_path
    )
    curve: Any = found[encoder_of("bert").name]
    assert found.score == "uuas"
    assert set(curve.seeds) == {2}
    rows = {(row["layer"], row["seed"]): row["distance_spearman"] for row in found.rows}
    assert rows[0, 0] != rows[0, 1], "each seed has its own"
    assert sum("correlation of distances by length (Spearman" in one for one in found.findings) == 1
    lengths = found.more["distance_spearman"][encoder_of("bert").name]
    assert lengths["lengths"] == [5]
    both = np.mean([rows[layer, seed] for layer in curve.x for seed in (0, 1)])
    assert np.mean(lengths["mean"]) == pytest.approx(both)
    assert found.warnings == (), "no sentence was left out"
    again: Any = mt.probe(
        encoder_of("bert"),
        corpus,
        target="dep-distance",
        seeds=(0, 1),
        random_baselines=0,
        store=tmp_path / "other",
    )[encoder_of("bert").name]
    assert curve.values.tolist() == again.values.tolist()
    # All trees are alike: where a word stands tells much of them.
    assert np.nanmax(curve.values) > found.lines["chance"] + 0.2
    assert found.lines["neighbors joined"] == pytest.approx(0.75)
    assert 0 < found.lines["chance"] < 1


def test_labels_of_spans_are_read(corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    found = mt.probe(
        encoder_of("bert"),
        corpus,
        target="deprel-edge",
        random_baselines=0,
        steps=150,
        seeds=(0, 1),
        store=tmp_path,
    )
    # There is one label, and a few hundred updates find it.
    assert found.score == "edge_f1"
    assert found.lines == {"most frequent labels": 1.0}
    assert np.nanmax(found[encoder_of("bert").name].values) > 0.9
    assert {row["updates"] for row in found.rows} == {150}
    assert {row["stopped"] for row in found.rows} == {False}


def test_an_edge_probe_pools_all_sub_words_of_the_words_that_models_share(tmp_path: Path) -> None:
    models = [mt.load(tiny.save_checkpoint(tmp_path / kind, kind)) for kind in ("bert", "roberta")]
    corpus = write_corpus(tmp_path / "long.conllu")
    corpus.write_text(corpus.read_text().replace("cat", "catcatcats").replace("bird", "birdbirdbirds"))
    annotated, names = read_target(corpus, "deprel-edge"), {one.name: one for one in models}
    context = mt.Context(store=tmp_path / "store").resolved()
    asked = Probing(models=models, on=corpus, target="deprel-edge", random_baselines=0)
    words, recorded = record_rows(open_annotations(asked, context), (0,), context)
    for name, model in names.items():
        own, X = recorded[name].asked, recorded[name].X
        ran = np.unique(words.examples)
        cut = model.words([annotated.sentences[place] for place in ran])
        pieces = [
            (place, word) for place, one in zip(ran, cut, strict=True) for word in one.words if word >= 0
        ]
        assert list(zip(own.examples, own.units, strict=True)) == pieces
        assert X.shape[:2] == (len(model.layers), len(pieces))
        means = mt.extract(
            model, [annotated.sentences[place] for place in ran], subword="mean", store=tmp_path / "means"
        )
        starts = np.flatnonzero(np.diff(own.examples * 100 + own.units, prepend=-1))
        sums = np.add.reduceat(X[2], starts) / np.diff(starts, append=len(pieces))[:, None]
        assert sums == pytest.approx(np.asarray(means.layers[2]), abs=1e-5)
    edges = [find_edges(annotated, one.asked.examples, one.asked.units) for one in recorded.values()]
    assert np.array_equal(edges[0].owner, edges[1].owner)


def test_several_draws_of_control_labels_are_in_the_interval(corpus: Path, tmp_path: Path) -> None:
    # Few sentences have few types of words: labels of the others must be guessed, with more luck or less.
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "bert", "bert"), random_init=True, seed=5)
    given: dict[str, Any] = {"random_baselines": 0, "store": tmp_path / "store", "train_size": 5}
    once, often = (
        mt.probe(encoder, corpus, target="upos", control_task=True, control_draws=n, **given)
        for n in (None, 4)
    )
    name = f"control, {encoder.name}"
    drawn = [row for row in often.rows if row["labels"] == "control"]
    assert {row["draw"] for row in drawn} == {0, 1, 2, 3}
    assert {row["seed"] for row in drawn} == {0}
    last = len(encoder.layers) - 1
    scores = [row["score"] for row in drawn if row["layer"] == last]
    assert len(set(scores)) > 1
    assert often[name].values[last] == pytest.approx(np.mean(scores))
    assert scores[0] == pytest.approx(once[name].values[last])
    chosen = often[f"difference, selectivity of {encoder.name}"]
    assert chosen.values == pytest.approx(often[encoder.name].values - often[name].values)
    assert often[name].unit == chosen.unit == "sentence and control draw"
    assert once[name].unit == "sentence"
    # With true labels that are read without fault, all doubt is that of the draws.
    reach = stats.t.ppf(0.975, 3) * np.std(scores, ddof=1) / 2
    assert 2 * reach <= chosen.high[last] - chosen.low[last] < 3 * reach, "true labels have no draws"
    assert "drawn for every type of word from the frequencies of the labels (Hewitt and Liang 2019), 4 t" in (
        often.methods
    )


def test_layers_that_take_away_are_not_said_to_add() -> None:
    def answers(share: float) -> Answers:
        said = np.arange(100) < 100 * share
        return Answers(
            ids=[str(k) for k in range(100)], targets=np.ones(100, dtype=int), predictions=[said.astype(int)]
        )

    def mixed(*shares: float) -> Probed:
        weights = tuple((1 / len(shares),) * len(shares) for _ in shares)
        return Probed(answers=tuple(map(answers, shares)), score=find_score("accuracy"), shares=weights)

    def expected(one: Probed) -> float | None:
        return mix_facts({"bert": one}, "upto")["bert"]["expected_layer"]

    assert expected(mixed(0.5, 0.6, 0.8)) == pytest.approx(5 / 3)
    assert expected(mixed(0.8, 0.6, 0.5)) is None


def test_a_smaller_probe_learns_less_memorized(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "many.conllu", sentences=120)
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "bert", "bert"), random_init=True, seed=5)
    given: dict[str, Any] = {"control_task": True, "random_baselines": 0, "store": tmp_path / "store"}
    small, whole = (mt.probe(encoder, corpus, target="upos", size=size, **given) for size in (2, None))
    name = f"control, {encoder.name}"
    assert small[name].values[0] < whole[name].values[0] - 0.05
    assert "the 2 principal components of largest variance" in small.methods
    assert small.more["size"] == small.provenance["size"] == 2
    with pytest.raises(
        MicrotomeError, match="size must be from 1 to 32, the features of a layer, but got 33"
    ):
        mt.probe(encoder, corpus, target="upos", size=33, **given)
    with pytest.raises(InputError, match="size must be that of a linear probe"):
        mt.probe(encoder, corpus, target="dep-distance", size=2)


def test_draws_of_control_labels_are_no_pairs_of_seeds(corpus: Path, tmp_path: Path) -> None:
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    found = mt.probe(
        encoder,
        corpus,
        target="upos",
        probe="edge",
        seeds=(4, 7),
        control_task=True,
        control_draws=3,
        steps=5,
        random_baselines=0,
        store=tmp_path / "store",
    )
    drawn = [row for row in found.rows if row["labels"] == "control" and row["layer"] == 0]
    assert [(row["draw"], row["seed"]) for row in drawn] == [(0, 4), (1, 7), (2, 4)]
    chosen: Any = found[f"difference, selectivity of {encoder.name}"]
    assert np.isfinite(chosen.low).all()
    as_named = mt.probe(
        encoder,
        corpus,
        target="upos",
        probe="edge",
        seeds=(0, 1),
        control_task=True,
        control_draws=2,
        steps=5,
        random_baselines=0,
        store=tmp_path / "store",
    )
    scores = {
        kind: [row["score"] for row in as_named.rows if row["labels"] == kind and row["layer"] == 0]
        for kind in ("target", "control")
    }
    apart = sum(np.var(each, ddof=1) / 2 for each in scores.values())
    first: Any = as_named[f"difference, selectivity of {encoder.name}"]
    assert first.high[0] - first.low[0] >= min(1.99, 2 * stats.t.ppf(0.975, 1) * np.sqrt(apart)) - 1e-9


def test_what_probes_answered_is_kept(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = mt.load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    shared: dict[str, Any] = {"random_baselines": 0, "store": tmp_path / "store", "command": "typed"}
    asked: list[dict[str, Any]] = [
        {"target": "upos"},
        {"target": "dep-distance", "seeds": (0, 1)},
        {
            "target": "upos",
            "probe": "edge",
            "steps": 5,
            "control_task": True,
            "control_draws": 2,
            "seeds": (0, 1),
        },
    ]

    def probe(**more: Any) -> Any:
        return mt.probe(encoder, corpus, **shared, **more)

    whole = [probe(**one) for one in asked]
    entries = list(Shelf(tmp_path / "store").entries())
    assert {one.provenance["command"] for one in entries} == {"typed"}
    assert sum(one.kind == "probes" for one in entries) == 1 + 1 + 3

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("a probe that is in the store is not trained again")

    trainings = (
        ("wordprobe", "fit_logistic"),
        ("structural.probe", "fit_structural"),
        ("edge.probe", "fit_edges"),
    )
    for module, name in trainings:
        monkeypatch.setattr(f"microtome.probes.{module}.{name}", again)
    for one, told in zip(asked, whole, strict=True):
        documents = [told.document(), probe(**one).document()]
        for each in documents:
            each["provenance"].pop("seconds")
        assert documents[0] == documents[1]
    for other in ({**asked[2], "steps": 6}, {**asked[0], "train_size": 20}, {**asked[1], "seeds": (0, 2)}):
        with pytest.raises(AssertionError, match="not trained again"):
            probe(**other)


def test_requests_that_cannot_succeed_are_refused_before_models_run(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: Any, **__: Any) -> None:
        raise AssertionError("no model is run")

    monkeypatch.setattr("microtome.extraction.recording.record", ran)
    encoder, one = encoder_of("bert"), write_corpus(tmp_path / "one.conllu", sentences=1)
    with pytest.raises(InputError, match="at least 2 sentences to test on, but there is 1"):
        mt.probe(encoder, {"train": corpus, "test": one}, target="upos")
    with pytest.raises(InputError, match="at least 2 sentences to train on, but there is 1"):
        mt.probe(encoder, corpus, target="upos", train_size=1)
    with pytest.raises(MicrotomeError, match="train_size must be at least 1, but got -1"):
        mt.probe(encoder, corpus, target="upos", train_size=-1)
    with pytest.raises(InputError, match="must have at least 2 labels of deprel, but they have 'dep'"):
        mt.probe(encoder, corpus, target="deprel")


def test_words_behind_what_a_model_reads_are_told(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    long = " ".join(["cat sees"] * 60).split()
    lines: list[str] = []
    for number in range(30):
        words = long if number % 5 == 0 else ["the", "cat", "sees", "a", "dog"]
        lines.append(f"# sent_id = s{number}")
        for place, word in enumerate(words, start=1):
            tag = {"the": "DET", "a": "DET", "sees": "VERB"}.get(word, "NOUN")
            lines.append("\t".join([str(place), word, word, tag, tag, "_", str(place - 1), "dep", "_", "_"]))
        lines.append("")
    path = tmp_path / "long.conllu"
    path.write_text("\n".join(lines) + "\n")
    found = mt.probe(encoder_of("bert"), path, target="upos", random_baselines=0, store=tmp_path / "store")
    (said,) = [one for one in found.warnings if "no row" in one]
    assert said.endswith("words have labels but no row, as a model reads no further, and are left out.")


def test_trees_of_short_sentences_have_edges_and_no_rank_correlation(
    encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    lines: list[str] = []
    for number in range(40):
        lines += [f"# sent_id = s{number}"]
        for place, (word, head) in enumerate((("the", 2), ("cat", 3), ("runs", 0)), start=1):
            lines.append("\t".join([str(place), word, word, "X", "X", "_", str(head), "dep", "_", "_"]))
        lines.append("")
    path = tmp_path / "short.conllu"
    path.write_text("\n".join(lines) + "\n")
    found = mt.probe(
        encoder_of("bert"), path, target="dep-distance", random_baselines=0, store=tmp_path / "store"
    )
    curve: Any = found[encoder_of("bert").name]
    assert np.isfinite(curve.values).all()
    assert not any("spearman" in name for row in found.rows for name in row)


def test_layers_are_read_alone_and_mixed(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    given: dict[str, Any] = {"random_baselines": 0, "steps": 60, "store": tmp_path}
    found = mt.probe(
        encoder, corpus, target="upos", probe="edge", layers=["single", "upto", "mix"], seeds=(0, 1), **given
    )
    name, count = encoder.name, len(encoder.layers)
    labels = (name, f"{name} (layers 0 to l)", f"{name} (all layers)")
    curves: list[Any] = [found[label] for label in labels]
    alone, upto, mixed = curves
    assert alone.x == upto.x == tuple(range(count))
    # The mix of all layers is the last of those up to a layer.
    assert mixed.x == (count - 1,)
    assert mixed.values.tolist() == upto.values[-1:].tolist()
    assert found[f"difference, {name} (layers 0 to l) from its layer 0"].values[0] == 0
    told = found.more["mix"]
    assert set(told) == {upto.name, mixed.name}
    assert sum(told[mixed.name]["shares"]) == pytest.approx(1)
    assert 0 <= told[mixed.name]["center"] <= count - 1
    assert {row["layers"] for row in found.rows} == {"single", "upto", "mix"}
    assert {row["model"] for row in found.rows} == {name}
    assert any("(all layers): upos is read from all layers at once" in one for one in found.findings)
    assert "the mix of all layers up to one" in found.methods
    assert any("tenney2019pipeline" in one for one in found.references)
    assert alone.unit == "sentence and seed"
    lone = mt.probe(encoder, corpus, target="upos", probe="edge", layers="mix", seeds=(0, 1), **given)
    assert lone[f"{name} (all layers)"].values.tolist() == mixed.values.tolist()


def test_an_edge_probe_learns_labels_of_types_memorized_too(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    encoder = encoder_of("bert")
    found = mt.probe(
        encoder,
        corpus,
        target="upos",
        probe="edge",
        layers=["single", "mix"],
        control_task=True,
        random_baselines=0,
        steps=300,
        store=tmp_path,
    )
    for name in (encoder.name, f"{encoder.name} (all layers)"):
        true, drawn = found[name], found[f"control, {name}"]
        chosen = found[f"difference, selectivity of {name}"]
        assert chosen.values == pytest.approx(true.values - drawn.values, abs=1e-9)
        assert (chosen.low <= chosen.values).all()
        assert (chosen.values <= chosen.high).all()
    # A word has one tag wherever it stands, so that one can be learned as well as the other.
    assert found[f"control, {encoder.name}"].values[0] > 0.9
    assert {row["labels"] for row in found.rows} == {"target", "control"}
    assert {row["model"] for row in found.rows} == {encoder.name}
    assert "drawn for every type of span" in found.methods


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"layers": "upto"},
            "layers must be 'single' for the linear probe of upos, .*the probe edge can mix",
        ),
        ({"target": "dep-depth", "layers": "mix"}, "'single' for the structural probe of dep-depth"),
        ({"layers": "top"}, "layers must be one of mix, single, upto"),
        ({"layers": []}, "layers must be one or more of single, upto, mix, but got"),
        ({"probe": "structural"}, "probe of upos must be one of edge, linear"),
        ({"target": "deprel-edge", "probe": "linear"}, "probe of deprel-edge must be"),
        ({"seeds": (0, 1)}, "seeds must be one for the linear probe of upos, which is deterministic"),
        ({"steps": 7}, "steps must be those of an edge probe, but upos has a linear one"),
        (
            {"target": "dep-depth", "control_task": True},
            "of labels of words or spans, but dep-depth has none",
        ),
    ],
)
def test_what_a_probe_cannot_read_is_refused(
    options: dict[str, Any], said: str, corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(MicrotomeError, match=said):
        mt.probe(encoder_of("bert"), corpus, store=tmp_path, **options)


def test_names_are_read_from_columns(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    names = ("cat B-PER", "dog B-LOC")
    lines = [line for k in range(40) for line in (f"the{'m' * (k % 3)} O", names[k % 2], "")]
    path = tmp_path / "names.conll"
    path.write_text("\n".join(lines))
    found = mt.probe(
        encoder_of("bert"), path, target="entities", random_baselines=0, steps=150, store=tmp_path / "s"
    )
    assert found.score == "edge_f1"
    assert found[encoder_of("bert").name].values[0] > 0.9
    assert found[encoder_of("bert").name].unit == "sentence"
    assert found.warnings == ()


def test_what_is_not_asked_for_is_not_left_out(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"random_baselines": 0, "steps": 2, "store": tmp_path, "train_size": 10}
    assert mt.probe(encoder_of("bert"), corpus, target="deprel-edge", **given).warnings == ()


def test_the_twin_has_the_tokenizer_of_the_first_model(corpus: Path, tmp_path: Path) -> None:
    """Also where the folder of the model has none of its own."""
    place = saved(tmp_path / "whole")
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in place.iterdir():
        if "token" not in file.name and "vocab" not in file.name:
            (bare / file.name).write_bytes(file.read_bytes())
    encoder = mt.load(bare, tokenizer=place)
    found = mt.probe(encoder, corpus, target="upos", store=tmp_path / "s")
    names = {one.name for one in found.curves}
    assert {RANDOM_BASELINE, "bare"} <= names
    task = cats.cats_task(32, 20)
    heads = mt.probe(encoder, target=task, solvers="converged", store=tmp_path / "s")
    assert f"{RANDOM_BASELINE} (converged)" in {one.name for one in heads.curves}


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
    told = [
        "probe",
        model,
        "--on",
        str(corpus),
        "--random-baselines",
        "0",
        "--store",
        str(tmp_path / "store"),
    ]
    assert main([*told, "--dry-run"]) == 0
    assert "linear probes trained on 43 sentences" in capsys.readouterr().out
    assert main([*told, "--out", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/probing/1"
    made = document["provenance"]
    assert made["command"].startswith("microtome probe")
    assert made["texts"][0]["digest"] == mt.corpus(str(corpus)).digest
    # Another word in the file, or other rows of the same, is another result.
    assert main([*told, "--train-size", "20", "--json"]) == 0
    fewer = json.loads(capsys.readouterr().out)["provenance"]
    assert fewer["texts"] == made["texts"]
    assert fewer["rows"]["digest"] != made["rows"]["digest"]
    assert fewer["rows"]["count"] < made["rows"]["count"]
    assert list((tmp_path / "out" / "figures").iterdir())
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What can be read out of each layer" in page
    capsys.readouterr()
    assert main([*told, "--target", "upso"]) == 2
    assert "Did you mean upos?" in capsys.readouterr().err
    assert main([*told, "--target", "dep-depth", "--control-task"]) == 2
    assert "a control task must be of labels of words" in capsys.readouterr().err


def test_a_treebank_is_parsed_once_and_each_model_is_loaded_once(
    corpus: Path, encoder_of: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counting(where: str, name: str) -> None:
        function = getattr(__import__(where, fromlist=[name]), name)

        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*arguments, **named)

        monkeypatch.setattr(f"{where}.{name}", call)

    counting("microtome.experiments.probing.inputs", "read_target")
    counting("microtome.encoders.loading", "load")
    counting("microtome.rows.planning", "plan_rows")
    model = str(encoder_of("bert").source.given)
    words = ["probe", model, "--on", str(corpus), "--random-baselines", "0", "--store", str(tmp_path)]
    assert main([*words, "--quiet"]) == 0
    assert sorted(calls) == ["load", "plan_rows", "read_target"]


def test_wrong_requests_are_refused(corpus: Path, encoder_of: Callable[..., Any]) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(MicrotomeError, match="models must be named differently"):
        mt.probe([encoder, encoder], corpus)
    with pytest.raises(MicrotomeError, match="seeds must be one or more, each once"):
        mt.probe(encoder, corpus, seeds=(1, 1))
    with pytest.raises(MicrotomeError, match="level must be between 0 and 1"):
        mt.probe(encoder, corpus, level=1.0)
    with pytest.raises(MicrotomeError, match="models must be at least one"):
        mt.probe([], corpus)
    with pytest.raises(MicrotomeError, match="random_baselines must be at most 1, but got 2"):
        mt.probe(encoder, corpus, random_baselines=2)
    with pytest.raises(MicrotomeError, match="target must be a name of an annotation or task:NAME"):
        mt.probe(encoder, corpus, target=3)
    with pytest.raises(InputError, match="control_draws must be given with control_task"):
        mt.probe(encoder, corpus, control_draws=2)
    with pytest.raises(InputError, match="on must name a file with the annotation upos"):
        mt.probe(encoder)


def _saved(found: Any, folder: Path) -> Path:
    found.save(folder)
    return folder
