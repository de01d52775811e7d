"""Do checkpoints load as they are, safely, and with one sentence where they cannot?"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tiny
from microtome.encoders.encoder import TransformerEncoder, digest_weights
from microtome.encoders.loading import load
from microtome.errors import InputError, MicrotomeError
from microtome.testing.families import states


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_checkpoint(tmp_path_factory.mktemp("models") / "bert", "bert")


def opened(folder: Path, **options: Any) -> TransformerEncoder:
    encoder = load(folder, **options)
    assert isinstance(encoder, TransformerEncoder)
    return encoder


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_an_encoder_says_what_it_is(bert: Path) -> None:
    encoder = opened(bert)
    assert repr(encoder) == "<Encoder bert: BERT, 3 blocks of width 32>"
    assert encoder.layers == ("0", "1", "2", "3")
    assert encoder.widths == (32,) * 4
    assert encoder.source.given == str(bert)
    assert not encoder.model.training
    assert opened(bert, name="mine").name == "mine"
    assert encoder.digest == opened(bert).digest


@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_a_saved_copy_has_the_same_digest(model_type: str, tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "m", model_type)
    encoder, again = opened(folder), copied(folder, tmp_path / "again")
    before: Any = encoder.model
    before.save_pretrained(again)
    assert opened(again).digest == encoder.digest == opened(folder).digest


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": 2}, {"hidden_dropout_prob": 0.3}, {"hidden_act": "relu"}]
)
def test_the_digest_knows_what_weights_do_not_tell(
    bert: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = copied(bert, tmp_path / "other")
    config = json.loads((folder / "config.json").read_text())
    assert all(config[name] != value for name, value in change.items())
    (folder / "config.json").write_text(json.dumps(config | change))
    one, other = opened(bert), opened(folder)
    assert digest_weights(one.model) == digest_weights(other.model)
    assert one.digest != other.digest


@pytest.mark.parametrize("head", ["SequenceClassification", "TokenClassification", "MaskedLM"])
def test_models_with_heads_keep_them(head: str, tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "m", "roberta", head=head)
    encoder = opened(folder)
    assert type(encoder.model).__name__ == f"RobertaFor{head}"
    same = transformers.AutoModel.from_pretrained(folder)
    batch = encoder.words([["the", "cat"]])
    with torch.no_grad():
        expected = same(**encoder.tokenizer.collate(batch)).last_hidden_state
    torch.testing.assert_close(states(encoder, batch)[3], expected, atol=0, rtol=0)


def test_half_precision(bert: Path) -> None:
    encoder = opened(bert, dtype="bfloat16")
    assert states(encoder, encoder.words([["the"]]))[3].dtype == torch.bfloat16


def test_old_pickles_of_plain_weights_load(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "old")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert digest_weights(opened(folder).model) == digest_weights(opened(bert).model)


class Burglar:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_that_would_run_code_is_refused(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "evil")
    (folder / "model.safetensors").unlink()
    mark = tmp_path / "was here"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Burglar(str(mark)), protocol=2))
    with pytest.raises(InputError, match="must hold plain weights, but its pickle would run code"):
        load(folder)
    assert not mark.exists()


def test_a_folder_of_models_names_one_of_them(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"seed-{seed}").mkdir()
        (tmp_path / f"seed-{seed}" / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"a folder of models; give one of them, such as .*seed-0\.$"):
        load(tmp_path)


def test_code_that_comes_with_a_model_does_not_run(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "remote")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('ran')")
    with pytest.raises(InputError, match="must be a model that can be read"):
        load(folder)


def test_weights_that_are_missing_or_of_another_shape_are_named(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "less")
    weights = load_file(folder / "model.safetensors")
    name = "encoder.layer.1.output.dense.weight"
    save_file({k: v for k, v in weights.items() if k != name}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=rf"1 tensors are missing, such as {name}\.$"):
        load(folder)
    save_file(weights | {name: torch.zeros(3, 3)}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(MicrotomeError, match=r"must fit its config\.json|must load"):
        load(folder)


@pytest.mark.parametrize("model_type", ["bert", "distilbert", "gpt2"])
@pytest.mark.parametrize("layers", [2, 5, 0, -1, 10**300])
def test_a_configuration_that_disagrees_with_the_weights_is_refused(
    model_type: str, layers: int, tmp_path: Path
) -> None:
    folder = tiny.save_checkpoint(tmp_path / "m", model_type)
    config = json.loads((folder / "config.json").read_text())
    (name,) = {"num_hidden_layers", "n_layers", "n_layer"} & set(config)
    (folder / "config.json").write_text(json.dumps(config | {name: layers}))
    words = {2: "must declare the 3 blocks of its weights, but it declares 2, so that [0-9]+ tensors such as"}
    words |= {
        0: "must declare the 3 blocks of its weights, but it declares 0, so that [0-9]+ tensors such as"
    }
    words |= {5: "[0-9]+ tensors are missing, such as", -1: "must be between 0 and 10,000, but got -1"}
    words |= {10**300: "must be between 0 and 10,000, but got 10000"}
    with pytest.raises(InputError, match=words[layers]):
        load(folder)


def test_a_tokenizer_that_breaks_its_library_is_refused(tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / "m", "roberta")
    document = json.loads((folder / "tokenizer.json").read_text())
    special = document["post_processor"]["special_tokens"]
    special["nobody"] = special.pop("<s>")
    (folder / "tokenizer.json").write_text(json.dumps(document))
    encoder: Any = load(folder)
    with pytest.raises(InputError, match=r"tokenizer\.json must be whole, but its library failed"):
        encoder.tokenizer.texts([("a cat", None)])


def test_a_huge_pad_token_is_not_used(tmp_path: Path) -> None:
    # GPT-2 has no padding among its embeddings, so that the library takes any number.
    folder = tiny.save_checkpoint(tmp_path / "m", "gpt2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 2**63 + 1}))
    tokenizer = opened(folder).tokenizer
    batch = tokenizer.collate(tokenizer.texts([("a cat sleeps", None), ("a", None)]))
    assert batch["input_ids"].dtype == torch.int64


def test_windows_that_are_nested_too_deep_are_ignored(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "deep")
    (folder / "windows.json").write_text("[" * 100_000)
    encoder: Any = load(folder)
    assert encoder.depth == 3


def test_tensors_of_the_encoder_that_have_no_place_are_told(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "more")
    weights = load_file(folder / "model.safetensors")
    more = {"encoder.layer.1.extra.weight": torch.zeros(2), "cls.predictions.bias": torch.zeros(2)}
    save_file(weights | more, folder / "model.safetensors", {"format": "pt"})
    told = "1 tensors of its file left out, such as encoder.layer.1.extra.weight"
    assert opened(folder).source.changes == (told,)


WRONG = [None, -1, 1e25, "x", [1]]
# By file, what is put in the place of the whole document or of one of its values.
MUTATIONS = [
    (file, None, text) for file in ("config.json", "tokenizer.json") for text in ("", "[]", "3", '"x"')
]
MUTATIONS += [("tokenizer_config.json", "model_input_names", json.dumps(value)) for value in WRONG]
MUTATIONS += [
    ("tokenizer_config.json", "model_max_length", json.dumps(value)) for value in ("x", [1], {}, 10**400)
]
MUTATIONS += [
    ("config.json", name, json.dumps(value))
    for name in ("architectures", "dtype", "hidden_size", "model_type", "num_attention_heads", "vocab_size")
    for value in WRONG
]
MUTATIONS += [
    ("tokenizer.json", name, json.dumps(value))
    for name in ("added_tokens", "model", "normalizer", "version")
    for value in WRONG
]


def test_files_with_wrong_types_load_or_are_refused_in_words(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "m")
    for file, name, value in MUTATIONS:
        text = (folder / file).read_text()
        changed = value if name is None else json.dumps(json.loads(text) | {name: json.loads(value)})
        (folder / file).write_text(changed)
        with contextlib.suppress(MicrotomeError):
            encoder = opened(folder)
            encoder.run(encoder.texts([("The cat.", None)]), lambda layer, states: None)
        (folder / file).write_text(text)


def test_a_pipe_among_the_files_is_refused_and_not_waited_for(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "m")
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(InputError, match=r"config\.json must be a plain file"):
        load(folder)


def test_a_pooler_may_be_absent(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "pooled")
    weights = {k: v for k, v in load_file(folder / "model.safetensors").items() if "pooler" not in k}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert opened(folder).depth == 3


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda f: (f / "tokenizer.json").unlink(),
            "must hold a tokenizer .tokenizer.json or vocab.txt.",
        ),
        (lambda f: (f / "config.json").unlink(), "must be a model that can be read, but got"),
        (lambda f: (f / "config.json").write_text("{"), "must be a model that can be read, but got"),
        (lambda f: (f / "model.safetensors").unlink(), "must be a model that can be read, but got"),
        (lambda f: (f / "model.safetensors").write_bytes(b"12345678"), "must"),
        (lambda f: [p.unlink() for p in f.iterdir()], "must hold a model, but the folder is empty"),
    ],
    ids=["tokenizer", "config", "broken config", "weights", "broken weights", "empty"],
)
def test_what_is_not_there_is_told(bert: Path, tmp_path: Path, change: Any, words: str) -> None:
    folder = copied(bert, tmp_path / "m")
    change(folder)
    with pytest.raises(MicrotomeError, match=words) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_type_of_no_family_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(MicrotomeError, match=r"model type must be one of albert, bert, .* but got 't5'"):
        load(tmp_path)


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"embeddings": "some"}])
def test_bad_options_are_told(bert: Path, options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"source": bert} | options
    with pytest.raises(InputError, match=r" must be .*, but got"):
        load(given.pop("source"), **given)


def test_a_folder_has_no_revisions(bert: Path) -> None:
    with pytest.raises(InputError, match=r"revision must be left out for .*, which is a folder, but got"):
        load(bert, revision="main")


def test_loading_makes_no_noise(bert: Path, tmp_path: Path) -> None:
    folder = copied(bert, tmp_path / "pooled")
    weights = {k: v for k, v in load_file(folder / "model.safetensors").items() if "pooler" not in k}
    save_file(weights | {"surplus": torch.zeros(2)}, folder / "model.safetensors", {"format": "pt"})
    script = f"import microtome.encoders.loading as l; l.load({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


# Other tokenizers


def test_a_folder_of_word_pieces_serves_any_model(tmp_path: Path) -> None:
    # As some ALBERTs have it: the model type suggests sentence pieces, the vocabulary is one of word pieces.
    vocabulary = sorted((backend := tiny.wordpiece()).get_vocab().items(), key=lambda item: item[1])
    folder = tiny.save_checkpoint(tmp_path / "albert", "albert", vocab_size=len(vocabulary))
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(word for word, _ in vocabulary), encoding="utf-8")
    encoder = opened(folder)
    (found,) = encoder.words([["The", "cat", "sleeps"]])
    assert found.ids.tolist() == backend.encode(["The", "cat", "sleeps"], is_pretokenized=True).ids
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    for given in (folder / "vocab.txt", folder, backend, wrapped):
        (same,) = opened(folder, tokenizer=given).words([["The", "cat", "sleeps"]])
        assert same.ids.tolist() == found.ids.tolist()


def test_a_tokenizer_that_does_not_fit_is_refused(bert: Path) -> None:
    with pytest.raises(InputError, match=r"the tokenizer of bert must have a vocabulary for its"):
        load(bert, tokenizer=tiny.bytes_bpe())
    with pytest.raises(InputError, match=r"^tokenizer must be a folder, a hub id or a tokenizer object"):
        load(bert, tokenizer=3)


# Random twins


def test_a_twin_has_the_shape_and_nothing_else(bert: Path) -> None:
    model, twin = opened(bert), opened(bert, random_init=True, seed=3)
    again, other = opened(bert, random_init=True, seed=3), opened(bert, random_init=True, seed=4)
    assert twin.name == "bert-random3"
    assert twin.source.changes == ("all weights re-initialized (seed 3)",)
    assert digest_weights(twin.model) == digest_weights(again.model) != digest_weights(other.model)
    before, after = model.model.state_dict(), twin.model.state_dict()
    assert all(before[k].shape == after[k].shape for k in before)
    same = [k for k in before if torch.equal(before[k], after[k])]
    assert not [k for k in same if k.endswith("weight")]


def test_drawing_a_twin_leaves_the_global_state_alone(bert: Path) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    opened(bert, random_init=True)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("model_type", ["bert", "albert", "gpt2", "electra"])
def test_a_twin_may_keep_the_embeddings(model_type: str, tmp_path: Path) -> None:
    folder = tiny.save_checkpoint(tmp_path / model_type, model_type)
    model, twin = opened(folder), opened(folder, random_init=True, embeddings="kept")
    assert twin.source.changes == ("all weights re-initialized (seed 0), embeddings kept",)
    batch = model.words([["the", "cat"]])
    before, after = states(model, batch), states(twin, batch)
    assert torch.equal(before[0], after[0])
    assert not torch.allclose(before[1], after[1], atol=1e-2)


# Other folders


def test_sentence_encoders_bring_their_pooling(bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sentences"
    folder.mkdir()
    copied(bert, folder / "0_Transformer")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 32, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}'
    )
    kinds = {"0_Transformer": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": k, "name": str(k), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for k, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    encoder = opened(folder)
    assert encoder.name == "sentences"
    assert dict(encoder.source.facts) == {"normalized": True, "pooling": "mean"}
    assert encoder.digest == opened(bert).digest
    modules[0]["path"] = "../bert"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match=r"must name folders inside its own, but got '\.\./bert'"):
        load(folder)
    (folder / "modules.json").write_text("[]")
    with pytest.raises(InputError, match="must name a Transformer, but it names none"):
        load(folder)
    (folder / "modules.json").write_text("nonsense")
    with pytest.raises(InputError, match=r"modules\.json must be a readable JSON file"):
        load(folder)


def test_adapters_are_merged(bert: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    base = transformers.AutoModel.from_pretrained(bert)
    made = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["query"], init_lora_weights=False))
    made.save_pretrained(tmp_path / "adapter")
    encoder = opened(tmp_path / "adapter")
    assert encoder.source.changes == ("adapter merged",)
    batch = encoder.words([["the", "cat"]])
    with torch.no_grad():
        expected = made.eval()(**encoder.tokenizer.collate(batch)).last_hidden_state
    torch.testing.assert_close(states(encoder, batch)[3], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(states(opened(bert), batch)[3], expected, atol=1e-3)


def test_mixed_precision_rounds_products_and_says_so(bert: Path) -> None:
    plain, mixed = opened(bert), opened(bert, autocast="bfloat16")
    batch = plain.words([["the", "cat"], ["the"]])
    one, two = states(plain, batch), states(mixed, batch)
    away = [float((one[layer] - two[layer].float()).abs().max()) for layer in one]
    assert all(distance < 0.1 for distance in away)
    assert max(away) > 0
    assert next(mixed.model.parameters()).dtype == torch.float32
    assert plain.digest != mixed.digest
    assert mixed.source.changes == ("matrix products in bfloat16",)
    with pytest.raises(InputError, match="autocast must be one of float16, bfloat16, but got 'int8'"):
        opened(bert, autocast="int8")


@pytest.mark.parametrize(
    "file, content",
    [
        ("1_Pooling/config.json", "0.5"),
        ("sentence_bert_config.json", "3"),
        ("modules.json", json.dumps([{"type": "x.Transformer", "path": "1" * 400}])),
    ],
)
def test_a_sentence_encoder_of_wrong_types_is_refused(
    bert: Path, file: str, content: str, tmp_path: Path
) -> None:
    folder = copied(bert, tmp_path / "m")
    (folder / "1_Pooling").mkdir()
    modules = [{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert opened(folder).depth == 3
    (folder / file).write_text(content)
    with pytest.raises(InputError, match="must be as sentence-transformers wrote it"):
        load(folder)


def test_a_tokenizer_whose_library_panics_is_refused_in_one_sentence(tmp_path: Path) -> None:
    tiny.save_checkpoint(tmp_path, "gpt2")
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["continuing_subword_prefix"] = "é" * 40
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="must be"):
        load(tmp_path)


def test_ids_of_a_tokenizer_that_no_vocabulary_has_are_refused(tmp_path: Path) -> None:
    """The library writes down every id that is missing below the largest one, and aborts without memory."""
    tiny.save_checkpoint(tmp_path, "bert")
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary[next(reversed(vocabulary))] = 2**26
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"ids of a tokenizer must be below 16,777,216, but got 67108864"):
        load(tmp_path)
