"""What does a head read, and which cannot be?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import samples
import tiny
from microtome.context import Context
from microtome.encoders.table import FAMILIES, family_of
from microtome.errors import InputError, UnknownNameError
from microtome.tasks.task import Kind
from microtome.training.heads.head import HEADS, Head, describe, resolve
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.models.saving import save
from microtome.training.models.taskmodel import counted
from microtome.training.opening import open_model
from training.heads.test_head_inputs import READ, same_at_all_layers
from training.heads.test_head_inputs import features_of as row_features
from training.optimization.test_frozen_features import difference, frozen_model, outputs
from training.test_cuts import check, features_of

DECODER = FAMILIES["roberta-decoder"]
Encoders = Callable[..., Any]


def test_jiant_gives_two_dense_stages_behind_a_pooler_and_one_without() -> None:
    assert resolve("jiant", FAMILIES["roberta"]) == Head(reads="pooler", dense=1, pooler="pretrained")
    assert resolve("jiant", FAMILIES["electra"]) == Head(reads="cls", dense=1)
    assert describe("jiant", FAMILIES["albert"]) == (
        "pretrained pooler (first token, dense, tanh) -> dropout -> dense -> tanh -> dropout -> linear"
    )


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_told_in_words_for_every_family(name: str) -> None:
    said = {describe(name, family_of(kind)) for kind in tiny.CONFIGS} | {describe(name, DECODER)}
    assert all(said)
    assert "as the library has it" not in said


def test_the_token_that_stands_for_the_input_is_the_familys() -> None:
    assert describe(Head(reads="cls", dense=0), FAMILIES["bert"]).startswith("state of the first token")
    assert describe(Head(reads="cls", dense=0), FAMILIES["xlnet"]).startswith("state of the last token")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"reads": "max"}, "what a head reads must be one of cls, last, mean, pooler, but got 'max'"),
        ({"reads": "pooler"}, "must say pooler='pretrained' or 'fresh'"),
        ({"reads": "mean", "pooler": "fresh"}, "a head that reads mean must have pooler='none', not 'fresh'"),
        ({"dense": -1}, "dense must be a whole number of at least 0, but got -1"),
        ({"dropout": 1.0}, "dropout must be a number of at least 0 and below 1, but got 1.0"),
        ({"activation": "swish"}, "activation must be one of gelu, relu, tanh"),
    ],
)
def test_heads_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=r".") as error:
        Head(**settings)  # pyright: ignore[reportArgumentType]
    assert said in str(error.value)


def test_a_pretrained_pooler_is_refused_where_the_family_has_none() -> None:
    with pytest.raises(InputError, match=r"but ELECTRA has none; pooler='fresh' makes one"):
        resolve(Head(reads="pooler", dense=1, pooler="pretrained"), FAMILIES["electra"])
    with pytest.raises(UnknownNameError, match="head must be one of jiant, own, stock, but got 'jant'"):
        resolve("jant", FAMILIES["bert"])


def test_a_decoder_is_read_where_it_has_seen_the_input_and_that_is_told() -> None:
    assert resolve("stock", DECODER) == Head(reads="last", dense=1)
    told = "state of the last token (the first, which the library's own head reads, sees only itself)"
    for head in ("stock", "jiant", Head(reads="cls"), Head(reads="last")):
        assert describe(head, DECODER) == f"{told} -> dropout -> dense -> tanh -> dropout -> linear"
    for pooler in ("fresh", "pretrained"):
        with pytest.raises(
            InputError, match="must read the last token or the mean, but its pooler reads the"
        ):
            resolve(Head(reads="pooler", pooler=pooler), DECODER)
    assert resolve("stock", FAMILIES["roberta"]) == "stock"
    assert resolve("stock", FAMILIES["gpt2"]) == "stock"


@pytest.mark.parametrize("head", ["stock", "jiant", Head(reads="cls", dense=0), Head(reads="mean", dense=2)])
@pytest.mark.parametrize("kind", samples.SEQUENCE_KINDS)
@pytest.mark.parametrize("model_type", tiny.DECODERS)
def test_no_head_of_a_decoder_is_blind(
    encoder_of: Encoders, model_type: str, kind: Kind, head: Any, tmp_path: Path
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model = build(encoder, task, head, seed=1)
    assert any("last token" in note or "mean of the states" in note for note in model.notes)
    features = encode(samples.items_of(kind), task, encoder.tokenizer)
    batch = collate(features)
    with torch.inference_mode():
        found = model(batch)
        # Examples begin alike, and answers differ.
        rows = found.flatten(0, 1) if kind == "multiple_choice" else found
        assert len({tuple(row.reshape(-1).tolist()) for row in rows}) == len(rows)
        alone = model(collate(features[:1]))
        torch.testing.assert_close(alone[0], found[0], atol=1e-5, rtol=1e-5)
        save(model, tmp_path, encoder.tokenizer)
        assert torch.equal(open_model(tmp_path, task, context=Context()).task_model(batch), found)
    base, report = transformers.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert base.config.is_decoder
    assert not report["missing_keys"]


@pytest.mark.parametrize("kind", samples.KINDS)
def test_every_cut_of_a_decoder_says_what_a_really_cut_one_says(encoder_of: Encoders, kind: Kind) -> None:
    encoder = encoder_of("roberta-decoder")
    model = build(encoder, samples.task_of(kind), seed=1)
    check(model, features_of(encoder, model, kind))


@pytest.mark.parametrize("kind", READ)
def test_what_the_head_of_a_decoder_reads_is_kept_at_every_layer(encoder_of: Encoders, kind: Kind) -> None:
    encoder = encoder_of("roberta-decoder")
    same_at_all_layers(build(encoder, samples.task_of(kind), seed=1), row_features(encoder, kind))


def test_a_decoder_above_a_frozen_bottom_answers_as_the_whole_one(encoder_of: Encoders) -> None:
    from microtome.training.optimization.frozen_features import Bottom

    model, features = frozen_model(encoder_of("roberta-decoder"), "classification", 2)
    with Bottom(model, features) as bottom:
        parts = outputs(model, bottom.add(collate(features), features))
    assert difference(parts, outputs(model, collate(features))) < 1e-5


def test_the_likelihood_of_a_text_under_a_decoder_is_the_librarys(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("roberta-decoder", "CausalLM"), samples.task_of("language_modeling")
    model = build(encoder, task, seed=1)
    assert model.notes[0].startswith("RobertaForCausalLM with the head of the checkpoint; nothing drawn")
    assert model.mask is None
    features = encode(samples.items_of("language_modeling"), task, encoder.tokenizer)
    batch = collate(features)
    with torch.inference_mode():
        loss = model.loss(model(batch), batch)
        total = 0.0
        for feature in features:
            ids = torch.from_numpy(feature.tokens[0].ids)[None].long()
            # What the tokenizer adds is no part of the text.
            right = ids.masked_fill(torch.from_numpy(feature.tokens[0].special)[None], -100)
            total += float(encoder.model(input_ids=ids, labels=right).loss) * int((right >= 0).sum())
    assert float(loss) * float(counted(batch, causal=True)) == pytest.approx(total, rel=1e-5)


def test_a_decoder_learns_what_only_a_later_token_tells(encoder_of: Encoders) -> None:
    """The label is the last word: nothing that the first token sees could tell it."""
    from microtome.tasks.task import Item

    encoder, task = encoder_of("roberta-decoder"), samples.task_of("classification")
    ends = ("cat", "tea", "books")
    items = [
        Item(id=str(n), texts=(f"The {word} knows {ends[n % 3]}",), target=n % 3)
        for n, word in enumerate(("reader", "mat", "one") * 4)
    ]
    model = build(encoder, task, seed=1)
    batch = collate(encode(items, task, encoder.tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = model.loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.inference_mode():
        assert model(batch).argmax(-1).tolist() == [item.target for item in items]


def test_a_classifier_that_reads_a_blind_token_is_not_kept(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("roberta-decoder", "SequenceClassification"), samples.task_of("classification")
    with pytest.raises(InputError, match="must read a token that sees the others to keep its own head"):
        build(encoder, task, "own")
