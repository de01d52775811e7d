"""Do numbers become the predictions that scores expect?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import samples
import tiny
from microtome.encoders.tokens import Tokenizer
from microtome.errors import InputError
from microtome.scores.table import SCORES
from microtome.tasks.items import Item
from microtome.training.heads.decoding import answers, decode
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build

Encoders = Callable[..., Any]
WORDPIECE = tiny.wordpiece()


def test_classes_choices_and_numbers() -> None:
    for kind in ("classification", "multiple_choice"):
        items, task = samples.items_of(kind), samples.task_of(kind)
        features = encode(items, task, Tokenizer(WORDPIECE))
        outputs = list(np.array([[0, 2, 1], [3, 0, 0], [0, 0, 1], [0, 1, 0]], dtype=float))
        assert decode(outputs, features, items, task) == [1, 0, 2, 1]
    items, task = samples.items_of("regression"), samples.task_of("regression", range=(0.0, 5.0))
    features = encode(items, task, Tokenizer(WORDPIECE))
    said = decode([np.array([v]) for v in (-1.0, 0.5, 7.0, 2.0)], features, items, task)
    assert said == [-1.0, 0.5, 7.0, 2.0]


def test_words_that_were_not_read_get_the_usual_tag_or_the_given_one() -> None:
    words = ("The", "cat", "sits", "on", "the", "mat")
    items, task = [Item(id="0", words=words, target=(0,) * 6)], samples.task_of("tagging")
    features = encode(items, task, Tokenizer(WORDPIECE), longest=6)
    seen = int((features[0].words >= 0).sum())  # pyright: ignore[reportOptionalOperand]
    assert 0 < seen < 6
    outputs = [np.tile([0.0, 0.0, 1.0], (6, 1))]
    outputs[0][0] = [1.0, 0.0, 0.0]
    usual = decode(outputs, features, items, task)[0]
    assert usual == (0, *(2 for _ in words[1:]))
    assert decode(outputs, features, items, task, fallback=1)[0][seen:] == (1,) * (6 - seen)
    assert SCORES["tag_accuracy"].compute([usual], [items[0].target], samples.LABELS) == pytest.approx(1 / 6)


def test_words_that_were_not_read_hang_on_the_root() -> None:
    words = ("The", "\u200b", "cat", "sits")
    items, task = (
        [Item(id="0", words=words, target=((3, 0), (1, 0), (4, 1), (0, 2)))],
        samples.task_of("parsing"),
    )
    features = encode(items, task, Tokenizer(WORDPIECE))
    arcs, relations = np.zeros((4, 5)), np.zeros((4, 5, 3))
    for word, (head, name) in enumerate(items[0].target):
        arcs[word, head] = 5.0
        relations[word, head, name] = 1.0
    # The word that is nothing must not be anyone's head, however high it scores.
    arcs[0, 2] = 9.0
    (found,) = decode([(arcs, relations)], features, items, task)
    assert found == ((3, 0), (0, 0), (4, 1), (0, 2))


@pytest.mark.parametrize(("model_type", "head"), [("gpt2", "CausalLM"), ("bert", "MaskedLM")])
def test_likelihoods_are_those_of_the_library_and_add_up_over_windows(
    encoder_of: Encoders, model_type: str, head: str
) -> None:
    encoder, task = encoder_of(model_type, head), samples.task_of("language_modeling")
    items, model = samples.items_of("language_modeling"), build(encoder_of(model_type, head), task)
    features = encode(items, task, encoder.tokenizer, mask=model.mask)
    batch = collate(features)
    with torch.inference_mode():
        outputs = model(batch)
        found = decode(answers(model, outputs, batch, features), features, items, task)
        for item, (nll, count) in enumerate(found):
            one = collate([features[item]])
            labels = one["labels"]
            expected = encoder.model(
                input_ids=one["input_ids"], attention_mask=one["attention_mask"], labels=labels
            ).loss
            counted = labels[:, 1:] if encoder.family.causal else labels
            assert count == int((counted != -100).sum())
            assert nll / count == pytest.approx(float(expected), rel=1e-5)
        assert float(model.loss(outputs, batch)) == pytest.approx(
            sum(nll for nll, _ in found) / sum(count for _, count in found), rel=1e-5
        )
        cut = encode(items, task, encoder.tokenizer, mask=model.mask, longest=12, stride=4)
        assert len(cut) > len(features)
        batch = collate(cut)
        sums = decode(answers(model, model(batch), batch, cut), cut, items, task)
    if encoder.family.causal:
        assert [count for _, count in sums] == [count for _, count in found]
    assert SCORES["perplexity"].compute(sums, None, ()) > 1


def test_outputs_must_be_those_of_the_features() -> None:
    items, task = samples.items_of("classification"), samples.task_of("classification")
    features = encode(items, task, Tokenizer(WORDPIECE))
    with pytest.raises(InputError, match="outputs must be as many as the 4 features, but got 0"):
        decode([], features, items, task)
