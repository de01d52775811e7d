"""Is what is said of several models true, and are maps of attention put together rightly?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.comparison import models
from microtome.comparison.models import attention_maps, say
from microtome.comparison.request import SimilarityOptions
from microtome.errors import InputError
from microtome.extraction.texts import make_texts
from microtome.findings.maps import Map
from microtome.measures.table import chosen_all
from microtome.randomness import generator
from microtome.rows.options import row_options
from microtome.rows.planning import plan_rows
from microtome.testing.families import states

WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "reader", "likes", "long", "books"]
RNG = generator(3, "corpus")
TEXTS = make_texts([RNG.choice(WORDS, size=n).tolist() for n in RNG.integers(3, 9, size=12)])


def make_map(values: np.ndarray, names: list[str]) -> Map:
    rows = generator(0, "rows").normal(size=(40, 3))
    one = mt.similarity_matrix([rows] * len(names), names=names)["debiased_cka"]
    return replace(one, values=np.asarray(values, dtype=np.float64))


def pair(block: np.ndarray, first: list[str], second: list[str]) -> Map:
    """A map of two models whose block of one with the other is given."""
    block = np.asarray(block, dtype=np.float64)
    values = np.block([[np.eye(len(first)), block], [block.T, np.eye(len(second))]])
    return make_map(values, [*first, *second])


def test_change_and_matching_are_those_of_the_block() -> None:
    names = [f"a/{k}" for k in range(3)], [f"b/{k}" for k in range(3)]
    block = np.array([[1.0, 0.4, 0.3], [0.5, 0.9, 0.6], [0.7, 0.4, 0.5]])
    said = say(pair(block, *names), ["a", "b"], {"b": "a"})
    assert said == [
        f"From a to b, by debiased_cka: {mt.analysis.change_profile(block).sentence(names[1])}",
        f"a in b, by debiased_cka: {mt.analysis.layer_matching(block).sentence(names[0])}",
    ]
    assert "Layer b/2 changed most (0.50)" in said[0]


@pytest.mark.parametrize("tuned_from", [{}, {"a": "base", "b": "base"}, {"a": "b"}])
def test_models_differ_unless_one_is_known_to_be_the_other_after_training(tuned_from: dict[str, str]) -> None:
    """Two unrelated models, two seeds of one base, and a model before the one that it was tuned from."""
    names = [f"a/{k}" for k in range(3)], [f"b/{k}" for k in range(3)]
    block = np.array([[1.0, 0.4, 0.3], [0.5, 0.9, 0.6], [0.7, 0.4, 0.5]])
    said = say(pair(block, *names), ["a", "b"], tuned_from)
    assert said[0].startswith("Between a and b, by debiased_cka: Layer b/2 differs most (0.50); the")
    assert "chang" not in said[0]
    same = say(pair(np.full((3, 3), 0.2) + 0.8 * np.eye(3), *names), ["a", "b"], tuned_from)
    assert same[0].endswith("The center of difference is undefined: no layer differs.")


def test_rounding_is_no_change() -> None:
    names = [f"a/{k}" for k in range(3)], [f"b/{k}" for k in range(3)]
    block = np.full((3, 3), 0.2) + np.diag([0.8 + 2e-16, 0.8 - 2e-8, 0.8 + 3e-8])
    said = say(pair(block, *names), ["a", "b"], {"b": "a"})
    assert said[0].endswith("The center of change is undefined: no layer changed.")


def test_layers_keep_their_depth_where_the_first_is_left_out() -> None:
    block = np.array([[0.9, 0.1], [0.2, 0.5]])
    said = say(pair(block, ["a/1", "a/2"], ["b/1", "b/2"]), ["a", "b"])
    assert "(layers from 1 to 2)" in said[0]


def test_a_name_may_hold_a_slash_and_a_norm_has_no_depth() -> None:
    block = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.0]])
    said = say(pair(block, ["org/a/0", "org/a/1"], ["b/0", "b/1", "b/norm"]), ["org/a", "b"], {"b": "org/a"})
    assert said[0].startswith("From org/a to b, by debiased_cka: Layer b/1 changed most (0.50)")
    assert "Of 2 layers 100%" in said[1]


def test_models_of_unequal_depth_have_no_profile_of_change() -> None:
    block = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.0]])
    (said,) = say(pair(block, ["a/0", "a/1"], ["b/0", "b/1", "b/2"]), ["a", "b"])
    assert said.startswith("a in b, by debiased_cka: Of 2 layers")


def test_change_is_not_counted_from_values_above_1() -> None:
    block = np.array([[3.0, 0.1], [0.2, 0.5]])
    (said,) = say(pair(block, ["a/0", "a/1"], ["b/0", "b/1"]), ["a", "b"])
    assert said.startswith("a in b")


def test_undefined_cells_are_told_and_never_counted() -> None:
    block = np.array([[np.nan, 0.1, 0.2], [0.2, 0.5, 0.4], [0.1, 0.2, 0.6]])
    names = [f"a/{k}" for k in range(3)], [f"b/{k}" for k in range(3)]
    (said,) = say(pair(block, *names), ["a", "b"])
    assert "Left out as undefined: layer b/0" in said


def test_one_model_has_nothing_to_be_compared_with() -> None:
    assert say(make_map(np.eye(3), ["a/0", "a/1", "a/2"]), ["a"]) == []


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
    monkeypatch.setattr(models, "HELD", 2000)
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
