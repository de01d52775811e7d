"""Do models answer as the library's own classes do, whatever stands beside an example?"""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import samples
import tiny
from microtome.encoders.encoder import digest_weights
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.tasks.task import Item, Kind
from microtome.training.heads.decoding import answers
from microtome.training.heads.head import Head
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.models.stock import stock_class, trained_pooler

Encoders = Callable[..., Any]
AS_MANY_ARRAYS = (list, tuple)


def batch_of(encoder: Any, kind: Kind, **options: Any) -> tuple[list[Any], dict[str, torch.Tensor]]:
    features = encode(samples.items_of(kind), samples.task_of(kind), encoder.tokenizer, **options)
    return features, collate(features)


def arrays(value: Any) -> list[Any]:
    return list(value) if isinstance(value, AS_MANY_ARRAYS) else [value]


def answered(model: Any, batch: dict[str, torch.Tensor]) -> Any:
    with torch.inference_mode():
        return model(batch)


@pytest.mark.parametrize("kind", samples.KINDS)
@pytest.mark.parametrize("model_type", ["bert", "roberta", "xlnet", "gpt2", "modernbert"])
def test_an_example_gets_the_same_answer_alone_and_in_a_batch(
    encoder_of: Encoders, model_type: str, kind: Kind
) -> None:
    if (model_type, kind) == ("xlnet", "language_modeling"):
        pytest.skip("XLNet is no language model of these kinds")
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of(kind), seed=1)
    features, batch = batch_of(encoder, kind, mask=model.mask)
    with torch.inference_mode():
        together = answers(model, model(batch), batch, features)
        for feature, among in zip(features, together, strict=True):
            single = collate([feature])
            (alone,) = answers(model, model(single), single, [feature])
            for one, other in zip(arrays(alone), arrays(among), strict=True):
                assert one == pytest.approx(other, abs=1e-5, rel=1e-6)


@pytest.mark.parametrize("model_type", tiny.CONFIGS)
def test_classifiers_answer_as_the_librarys_own_class_does(encoder_of: Encoders, model_type: str) -> None:
    """The oracle is the library's class with the same weights, fed as its own tokenizer would feed it."""
    encoder, task = encoder_of(model_type), samples.task_of("classification")
    model = build(encoder, task, seed=1)
    _, batch = batch_of(encoder, "classification")
    found = answered(model, batch)
    if model_type == "granite":
        assert not model.stock  # the library has no classifier for it
        return
    stock = transformers.AutoModelForSequenceClassification.from_config(model.config).eval()
    stock.load_state_dict(model.net.state_dict())
    inputs = {k: v for k, v in batch.items() if k in ("input_ids", "attention_mask", "token_type_ids")}
    inputs["input_ids"] = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, model.pad)
    if model_type == "xlnet":
        order = inputs["attention_mask"].argsort(dim=1, stable=True)
        inputs = {name: value.gather(1, order) for name, value in inputs.items()}
    with torch.inference_mode():
        assert torch.equal(stock(**inputs).logits, found)
    assert stock.config.id2label == dict(enumerate(samples.LABELS))


@pytest.mark.parametrize("kind", ["multiple_choice", "span", "tagging", "language_modeling"])
@pytest.mark.parametrize("model_type", ["bert", "roberta", "gpt2"])
def test_other_kinds_answer_as_the_librarys_own_class_does(
    encoder_of: Encoders, model_type: str, kind: Kind
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model: Any = build(encoder, task, seed=1)
    _, batch = batch_of(encoder, kind, mask=model.mask)
    inputs = {k: v for k, v in batch.items() if k in ("input_ids", "attention_mask", "token_type_ids")}
    inputs["input_ids"] = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, model.pad)
    assert type(model.net) is stock_class(encoder.config, kind, causal=encoder.family.causal)
    if kind == "multiple_choice" and model_type == "gpt2":
        inputs = {name: value.flatten(0, 1) for name, value in inputs.items()}
    with torch.inference_mode():
        found, stock = model(batch), model.net(**inputs)
    if kind == "span":
        assert torch.equal(found, torch.stack([stock.start_logits, stock.end_logits], dim=-1))
    elif kind == "tagging":
        for row, places in enumerate(batch["words"]):
            for word, place in enumerate(places):
                if place >= 0:
                    assert torch.equal(found[row, word], stock.logits[row, place])
    else:
        assert torch.equal(found, stock.logits.view(found.shape))


@pytest.mark.parametrize("head", ["stock", "jiant", Head(reads="mean", dense=0), Head(reads="last", dense=2)])
@pytest.mark.parametrize("kind", samples.SEQUENCE_KINDS)
@pytest.mark.parametrize("model_type", ["bert", "roberta", "albert", "xlnet", "gpt2"])
def test_the_head_alone_reads_last_states_as_the_whole_model_does(
    encoder_of: Encoders, model_type: str, kind: Kind, head: Any
) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of(kind), head, seed=1)
    _, batch = batch_of(encoder, kind)
    flat = {name: value.flatten(0, -2) for name, value in batch.items() if value.ndim > 1}
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in flat]
    with torch.inference_mode():
        states = encoder.base(**{n: flat[n] for n in names}, **encoder.family.arguments).last_hidden_state
        found = model.read(states, batch)
        assert torch.allclose(found, model(batch), atol=1e-6)
        other = model.read(states + 1.0 * torch.randn_like(states), batch)
    assert not torch.allclose(found, other, atol=1e-6)
    assert model.base is not encoder.base
    assert type(model.base) is type(encoder.base)


@pytest.mark.parametrize("kind", ["span", "tagging", "parsing", "language_modeling"])
@pytest.mark.parametrize("model_type", ["bert", "deberta", "gpt2", "llama"])
def test_heads_of_words_and_tokens_alone_read_last_states_too(
    encoder_of: Encoders, model_type: str, kind: Kind
) -> None:
    encoder = encoder_of(model_type)
    model = build(encoder, samples.task_of(kind), seed=1)
    _, batch = batch_of(encoder, kind, mask=model.mask)
    with torch.inference_mode():
        inputs = model.base_inputs(batch)
        states = encoder.base(**inputs, **encoder.family.arguments).last_hidden_state
        for found, right in zip(arrays(model.read(states, batch)), arrays(model(batch)), strict=True):
            assert torch.allclose(found, right, atol=1e-6)
        for found, right in zip(arrays(model.read(states + 1, batch)), arrays(model(batch)), strict=True):
            assert not torch.allclose(found, right, atol=1e-6)
    assert model.base is not encoder.base
    assert type(model.base) is type(encoder.base)


@pytest.mark.parametrize("head", ["stock", "jiant"])
@pytest.mark.parametrize("model_type", ["bert", "electra", "gpt2"])
def test_new_weights_depend_on_the_seed_alone(encoder_of: Encoders, model_type: str, head: str) -> None:
    encoder, task = encoder_of(model_type), samples.task_of("classification")
    before = encoder.digest
    torch.manual_seed(5)
    first = build(encoder, task, head, seed=3)
    torch.manual_seed(6)
    drawn = torch.rand(3)
    torch.manual_seed(6)
    again = build(encoder, task, head, seed=3)
    assert torch.equal(torch.rand(3), drawn), "what others draw must not depend on the building of a model"
    other = build(encoder, task, head, seed=4)
    assert digest_weights(first) == digest_weights(again) != digest_weights(other)
    state = encoder.base.state_dict()
    for model in (first, other):
        assert all(torch.equal(tensor, state[name]) for name, tensor in model.base.state_dict().items())
    assert encoder.digest == before


def test_learning_leaves_the_encoder_as_it_is(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    before = encoder.digest
    for kind in samples.KINDS:
        model = build(encoder, samples.task_of(kind)).train()
        _, batch = batch_of(encoder, kind, mask=model.mask)
        model.loss(model(batch), batch).backward()
        torch.optim.SGD([p for p in model.parameters() if p.grad is not None], 0.1).step()
    assert encoder.digest == before


@pytest.mark.parametrize("kind", samples.KINDS)
@pytest.mark.parametrize("model_type", ["bert", "llama"])
def test_models_learn_their_examples(encoder_of: Encoders, model_type: str, kind: Kind) -> None:
    encoder = encoder_of(model_type)
    # Without dropout, so that the losses do not depend on what other tests have drawn.
    model = build(encoder, samples.task_of(kind), seed=0).eval()
    _, batch = batch_of(encoder, kind, mask=model.mask)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(60):
        loss = model.loss(model(batch), batch)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]


def test_heads_in_words_of_formulas(encoder_of: Encoders) -> None:
    """Each reading, computed here from the states and the weights."""
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    features, batch = batch_of(encoder, "classification")
    with torch.inference_mode():
        inputs = {n: batch[n] for n in ("input_ids", "attention_mask", "token_type_ids")}
        states = encoder.base(**inputs).last_hidden_state
        for reads in ("cls", "last", "mean"):
            model: Any = build(encoder, task, Head(reads=reads, dense=1, activation="relu"), seed=2)
            _, dense, _, _, linear = model.reader
            for row, feature in enumerate(features):
                own = states[row, : len(feature)]
                read = {"cls": own[0], "last": own[-1], "mean": own[~feature.tokens[0].special].mean(0)}[
                    reads
                ]
                expected = linear(torch.relu(dense(read)))
                assert torch.allclose(model(batch)[row], expected, atol=1e-6)


def test_a_fresh_pooler_is_drawn_and_a_pretrained_one_is_kept(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    own = encoder.base.pooler.dense.weight
    kept: Any = build(encoder, task, Head(reads="pooler", dense=1, pooler="pretrained"))
    fresh: Any = build(encoder, task, Head(reads="pooler", dense=1, pooler="fresh"))
    assert torch.equal(kept.base.pooler.dense.weight, own)
    assert not torch.allclose(fresh.base.pooler.dense.weight, own)
    made: Any = build(encoder_of("electra"), task, Head(reads="pooler", dense=0, pooler="fresh"))
    assert [type(each).__name__ for each in made.reader] == ["Linear", "Tanh", "Dropout", "Linear"]


def rewritten(folder: Path, target: Path, architecture: str) -> Path:
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    return target


def test_the_pooler_of_a_checkpoint_that_opens_as_a_masked_model_is_found_in_its_file(tmp_path: Path) -> None:
    """As in bert-base-uncased: its architecture has no pooler, but its file has one."""
    whole = tiny.save_checkpoint(tmp_path / "whole", "bert")
    encoder: Any = load(rewritten(whole, tmp_path / "masked", "BertModel"))
    pooler = encoder.base.pooler.dense.weight
    saved = tiny.save_checkpoint(tmp_path / "pre", "bert", head="PreTraining")
    masked: Any = load(rewritten(saved, tmp_path / "opened", "BertForMaskedLM"))
    assert masked.base.pooler is None
    right = transformers.AutoModel.from_pretrained(saved).pooler.dense.weight
    model: Any = build(masked, samples.task_of("classification"))
    assert torch.equal(model.base.pooler.dense.weight, right)
    assert "pooler of the checkpoint" in model.notes
    assert torch.equal(build(encoder, samples.task_of("classification")).base.pooler.dense.weight, pooler)


def test_a_checkpoint_without_a_pooler_gets_one_from_the_seed_and_is_refused_as_pretrained(
    encoder_of: Encoders,
) -> None:
    encoder, task = encoder_of("roberta", "MaskedLM"), samples.task_of("classification")
    assert trained_pooler(encoder) is None
    first, again = (build(encoder, task, "jiant", seed=2) for _ in range(2))
    assert digest_weights(first) == digest_weights(again)
    assert first.head == Head(reads="pooler", dense=1, pooler="fresh", dropout=0.1)
    with pytest.raises(InputError, match=r"a pretrained pooler must be in the checkpoint, but .* has none"):
        build(encoder, task, Head(reads="pooler", dense=1, pooler="pretrained"))


def test_a_head_that_is_the_familys_own_is_built_as_the_librarys_class(encoder_of: Encoders) -> None:
    task = samples.task_of("classification")
    for model_type, head in {
        "bert": Head(reads="pooler", dense=0, pooler="pretrained"),
        "roberta": Head(reads="cls", dense=1),
        "electra": Head(reads="cls", dense=1, activation="gelu"),
    }.items():
        ours, stock = (build(encoder_of(model_type), task, each, seed=1) for each in (head, "stock"))
        assert ours.stock
        assert digest_weights(ours) == digest_weights(stock)


def test_own_heads_are_kept_and_their_labels_matched_by_name(tmp_path: Path) -> None:
    names = {0: "Maybe", 1: "NO", 2: "yes"}
    folder = tiny.save_checkpoint(
        tmp_path / "tuned",
        "bert",
        head="SequenceClassification",
        id2label=names,
        label2id={v: k for k, v in names.items()},
    )
    encoder: Any = load(folder)
    model = build(encoder, samples.task_of("classification"), "own")
    _, batch = batch_of(encoder, "classification")
    inputs = {n: batch[n] for n in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.inference_mode():
        assert torch.equal(model(batch), encoder.model(**inputs).logits[:, [1, 2, 0]])
    assert model.notes == ("outputs of tuned reordered to the labels of classification, by name: [1, 2, 0]",)
    with pytest.raises(
        InputError, match=r"must be those of classification \(a, b, c\), but they are Maybe, NO, yes"
    ):
        build(encoder, samples.task_of("classification", ("a", "b", "c")), "own")
    with pytest.raises(InputError, match="must have 2 outputs for classification, but it has 3"):
        build(encoder, samples.task_of("classification", ("a", "b")), "own")
    with pytest.raises(InputError, match="must have 1 output for regression, but it has 3"):
        build(encoder, samples.task_of("regression"), "own")
    with pytest.raises(InputError, match="BertForMultipleChoice"):
        build(encoder, samples.task_of("multiple_choice"), "own")
    with pytest.raises(
        InputError, match=r"be fine-tuned for tagging .*, but it is a BertForSequenceClassification"
    ):
        build(encoder, samples.task_of("tagging"), "own")


def test_a_classifier_of_several_labels_scores_no_choices(encoder_of: Encoders) -> None:
    encoder = encoder_of("gpt2", "SequenceClassification")
    with pytest.raises(InputError, match="must have 1 output for multiple_choice, but it has 2"):
        build(encoder, samples.task_of("multiple_choice"), "own")


def test_jiants_dropout_is_that_of_the_states(tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path, "albert", hidden_dropout_prob=0.0))
    model: Any = build(encoder, samples.task_of("classification"), "jiant")
    assert {each.p for each in model.reader.modules() if isinstance(each, torch.nn.Dropout)} == {0.0}
    plain: Any = build(encoder, samples.task_of("classification"), Head(reads="mean", dense=1))
    assert {each.p for each in plain.reader.modules() if isinstance(each, torch.nn.Dropout)} == {0.1}


def test_outputs_that_are_only_numbered_are_taken_in_order(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert", "SequenceClassification")
    model = build(encoder, samples.task_of("classification", ("bad", "good")), "own")
    assert model.order is None
    assert "have no names: taken in the order of classification" in model.notes[0]


@pytest.mark.parametrize(
    ("model_type", "head"), [("bert", "MaskedLM"), ("gpt2", "CausalLM"), ("llama", "CausalLM")]
)
def test_language_models_keep_the_head_of_the_checkpoint(
    encoder_of: Encoders, model_type: str, head: str
) -> None:
    encoder = encoder_of(model_type, head)
    model = build(encoder, samples.task_of("language_modeling"))
    assert "nothing drawn" in model.notes[0]
    _, batch = batch_of(encoder, "language_modeling", mask=model.mask)
    with torch.inference_mode():
        inputs = {n: batch[n] for n in ("input_ids", "attention_mask", "token_type_ids") if n in batch}
        expected = encoder.model(**inputs).logits
        real = batch["attention_mask"].bool()
        assert torch.allclose(model(batch)[real], expected[real], atol=1e-6)


def test_what_cannot_be_built_is_refused(encoder_of: Encoders) -> None:
    with pytest.raises(InputError, match=r"must be for one of classification, .* but tagging is tagging"):
        build(encoder_of("bert"), samples.task_of("tagging"), Head(reads="cls", dense=1))
    with pytest.raises(InputError, match="XLNet does neither"):
        build(encoder_of("xlnet"), samples.task_of("language_modeling"))
    with pytest.raises(InputError, match="classification must have labels to be learned"):
        build(encoder_of("bert"), samples.task_of("classification", ()))
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, but got -1"):
        build(encoder_of("bert"), samples.task_of("classification"), seed=-1)


def test_padding_of_causal_models_is_a_token_that_no_text_ends_with(encoder_of: Encoders) -> None:
    """GPT-2 names no padding, and id 0 would be a word of real vocabularies: its end of text is taken."""
    model = build(encoder_of("gpt2"), samples.task_of("classification"))
    special = [each["id"] for each in json.loads(encoder_of("gpt2").tokenizer.json)["added_tokens"]]
    assert model.config.pad_token_id == model.pad
    assert model.pad in special


def test_a_choice_that_is_not_there_is_never_chosen(encoder_of: Encoders) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("multiple_choice")
    items = [
        Item(id="0", choices=(("a", "cat"), ("a", "mat")), target=0),
        Item(id="1", choices=(("a", "cat"), ("a", "mat"), ("a", "tea for all")), target=2),
    ]
    for head in ("stock", "jiant"):
        model = build(encoder, task, head)
        features = encode(items, task, encoder.tokenizer)
        batch = collate(features)
        with torch.inference_mode():
            logits = model(batch)
            assert torch.isneginf(logits[0, 2])
            assert torch.isfinite(model.loss(logits, batch))
            assert [len(each) for each in answers(model, logits, batch, features)] == [2, 3]


def test_models_can_be_copied_and_sent_to_other_processes(encoder_of: Encoders) -> None:
    encoder = encoder_of("gpt2")
    _, batch = batch_of(encoder, "classification")
    for head in ("stock", "jiant"):
        model = build(encoder, samples.task_of("classification"), head)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            with torch.inference_mode():
                assert torch.equal(other(batch), model(batch))
