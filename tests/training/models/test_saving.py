"""Can others load what was saved, and does it answer the same?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import cats
import samples
import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.tasks.task import Kind
from microtome.training.heads.head import Head
from microtome.training.inputs import collate, encode
from microtome.training.models.methods import trainable
from microtome.training.models.modeling import build
from microtome.training.models.saving import as_stock, said_of_head, save
from microtome.training.opening import open_model

Encoders = Callable[..., Any]
AUTO = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "multiple_choice": "AutoModelForMultipleChoice",
    "span": "AutoModelForQuestionAnswering",
    "tagging": "AutoModelForTokenClassification",
}


def batch_of(encoder: Any, kind: Kind) -> dict[str, torch.Tensor]:
    return collate(encode(samples.items_of(kind), samples.task_of(kind), encoder.tokenizer))


@pytest.mark.parametrize("model_type", [each for each in tiny.CONFIGS if each != "granite"])
def test_a_saved_classifier_is_the_librarys_with_its_tokenizer(
    encoder_of: Encoders, model_type: str, tmp_path: Path
) -> None:
    """The library alone, from texts to logits: its classes read the folder, pad and answer the same bits."""
    encoder, task = encoder_of(model_type), samples.task_of("classification")
    model = build(encoder, task, seed=1)
    folder = save(model, tmp_path, encoder.tokenizer)
    net, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert not report["missing_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pairs = [
        (each.texts[0], each.texts[1] if len(each.texts) > 1 else None)
        for each in samples.items_of(task.kind)
    ]
    for first, second in pairs:
        one = tokenizer(first, second, truncation=True)["input_ids"]
        assert one == encoder.tokenizer.texts([(first, second)])[0].ids.tolist()
    if model_type == "xlnet":
        # The tiny vocabulary does not have it where the configuration says; attention never sees it.
        tokenizer.pad_token = "<pad>"
    singles = samples.items_of("regression")
    inputs = tokenizer(
        [each.texts[0] for each in singles], padding=True, truncation=True, return_tensors="pt"
    )
    batch = collate(encode(singles, samples.task_of("regression"), encoder.tokenizer))
    with torch.inference_mode():
        assert torch.equal(net(**inputs).logits, model(batch))
        again = open_model(folder, task, context=Context()).task_model
        assert torch.equal(again(batch), model(batch))
    assert net.config.id2label == dict(enumerate(samples.LABELS))
    assert not list(folder.glob("*.bin"))


@pytest.mark.parametrize("kind", AUTO)
@pytest.mark.parametrize("model_type", ["bert", "roberta", "xlnet"])
def test_other_kinds_are_saved_as_their_own_classes(
    encoder_of: Encoders, model_type: str, kind: Kind, tmp_path: Path
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model = build(encoder, task, seed=1)
    save(model, tmp_path, encoder.tokenizer)
    net = getattr(transformers, AUTO[kind]).from_pretrained(tmp_path)
    assert type(net) is type(model.net)
    for name, tensor in model.net.state_dict().items():
        assert torch.equal(net.state_dict()[name], tensor)
    batch = batch_of(encoder, kind)
    with torch.inference_mode():
        assert torch.equal(open_model(tmp_path, task, context=Context()).task_model(batch), model(batch))


@pytest.mark.parametrize("kind", ["classification", "multiple_choice"])
@pytest.mark.parametrize("model_type", ["bert", "albert", "electra"])
@pytest.mark.parametrize(
    "head", ["jiant", Head(reads="mean", dense=2), Head(reads="pooler", dense=1, pooler="fresh")]
)
def test_other_heads_lie_beside_the_base_model(
    encoder_of: Encoders, model_type: str, head: Any, kind: Kind, tmp_path: Path
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model = build(encoder, task, head, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    save(model, tmp_path, encoder.tokenizer)
    base, report = transformers.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert type(base) is type(model.base)
    batch = batch_of(encoder, kind)
    again = open_model(tmp_path, task, context=Context()).task_model
    with torch.inference_mode():
        assert torch.equal(again(batch), model(batch))
    assert again.head == model.head
    assert (tmp_path / "head.safetensors").is_file()
    assert json.loads((tmp_path / "head.json").read_text())["kind"] == kind
    said = said_of_head(tmp_path)
    assert said is not None
    assert "would draw another head at random" in said
    assert said in (tmp_path / "README.md").read_text()


def test_a_parser_is_read_back(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("parsing")
    model = build(encoder, task, seed=1)
    save(model, tmp_path, encoder.tokenizer)
    batch = batch_of(encoder, "parsing")
    with torch.inference_mode():
        for one, two in zip(
            open_model(tmp_path, task, context=Context()).task_model(batch), model(batch), strict=True
        ):
            assert torch.equal(one, two)
    with pytest.raises(InputError, match="must be a model for tagging, but it is one for parsing"):
        open_model(tmp_path, samples.task_of("tagging"), context=Context())
    with pytest.raises(InputError, match=r"must have the labels of parsing \(x\), but it has no, yes, maybe"):
        open_model(tmp_path, samples.task_of("parsing", ("x",)), context=Context())


def test_adapters_are_merged_on_the_way(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    model = build(encoder, task)
    trainable(model, "lora")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter += torch.randn_like(parameter)
    save(model, tmp_path, encoder.tokenizer)
    net = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    batch = batch_of(encoder, "classification")
    inputs = {n: batch[n] for n in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.inference_mode():
        assert torch.allclose(net(**inputs).logits, model(batch), atol=1e-5)
        plain = build(encoder, task)
        assert not torch.allclose(model(batch), plain(batch), atol=1e-3)


@pytest.mark.parametrize("model_type", ["bert", "roberta", "xlnet", "modernbert"])
def test_the_encoder_inside_cuts_texts_as_before(
    encoder_of: Encoders, model_type: str, tmp_path: Path
) -> None:
    encoder = encoder_of(model_type)
    save(build(encoder, samples.task_of("classification")), tmp_path, encoder.tokenizer)
    again: Any = load(tmp_path)
    assert again.tokenizer.digest == encoder.tokenizer.digest
    for name, tensor in encoder.base.state_dict().items():
        if "pooler" not in name or again.base.pooler is not None:
            assert torch.equal(again.base.state_dict()[name], tensor)


def test_a_folder_that_held_another_head_forgets_it(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), samples.task_of("classification")
    save(build(encoder, task, "jiant"), tmp_path, encoder.tokenizer)
    save(build(encoder, task), tmp_path, encoder.tokenizer)
    assert open_model(tmp_path, task, context=Context()).task_model.stock
    assert said_of_head(tmp_path) is None
    assert not (tmp_path / "README.md").exists()


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "m", "bert", head="SequenceClassification")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"of m must be finite numbers, but classifier\.bias has NaN"):
        open_model(folder, cats.cats_task(), context=Context())


POOLED = Head(reads="pooler", dense=0, pooler="fresh", dropout=0.3)


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize(
    ("model_type", "head"),
    [
        ("bert", POOLED),
        ("albert", POOLED),
        ("roberta", POOLED),
        ("roberta", Head(reads="cls", dense=1, dropout=0.3)),
        ("mpnet", "jiant"),
        ("mpnet", POOLED),
        ("xlnet", "jiant"),
        ("deberta", "jiant"),
        ("deberta-v2", "jiant"),
        ("electra", Head(reads="cls", dense=1, activation="gelu", dropout=0.3)),
        ("distilbert", Head(reads="cls", dense=1, activation="relu")),
    ],
)
def test_stock_transformers_read_the_head(
    encoder_of: Callable[..., Any], model_type: str, head: Any, kind: Kind, tmp_path: Path
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    model = build(encoder, task, head, seed=1)
    assert model.reader is not None
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    save(model, tmp_path, encoder.tokenizer)
    assert said_of_head(tmp_path) is None
    net, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    batch = collate(encode(samples.items_of(kind), task, encoder.tokenizer))
    again = open_model(tmp_path, task, context=Context()).task_model
    with torch.inference_mode():
        ours, theirs = model(batch), net.eval()(**again._inputs(batch)).logits
        torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(again(batch), ours, atol=1e-5, rtol=1e-4)
    assert float(ours.std()) > 1e-3


@pytest.mark.parametrize(
    ("model_type", "head"),
    [
        ("roberta", "jiant"),
        ("electra", "jiant"),
        ("distilbert", "jiant"),
        ("bert", Head(reads="cls", dense=1)),
        ("gpt2", Head(reads="last", dense=0)),
    ],
)
def test_what_the_library_cannot_compute_stays(
    encoder_of: Callable[..., Any], model_type: str, head: Any
) -> None:
    model = build(encoder_of(model_type), samples.task_of("classification"), head)
    assert as_stock(model) is model


def test_a_model_that_would_answer_otherwise_stays(
    encoder_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(encoder_of("distilbert"), samples.task_of("classification"), Head(activation="relu"))
    assert as_stock(model) is not model
    monkeypatch.setattr("microtome.training.models.saving._near", lambda one, two: False)
    assert as_stock(model) is model


def test_a_model_in_training_is_left_in_training(encoder_of: Callable[..., Any]) -> None:
    model = build(encoder_of("distilbert"), samples.task_of("classification"), Head(activation="relu"))
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not as_stock(model).training
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
