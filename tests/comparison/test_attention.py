"""Maps of attention: checks, intervals, and maps of several models, put together from those of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.comparison import attention as attention_module
from microtome.comparison.attention import attention_maps
from microtome.comparison.request import SimilarityOptions
from microtome.errors import InputError
from microtome.extraction.texts import make_texts
from microtome.findings.maps import Map
from microtome.measures.table import chosen_all
from microtome.randomness import generator
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options
from microtome.testing.families import states


def sentences(seed, count=12, layers=3, heads=4):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words = int(rng.integers(4, 9))
        raw = rng.gamma(1.0, size=(layers, heads, words, words))
        found.append(raw / raw.sum(-1, keepdims=True))
    return found


def mixed(one, other, share):
    return [share * a + (1 - share) * b for a, b in zip(one, other, strict=True)]


def test_a_model_attends_like_itself():
    left = sentences(0)
    maps = mt.attention_similarity_matrix(left, None, "attention_js,attention_cka,attention_norm")
    for name in maps:
        assert np.allclose(np.diag(maps[name].values), 1.0, atol=1e-6)
        assert maps[name].symmetric
        assert maps[name].left == ("1", "2", "3")


def test_a_generator_is_read_once_and_gives_the_same_map():
    left = sentences(1)
    right = mixed(left, [np.roll(x, 1, axis=1) for x in left], 0.5)
    listed = mt.attention_similarity_matrix(left, right, "attention_pearson")
    streamed = mt.attention_similarity_matrix((x for x in left), (x for x in right), "attention_pearson")
    assert np.array_equal(listed["attention_pearson"].values, streamed["attention_pearson"].values)


def test_intervals_go_by_sentence_and_say_so():
    left = sentences(3, count=30)
    right = mixed(left, [np.roll(x, 1, axis=1) for x in left], 0.7)
    found = mt.attention_similarity_matrix(left, right, "attention_js", certainty=True)["attention_js"]
    assert found.unit == "sentence"
    assert found.method == "half-sampling"
    assert found.target == "value of another sample of the same size"
    assert (found.low < found.values).all()
    assert (found.values < found.high).all()
    assert found.difference((1, 1), (2, 1)).low is not None


def test_sides_with_different_sentences_are_refused():
    left = sentences(4)
    with pytest.raises(InputError, match="same sentences, but the right ends after 11"):
        mt.attention_similarity_matrix(left, left[:-1])
    with pytest.raises(InputError, match="same sentences, but the left ends after 11"):
        mt.attention_similarity_matrix(left[:-1], left)


def test_the_two_kinds_of_measures_are_not_mixed_up():
    with pytest.raises(InputError, match="linear_cka must be given rows, not attention maps"):
        mt.attention_similarity_matrix(sentences(5), None, "linear_cka")
    with pytest.raises(InputError, match="attention_js must be given attention maps, not rows"):
        mt.similarity_matrix([np.ones((9, 2))], None, "attention_js")


def test_certainty_needs_sentences_that_can_be_read_again():
    with pytest.raises(InputError, match="certainty must be asked of lists of sentences"):
        mt.attention_similarity_matrix((x for x in sentences(6)), None, certainty=True)


def test_a_list_of_names_must_fit():
    with pytest.raises(InputError, match="names of the left layers must be 3, one a layer, but got 2"):
        mt.attention_similarity_matrix(sentences(7), None, names=["a", "b"])


WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books"]
RNG = generator(3, "corpus")
TEXTS = make_texts([RNG.choice(WORDS, size=n).tolist() for n in RNG.integers(3, 9, size=12)])


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("models")
    kinds: list[tuple[str, dict[str, Any]]] = [("bert", {}), ("roberta", {"num_hidden_layers": 2})]
    return [mt.load(tiny.save_checkpoint(folder / kind, kind, **more)) for kind, more in kinds]


def maps_of(encoders: list[Any], measures: str, *, causal: bool = False, **options: Any) -> dict[str, Map]:
    rows = plan_rows(TEXTS.examples, encoders, row_options("word"))
    found = attention_maps(
        encoders, TEXTS, rows, list(chosen_all(measures)), SimilarityOptions(**options), causal=causal
    )
    return {one.measure: one for one in found}


EVERY = ",".join(name for name, one in mt.MEASURES.items() if one.needs == "attention")


def test_a_stack_put_together_of_blocks_is_whole(encoders: list[Any]) -> None:
    found = maps_of(encoders, EVERY)
    held = maps_of(encoders, EVERY, certainty=True, halves=4)
    assert list(found) == EVERY.split(",")
    for name, one in found.items():
        assert one.left == one.right == ("bert/1", "bert/2", "bert/3", "roberta/1", "roberta/2")
        assert one.values.shape == one.details["backward"].shape == (5, 5)
        assert one.low is None
        # What is found the other way round is what the other side's own block says.
        np.testing.assert_allclose(one.values, one.details["backward"].T, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(one.values, held[name].values, atol=1e-9, err_msg=name)


def test_intervals_of_blocks_are_paired(encoders: list[Any]) -> None:
    one = maps_of(encoders, "attention_js", certainty=True, halves=6, level=0.8)["attention_js"]
    assert one.low is not None
    assert one.high is not None
    assert (one.level, one.unit) == (0.8, "sentence")
    assert (one.low <= one.values + 1e-12).all()
    assert (one.high >= one.values - 1e-12).all()
    found = one.difference(("bert/1", "roberta/1"), ("bert/2", "roberta/2"))
    assert found.interval is not None
    assert found.interval.low < found.value < found.interval.high


def test_more_sentences_than_can_be_held_are_refused(
    encoders: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_module, "HELD", 2000)
    with pytest.raises(
        InputError,
        match=r"the sentences of attention with certainty must be few enough to be held \(2,000 numbers\), "
        r"but got 'more than \d+ sentences'",
    ):
        maps_of(encoders, "attention_js", certainty=True)
    assert maps_of(encoders, "attention_js")["attention_js"].shape == (5, 5)


def test_a_causal_model_is_compared_below_the_diagonal(tmp_path: Path, encoders: list[Any]) -> None:
    causal = [encoders[0], mt.load(tiny.save_checkpoint(tmp_path / "qwen2", "qwen2"))]
    wide, cut = (maps_of(causal, "attention_js", causal=c)["attention_js"] for c in (False, True))
    # The causal model has nothing above the diagonal to lose, but its first words, which all attend to
    # themselves, are left out.
    words = sum(len(example.words or ()) for example in TEXTS.examples)
    share = (words - len(list(TEXTS.examples))) / words
    np.testing.assert_allclose(1 - wide.values[3:, 3:], share * (1 - cut.values[3:, 3:]), atol=1e-6)
    assert np.abs(wide.values[:3, 3:] - cut.values[:3, 3:]).min() > 1e-3
    assert "lower triangle of all maps" in cut.estimator


def test_rows_that_attend_to_no_word_are_told(tmp_path: Path) -> None:
    encoder: Any = mt.load(tiny.save_checkpoint(tmp_path / "bert", "bert"), name="lost")
    first = states(encoder, encoder.words([["the", "cat"]]))[0][0, 0]
    block = encoder.blocks[0].attention.self
    with torch.no_grad():
        # Every token looks for what only the first one has, so strongly that nothing is left for words.
        block.query.weight.zero_()
        block.query.bias.fill_(100.0)
        block.key.weight.copy_(first.expand(32, -1))
    words = sum(len(example.words or ()) for example in TEXTS.examples)
    heads = encoder.config.num_attention_heads
    for certainty in (False, True):
        one = maps_of([encoder], "attention_js", certainty=certainty)["attention_js"]
        told = f"{words * heads} rows of attention went to no word, and were spread evenly"
        assert one.warnings == (told,)
