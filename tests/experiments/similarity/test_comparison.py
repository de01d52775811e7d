"""Is a map of several models what their rows give by hand, with the right unit, names and sentences?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.comparison.compare import fits_device
from microtome.corpora.examples import Example
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.similarity import comparison
from microtome.extraction.attention import stream_attention
from microtome.extraction.streaming import stream
from microtome.extraction.texts import make_texts
from microtome.findings.cells import SAME_TOKEN
from microtome.findings.change import change_profile
from microtome.findings.layer_order import layer_matching
from microtome.randomness import generator
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options

WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books"]


def make_corpus() -> list[Example]:
    rng = generator(0, "corpus")
    lengths = rng.integers(3, 12, size=36).tolist()
    found = [Example(id=f"s{k}", words=tuple(rng.choice(WORDS, size=n))) for k, n in enumerate(lengths)]
    # BERT has nothing for a zero-width space, and so no model may have a row for it.
    return [*found, Example(id="odd", words=("the", "\u200b", "cat", "sleeps"))]


CORPUS = make_corpus()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    for name in ("bert", "gpt2"):
        tiny.save_checkpoint(place / name, name)
    return place


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def base(folder: Path) -> Any:
    return mt.load(folder / "bert", name="base")


@pytest.fixture(scope="module")
def tuned(folder: Path) -> Any:
    """The same model after its last two blocks were changed."""
    encoder: Any = mt.load(folder / "bert", name="tuned")
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for block in encoder.blocks[1:]:
            weight = block.output.dense.weight
            weight.add_(0.4 * torch.randn(weight.shape, generator=draw))
    return encoder


@pytest.fixture(scope="module")
def other(folder: Path) -> Any:
    return mt.load(folder / "gpt2", name="other")


def by_hand(encoders: list[Any], kind: str = "word", corpus: Any = None) -> tuple[list[list[Any]], Any]:
    """All rows of all layers, by encoder, without the store."""
    texts = make_texts(CORPUS if corpus is None else corpus)
    rows = plan_rows(texts.examples, encoders, row_options(kind))
    found = list(stream(encoders, texts.examples, rows))
    layers = [
        [torch.cat([w.layers[side][k] for w in found]).numpy() for k in range(len(found[0].layers[side]))]
        for side in range(len(encoders))
    ]
    return layers, rows


def test_each_block_is_what_the_rows_give_by_hand(base: Any, tuned: Any, other: Any, store: Path) -> None:
    models = [base, tuned, other]
    measures = ["svcca", "debiased_cka", "neuron_correlation"]
    found = mt.compare(models, on=CORPUS, measures=measures, precision="exact", store=store)
    assert list(found) == measures
    layers, rows = by_hand(models)
    ends = np.cumsum([0, *(len(own) for own in layers)])
    for measure in measures:
        one = found[measure]
        assert (
            one.left
            == one.right
            == (
                *(f"base/{k}" for k in range(4)),
                *(f"tuned/{k}" for k in range(4)),
                *(f"other/{k}" for k in ("0", "1", "2", "3", "norm")),
            )
        )
        assert one.n == len(rows)
        if measure != "neuron_correlation":
            np.testing.assert_allclose(one.values, one.values.T, atol=1e-10)
        for i, left in enumerate(layers):
            for j, right in enumerate(layers):
                expected = mt.similarity_matrix(
                    left, right, measure, clusters=rows.clusters, precision="exact"
                )[measure]
                block = one.values[ends[i] : ends[i + 1], ends[j] : ends[j + 1]]
                np.testing.assert_allclose(block, expected.values, atol=1e-7, err_msg=f"{measure} {i} {j}")


def test_rows_are_those_that_every_model_has(base: Any, other: Any, store: Path) -> None:
    alone = mt.compare([other], on=CORPUS, store=store)["debiased_cka"]
    found = mt.compare([base, other], on=CORPUS, store=store)
    together = found["debiased_cka"]
    words = sum(len(example.words or ()) for example in CORPUS)
    assert (alone.n, together.n) == (words, words - 1)
    assert found.notes[0].endswith("dropped in all models, since lost in one: 1 in base.")
    assert alone.provenance["rows"]["digest"] != together.provenance["rows"]["digest"]
    assert len(together.provenance["activations"]) == 2


@pytest.mark.parametrize("kind, unit", [("word", "sentence"), ("token", "sentence"), ("mean", "example")])
def test_intervals_go_by_sentence_without_being_asked(
    base: Any, tuned: Any, store: Path, kind: str, unit: str
) -> None:
    corpus = [" ".join(e.words or ()) for e in CORPUS[:-1]]
    one = mt.compare(
        [base, tuned], on=corpus, rows=kind, certainty=True, level=0.9, precision="exact", store=store
    )["debiased_cka"]
    (left, right), rows = by_hand([base, tuned], kind, corpus)
    expected = mt.similarity_matrix(
        left,
        right,
        certainty=True,
        level=0.9,
        precision="exact",
        clusters=rows.clusters if unit == "sentence" else None,
    )["debiased_cka"]
    assert (one.unit, one.level) == (unit, 0.9)
    assert one.low is not None
    assert one.high is not None
    assert expected.low is not None
    assert expected.high is not None
    np.testing.assert_allclose(one.low[: len(left), len(left) :], expected.low, atol=1e-7)
    np.testing.assert_allclose(one.high[: len(left), len(left) :], expected.high, atol=1e-7)
    # Of the rows of one sentence no more is known than of the sentence.
    if kind == "word":
        loose = mt.similarity_matrix(left, right, certainty=True, level=0.9)["debiased_cka"]
        assert expected.estimator != loose.estimator


DOCUMENTS = [replace(example, group=f"text {k % 12}") for k, example in enumerate(CORPUS[:-1])]


@pytest.mark.parametrize("kind", ["word", "mean"])
def test_intervals_go_by_document_where_the_corpus_tells_of_them(
    base: Any, tuned: Any, store: Path, kind: str
) -> None:
    found = mt.compare([base, tuned], on=DOCUMENTS, rows=kind, certainty=True, precision="exact", store=store)
    one = found["debiased_cka"]
    (left, right), rows = by_hand([base, tuned], kind, DOCUMENTS)
    expected = mt.similarity_matrix(
        left, right, certainty=True, precision="exact", clusters=[place % 12 for place in rows.examples]
    )["debiased_cka"]
    assert one.unit == "document"
    assert one.low is not None
    assert expected.low is not None
    np.testing.assert_allclose(one.values[: len(left), len(left) :], expected.values, atol=1e-7)
    np.testing.assert_allclose(one.low[: len(left), len(left) :], expected.low, atol=1e-7)
    assert not any("taken as independent" in said for said in found.findings)
    few = mt.compare([base], on=[replace(e, group="one") for e in DOCUMENTS], certainty=True, store=store)
    assert few["debiased_cka"].unit == "sentence"
    assert few.notes[1].startswith("Only 1 document is read, so sentences are taken as independent:")


def test_attention_goes_by_document_too(base: Any, tuned: Any, store: Path) -> None:
    asked: dict[str, Any] = {"measures": "attention_js", "certainty": True, "halves": 6, "store": store}
    one = mt.compare([base, tuned], on=DOCUMENTS, **asked)["attention_js"]
    alone = mt.compare([base, tuned], on=CORPUS[:-1], **asked)["attention_js"]
    assert (one.unit, alone.unit) == ("document", "sentence")
    np.testing.assert_array_equal(one.values, alone.values)
    rows = plan_rows(DOCUMENTS, [base, tuned], row_options("word"))
    maps = [s.maps[0] for s in stream_attention([base, tuned], DOCUMENTS, rows)]
    given: dict[str, Any] = {"certainty": True, "halves": 6}
    documents = [k % 12 for k in range(len(maps))]
    expected = mt.attention_similarity_matrix(maps, maps, clusters=documents, **given)["attention_js"]
    assert one.low is not None
    assert expected.low is not None
    assert alone.low is not None
    np.testing.assert_allclose(one.low[:3, :3], expected.low, atol=1e-6)
    assert not np.allclose(one.low, alone.low)


def test_documents_change_places_with_others_of_their_size(base: Any, tuned: Any, store: Path) -> None:
    asked: dict[str, Any] = {"permutations": 19, "store": store}
    none = mt.compare([base, tuned], on=DOCUMENTS, **asked)["debiased_cka"]
    assert np.isnan(none.p).all()
    assert none.null_note == "fewer than 10 documents have another of as many rows to change places with"
    even = [
        Example(id=f"{k}", words=tuple(WORDS[(k + j) % 11] for j in range(5)), group=f"text {k // 3}")
        for k in range(36)
    ]
    some = mt.compare([base, tuned], on=even, **asked)["debiased_cka"]
    assert np.isfinite(some.p[1, 5])
    assert some.null_note.startswith("by formula, and z and p are from 19 orders of the clusters")


def test_rows_that_go_cannot_be_debiased_by_document(base: Any) -> None:
    with pytest.raises(InputError, match="debiased_cka must know the document of each row"):
        mt.compare([base], on=DOCUMENTS, rows="mean", keep=False)


@pytest.mark.parametrize("keep", [True, False])
def test_layer_0_of_the_first_token_keeps_its_place_and_says_why_it_is_empty(
    base: Any, tuned: Any, other: Any, store: Path, keep: bool
) -> None:
    models = [base, tuned, other]
    measures = ["debiased_cka", "linear_cka"]
    options: dict[str, Any] = {"rows": "cls", "measures": measures, "precision": "exact", "keep": keep}
    found = mt.compare(models, on=CORPUS, store=store, **options)
    layers, _ = by_hand(models, "cls")
    whole = mt.similarity_matrix([x for own in layers for x in own], None, measures, precision="exact")
    for measure in measures:
        one = found[measure]
        assert one.left == tuple(f"{e.name}/{layer}" for e in models for layer in e.layers)
        assert (one.unit, one.n) == ("example", len(CORPUS))
        empty = [one.left.index("base/0"), one.left.index("tuned/0")]
        lost = np.zeros(one.shape, dtype=bool)
        lost[empty], lost[:, empty] = True, True
        assert (np.isnan(one.values) == lost).all()
        for i, j in np.ndindex(one.shape):
            assert one.reasons[i][j] == (SAME_TOKEN if lost[i, j] else None)
        # Layers that are found to be constant by their numbers give the same.
        np.testing.assert_allclose(one.values, whole[measure].values, atol=1e-9)
    assert not any("/0" in said and "other/0" not in said for said in found.findings)
    assert "undefined" not in " ".join(found.findings)
    assert found[measures[0]]["base/0", "other/2"].reason == SAME_TOKEN


def test_blocks_and_sentences_of_first_tokens_leave_layer_0_out(base: Any, tuned: Any, store: Path) -> None:
    found = mt.compare([base, tuned], on=CORPUS, rows="cls", certainty=True, store=store)
    one = found["debiased_cka"]
    assert one.low is not None
    assert np.isnan(one.low[0]).all()
    assert np.isfinite(one.low[1:4, 1:4]).all()
    profile = change_profile(np.diag(one.values[1:4, 5:]), positions=[1, 2, 3])
    claims = {claim.kind: claim for claim in found.claims}
    assert claims["changed layer"].facts["center"] == pytest.approx(profile.center)
    assert not claims["changed layer"].facts["tuned"]
    share = claims["matching layers"].estimate
    assert share is not None
    assert share.value == layer_matching(one.values[1:4, 5:]).accuracy
    step = one.difference(("base/1", "base/2"), ("base/2", "base/3"))
    assert step.low is not None
    assert step.low < step.value
    assert one.difference(("base/0", "base/1"), ("base/1", "base/2")).reason == SAME_TOKEN


def test_blocks_of_first_tokens_count_the_layers_that_vary(folder: Path, store: Path) -> None:
    deep = mt.load(tiny.save_checkpoint(folder / "deep", "bert", num_hidden_layers=7), name="deep")
    found = mt.compare([deep], on=CORPUS, rows="cls", certainty=True, store=store)
    assert len(found["debiased_cka"].left) == 8
    (one,) = found.blocks
    assert one.names == tuple(f"deep/{k}" for k in range(1, 8))
    assert one.finding.left_out == ()


def test_attention_and_rows_in_one_call_keep_their_order(
    base: Any, tuned: Any, other: Any, store: Path
) -> None:
    models = [base, tuned, other]
    measures = ["attention_js", "debiased_cka", "attention_pearson"]
    found = mt.compare(models, on=CORPUS, measures=measures, causal=True, store=store)
    assert list(found) == measures
    one = found["attention_js"]
    assert one.left == tuple(f"{name}/{k}" for name in ("base", "tuned", "other") for k in (1, 2, 3))
    assert one.unit == "sentence"
    rows = plan_rows(CORPUS, models, row_options("word"))
    maps = [s.maps for s in stream_attention(models, CORPUS, rows)]
    for i in range(3):
        for j in range(3):
            expected = mt.attention_similarity_matrix(
                [m[i] for m in maps], [m[j] for m in maps], "attention_js", causal=True
            )["attention_js"]
            block = one.values[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
            np.testing.assert_allclose(block, expected.values, atol=1e-6)
    assert "activations" in one.provenance


def test_rows_that_are_not_kept_give_the_same_map(base: Any, other: Any, store: Path, tmp_path: Path) -> None:
    kept, gone = (
        mt.compare(
            [base, other], on=CORPUS, measures=["linear_cka", "svcca"], precision="exact", keep=keep,
            store=place,
        )
        for keep, place in ((True, store), (False, tmp_path / "store"))
    )  # fmt: skip
    for name, one in kept.items():
        assert gone[name].left == one.left
        assert gone[name].n == one.n
        np.testing.assert_allclose(gone[name].values, one.values, atol=1e-8)
    assert gone.findings == kept.findings
    assert not (tmp_path / "store").exists()
    said = "certainty must have the rows again, but keep=False lets them go."
    assert wrong(base, keep=False, certainty=True) == said


def test_rows_that_are_held_give_the_map_of_recorded_ones(
    base: Any, tuned: Any, other: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"measures": ["debiased_cka", "linear_cka"], "certainty": True}
    asked |= {"permutations": 5, "on": CORPUS}
    kept = mt.compare([base, tuned, other], store=store, **asked)
    monkeypatch.setattr(comparison, "fits_device", lambda *_: True)
    held = mt.compare([base, tuned, other], store=tmp_path / "store", **asked)
    assert not (tmp_path / "store").exists()
    for name, one in kept.items():
        for part in ("values", "low", "high", "p", "null_mean"):
            np.testing.assert_allclose(getattr(held[name], part), getattr(one, part), atol=1e-12)
        assert held[name].provenance["activations"] == []
        assert held[name].provenance["models"] == one.provenance["models"]
    assert held.findings == kept.findings
    assert [b.stack for b in held.blocks] == [b.stack for b in kept.blocks]
    # Whoever asks for the rows gets them.
    asked_for = mt.compare([base], on=CORPUS, store=tmp_path / "store", keep=True)
    assert asked_for["debiased_cka"].provenance["activations"]


def test_rows_are_held_by_a_gpu_that_has_room(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plan_rows(CORPUS, [base], row_options("word"))
    size = 4 * len(rows) * sum(base.widths)
    assert not fits_device([base], rows, "cpu")
    on_gpu = SimpleNamespace(device=torch.device("cuda:0"), widths=base.widths)
    monkeypatch.setattr("microtome.comparison.compare.find_device", torch.device)
    for free, device, fits in (
        (2.6 * size, "cuda", True),
        (2.6 * size, "cuda:0", True),
        (2.4 * size, "cuda", False),
        (2.6 * size, "cuda:1", False),
        (2.6 * size, "cpu", False),
    ):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (int(free), 0))
        assert fits_device([on_gpu], rows, device) == fits  # pyright: ignore
    assert not fits_device([on_gpu, base], rows, "cuda")  # pyright: ignore


def test_attention_alone_records_nothing(base: Any, tmp_path: Path) -> None:
    one = mt.compare([base], on=CORPUS, measures="attention_js", store=tmp_path / "store")["attention_js"]
    assert one.shape == (3, 3)
    assert one.provenance["activations"] == []
    assert not (tmp_path / "store").exists()


def test_a_random_twin_is_one_more_model(base: Any, folder: Path, store: Path) -> None:
    twin = mt.load(folder / "bert", random_init=True, seed=3)
    found = mt.compare([base, twin], on=CORPUS, store=store)
    one = found["debiased_cka"]
    assert one.left[4:] == tuple(f"bert-random3/{k}" for k in range(4))
    assert one.provenance["models"][1]["changes"] == ["all weights re-initialized (seed 3)"]
    assert one.values[3, 7] < 0.9


def test_what_changed_is_said_in_words(base: Any, tuned: Any, other: Any, store: Path) -> None:
    found = mt.compare([base, tuned, other], on=CORPUS, store=store)
    said = found.findings
    words = sum(len(e.words or ()) for e in CORPUS)
    assert found.notes[0].startswith(f"{words - 1} rows (one row per word: its last")
    # Nobody wrote down that one was trained from the other.
    (change,) = [s for s in said if "differs most between base and tuned" in s]
    assert change.startswith(("Layer 3 differs", "Layer 2 differs"))
    assert "(layers 0 to 3)" in change
    assert any("of the layers of base are most similar to the layer of tuned" in s for s in said)
    assert any("differs most between tuned and other" in s for s in said)
    # The last state normed once more is a layer, but has no depth that another could match.
    assert not any("norm" in s for s in said)


def test_saved_and_opened_it_is_the_same(base: Any, tuned: Any, store: Path, tmp_path: Path) -> None:
    found = mt.compare(
        [base, tuned], on=CORPUS, measures=["debiased_cka", "attention_js"], certainty=True, halves=4,
        store=store,
    )  # fmt: skip
    found.save(tmp_path / "out")
    again = mt.open(tmp_path / "out")
    assert list(again) == list(found)
    for name, one in found.items():
        two = again[name]
        assert (two.left, two.unit, two.symmetric) == (one.left, one.unit, True)
        for values in ("values", "low", "high"):
            np.testing.assert_array_equal(getattr(two, values), getattr(one, values))
        assert two.provenance["texts"]["source"] == "memory"
        assert [m["name"] for m in two.provenance["models"]] == ["base", "tuned"]
    page = (tmp_path / "out" / "methods.md").read_text()
    assert "The layers of 2 models (4 of `base`, 4 of `tuned`) were compared with each other" in page
    assert "The rows are of `texts`: one row per word: its last sub-word." in page
    assert found.findings[0] in page.replace("\\", "")


def test_models_may_be_given_by_their_folders(folder: Path, store: Path) -> None:
    one = mt.compare([folder / "bert", str(folder / "gpt2")], on=CORPUS, store=store)["debiased_cka"]
    assert {name.split("/")[0] for name in one.left} == {"bert", "gpt2"}


def test_the_same_request_gives_the_same_bits(base: Any, tuned: Any, tmp_path: Path) -> None:
    one, two = (
        mt.compare([base, tuned], on=CORPUS, certainty=True, store=tmp_path / name)["debiased_cka"]
        for name in ("a", "b")
    )
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.low, two.low)


def test_progress_says_which_model_runs(base: Any, tuned: Any, tmp_path: Path) -> None:
    said: list[str] = []
    mt.compare([base, tuned], on=CORPUS, store=tmp_path, progress=lambda what, *_: said.append(what))
    assert said[0] == "words"
    assert [s for s in said if s.endswith(": examples")] == ["base: examples", "tuned: examples"]


def wrong(*models: Any, **options: Any) -> str:
    with pytest.raises(mt.MicrotomeError) as caught:
        mt.compare(list(models), **{"on": CORPUS, **options})
    assert isinstance(caught.value, (InputError, UnknownNameError))
    return str(caught.value)


def test_what_cannot_be_compared_is_one_sentence(base: Any, other: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    same = "names of models must differ, but 'base' stands twice; give one with name=."
    assert wrong(base, base, store=store) == same
    assert wrong(store=store) == "models must be at least one, but got 0."
    said = wrong(base, measures="debiased_ckaa", store=store)
    assert said.endswith("but got 'debiased_ckaa'. Did you mean debiased_cka?")
    said = wrong(base, measures="attention_js", rows="cls", store=store)
    assert said == "attention_js must be asked of rows of words, but got rows='cls'."
    assert wrong(base, rows="words", store=store).startswith("rows must be one of cls, mean, token, word")
    assert "one tokenizer, but these cut texts in different ways; use rows='word'." in wrong(
        base, other, rows="token", store=store
    )
    assert wrong(base, on=[], store=store) == "texts must be at least one, but the list is empty."
    assert "that exists" in wrong(base, on="nowhere.conllu", store=store)
    with pytest.raises(TypeError, match=r"compare: got an unexpected keyword argument 'precison'\."):
        mt.compare([base], on=CORPUS, precison="exact")
    given = "a model must be what microtome.load gives, a hub id or a folder, but got "
    assert wrong(base.model, store=store) == f"{given}'BertModel'."
    assert wrong(3, store=store) == f"{given}'int'."
    assert "sample must be at most the" in wrong(base, sample=10**6, store=store)
    assert not store.exists()


def test_one_model_must_stand_in_a_list(base: Any) -> None:
    alone: list[Any] = [base, "folder", Path("folder")]
    for given in alone:
        kind = type(given).__name__
        with pytest.raises(InputError, match=f"models must be a list of models, but got '{kind}'"):
            mt.compare(given, on=CORPUS)


def test_a_corpus_without_a_row_is_told(base: Any, tmp_path: Path) -> None:
    said = wrong(base, on=[["\u200b", "\u200b"]], store=tmp_path / "store")
    assert said == (
        "a corpus must have at least one row that every model has, but it has none; of 2 there were lost: "
        "2 in base."
    )
    assert not (tmp_path / "store").exists()


def test_the_names_are_public() -> None:
    for name in ("compare", "extract", "load", "corpus", "open", "FAMILIES", "CORPORA"):
        assert name in dir(mt)
        assert getattr(mt, name) is not None


def test_inputs_are_as_long_as_those_of_fine_tuning(tmp_path: Path) -> None:
    """Maps of a tuned model rest on what its curves rest on, unless another length is asked for."""
    folders = [tiny.save_checkpoint(tmp_path / name, "bert", seed=seed) for seed, name in enumerate("ab")]
    (folders[1] / "windows.json").write_text('{"longest": 6, "stride": null}')
    known = ("mat", "reader", "long", "books", "knows", "short", "one", "sleeps", "every", "cat")
    others = (*known[3:], *known[:3])
    texts = [f"{one} {two} knows every cat {two} {one}" for one, two in zip(known, others, strict=True)]
    kept: dict[str, Any] = {"rows": "mean", "store": tmp_path / "store"}
    options: dict[str, Any] = {"on": texts, "measures": "linear_cka", **kept}

    def values(names: list[Path], **more: Any) -> Any:
        return mt.compare([mt.load(name) for name in names], **options, **more)

    found = values(folders)
    assert "inputs of at most 6 tokens" in found.notes[0]
    short, whole = values(folders, longest=6), values(folders, longest=64)
    np.testing.assert_array_equal(found["linear_cka"].values, short["linear_cka"].values)
    assert np.isfinite(found["linear_cka"].values).all()
    assert not np.allclose(found["linear_cka"].values, whole["linear_cka"].values, equal_nan=True)
    # A model that was not fine-tuned reads as much as it can.
    assert "tokens" not in values(folders[:1]).notes[0].partition("the mean of its tokens")[2]
    assert mt.extract(mt.load(folders[1]), texts, **kept).rows.options.longest == 6


def test_everything_is_opened_and_planned_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from microtome.comparison import compare as engine
    from microtome.encoders import loading
    from microtome.experiments.similarity import comparison

    counts: dict[str, int] = {}

    def count(module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return function(*arguments, **named)

        monkeypatch.setattr(module, name, counted)

    for module, name in (
        (loading, "load"),
        (comparison, "plan_rows"),
        (comparison, "choose_measures"),
        (engine, "prepare"),
    ):
        count(module, name)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(" ".join(example.words or ()) for example in CORPUS[:-1]) + "\n")
    found = mt.compare(
        [folder / "bert", folder / "gpt2"], on=lines, random_baselines=1, store=tmp_path / "store"
    )
    assert counts == {"load": 2, "plan_rows": 1, "choose_measures": 1, "prepare": 1}
    assert {name.split("/")[0] for name in found["debiased_cka"].left} == {"bert", "gpt2", "bert-random0"}


def test_maps_have_what_every_result_has(base: Any, tuned: Any, store: Path) -> None:
    found = mt.compare([base, tuned], on=CORPUS, store=store, command="microtome compare")
    document = found.document()
    assert document["format"] == "microtome/similarity/1"
    assert tuple(document["findings"]) == found.findings
    assert document["methods"] == found.methods
    assert found.provenance["command"] == "microtome compare"
    assert found.warnings == found["debiased_cka"].warnings
    assert len(found.to_pandas()) == 64


def test_random_baselines_of_open_models_are_those_of_loaded_ones(base: Any, folder: Path) -> None:
    from microtome.context import Context
    from microtome.experiments.similarity.comparison import ModelComparison

    def digest(model: Any) -> str:
        options: dict[str, Any] = {"models": [model], "on": CORPUS, "random_baselines": 1, "seed": 3}
        return ModelComparison(**options).plan(Context(device="cpu")).inputs.encoders[1].digest

    assert (
        digest(base) == digest(folder / "bert") == mt.load(folder / "bert", random_init=True, seed=3).digest
    )
