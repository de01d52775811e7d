"""Sentences of one document are correlated, and intervals of a change go by document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from cluster_grams import projected
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.experiments.cell_errors import Sample, apart, points_of
from microtome.experiments.change.change import change
from microtome.experiments.change.domains import domains
from microtome.experiments.change.length_matching import match_lengths
from microtome.experiments.change.localization import localize
from microtome.experiments.layer_similarity import Recorded, compare_layers
from microtome.experiments.similarity.extraction import extract
from microtome.extraction.texts import make_texts
from microtome.randomness import generator
from microtome.rows.planning import Rows
from microtome.rows.selecting import row_options
from moving import WORDS, moved, saved, sentences

CKA: dict[str, Any] = {"measures": "debiased_cka", "random_baselines": 0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"))


def in_documents(texts: list[str], size: int, name: str = "text") -> list[Example]:
    """So many sentences a document."""
    return [Example(id=f"s{k}", text=one, group=f"{name} {k // size}") for k, one in enumerate(texts)]


def moody(documents: int, size: int, seed: int = 0) -> list[Example]:
    """Documents of five words a sentence, each with a few words of its own."""
    rng = generator(seed, "moody")
    found = []
    for document in range(documents):
        own = rng.choice(WORDS, size=4)
        for k in range(size):
            text = " ".join(rng.choice(own, size=5))
            found.append(Example(id=f"{document}-{k}", text=text, group=f"text {document}"))
    return found


def freedom_of(groups: list[str], lengths: Sequence[int]) -> float:
    """Kish's number of documents, less one; two tokens of each input are no rows."""
    sizes = [
        sum(n - 2 for one, n in zip(groups, lengths, strict=True) if one == group) for group in set(groups)
    ]
    return sum(sizes) ** 2 / sum(size**2 for size in sizes) - 1


def debiased(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> float:
    """Cluster-debiased CKA from whole Gram matrices."""
    K, L = (projected(one.astype(float) @ one.astype(float).T, codes) for one in (x, y))
    return float((K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum()))


def test_the_interval_is_that_of_leaving_out_documents(place: Path, tmp_path: Path) -> None:
    base, tuned, text = load(place), moved(place, 2, 3), moody(12, 4)
    found = change(base, tuned, text, store=tmp_path, **CKA)
    curve = found["debiased_cka: base to tuned"]
    x, y = (extract(one, text, rows="token", store=tmp_path) for one in (base, tuned))
    documents = np.array([int(text[place].group[5:]) for place in x.rows.examples])
    np.testing.assert_array_equal(x.rows.clusters, documents)
    for layer in (2, 3):
        whole = debiased(x.layers[layer], y.layers[layer], documents)
        assert curve.values[layer] == pytest.approx(whole, abs=1e-6)
        left = []
        for document in range(12):
            kept = documents != document
            codes = np.unique(documents[kept], return_inverse=True)[1]
            left.append(debiased(x.layers[layer][kept], y.layers[layer][kept], codes))
        # The documents are not of equal sizes, since some words are two tokens.
        share = np.bincount(documents) / len(documents)
        pseudo = (whole - (1 - share) * np.array(left)) / share
        center = 12 * whole - ((1 - share) * np.array(left)).sum()
        se = np.sqrt((share / (1 - share) * (pseudo - center) ** 2).sum() / 12)
        # Documents of unequal sizes count as somewhat fewer.
        reach = t.ppf(0.975, 1 / (share**2).sum() - 1) * se
        assert curve.high[layer] == pytest.approx(min(whole + reach, 1), abs=1e-5)
        assert curve.low[layer] == pytest.approx(whole - reach, abs=1e-5)
    alone = change(base, tuned, [str(one.text) for one in text], store=tmp_path, **CKA).curves[0]
    assert alone.unit == "sentence"
    assert alone.high[3] - alone.low[3] < curve.high[3] - curve.low[3]


def test_what_was_really_used_is_said(place: Path, tmp_path: Path) -> None:
    base, tuned = load(place), [moved(place, 3, seed=seed) for seed in (1, 2)]
    found = change(base, tuned, moody(12, 4), halves=4, random_baselines=0, store=tmp_path)
    assert {one.unit for one in found.curves} == {"document and model", "document"}
    assert "of 48 sentences in 12 documents." in found.methods
    assert "are over documents and fine-tuning seeds" in found.methods
    assert "where there are few documents" in found.methods
    assert "over sentences" not in found.methods
    assert any("over documents and " in one for one in found.findings)
    assert not any("over sentences" in one for one in found.findings)
    assert {one.n for one in found.curves} == {48}
    assert not any("taken as independent" in one for one in found.warnings)
    neurons = localize({"base": place}, moody(12, 4), halves=2, rotations=2, store=tmp_path)
    assert {one.unit for one in neurons.curves} == {"document"}
    assert "by 2 half-samples of documents" in neurons.methods
    whole = change(base, tuned[0], moody(12, 4), rows="mean", store=tmp_path, **CKA)
    assert {one.unit for one in whole.curves} == {"document"}
    assert "of 48 examples in 12 documents." in whole.methods


def test_rows_in_the_store_serve_a_text_with_and_without_documents(place: Path, tmp_path: Path) -> None:
    text = moody(12, 4)
    plain = [Example(id=one.id, text=one.text) for one in text]
    first, second = (
        change(load(place), moved(place, 3), one, store=tmp_path, **CKA) for one in (plain, text)
    )
    assert first.provenance["activations"] == second.provenance["activations"]
    assert first.provenance["rows"] == second.provenance["rows"]
    assert (first.curves[0].unit, second.curves[0].unit) == ("sentence", "document")


def test_with_few_documents_nothing_is_lost_and_it_is_said(place: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"halves": 4, "random_baselines": 0, "store": tmp_path}
    text = in_documents(sentences(40, seed=1), 20)
    few = change(load(place), moved(place, 3), text, **given)
    plain = [Example(id=one.id, text=one.text) for one in text]
    alone = change(load(place), moved(place, 3), plain, **given)
    said = (
        "Only 2 documents are read, so sentences are taken as independent: intervals do not say what other "
        "documents would give."
    )
    assert few.warnings == (said, *alone.warnings)
    for one, other in zip(few.curves, alone.curves, strict=True):
        assert one.unit == other.unit == "sentence"
        for name in ("values", "low", "high", "band_low", "band_high"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_text_in_documents_does_not_differ_from_itself(place: Path, tmp_path: Path) -> None:
    text = moody(12, 4)
    found = domains(load(place), moved(place, 3), text, text, halves=4, store=tmp_path)
    for measure in ("rsa", "debiased_cka"):
        difference = found.more["average"][measure]["difference"]
        assert difference == {"value": 0, "low": 0, "high": 0, "p": 1}
    assert {one.unit for one in found.curves} == {"document"}


def test_texts_of_other_documents_err_apart(place: Path, tmp_path: Path) -> None:
    base, tuned = load(place), moved(place, 2, 3)
    inside, outside = moody(14, 4, seed=1), moody(70, 4, seed=2)
    plain = [Example(id=one.id, text=one.text) for one in outside]
    given: dict[str, Any] = {"measures": ["debiased_cka", "rsa"], "halves": 6, "store": tmp_path}
    found = domains(base, tuned, inside, outside, **given)
    mixed = domains(base, tuned, inside, plain, **given)
    names = ("in domain", "out of domain", "difference, out of domain from in domain")
    for result, units in (
        (found, ["document", "document", "document"]),
        (mixed, ["document", "sentence", "document or sentence"]),
    ):
        for measure in ("debiased_cka", "rsa"):
            one, other, difference = (result[f"{measure}: {name}"] for name in names)
            assert [each.unit for each in (one, other, difference)] == units
            np.testing.assert_allclose(difference.values, other.values - one.values)
            assert difference.note == "out of domain minus in domain, at equal lengths"
        # The squares of two independent errors add up, and the degrees of freedom are those of the fewer.
        one, other, both = ((c.values - c.low)[3] for c in (result[f"debiased_cka: {n}"] for n in names))
        matched = match_lengths(base, make_texts(inside), make_texts(outside))
        inner = freedom_of([each.group for each in matched.first], matched.lengths)
        outer = freedom_of([each.group for each in matched.second], matched.lengths)
        outer = len(matched.lengths) - 1 if units[1] == "sentence" else outer
        own = one / t.ppf(0.975, inner), other / t.ppf(0.975, outer)
        assert both == pytest.approx(t.ppf(0.975, min(inner, outer)) * np.hypot(*own), rel=1e-6)
    assert any("over documents)" in one for one in found.findings)
    assert "Intervals of 95 % are over documents:" in found.methods
    assert "Intervals of 95 % are over documents or sentences:" in mixed.methods


def test_each_text_says_when_its_documents_are_too_few(place: Path, tmp_path: Path) -> None:
    inside, outside = in_documents(sentences(40, seed=1), 10), in_documents(sentences(60, seed=2), 3)
    given: dict[str, Any] = {"measures": ["debiased_cka"], "store": tmp_path}
    found = domains(load(place), moved(place, 3), inside, outside, **given)
    assert found.warnings[0].startswith("In domain: only 4 documents are read, so sentences are taken as")
    assert not any(one.startswith("Out of domain") for one in found.warnings)
    assert found["debiased_cka: in domain"].unit == "sentence"
    assert found["debiased_cka: out of domain"].unit == "document"


def test_units_beside_each_other_keep_their_standard_errors() -> None:
    rng = generator(0, "beside")
    one, other = (
        Sample(values=rng.normal(size=(3, 2)), errors=rng.normal(size=(3, 2, units)), dof=dof)
        for units, dof in ((5, 4.0), (30, np.inf))
    )
    moved_to = apart(one, other)
    for before, after in zip((one, other), moved_to, strict=True):
        assert after.errors.shape == (3, 2, 35)
        np.testing.assert_allclose(points_of(after).low, points_of(before).low)
    np.testing.assert_array_equal(moved_to[0].errors[..., 5:] * moved_to[1].errors[..., 5:], 0)


WIDTH, SIGNAL = 10, 6
MIX = generator(0, "mixing").normal(size=(2, SIGNAL, WIDTH))


def drawn(seed: int, documents: int, *, told: bool = True) -> Recorded:
    """States of a base and of a tuned model: topics, and how much tuning moved, are those of documents."""
    rng = generator(seed, "documents")
    states: list[list[np.ndarray]] = [[], []]
    examples: list[int] = []
    groups: list[str] = []
    for document in range(documents):
        topic, amount = rng.normal(size=SIGNAL), np.exp(0.2 * rng.normal())
        for _ in range(int(rng.integers(1, 9))):
            count = int(rng.integers(3, 7))
            own = np.sqrt(0.1) * rng.normal(size=SIGNAL) + np.sqrt(0.5) * rng.normal(size=(count, SIGNAL))
            signal = np.sqrt(0.4) * topic + own
            before = signal @ MIX[0] + 0.5 * rng.normal(size=(count, WIDTH))
            states[0].append(before)
            states[1].append(before + 0.5 * amount * (signal @ MIX[1] + rng.normal(size=(count, WIDTH))))
            examples += [len(groups)] * count
            groups.append(f"text {document}")
    rows = Rows(
        options=row_options("token"),
        examples=np.array(examples),
        units=np.zeros(len(examples), dtype=np.int64),
        ids=tuple(f"s{k}" for k in range(len(groups))),
        lost={},
        truncated={},
        candidates=len(examples),
        groups=tuple(groups) if told else (),
    )
    found: dict[str, Any] = {
        name: SimpleNamespace(
            model=name, names=(f"{name}/0",), layers=SimpleNamespace(stored=[np.concatenate(each)])
        )
        for name, each in zip(("base", "tuned"), states, strict=True)
    }
    return Recorded(activations=found, digests={}, layers=(0,), rows=rows)


def similarity_of(recorded: Recorded) -> Any:
    given: dict[str, Any] = {"left": ["base"], "right": ["tuned"]}
    return points_of(
        compare_layers(recorded, "debiased_cka", **given)["debiased_cka"].sample([("base", "tuned")])
    )


def covered(documents: int, datasets: int, *, told: bool, truth: float) -> float:
    """How often the interval of a sample of documents holds what endless documents give."""
    found = [similarity_of(drawn(k, documents, told=told)) for k in range(datasets)]
    return float(np.mean([one.low[0] <= truth <= one.high[0] for one in found]))


def test_intervals_cover_what_other_documents_give() -> None:
    truth = float(np.mean([similarity_of(drawn(10_000 + k, 800)).values[0] for k in range(8)]))
    assert covered(70, 60, told=True, truth=truth) >= 0.9
    # The same intervals by sentence are far too sure.
    assert covered(70, 60, told=False, truth=truth) < 0.75
