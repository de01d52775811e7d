"""A difference between texts is found where one was made, and none where the texts are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.change.domains import domains
from moving import moved, saved, sentences

HOME, AWAY = ("mat", "reader", "long", "books", "the"), ("knows", "short", "one", "every", "sleeps")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"))


def test_a_text_does_not_differ_from_itself(place: Path, tmp_path: Path) -> None:
    text = sentences(70, seed=1)
    tuned = [moved(place, 2, 3, seed=seed) for seed in (1, 2)]
    found = domains(load(place), tuned, text, text, halves=6, store=tmp_path)
    for measure in ("rsa", "debiased_cka"):
        apart = found[f"{measure}: difference, out of domain from in domain"]
        np.testing.assert_array_equal(apart.values, 0)
        np.testing.assert_array_equal(apart.band_high, 0)
        assert found[f"{measure}: in domain"].values[3] < 1
        average = found.more["average"][measure]["difference"]
        assert average == {"value": 0, "low": 0, "high": 0, "p": 1}
    assert found.more["matched"]["pairs"] == 70
    assert [(claim.kind, claim.verdict) for claim in found.claims] == [("domains", "inconclusive")] * 2


def test_words_that_moved_show_on_the_text_that_has_them(place: Path, tmp_path: Path) -> None:
    tuned: Any = load(place)
    table = tuned.base.embeddings.word_embeddings.weight.data
    for word in HOME:
        for one in tuned.tokenizer.words([[word]], special=False)[0].ids:
            table[one] = table[one].flip(0)
    inside, outside = sentences(140, seed=2, words=HOME), sentences(160, seed=3, words=AWAY, longest=12)
    found = domains(load(place), tuned, inside, outside, halves=6, store=tmp_path)
    for measure in ("rsa", "debiased_cka"):
        np.testing.assert_array_equal(found[f"{measure}: out of domain"].values, 1)
        assert (found[f"{measure}: difference, out of domain from in domain"].band_low > 0).all()
        assert found.more["average"][measure]["difference"]["p"] < 0.001
    claims = [(claim.kind, claim.verdict, claim.layers) for claim in found.claims]
    assert claims == [("domains", "holds", (0, 1, 2, 3))] * 2
    assert {row["domain"] for row in found.rows} == {"in", "out"}
    assert found.warnings == ("Nothing can be said about other seeds: one fine-tuned model was given.",)
    assert "were paired by their number of tokens" in found.methods


def test_rows_that_are_not_of_the_same_inputs_cannot_be_paired(place: Path, tmp_path: Path) -> None:
    # Words of the second text are cut into several tokens.
    inside, outside = sentences(150, seed=1), [f"readers cats {one}" for one in sentences(150, seed=2)]
    with pytest.raises(InputError, match="use rows='token', or sample=None"):
        domains(load(place), moved(place, 3), inside, outside, rows="word", sample=60, store=tmp_path)
