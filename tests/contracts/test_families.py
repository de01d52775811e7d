"""Does every family describe models of each of its types rightly?"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import microtome as mt
import tiny
from microtome.encoders import table
from microtome.encoders.encoder import TransformerEncoder
from microtome.encoders.families.bert import BERT
from microtome.encoders.families.gpt2 import GPT2
from microtome.encoders.loading import load
from microtome.encoders.table import FAMILIES
from microtome.testing import ContractError
from microtome.testing.families import check_encoder, states
from microtome.training.models.modeling import build
from microtome.training.models.saving import as_stock

TYPES = [kind for family in FAMILIES.values() for kind in family.model_types]


def test_there_is_a_tiny_model_of_every_type() -> None:
    assert set(tiny.CONFIGS) == set(TYPES)


@pytest.mark.parametrize("model_type", [*tiny.CONFIGS, *tiny.DECODERS])
def test_contract(model_type: str, tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / model_type, model_type))
    check_encoder(encoder)


@pytest.mark.parametrize("model_type", tiny.DECODERS)
def test_one_type_is_of_two_families_by_what_its_configuration_says(model_type: str, tmp_path: Path) -> None:
    decoder: Any = load(tiny.save_checkpoint(tmp_path / "decoder", model_type, head="CausalLM"))
    assert (decoder.family.name, decoder.family.causal, decoder.family.reads) == (
        "roberta-decoder",
        True,
        "last",
    )
    check_encoder(decoder)
    plain: Any = load(tiny.save_checkpoint(tmp_path / "plain", model_type, is_decoder=False))
    assert (plain.family.name, plain.family.causal, plain.family.reads) == ("roberta", False, "first")
    # What comes later must not change what a decoder says of a token, and changes what the other says.
    for encoder, sees in ((decoder, False), (plain, True)):
        short, long = encoder.words([["the", "cat"], ["the", "cat", "sleeps"]], special=False)
        first, second = states(encoder, [short])[3][0], states(encoder, [long])[3][0]
        gap = float((first - second[: len(short)]).abs().max())
        assert (gap > 1e-3) == sees


@pytest.mark.parametrize("settings", [{"num_hidden_groups": 2}, {"inner_group_num": 2}])
def test_blocks_that_are_shared_by_groups(settings: dict[str, Any], tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "albert", "albert", **settings))
    assert encoder.layers == ("0", "1", "2", "3")
    if "num_hidden_groups" in settings:
        check_encoder(encoder)
        assert [encoder.blocks.index(block) for block in encoder.blocks] == [0, 0, 2]


def broken(encoder: TransformerEncoder, **changes: Any) -> str:
    wrong = TransformerEncoder(
        name="wrong",
        family=replace(encoder.family, **changes),
        model=encoder.model,
        tokenizer=encoder.tokenizer,
        source=encoder.source,
    )
    with pytest.raises(ContractError) as caught:
        check_encoder(wrong)
    return str(caught.value)


def test_what_is_declared_wrongly_is_noticed(tmp_path: Path) -> None:
    gpt2: Any = load(tiny.save_checkpoint(tmp_path / "gpt2", "gpt2"))
    assert "layer 3 must be what the library gives" in broken(gpt2, final_norm=None)
    assert "every weight must be of a block" in broken(gpt2, embeddings=("wte",))
    bert: Any = load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    assert "must not look ahead" in broken(bert, causal=True)
    assert "layer 0 must be what the library gives" in broken(bert, time_major=True)
    deberta: Any = load(tiny.save_checkpoint(tmp_path / "deberta", "deberta-v2"))
    assert "every weight must be of a block" in broken(deberta, beside=())
    with pytest.raises(Exception, match="must have the submodule 'h' where its family has it"):
        broken(bert, blocks=GPT2.blocks)


SOURCE = Path(mt.__file__).parent
NAMES = re.compile("bert|electra|deberta|mpnet|xlnet|gpt|llama", re.IGNORECASE)
# Families themselves and models that are no family's; titles of papers; names of the library's files and
# classes for tokenizers.
NAMED = ("encoders/families/", "encoders/elmo/", "encoders/table.py", "zoo/", "citations.py")
ALLOWED = frozenset(["sentence_bert_config.json", "BertTokenizer"])


def code_of(tree: ast.Module) -> set[str]:
    """Names and strings of a module that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            words.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words.add(node.value)
    return words


def test_families_are_named_in_their_own_modules_only() -> None:
    naming = {
        str(path.relative_to(SOURCE)): sorted(named)
        for path in sorted(SOURCE.rglob("*.py"))
        if not any(part in path.as_posix() for part in NAMED)
        if (named := {word for word in code_of(ast.parse(path.read_text())) - ALLOWED if NAMES.search(word)})
    }
    assert not naming


@pytest.fixture
def added_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of a family that the package does not know, and that takes one line."""
    import transformers
    from transformers import models

    class OtherConfig(transformers.BertConfig):
        model_type = "other"

    class OtherModel(transformers.BertModel):
        config_class = OtherConfig

    class OtherForSequenceClassification(transformers.BertForSequenceClassification):
        config_class = OtherConfig

    auto = models.auto.modeling_auto
    mapping: Any
    content: Any
    for mapping, content in (
        (models.auto.configuration_auto.CONFIG_MAPPING, {"other": OtherConfig}),
        (auto.MODEL_MAPPING, {OtherConfig: OtherModel}),
        (
            auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
            {OtherConfig: OtherForSequenceClassification},
        ),
    ):
        monkeypatch.setattr(mapping, "_extra_content", {**mapping._extra_content, **content})
    # By its name: the library puts another module in place of its own while it imports classes.
    monkeypatch.setattr(
        "transformers.OtherForSequenceClassification", OtherForSequenceClassification, raising=False
    )
    other = replace(BERT, name="other", model_types=("other",))
    monkeypatch.setattr(table, "FAMILIES", MappingProxyType({**FAMILIES, "other": other}))
    folder = tiny.save_checkpoint(tmp_path / "bert", "bert")
    values: dict[str, Any] = {
        **transformers.BertConfig.from_pretrained(folder).to_dict(),
        "model_type": "other",
    }
    OtherModel.from_pretrained(folder, config=OtherConfig(**values)).save_pretrained(folder)
    return folder


def test_a_family_is_one_module_and_one_line(added_family: Path, tmp_path: Path) -> None:
    encoder: Any = mt.load(added_family)
    assert encoder.family.name == "other"
    check_encoder(encoder)
    task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    store = tmp_path / "store"
    tuned = mt.finetune(encoder, task, epochs=1, seed=1, store=store)
    assert type(tuned.model.net).__name__ == "OtherForSequenceClassification"
    result = mt.truncate([tuned], task, head_seeds=(0,), store=store)
    assert len(result.curves[0].values) == 3
    own = build(encoder, task, mt.Head(reads="pooler", dense=0, pooler="fresh"))
    converted = as_stock(own)
    assert converted is not own
    assert type(converted.net) is type(tuned.model.net)
